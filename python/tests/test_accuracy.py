"""From PyTorch Geometric to gnnc and back: trained weights are as accurate as PyTorch's own."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch.nn import functional as F  # noqa: E402
from torch_geometric.nn.models import GAT, GCN, GraphSAGE  # noqa: E402

import gnnc  # noqa: E402

SEEDS, EPOCHS = range(5), 200
MODELS = {
    "GCN": lambda i, o: GCN(i, 16, 2, o, dropout=0.5),
    "GAT": lambda i, o: GAT(i, 64, 2, o, heads=8, dropout=0.6),
    "GraphSAGE": lambda i, o: GraphSAGE(i, 16, 2, o, dropout=0.5),
}


def adam(module):
    return torch.optim.Adam(module.parameters(), lr=0.01, weight_decay=5e-4)


def accuracy(module, data, mask):
    with torch.no_grad():
        found = module.eval()(data.x, data.edge_index).argmax(1)
    return 100 * float((found == data.y)[mask].float().mean())


def by_pytorch(module, data):
    """Trains with PyTorch; the test accuracy of the epoch with the lowest validation loss."""
    optimizer, best = adam(module), (np.inf, 0)
    for _ in range(EPOCHS):
        module.train()
        optimizer.zero_grad()
        F.cross_entropy(module(data.x, data.edge_index)[data.train_mask], data.y[data.train_mask]).backward()
        optimizer.step()
        with torch.no_grad():
            loss = F.cross_entropy(module.eval()(data.x, data.edge_index)[data.val_mask], data.y[data.val_mask])
        if loss < best[0]:
            best = float(loss), accuracy(module, data, data.test_mask)
    return best[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_accuracy_on_cora(name, cora, capsys):
    data = cora.data()
    graph = gnnc.Graph.from_pyg(data)
    own, back = [], []
    for seed in SEEDS:
        torch.manual_seed(seed)
        module = MODELS[name](data.num_features, 7)
        other = copy.deepcopy(module)
        own.append(by_pytorch(other, data))
        run = gnnc.train(gnnc.from_torch(module, graph, optimizer=adam(module)), graph, epochs=EPOCHS, seed=seed)
        back.append(accuracy(run.to_torch(), data, data.test_mask))
        assert abs(back[-1] - 100 * run.scores["test"]) < 1e-3
    with capsys.disabled():
        lines = (
            f"{what} {np.mean(found):.2f} +- {np.std(found, ddof=1):.2f}"
            for what, found in (("PyTorch", own), ("gnnc and back", back))
        )
        print(f"\n{name}: {', '.join(lines)} (test accuracy in %, seeds 0 to 4)")
    assert abs(np.mean(own) - np.mean(back)) <= 0.5

"""Modules that pool: many graphs, each with a label."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch import nn  # noqa: E402
from torch_geometric import nn as pyg  # noqa: E402
from torch_geometric.data import Batch, Data  # noqa: E402

import gnnc  # noqa: E402

FEATURES, CLASSES, GRAPHS, HIDDEN = 5, 3, 40, 8
TOLERANCE = 1e-5
POOLS = {"mean": pyg.global_mean_pool, "add": pyg.global_add_pool, "max": pyg.global_max_pool}


@pytest.fixture(scope="module")
def many():
    """Graphs of 3 to 8 vertices."""
    draws = np.random.default_rng(3)
    graphs = []
    for number in range(GRAPHS):
        vertices = int(draws.integers(3, 9))
        edges = draws.integers(0, vertices, (2, 2 * vertices))
        edges = np.unique(np.hstack([edges, edges[::-1]])[:, np.hstack([edges[0] != edges[1]] * 2)], axis=1)
        x = torch.from_numpy(draws.normal(size=(vertices, FEATURES)).astype("float32"))
        graphs.append(Data(x=x, edge_index=torch.from_numpy(edges), y=torch.tensor([number % CLASSES])))
    batch = Batch.from_data_list(graphs)
    for at, split in enumerate(("train", "val", "test")):
        batch[f"{split}_mask"] = torch.arange(GRAPHS) % 3 == at
    return batch


@pytest.fixture(scope="module")
def graph(many):
    return gnnc.Graph.from_pyg(many, name="many")


class Pooled(nn.Module):
    """Two layers, a pool, and a network for each graph."""

    def __init__(self, conv, pool="mean", norm=None):
        super().__init__()
        self.first, self.second = conv(FEATURES, HIDDEN), conv(HIDDEN, HIDDEN)
        self.norm = nn.BatchNorm1d(HIDDEN) if norm else nn.Identity()
        self.last, self.pool = nn.Linear(HIDDEN, CLASSES), POOLS[pool]

    def forward(self, x, edge_index, batch=None):
        h = self.first(x, edge_index).relu()
        h = self.second(h, edge_index).relu()
        return self.last(self.norm(self.pool(h, batch)).tanh())


def gin(inputs, outputs):
    return pyg.GINConv(nn.Sequential(nn.Linear(inputs, outputs), nn.BatchNorm1d(outputs), nn.ReLU()))


CONVS = {"GCNConv": pyg.GCNConv, "SAGEConv": pyg.SAGEConv, "GATConv": pyg.GATConv, "GINConv with a batch norm": gin}


def seeded(*options, **more):
    torch.manual_seed(2)
    return Pooled(*options, **more)


def logits(module, many):
    """What a module computes in double precision."""
    with torch.no_grad():
        return copy.deepcopy(module).double()(many.x.double(), many.edge_index, many.batch).numpy()


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("conv", CONVS)
def test_pools_compute_what_pytorch_computes(conv, pool, many, graph):
    module = seeded(CONVS[conv], pool, norm=pool == "mean")
    found = gnnc.predict(gnnc.from_torch(module, graph), graph)
    assert found.logits.shape == (GRAPHS, CLASSES) and found.classes.shape == (GRAPHS,)
    # Batch norms have the statistics of all rows, as in training.
    assert np.abs(found.logits - logits(module.train(), many)).max() <= TOLERANCE


@pytest.mark.parametrize("conv", ["GCNConv", "GINConv with a batch norm"])
def test_losses_of_twenty_epochs_are_those_of_pytorch(conv, many, graph):
    module = seeded(CONVS[conv], norm=True)
    adam = torch.optim.Adam(module.parameters(), lr=0.01)
    run = gnnc.train(gnnc.from_torch(copy.deepcopy(module), graph, optimizer="adam(lr = 0.01)"), graph, epochs=20)
    expected = []
    for _ in range(20):
        adam.zero_grad()
        out = module(many.x, many.edge_index, many.batch)
        loss = nn.functional.cross_entropy(out[many.train_mask], many.y[many.train_mask])
        loss.backward()
        adam.step()
        expected.append(loss.item())
    assert np.abs(run.losses - np.array(expected)).max() < 1e-4
    # Back in PyTorch, with running statistics of the rows that norms had.
    trained = run.to_torch().eval()
    assert np.abs(run.predict().logits - logits(trained, many)).max() < 1e-4


def test_a_model_of_many_graphs_is_planned_from_its_text(graph, many):
    model = gnnc.from_torch(seeded(pyg.GCNConv), graph)
    assert '"graphs":' in str(model)
    assert "chosen" in str(gnnc.plan(model, gpus=2))
    assert graph.num_graphs == GRAPHS and graph.num_nodes == many.num_nodes + GRAPHS


class Readouts(nn.Module):
    """A pool behind each layer, called in several ways, and functions that are not defined at 0."""

    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.GCNConv(FEATURES, HIDDEN), pyg.GCNConv(HIDDEN, HIDDEN)
        self.lin, self.other = nn.Linear(HIDDEN, CLASSES), nn.Linear(HIDDEN, CLASSES)
        self.norm, self.pools = nn.BatchNorm1d(HIDDEN), [pyg.global_max_pool]

    def forward(self, x, edge_index, batch):
        h = (self.first(x, edge_index).tanh() + 1.5).log()
        one = self.lin(pyg.global_add_pool(h.exp(), batch).log())
        h = self.norm(1 / ((6 * self.second(h, edge_index)).sigmoid() + 0.5))
        return one + self.other(self.pools[0](h, batch) / (pyg.global_mean_pool(h.exp(), batch)))


def test_readouts_of_each_layer_and_functions_that_0_does_not_have(many, graph):
    torch.manual_seed(4)
    module = Readouts().train()
    model = gnnc.from_torch(module, graph)
    assert np.abs(gnnc.predict(model, graph).logits - logits(module, many)).max() <= TOLERANCE
    assert np.isfinite(gnnc.train(model, graph, epochs=5).losses).all()


def refused(module, graph):
    with pytest.raises(gnnc.UnsupportedError) as error:
        gnnc.from_torch(module, graph)
    return str(error.value)


def test_pools_that_are_none_are_refused(many, graph):
    single = gnnc.Graph(many.edge_index, many.x, np.zeros(many.num_nodes, dtype=int))

    class Given(Pooled):
        def forward(self, x, edge_index, batch):
            return super().forward(x, edge_index, batch)

    assert "`global_mean_pool`, but the graph is a single one" in refused(Given(pyg.GCNConv), single)

    class Twice(Pooled):
        def forward(self, x, edge_index, batch):
            return self.last(self.pool(self.pool(self.first(x, edge_index), batch), batch))

    assert "gets rows that a pool made already" in refused(Twice(pyg.GCNConv), graph)

    class Unpooled(Pooled):
        def forward(self, x, edge_index):
            return self.last(self.first(x, edge_index))

    assert "returns a row for each vertex, but labels of many are of graphs" in refused(Unpooled(pyg.GCNConv), graph)

    class Whole(Pooled):
        def forward(self, x, edge_index, batch):
            return self.last(self.pool(self.graph_norm(self.first(x, edge_index), batch), batch))

    whole = Whole(pyg.GCNConv)
    whole.graph_norm = pyg.LayerNorm(HIDDEN, mode="graph")
    assert 'LayerNorm(mode="graph") of many graphs' in refused(whole, graph)

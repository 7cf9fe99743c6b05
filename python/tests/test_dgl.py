"""What imported modules of DGL compute is what DGL computes in double precision, within 1e-5, and so are their losses."""

import copy
import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")
os.environ.setdefault("DGLBACKEND", "pytorch")
dgl = pytest.importorskip("dgl", reason="DGL is not installed; it has no wheel for new versions of PyTorch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import gnnc  # noqa: E402

dglnn = dgl.nn
WIDE, ZERO = 16, {"allow_zero_in_degree": True}


class Two(nn.Module):
    def __init__(self, first, second):
        super().__init__()
        self.conv1, self.conv2 = first, second

    def forward(self, g, feat):
        return self.conv2(g, F.elu(self.conv1(g, feat)))


class Attention(nn.Module):
    def __init__(self, make, inputs, outputs, **options):
        super().__init__()
        self.conv1 = make(inputs, WIDE, 4, **options, **ZERO)
        self.conv2 = make(4 * WIDE, outputs, 2, **options, **ZERO)

    def forward(self, g, h):
        h = self.conv1(g, h).flatten(1)
        return self.conv2(g, h).mean(1)


class Deep(nn.Module):
    def __init__(self, inputs, outputs, **options):
        super().__init__()
        self.first, self.last = nn.Linear(inputs, WIDE), nn.Linear(WIDE, outputs)
        self.convs = nn.ModuleList(
            dglnn.GCN2Conv(WIDE, n + 1, 0.2, 0.5, activation=F.relu, **options, **ZERO) for n in range(2)
        )
        for conv in self.convs:
            nn.init.xavier_uniform_(conv.weight1)

    def forward(self, g, feat):
        h = first = self.first(feat).relu()
        for conv in self.convs:
            h = conv(g, h, first)
        return self.last(h)


class Typed(nn.Module):
    def __init__(self, inputs, outputs, **options):
        super().__init__()
        self.conv1 = dglnn.RelGraphConv(inputs, WIDE, 3, activation=nn.Tanh(), layer_norm=True, **options)
        self.conv2 = dglnn.RelGraphConv(WIDE, outputs, 3, **options)

    def forward(self, g, feat, etypes):
        return self.conv2(g, self.conv1(g, feat, etypes), etypes)


class Ranked(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.mlp, self.steps = nn.Linear(inputs, outputs), dglnn.APPNPConv(4, 0.2)

    def forward(self, graph, feat):
        return self.steps(graph, self.mlp(feat))


def graph_convs(**options):
    return lambda i, o: Two(
        dglnn.GraphConv(i, WIDE, **options, **ZERO), dglnn.GraphConv(WIDE, o, activation=nn.Tanh(), **options, **ZERO)
    )


def sages(kind):
    return lambda i, o: Two(
        dglnn.SAGEConv(i, WIDE, kind, norm=nn.LayerNorm(WIDE)), dglnn.SAGEConv(WIDE, o, kind, bias=False)
    )


LAYERS = {
    "GraphConv": graph_convs(),
    "GraphConv right": graph_convs(norm="right"),
    "GraphConv left": graph_convs(norm="left", bias=False),
    "GraphConv none": graph_convs(norm="none"),
    "SAGEConv mean": sages("mean"),
    "SAGEConv pool": sages("pool"),
    "SAGEConv gcn": lambda i, o: Two(dglnn.SAGEConv(i, WIDE, "gcn"), dglnn.SAGEConv(WIDE, o, "gcn")),
    "GATConv": lambda i, o: Attention(dglnn.GATConv, i, o),
    "GATConv residual": lambda i, o: Attention(dglnn.GATConv, i, o, residual=True, bias=False, activation=F.elu),
    "GATv2Conv": lambda i, o: Attention(dglnn.GATv2Conv, i, o),
    "GATv2Conv shared": lambda i, o: Attention(dglnn.GATv2Conv, i, o, share_weights=True, residual=True),
    "GINConv": lambda i, o: Two(
        dglnn.GINConv(nn.Linear(i, WIDE), "sum", learn_eps=True), dglnn.GINConv(nn.Linear(WIDE, o), "mean", 0.3)
    ),
    "GINConv max": lambda i, o: Two(
        dglnn.GINConv(nn.Linear(i, WIDE), "max", activation=F.relu), dglnn.GINConv(nn.Linear(WIDE, o))
    ),
    "GCN2Conv": Deep,
    "GCN2Conv two weights": lambda i, o: Deep(i, o, project_initial_features=False),
    "APPNPConv": Ranked,
    "SGConv": lambda i, o: Two(
        dglnn.SGConv(i, WIDE, 2, **ZERO), dglnn.SGConv(WIDE, o, 1, norm=nn.LayerNorm(WIDE), **ZERO)
    ),
    "RelGraphConv": Typed,
    "RelGraphConv basis": lambda i, o: Typed(i, o, regularizer="basis", num_bases=2, self_loop=False),
}


def made(directed, loops):
    g = dgl.graph(tuple(torch.from_numpy(row.copy()) for row in directed["edge_index"]), num_nodes=len(directed["x"]))
    g.ndata["feat"], g.ndata["label"] = torch.from_numpy(directed["x"]), torch.from_numpy(directed["y"])
    for key in ("train_mask", "val_mask", "test_mask"):
        g.ndata[key] = torch.from_numpy(directed[key])
    if loops:
        return dgl.add_self_loop(g)
    g.edata["type"] = torch.from_numpy(directed["edge_type"])
    return g


def arguments(module, g, dtype=torch.float32):
    feat = g.ndata["feat"].to(dtype)
    return (g, feat, g.edata["type"]) if isinstance(module, Typed) else (g, feat)


@pytest.mark.parametrize("loops", [False, True], ids=["without loops", "with loops"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers(name, loops, directed):
    if loops and "RelGraphConv" in name:
        pytest.skip("the types of self loops are not stored")
    g = made(directed, loops)
    graph = gnnc.Graph.from_dgl(g, edge_type=None if loops else "type")
    torch.manual_seed(1)
    module = LAYERS[name](12, 4).eval()
    with torch.no_grad():
        for tensor in module.parameters():
            if tensor.dim() == 1:
                tensor.add_(0.1 * torch.randn_like(tensor))
        # APPNPConv multiplies by weights of 32 bits whatever the features are.
        exact = torch.float32 if "APPNP" in name else torch.float64
        expected = copy.deepcopy(module).to(exact)(*arguments(module, g, exact)).numpy()
    model = gnnc.from_torch(module, graph)
    found = gnnc.predict(model, graph).logits
    assert found.shape == expected.shape and np.abs(expected).max() > 1e-2
    assert np.abs(found - expected).max() <= 1e-5

    copied, losses = copy.deepcopy(module).train(), []
    optimizer = torch.optim.Adam(copied.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        mask = g.ndata["train_mask"]
        loss = F.cross_entropy(copied(*arguments(module, g))[mask], g.ndata["label"][mask])
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    run = gnnc.train(model, graph, epochs=20)
    assert np.abs(run.losses - np.array(losses)).max() <= 1e-4


def test_weights_of_edges(directed):
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = dglnn.GraphConv(12, WIDE, norm="none", **ZERO)
            self.conv2 = dglnn.SAGEConv(WIDE, 4, "mean")

        def forward(self, g, feat, edge_weight):
            return self.conv2(g, self.conv1(g, feat, edge_weight=edge_weight).relu(), edge_weight=edge_weight)

    g = made(directed, False)
    g.edata["w"] = torch.from_numpy(directed["edge_attr"])
    module = Weighted().eval()
    with torch.no_grad():
        expected = module(g, g.ndata["feat"], g.edata["w"]).numpy()
    graph = gnnc.Graph.from_dgl(g, edge_features="w")
    assert np.abs(gnnc.predict(gnnc.from_torch(module, graph), graph).logits - expected).max() <= 1e-5


def test_what_has_no_equal_is_named(directed):
    g = made(directed, False)
    module = Two(dglnn.ChebConv(12, WIDE, 2), dglnn.GraphConv(WIDE, 4))
    with pytest.raises(gnnc.UnsupportedError, match=r"\n  conv1 \(ChebConv\): there is no equal"):
        gnnc.from_torch(module, gnnc.Graph.from_dgl(g))

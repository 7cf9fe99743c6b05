"""Modules of PyTorch Geometric that tests import: each layer that docs/python.md lists, with each of its options."""

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric import nn as pyg

HIDDEN = 16


class Two(nn.Module):
    """Two layers with an activation between."""

    def __init__(self, first, second):
        super().__init__()
        self.conv1, self.conv2 = first, second

    def forward(self, x, edge_index):
        h = F.elu(self.conv1(x, edge_index))
        return self.conv2(h, edge_index)


class Weighted(Two):
    def forward(self, x, edge_index, edge_weight):
        h = self.conv1(x, edge_index, edge_weight).tanh()
        return self.conv2(h, edge_index, edge_weight)


class Typed(Two):
    def forward(self, x, edge_index, edge_type):
        h = self.conv1(x, edge_index, edge_type).relu()
        return self.conv2(h, edge_index, edge_type)


class OfVertices(Two):
    """R-GCN without features."""

    def forward(self, edge_index, edge_type):
        h = self.conv1(None, edge_index, edge_type).relu()
        return self.conv2(h, edge_index, edge_type)


class Deep(nn.Module):
    """GCNII with skips to the first layer."""

    def __init__(self, inputs, outputs, **options):
        super().__init__()
        self.first, self.last, self.drop = nn.Linear(inputs, HIDDEN), nn.Linear(HIDDEN, outputs), nn.Dropout(0.4)
        self.convs = nn.ModuleList(pyg.GCN2Conv(HIDDEN, 0.1, theta=0.5, layer=n + 1, **options) for n in range(3))

    def forward(self, x, edge_index):
        h = first = self.first(x).relu()
        for conv in self.convs:
            h = conv(F.dropout(h, self.drop.p, training=self.training), first, edge_index).relu()
        return self.last(h)


class Ranked(nn.Module):
    """A network, then personalized page rank."""

    def __init__(self, inputs, outputs, **options):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Dropout(0.3), nn.Linear(HIDDEN, outputs))
        self.propagate = pyg.APPNP(K=5, alpha=0.2, **options)

    def forward(self, x, edge_index):
        return F.log_softmax(self.propagate(self.mlp(x), edge_index), dim=1)


class Normed(nn.Module):
    """A convolution behind a norm."""

    def __init__(self, inputs, outputs, norm):
        super().__init__()
        self.conv1, self.norm, self.conv2 = pyg.GCNConv(inputs, HIDDEN), norm, pyg.GCNConv(HIDDEN, outputs)

    def forward(self, x, edge_index):
        return self.conv2(torch.relu(self.norm(self.conv1(x, edge_index))), edge_index)


class Skips(nn.Module):
    """Additions, concatenations, numbers and parameters."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.lin = pyg.Linear(inputs, HIDDEN)
        self.conv1, self.conv2 = pyg.SAGEConv(HIDDEN, HIDDEN), pyg.GCNConv(HIDDEN, HIDDEN)
        self.share = nn.Parameter(torch.tensor([0.3]))
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, HIDDEN))
        self.out = nn.Linear(2 * HIDDEN, outputs)

    def forward(self, data):
        h = F.leaky_relu(self.lin(data.x), 0.1)
        a = h + self.conv1(h, data.edge_index)
        b = self.share * self.conv2(a, data.edge_index) - 0.5 * a
        b = F.silu(b) * self.scale + torch.add(a, h, alpha=2) / 4
        a = F.normalize(a, dim=-1)
        return self.out(torch.cat([a, b], dim=-1))


class Shared(nn.Module):
    """One layer used twice."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.first, self.conv, self.last = (
            nn.Linear(inputs, HIDDEN),
            pyg.SAGEConv(HIDDEN, HIDDEN),
            nn.Linear(HIDDEN, outputs),
        )
        self.act = nn.PReLU()

    def forward(self, x, edge_index):
        h = self.act(self.first(x))
        for _ in range(2):
            h = self.act(self.conv(h, edge_index))
        return self.last(h)


class Jumping(nn.Module):
    def __init__(self, inputs, outputs, mode):
        super().__init__()
        self.convs = nn.ModuleList(pyg.GCNConv(inputs if n == 0 else HIDDEN, HIDDEN) for n in range(3))
        self.jump = pyg.JumpingKnowledge(mode, HIDDEN, 3)
        self.out = nn.Linear(3 * HIDDEN if mode == "cat" else HIDDEN, outputs)

    def forward(self, x, edge_index):
        found = []
        for conv in self.convs:
            x = F.relu(conv(x, edge_index))
            found.append(x)
        return self.out(self.jump(found))


def mlp(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.LayerNorm(HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, outputs))


def two(layer, heads=1, **options):
    """Two layers of a class; the hidden one has `heads` heads."""

    def make(inputs, outputs):
        wide = HIDDEN * (heads if options.get("concat", True) else 1)
        more = {"heads": heads, **options} if heads > 1 else options
        last = {key: value for key, value in more.items() if key != "concat"}
        last = {**last, "concat": False} if heads > 1 else last
        return Two(layer(inputs, HIDDEN, **more), layer(wide, outputs, **last))

    return make


def sequential(inputs, outputs):
    steps = [
        (pyg.GCNConv(inputs, HIDDEN), "x, edge_index -> x1"),
        nn.ReLU(),
        (pyg.GCNConv(HIDDEN, HIDDEN), "x1, edge_index -> x2"),
    ]
    steps += [
        (lambda a, b: [a, b], "x1, x2 -> xs"),
        (pyg.JumpingKnowledge("cat"), "xs -> h"),
        nn.Linear(2 * HIDDEN, outputs),
    ]
    return pyg.Sequential("x, edge_index", steps)


#: Name: a function of the numbers of inputs and outputs.
PLAIN = {
    "GCNConv": two(pyg.GCNConv),
    "GCNConv improved": two(pyg.GCNConv, improved=True),
    "GCNConv without bias": two(pyg.GCNConv, bias=False),
    "GCNConv without loops": two(pyg.GCNConv, add_self_loops=False),
    "GCNConv not normalized": two(pyg.GCNConv, normalize=False),
    "SAGEConv": two(pyg.SAGEConv),
    "SAGEConv max": two(pyg.SAGEConv, aggr="max"),
    "SAGEConv add, no root": two(pyg.SAGEConv, aggr="add", root_weight=False),
    "SAGEConv normalize, project": two(pyg.SAGEConv, normalize=True, project=True),
    "GraphConv": two(pyg.GraphConv, aggr="mean"),
    "GATConv": two(pyg.GATConv),
    "GATConv heads": two(pyg.GATConv, heads=4),
    "GATConv mean of heads": two(pyg.GATConv, heads=3, concat=False, negative_slope=0.1),
    "GATConv residual": two(pyg.GATConv, heads=2, residual=True, bias=False),
    "GATConv without loops": two(pyg.GATConv, heads=2, add_self_loops=False),
    "GATv2Conv": two(pyg.GATv2Conv, heads=4),
    "GATv2Conv shared": two(pyg.GATv2Conv, heads=2, share_weights=True, residual=True),
    "GATv2Conv mean of heads": two(pyg.GATv2Conv, heads=2, concat=False, add_self_loops=False),
    "GINConv": lambda i, o: Two(pyg.GINConv(mlp(i, HIDDEN), train_eps=True, eps=0.2), pyg.GINConv(mlp(HIDDEN, o))),
    "GINConv eps": lambda i, o: Two(
        pyg.GINConv(nn.Linear(i, HIDDEN), eps=0.4), pyg.GINConv(pyg.MLP([HIDDEN, HIDDEN, o], norm=None))
    ),
    "GCN2Conv": Deep,
    "GCN2Conv two weights": lambda i, o: Deep(i, o, shared_weights=False),
    "APPNP": Ranked,
    "APPNP without loops": lambda i, o: Ranked(i, o, add_self_loops=False),
    "SGConv": lambda i, o: Two(pyg.SGConv(i, HIDDEN, K=2), pyg.SGConv(HIDDEN, o, K=3, bias=False)),
    "LayerNorm": lambda i, o: Normed(i, o, nn.LayerNorm(HIDDEN, eps=1e-3)),
    "LayerNorm plain": lambda i, o: Normed(i, o, nn.LayerNorm(HIDDEN, elementwise_affine=False)),
    "LayerNorm node": lambda i, o: Normed(i, o, pyg.LayerNorm(HIDDEN, mode="node")),
    "LayerNorm graph": lambda i, o: Normed(i, o, pyg.LayerNorm(HIDDEN, mode="graph")),
    "BatchNorm1d of all vertices": lambda i, o: Normed(i, o, nn.BatchNorm1d(HIDDEN, track_running_stats=False)),
    "BatchNorm of all vertices": lambda i, o: Normed(i, o, pyg.BatchNorm(HIDDEN, track_running_stats=False)),
    "skips": Skips,
    "shared weights": Shared,
    "JumpingKnowledge cat": lambda i, o: Jumping(i, o, "cat"),
    "JumpingKnowledge max": lambda i, o: Jumping(i, o, "max"),
    "Sequential": sequential,
    "models.GCN": lambda i, o: pyg.models.GCN(i, HIDDEN, 3, o, dropout=0.2, jk="cat", norm="LayerNorm"),
    "models.GraphSAGE": lambda i, o: pyg.models.GraphSAGE(i, HIDDEN, 2, o, act="elu"),
    "models.GAT": lambda i, o: pyg.models.GAT(i, HIDDEN, 2, o, heads=2, v2=True),
    "models.GIN": lambda i, o: pyg.models.GIN(i, HIDDEN, 2, o, norm="LayerNorm"),
    "activations": lambda i, o: nn.Sequential(
        nn.Linear(i, HIDDEN), nn.SELU(), nn.Linear(HIDDEN, HIDDEN), nn.GELU("tanh"), nn.Linear(HIDDEN, o), nn.ELU(0.7)
    ),
}
WEIGHTED = {
    "GCNConv weighted": lambda i, o: Weighted(pyg.GCNConv(i, HIDDEN), pyg.GCNConv(HIDDEN, o, improved=True)),
    "GCNConv weighted without loops": lambda i, o: Weighted(
        pyg.GCNConv(i, HIDDEN, add_self_loops=False), pyg.GCNConv(HIDDEN, o, normalize=False)
    ),
    "GraphConv weighted": lambda i, o: Weighted(pyg.GraphConv(i, HIDDEN), pyg.GraphConv(HIDDEN, o, aggr="max")),
    "SGConv weighted": lambda i, o: Weighted(pyg.SGConv(i, HIDDEN, K=2), pyg.SGConv(HIDDEN, o)),
}
TYPED = {
    "RGCNConv": lambda i, o, r: Typed(pyg.RGCNConv(i, HIDDEN, r), pyg.RGCNConv(HIDDEN, o, r)),
    "RGCNConv bases": lambda i, o, r: Typed(
        pyg.RGCNConv(i, HIDDEN, r, num_bases=2), pyg.RGCNConv(HIDDEN, o, r, num_bases=4, bias=False)
    ),
    "RGCNConv add": lambda i, o, r: Typed(
        pyg.RGCNConv(i, HIDDEN, r, aggr="add"), pyg.RGCNConv(HIDDEN, o, r, aggr="add", root_weight=False)
    ),
}

"""Times training epochs of PyTorch Geometric on the CPU; see worker.py for requests and answers.

    .venv-pyg/bin/python benches/peers/pyg_epoch.py --graph examples/data/cora.npz --model gat --hidden 64

A variant is an adjacency and features: `edge_index`, `SparseTensor` (torch_sparse, if installed),
`csr` (torch.sparse) or `EdgeIndex` (PyG's own class, which keeps its transpose), and `dense` or
`sparse-x`, a product with sparse features in place of the first linear map. Adjacencies are
normalised and given their self loops beforehand. PyG's SAGEConv aggregates before it multiplies;
`stock` is that layer, the others multiply first. No layer of PyG calls `EdgeIndex.matmul`: its GCN
and GraphSAGE are written here.
"""

import worker

given = worker.arguments(__doc__)

import stacks  # noqa: E402  (the number of threads is set before)
import torch  # noqa: E402
import torch_geometric  # noqa: E402
from torch_geometric import EdgeIndex  # noqa: E402
from torch_geometric.nn import (  # noqa: E402
    APPNP,
    FastRGCNConv,
    GATConv,
    GATv2Conv,
    GCN2Conv,
    GCNConv,
    MessagePassing,
    RGCNConv,
    SAGEConv,
)
from torch_geometric.utils import spmm  # noqa: E402

try:
    from torch_sparse import SparseTensor
except Exception:  # not built, or built for another torch
    SparseTensor = None

prepared = {}  # (model, kind) -> adjacency, of the graph under "of"


def prepare(graph, model, kind):
    """(adjacency, edge weights or None): Â for GCN, with loops for GAT, as it is for SAGE."""
    if prepared.get("of") is not graph:
        prepared.clear()
        prepared["of"] = graph
    if (model, kind) not in prepared:
        prepared[model, kind] = adjacency(graph, model, kind)
    return prepared[model, kind]


def adjacency(graph, model, kind):
    """See `prepare`."""
    src, dst = (graph.src, graph.dst) if model in ("sage", "gin_3") else graph.with_loops()
    n = graph.vertices
    weight = None
    if kind == "EdgeIndex":
        by_row = torch.stack([dst, src])
        return EdgeIndex(by_row, sparse_size=(n, n), sort_order="row").fill_cache_(), None
    if model == "gcn":
        out_degree, in_degree = torch.bincount(src, minlength=n), torch.bincount(dst, minlength=n)
        weight = (out_degree[src] * in_degree[dst]).float().rsqrt()
    if kind == "edge_index":
        return torch.stack([src, dst]), weight
    if kind == "SparseTensor":
        adj = SparseTensor(row=dst, col=src, value=weight, sparse_sizes=(n, n), is_sorted=True)
        adj.fill_cache_()
        return adj, None
    rows = torch.zeros(n + 1, dtype=torch.long)
    rows[1:] = torch.cumsum(torch.bincount(dst, minlength=n), 0)
    values = torch.ones(len(src)) if weight is None else weight
    return torch.sparse_csr_tensor(rows, src, values, size=(n, n)), None


class SageFirst(MessagePassing):
    """GraphSAGE-mean that multiplies before it aggregates."""

    def __init__(self, self_map, neighbour_map, width):
        super().__init__(aggr="mean")
        self.self_map, self.neighbour_map = self_map, neighbour_map
        self.bias = torch.nn.Parameter(torch.zeros(width))

    def forward(self, x, adj):
        return self.propagate(adj, x=self.neighbour_map(x)) + self.self_map(x) + self.bias

    def message(self, x_j):
        return x_j

    def message_and_aggregate(self, adj, x):
        return spmm(adj, x, reduce="mean")


class Convolution(torch.nn.Module):
    """GCN, or GraphSAGE-mean with a `self_map`, on `EdgeIndex.matmul` without edge weights.

    `scales` multiply the rows before and after the reduction (None for ones).
    """

    def __init__(self, lin, self_map, scales, width):
        super().__init__()
        self.lin, self.self_map, self.scales = lin, self_map, scales
        self.bias = torch.nn.Parameter(torch.zeros(width))

    def forward(self, x, adj, _=None):
        before, after = self.scales
        h = self.lin(x) if before is None else self.lin(x) * before
        h = adj.matmul(h) * after
        if self.self_map is not None:
            h = h + self.self_map(x)
        return h + self.bias


def row_scales(graph, model):
    """The scales of a `Convolution`: Â = scale A scale, or the mean."""
    src, dst = (graph.src, graph.dst) if model == "sage" else graph.with_loops()
    out_degree, in_degree = (torch.bincount(e, minlength=graph.vertices).float()[:, None] for e in (src, dst))
    return (None, in_degree.clamp(min=1).reciprocal()) if model == "sage" else (out_degree.rsqrt(), in_degree.rsqrt())


def variants(graph, model):
    """The ways to run a model on a graph."""
    kinds = ["edge_index", "csr"] + (["SparseTensor"] if SparseTensor is not None else [])
    if model == "sgc_3":
        return ["csr+dense"]
    if model == "rgcn_3":
        return ["edge_index+by-relation", "edge_index+by-edge"]
    stock = [f"{kind}+stock" for kind in kinds] if model == "sage" else []
    if model in ("gcn", "sage"):
        kinds.append("EdgeIndex")
    styles = ["dense", "sparse-x"] if graph.sparse is not None else ["dense"]
    return [f"{kind}+{style}" for style in styles for kind in kinds] + stock


class On(torch.nn.Module):
    """A layer of PyG on an adjacency."""

    def __init__(self, layer, *edges):
        super().__init__()
        self.layer, self.edges = layer, edges

    def forward(self, h, *more):
        return self.layer(h, *more, *self.edges)


class Numbered(On):
    """A layer that looks its weights up by the numbers of vertices."""

    def forward(self, _):
        return self.layer(None, *self.edges)


class Sum(MessagePassing):
    """The sum over neighbors."""

    def __init__(self):
        super().__init__(aggr="sum")

    def forward(self, h, adj):
        return self.propagate(adj, x=h)

    def message(self, x_j):
        return x_j

    def message_and_aggregate(self, adj, x):
        return spmm(adj, x, reduce="sum")


class Library:
    """PyG's layers, for stacks.py."""

    # Which adjacency of `prepare` a model has.
    LIKE = {"sage_3": "sage", "gin_3": "gin_3", "gat_3": "gat", "gatv2_3": "gat", "rgcn_3": "sage"}

    def __init__(self, graph, model, kind, style):
        sparse = style == "sparse-x"
        self.graph, self.sparse, self.style = graph, sparse, style
        self.linear = worker.linear(graph, sparse)
        self.adj, self.weight = prepare(graph, self.LIKE.get(model, "gcn"), kind)
        # What stands for features that only a SparseLinear looks at.
        self.x = torch.zeros(graph.vertices, 1) if sparse else graph.dense

    def gcn(self, inner, width, first=False):
        layer = GCNConv(inner, width, normalize=False)
        if self.sparse and first:
            layer.lin = worker.sparse_linear(self.graph, width)
        return On(layer, self.adj, self.weight)

    def sage(self, inner, width, first=False):
        maps = (self.linear(inner, width, first, bias=False) for _ in range(2))
        return On(SageFirst(*maps, width), self.adj)

    def gat(self, inner, width, heads, first=False):
        layer = GATConv(inner, width, heads=heads, add_self_loops=False)
        if self.sparse and first:
            layer.lin = worker.sparse_linear(self.graph, width * heads)
        return On(layer, self.adj)

    def gatv2(self, inner, width, heads, first=False):
        layer = GATv2Conv(inner, width, heads=heads, add_self_loops=False)
        if self.sparse and first:
            layer.lin_l, layer.lin_r = (worker.sparse_linear(self.graph, width * heads) for _ in range(2))
        return On(layer, self.adj)

    def gin(self, inner, width, first=False):
        total = Sum()
        return stacks.Gin(self.linear(inner, width, first, bias=False), width, lambda h: total(h, self.adj))

    def rgcn(self, inner, width, first=False):
        kind = RGCNConv if self.style == "by-relation" else FastRGCNConv
        layer = kind(inner, width, self.graph.relations)
        if first:
            return Numbered(layer, self.adj, self.graph.types)
        return On(layer, self.adj, self.graph.types)

    def gcn2(self, width, layer):
        return On(GCN2Conv(width, alpha=0.1, theta=0.5, layer=layer, normalize=False), self.adj, self.weight)

    def appnp(self, steps):
        return On(APPNP(steps, 0.1, normalize=False), self.adj, self.weight)

    def propagated(self, x, times):
        with torch.no_grad():
            for _ in range(times):
                x = self.adj @ x
        return x


def build(graph, model, hidden, variant):
    """The network and a function that gives its logits."""
    if variant not in variants(graph, model):
        raise ValueError(f"no variant {variant!r} here")
    kind, style = variant.split("+")
    sparse = style == "sparse-x"
    if model in stacks.MODELS:
        library = Library(graph, model, kind, style)
        return stacks.build(library, graph, model, hidden)
    adj, weight = prepare(graph, model, kind)
    # What stands for features that only a SparseLinear looks at.
    x = torch.zeros(graph.vertices, 1) if sparse else graph.dense
    features, classes = graph.features, graph.classes

    def first():
        if sparse:
            return worker.sparse_linear(graph, hidden)
        return torch.nn.Linear(features, hidden, bias=False)

    def second():
        return torch.nn.Linear(hidden, classes, bias=False)

    if kind == "EdgeIndex":
        scales = row_scales(graph, model)
        parts = torch.nn.ModuleList(
            [
                Convolution(linear(), linear() if model == "sage" else None, scales, width)
                for linear, width in ((first, hidden), (second, classes))
            ]
        )

        def forward():
            return parts[1](torch.relu(parts[0](x, adj)), adj)

    elif model == "gcn":
        parts = torch.nn.ModuleList(
            [GCNConv(features, hidden, normalize=False), GCNConv(hidden, classes, normalize=False)]
        )
        if sparse:
            parts[0].lin = worker.sparse_linear(graph, hidden)

        def forward():
            return parts[1](torch.relu(parts[0](x, adj, weight)), adj, weight)

    elif model == "sage":
        if style == "stock":
            parts = torch.nn.ModuleList([SAGEConv(features, hidden), SAGEConv(hidden, classes)])
        else:
            parts = torch.nn.ModuleList(
                [SageFirst(first(), first(), hidden), SageFirst(second(), second(), classes)]
            )

        def forward():
            return parts[1](torch.relu(parts[0](x, adj)), adj)

    else:
        parts = torch.nn.ModuleList(
            [
                GATConv(features, hidden // 8, heads=8, add_self_loops=False),
                GATConv(hidden, classes, heads=1, concat=False, add_self_loops=False),
            ]
        )
        if sparse:
            parts[0].lin = worker.sparse_linear(graph, hidden)

        def forward():
            return parts[1](torch.nn.functional.elu(parts[0](x, adj)), adj)

    return parts, forward


about = {"peer": "PyG", "version": torch_geometric.__version__, "torch": torch.__version__}
about["torch_sparse"] = SparseTensor is not None
worker.Worker(given, about, variants, build).run()

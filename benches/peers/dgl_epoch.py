"""Times training epochs of DGL on the CPU; see worker.py for the requests and the answers.

    .venv-dgl/bin/python benches/peers/dgl_epoch.py --graph examples/data/cora.npz --model gat --hidden 64

Variants: `dense` has DGL's own layers on dense features; `sparse-x` replaces the first linear map by
a product with sparse features, where the file stores them so.
"""

import os

import worker

given = worker.arguments(__doc__)
os.environ.setdefault("DGLBACKEND", "pytorch")

import dgl  # noqa: E402  (the number of threads is set before)
import dgl.nn.pytorch as layers  # noqa: E402
import stacks  # noqa: E402
import torch  # noqa: E402

prepared = {}  # (loops wanted) -> DGL graph, of the graph under "of"


def typed(graph, by_type):
    """(DGL graph, type and share of each edge), the edges sorted by type or by destination."""
    order = torch.argsort(graph.types, stable=True) if by_type else torch.arange(len(graph.src))
    g = dgl.graph((graph.src[order], graph.dst[order]), num_nodes=graph.vertices)
    g.create_formats_()
    return g, graph.types[order], graph.shares()[order][:, None]


def prepare(graph, loops):
    """The DGL graph, with both sparse formats made beforehand."""
    if prepared.get("of") is not graph:
        prepared.clear()
        prepared["of"] = graph
    if loops not in prepared:
        src, dst = graph.with_loops() if loops else (graph.src, graph.dst)
        g = dgl.graph((src, dst), num_nodes=graph.vertices)
        g.create_formats_()
        prepared[loops] = g
    return prepared[loops]


def variants(graph, model):
    """The ways to run a model on a graph: with edge types, edges sorted by them or not."""
    if model == "rgcn_3":
        return ["presorted", "unsorted"]
    sparse = graph.sparse is not None and model != "sgc_3"
    return ["dense", "sparse-x"] if sparse else ["dense"]


class On(torch.nn.Module):
    """A layer of DGL on a graph."""

    def __init__(self, g, layer, after=None, more=(), **options):
        super().__init__()
        self.g, self.layer, self.after, self.more, self.options = g, layer, after, more, options

    def forward(self, h, *more):
        h = self.layer(self.g, h, *more, *self.more, **self.options)
        return h if self.after is None else self.after(h)


class Library:
    """DGL's layers, for stacks.py."""

    def __init__(self, graph, model, variant):
        self.graph, self.sparse = graph, variant == "sparse-x"
        self.linear = worker.linear(graph, self.sparse)
        if model == "rgcn_3":
            self.presorted, self.x = variant == "presorted", None
            self.g, self.types, self.shares = typed(graph, self.presorted)
            return
        self.g = prepare(graph, model not in ("sage_3", "gin_3"))
        # What stands for features that only a SparseLinear looks at.
        self.x = torch.zeros(graph.vertices, 1) if self.sparse else graph.dense

    def gcn(self, inner, width, first=False):
        if self.sparse and first:
            summed = On(self.g, layers.GraphConv(width, width, norm="both", weight=False))
            return torch.nn.Sequential(worker.sparse_linear(self.graph, width), summed)
        return On(self.g, layers.GraphConv(inner, width, norm="both"))

    def sage(self, inner, width, first=False):
        layer = layers.SAGEConv(inner, width, "mean")
        if self.sparse and first:
            layer.fc_neigh = worker.sparse_linear(self.graph, width)
            layer.fc_self = worker.sparse_linear(self.graph, width, bias=True)
        return On(self.g, layer)

    def attention(self, kind, inner, width, heads, first):
        layer = kind(inner, width, heads)
        if self.sparse and first and kind is layers.GATConv:
            layer.fc = worker.sparse_linear(self.graph, width * heads)
        elif self.sparse and first:
            layer.fc_src, layer.fc_dst = (worker.sparse_linear(self.graph, width * heads) for _ in range(2))
        return On(self.g, layer, lambda h: h.flatten(1))

    def gat(self, inner, width, heads, first=False):
        return self.attention(layers.GATConv, inner, width, heads, first)

    def gatv2(self, inner, width, heads, first=False):
        return self.attention(layers.GATv2Conv, inner, width, heads, first)

    def gin(self, inner, width, first=False):
        total = lambda h: dgl.ops.copy_u_sum(self.g, h)  # noqa: E731
        return stacks.Gin(self.linear(inner, width, first, bias=False), width, total)

    def rgcn(self, inner, width, first=False):
        if first:
            by_destination = typed(self.graph, False)[0]
            return stacks.FirstRgcn(self.graph, width, lambda m: dgl.ops.copy_e_sum(by_destination, m))
        layer = layers.RelGraphConv(inner, width, self.graph.relations)
        return On(self.g, layer, more=(self.types, self.shares), presorted=self.presorted)

    def gcn2(self, width, layer):
        return On(self.g, layers.GCN2Conv(width, layer, alpha=0.1, lambda_=0.5, bias=False))

    def appnp(self, steps):
        return On(self.g, layers.APPNPConv(steps, 0.1))

    def propagated(self, x, times):
        step = layers.GraphConv(x.shape[1], x.shape[1], norm="both", weight=False, bias=False)
        with torch.no_grad():
            for _ in range(times):
                x = step(self.g, x)
        return x


def build(graph, model, hidden, variant):
    """The network and a function that gives its logits."""
    if variant not in variants(graph, model):
        raise ValueError(f"no variant {variant!r} here")
    sparse = variant == "sparse-x"
    if model in stacks.MODELS:
        library = Library(graph, model, variant)
        return stacks.build(library, graph, model, hidden)
    g = prepare(graph, model != "sage")
    # What stands for features that only a SparseLinear looks at.
    x = torch.zeros(graph.vertices, 1) if sparse else graph.dense
    parts = torch.nn.ModuleList()
    if model == "gcn":
        if sparse:
            parts.append(worker.sparse_linear(graph, hidden))
            parts.append(layers.GraphConv(hidden, hidden, norm="both", weight=False))
        else:
            parts.append(layers.GraphConv(graph.features, hidden, norm="both"))
        parts.append(layers.GraphConv(hidden, graph.classes, norm="both"))

        def forward():
            h = parts[1](g, parts[0](None)) if sparse else parts[0](g, x)
            return parts[-1](g, torch.relu(h))

    elif model == "sage":
        first = layers.SAGEConv(graph.features, hidden, "mean")
        if sparse:
            # SAGEConv multiplies first only if that narrows the rows, and a sparse
            # product gives no row of features to aggregate.
            if graph.features <= hidden:
                raise ValueError("sparse features need hidden < features")
            first.fc_neigh = worker.sparse_linear(graph, hidden)
            first.fc_self = worker.sparse_linear(graph, hidden, bias=True)  # the layer's only one
        parts.extend([first, layers.SAGEConv(hidden, graph.classes, "mean")])

        def forward():
            return parts[1](g, torch.relu(parts[0](g, x)))

    else:
        first = layers.GATConv(graph.features, hidden // 8, 8)
        if sparse:
            first.fc = worker.sparse_linear(graph, hidden)
        parts.extend([first, layers.GATConv(hidden, graph.classes, 1)])

        def forward():
            h = parts[0](g, x).flatten(1)
            return parts[1](g, torch.nn.functional.elu(h)).mean(1)

    return parts, forward


about = {"peer": "DGL", "version": dgl.__version__, "torch": torch.__version__}
worker.Worker(given, about, variants, build).run()

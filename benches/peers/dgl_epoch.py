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
import torch  # noqa: E402

prepared = {}  # (loops wanted) -> DGL graph, of the graph under "of"


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
    """The ways to run a model on a graph."""
    return ["dense", "sparse-x"] if graph.sparse is not None else ["dense"]


def build(graph, model, hidden, variant):
    """The network and a function that gives its logits."""
    if variant not in variants(graph, model):
        raise ValueError(f"no variant {variant!r} here")
    sparse = variant == "sparse-x"
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

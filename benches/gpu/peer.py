"""Training epochs of GCN, GraphSAGE and GAT on a GPU by PyTorch and PyTorch Geometric.

Answers one line of JSON for each line of JSON it reads; epochs.py drives it.

    {"op": "about"}                                      versions
    {"op": "variants", "model": M}                       names of the ways to run a model
    {"op": "empty"}                                      gives unused memory back to the device
    {"op": "epochs", "graph": FILE, "model": M, "hidden": H, "layers": L, "variant": NAME, "epochs": N}

`torch csr` is written here, with sparse products (cuSPARSE) that keep the transposed matrix for the
backward pass; `PyG csr` and `PyG edge_index` are the library's layers on its two kinds of adjacency.
"""

import gc
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "peers"))

import torch  # noqa: E402
import worker  # noqa: E402

try:
    import torch_geometric
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv
except Exception:  # not installed
    torch_geometric = None

HEADS = 8
loaded = {}


class Sparse(torch.autograd.Function):
    """A product with a constant sparse matrix, of which the transposed one is kept."""

    @staticmethod
    def forward(context, pair, x):
        context.transposed = pair[1]
        return torch.sparse.mm(pair[0], x)

    @staticmethod
    def backward(context, gradient):
        return None, torch.sparse.mm(context.transposed, gradient)


def empty():
    """Gives memory that is not used back to the device."""
    gc.collect()
    torch.cuda.empty_cache()


def graph_of(file):
    """The graph, on the GPU; one is kept."""
    if loaded.get("file") != file:
        loaded.clear()
        empty()
        graph = worker.Graph(file)
        graph.x, graph.y, graph.mask = graph.dense.cuda(), graph.labels.cuda(), graph.train.cuda()
        loaded.update(file=file, graph=graph)
    return loaded["graph"]


def edges_of(graph, model):
    """Sources, destinations and weights on the GPU."""
    src, dst = (graph.src, graph.dst) if model == "sage" else graph.with_loops()
    src, dst = src.cuda(), dst.cuda()
    weight = torch.ones(len(src), device="cuda")
    out_degree = torch.bincount(src, minlength=graph.vertices).float()
    in_degree = torch.bincount(dst, minlength=graph.vertices).float()
    if model == "gcn":
        weight = (out_degree[src] * in_degree[dst]).rsqrt()
    if model == "sage":
        weight = in_degree[dst].clamp(min=1).reciprocal()
    return src, dst, weight


def csr(rows, columns, values, n):
    """A sparse matrix with 32-bit indices; `rows` ascend."""
    starts = torch.zeros(n + 1, dtype=torch.int32, device="cuda")
    starts[1:] = torch.cumsum(torch.bincount(rows, minlength=n), 0)
    return torch.sparse_csr_tensor(starts, columns.int(), values, size=(n, n))


class Layer(torch.nn.Module):
    """GCN or GraphSAGE by a sparse product, on the narrower side."""

    def __init__(self, pair, inner, outer, own):
        super().__init__()
        self.pair, self.narrow = pair, outer <= inner
        self.neighbour = torch.nn.Linear(inner, outer, bias=False)
        self.own = torch.nn.Linear(inner, outer) if own else None
        self.bias = torch.nn.Parameter(torch.zeros(outer))

    def forward(self, x):
        h = Sparse.apply(self.pair, self.neighbour(x)) if self.narrow else self.neighbour(Sparse.apply(self.pair, x))
        return h + (self.own(x) if self.own else self.bias)


class Attention(torch.nn.Module):
    """GAT by gathers and scatters."""

    def __init__(self, src, dst, inner, width, heads):
        super().__init__()
        self.src, self.dst, self.heads = src, dst, heads
        self.lin = torch.nn.Linear(inner, heads * width, bias=False)
        self.left = torch.nn.Parameter(torch.randn(heads, width) * 0.1)
        self.right = torch.nn.Parameter(torch.randn(heads, width) * 0.1)

    def forward(self, x):
        n = len(x)
        h = self.lin(x).view(n, self.heads, -1)
        left, right = (h * self.left).sum(-1), (h * self.right).sum(-1)
        score = torch.nn.functional.leaky_relu(left[self.src] + right[self.dst], 0.2)
        where = self.dst[:, None].expand(-1, self.heads)
        top = torch.full_like(left, -1e30).scatter_reduce(0, where, score.detach(), "amax")
        share = torch.exp(score - top[self.dst])
        total = torch.zeros_like(left).scatter_add(0, where, share)
        share = share / total[self.dst]
        rows = (h[self.src] * share[:, :, None]).reshape(len(self.src), -1)
        return torch.zeros(n, rows.shape[1], device="cuda").index_add(0, self.dst, rows)


def variants(model):
    """Names of the ways to run a model, the likely best first."""
    own = ["torch scatter"] if model == "gat" else ["torch csr"]
    if torch_geometric is None:
        return own
    return own + (["PyG edge_index"] if model == "gat" else ["PyG csr", "PyG edge_index"])


def build(graph, model, hidden, layers, variant):
    """The layers as functions of rows."""
    widths = [graph.features] + [hidden] * (layers - 1) + [graph.classes]
    steps = list(zip(widths, widths[1:]))
    src, dst, weight = edges_of(graph, model)
    n = graph.vertices
    if variant == "torch scatter":
        heads = [HEADS] * (layers - 1) + [1]
        return [Attention(src, dst, a, b // h, h) for (a, b), h in zip(steps, heads)], lambda part, x: part(x)
    if variant == "torch csr":
        order = torch.argsort(src * n + dst)
        pair = (csr(dst, src, weight, n), csr(src[order], dst[order], weight[order], n))
        return [Layer(pair, a, b, model == "sage") for a, b in steps], lambda part, x: part(x)
    matrix = csr(dst, src, weight, n) if variant == "PyG csr" else torch.stack([src, dst])
    if model == "gat":
        heads = [HEADS] * (layers - 1) + [1]
        parts = [GATConv(a, b // h, heads=h, add_self_loops=False) for (a, b), h in zip(steps, heads)]
        return parts, lambda part, x: part(x, matrix)
    if model == "sage":
        if variant == "PyG csr":
            matrix = csr(dst, src, torch.ones_like(weight), n)
        return [SAGEConv(a, b) for a, b in steps], lambda part, x: part(x, matrix)
    weights = () if variant == "PyG csr" else (weight,)
    return [GCNConv(a, b, normalize=False) for a, b in steps], lambda part, x: part(x, matrix, *weights)


def epochs(request):
    """Trains and times; an untimed epoch first."""
    torch.manual_seed(0)
    graph = graph_of(request["graph"])
    model = request["model"]
    torch.cuda.reset_peak_memory_stats()
    parts, call = build(graph, model, request["hidden"], request["layers"], request["variant"])
    network = torch.nn.ModuleList(parts).cuda()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    act = torch.nn.functional.elu if model == "gat" else torch.relu
    times, losses = [], []
    for _ in range(request["epochs"] + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        optimizer.zero_grad()
        h = graph.x
        for number, part in enumerate(network):
            h = call(part, h if number == 0 else act(h))
        loss = torch.nn.functional.cross_entropy(h[graph.mask], graph.y[graph.mask])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return {"epoch_seconds": times[1:], "losses": losses[:3], "peak_bytes": torch.cuda.max_memory_allocated()}


def answer(request):
    """The answer to a request."""
    if request["op"] == "about":
        pyg = torch_geometric.__version__ if torch_geometric else None
        return {"torch": torch.__version__, "cuda": torch.version.cuda, "PyG": pyg, "device": torch.cuda.get_device_name()}
    if request["op"] == "variants":
        return {"variants": variants(request["model"])}
    if request["op"] == "empty":
        empty()
        return {}
    return epochs(request)


if __name__ == "__main__":
    for text in sys.stdin:
        try:
            found = answer(json.loads(text))
        except Exception as error:  # told to whoever asked
            found = {"error": f"{type(error).__name__}: {error}"[:400]}
            empty()
        print(json.dumps(found), flush=True)

"""What the peers share: graph files, products with sparse features, timing, the request loop.

A worker is a process that stays alive and answers one line of JSON for each line of JSON it reads.
The number of threads is fixed for its life (`--threads`), because two OpenMP runtimes may live in
one process and only the environment reaches both. Requests:

    {"op": "about"}                                library versions
    {"op": "machine"}                              copy bandwidth and GEMM rate with its threads
    {"op": "describe", "graph": FILE}              sizes of the graph
    {"op": "variants", "graph": FILE, "model": M}  names of the ways to run this model
    {"op": "epochs", "graph": FILE, "model": M, "hidden": H, "variant": NAME,
     "epochs": N, "warmup": 1, "seed": 0}          trains and times

`epochs` answers median, min and all times of the N timed epochs (forward, backward, Adam; dropout
0, weight decay 0), the losses of the first three epochs from the seed, and `cpu_share`, CPU time
over wall time, which shows how many threads truly ran, and `peak_bytes`, the peak of the process's
resident memory while it trained. A failure answers {"error": TEXT}.
"""

import argparse
import json
import os
import resource
import statistics
import sys
import time


def arguments(description):
    """Reads the command line and fixes the number of threads, before torch is imported."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--worker", action="store_true", help="answer requests on stdin")
    parser.add_argument("--memory", type=float, default=0.6, help="share of the free memory to use at most")
    parser.add_argument("--graph", help="an .npz in gnnc's layout")
    parser.add_argument("--model", default="gcn", help="gcn, sage, gat, or one of stacks.py")
    parser.add_argument("--hidden", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--variant", help="one variant; all without this")
    given = parser.parse_args()
    if not given.worker and not given.graph:
        parser.error("give --graph FILE.npz, or --worker")
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(given.threads)
    limit_memory(given.memory)
    return given


def limit_memory(share):
    """Makes a variant that is too large for the machine fail by itself, instead of something else.

    PyG's attention on `edge_index` holds several values for each edge and column.
    """
    try:
        with open("/proc/meminfo") as file:
            free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))
        resource.setrlimit(resource.RLIMIT_DATA, (int(free * share),) * 2)
    except (OSError, StopIteration, ValueError) as error:
        print(f"no memory limit: {error}", file=sys.stderr)


class Graph:
    """A graph file as torch tensors. Edges run from `src` to `dst`, sorted by destination."""

    def __init__(self, path):
        import numpy as np
        import torch

        with np.load(path) as file:
            indptr = file["indptr"].astype(np.int64)
            self.vertices = len(indptr) - 1
            self.src = torch.from_numpy(file["indices"].astype(np.int64))
            counts = torch.from_numpy(np.diff(indptr))
            self.dst = torch.repeat_interleave(torch.arange(self.vertices), counts)
            self.labels = torch.from_numpy(file["labels"].astype(np.int64))
            self.train = torch.from_numpy(np.flatnonzero(file["train_mask"]))
            self.types = torch.from_numpy(file["edge_type"].astype(np.int64)) if "edge_type" in file.files else None
            self.relations = int(file["relations"][0]) if self.types is not None else 0
            if "features" in file.files:
                self.dense = torch.from_numpy(np.ascontiguousarray(file["features"], np.float32))
                self.sparse = None
                self.nonzeros = self.dense.numel()
            elif "feat_shape" not in file.files:  # a vertex is known by its number
                self.dense, self.sparse, self.nonzeros = None, None, self.vertices
            else:
                columns = int(file["feat_shape"][1])
                self.dense, self.sparse = sparse_features(
                    file["feat_indptr"], file["feat_indices"], file["feat_data"], columns
                )
                self.nonzeros = len(file["feat_indices"])
        self.features = self.vertices if self.dense is None else self.dense.shape[1]
        self.classes = int(self.labels.max()) + 1

    def with_loops(self):
        """Sources and destinations with one self loop a vertex, sorted by destination."""
        import torch

        every = torch.arange(self.vertices)
        keep = self.src != self.dst
        src, dst = torch.cat([self.src[keep], every]), torch.cat([self.dst[keep], every])
        order = torch.argsort(dst * self.vertices + src)
        return src[order], dst[order]

    def shares(self):
        """For each edge, one over the number of edges of its type with its destination."""
        import torch

        place = self.dst * self.relations + self.types
        return torch.bincount(place, minlength=self.vertices * self.relations)[place].float().reciprocal()

    def describe(self):
        """Sizes for the bound."""
        return {
            "vertices": self.vertices,
            "edges": len(self.src),
            "features": self.features,
            "classes": self.classes,
            "nonzeros": self.nonzeros,
            "sparse": self.sparse is not None,
            "train": len(self.train),
            "relations": self.relations,
        }


def sparse_features(indptr, indices, data, columns):
    """(dense, (X, X transposed)): features of a CSR matrix; the pair has 32-bit indices for MKL."""
    import numpy as np
    import scipy.sparse
    import torch

    rows = len(indptr) - 1
    x = scipy.sparse.csr_matrix((data.astype(np.float32), indices, indptr), (rows, columns))

    def tensor(matrix):
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int32)),
            torch.from_numpy(matrix.indices.astype(np.int32)),
            torch.from_numpy(matrix.data),
            size=matrix.shape,
        )

    return torch.from_numpy(x.toarray()), (tensor(x), tensor(x.T.tocsr()))


def sparse_linear(graph, width, bias=False):
    """A module that multiplies the sparse features of the graph by its weight.

    Its input is ignored, so it can stand in for the first linear map inside a library's own
    layer. The transposed features are kept, so that the backward pass sorts nothing.
    """
    import torch

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(_, weight):
            return graph.sparse[0] @ weight

        @staticmethod
        def backward(_, grad):
            return graph.sparse[1] @ grad

    class SparseLinear(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.empty(graph.features, width))
            torch.nn.init.xavier_uniform_(self.weight)
            self.bias = torch.nn.Parameter(torch.zeros(width)) if bias else None

        def forward(self, _):
            h = Product.apply(self.weight)
            return h if self.bias is None else h + self.bias

    return SparseLinear()


def linear(graph, sparse):
    """A maker of linear maps, the first of which may multiply sparse features."""
    import torch

    def make(inner, width, first=False, bias=True):
        if sparse and first:
            return sparse_linear(graph, width, bias)
        return torch.nn.Linear(inner, width, bias=bias)

    return make


def forget_peak():
    """Lets the process's peak of resident memory begin anew (Linux)."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError as error:
        print(f"the peak of memory is that of the whole process: {error}", file=sys.stderr)


def peak_bytes():
    """The process's peak of resident memory since then; None where the system does not tell."""
    try:
        with open("/proc/self/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration, ValueError):
        return None


def train(graph, network, forward, epochs, warmup):
    """Times `epochs` epochs after `warmup` others. `forward()` gives the logits."""
    import torch

    parameters = [p for p in network.parameters() if p.requires_grad]
    # The fused kernel for the CPU came with torch 2.4.
    modern = tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 4)
    adam = torch.optim.Adam(parameters, lr=0.01, fused=True if modern else None)
    targets = graph.labels[graph.train]
    times, losses = [], []
    cpu = 0.0
    forget_peak()
    for epoch in range(warmup + epochs):
        cpu_start, start = time.process_time(), time.perf_counter()
        adam.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(forward()[graph.train], targets)
        loss.backward()
        adam.step()
        seconds = time.perf_counter() - start
        if epoch < 3:
            losses.append(float(loss.detach()))
        if epoch >= warmup:
            times.append(seconds)
            cpu += time.process_time() - cpu_start
    return {
        "median": statistics.median(times),
        "min": min(times),
        "epoch_seconds": times,
        "losses": losses,
        "cpu_share": cpu / sum(times),
        "peak_bytes": peak_bytes(),
    }


def machine():
    """Copy bandwidth (bytes read and written a second) and single-precision GEMM rate."""
    import torch

    def best(run, repeats):
        times = []
        for _ in range(repeats):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        return min(times)

    source = torch.ones(64 << 20)
    target = torch.zeros(64 << 20)
    copy = 2 * 4 * source.numel() / best(lambda: target.copy_(source), 8)
    a, b = torch.ones(1536, 1536), torch.ones(1536, 1536)
    flops = 2 * 1536**3 / best(lambda: torch.mm(a, b), 8)
    return {"copy_bytes_per_second": copy, "gemm_flops_per_second": flops}


class Worker:
    """Answers requests with a library's `variants(graph, model)` and `build(...)`.

    `build(graph, model, hidden, variant)` gives (network, forward).
    """

    def __init__(self, given, about, variants, build):
        import torch

        torch.set_num_threads(given.threads)
        # As gnnc does: a trained model has many numbers that are too small to be normal, and a processor is slow with them.
        # Set before there are other threads, which take it over.
        torch.set_flush_denormal(True)
        self.given, self.about, self.variants, self.build = given, about, variants, build
        self.path, self.graph = None, None

    def load(self, path):
        """The graph of a file; the last one is kept."""
        if path != self.path:
            self.path, self.graph = None, None
            self.graph, self.path = Graph(path), path
        return self.graph

    def answer(self, request):
        """The answer to one request."""
        import torch

        op = request.get("op", "epochs")
        if op == "about":
            return dict(self.about, threads=self.given.threads)
        if op == "machine":
            return machine()
        if request.get("threads", self.given.threads) != self.given.threads:
            raise ValueError(f"this worker runs with {self.given.threads} threads")
        graph = self.load(request["graph"])
        if op == "describe":
            return graph.describe()
        if op == "variants":
            return {"variants": self.variants(graph, request["model"])}
        if op != "epochs":
            raise ValueError(f"unknown op {op!r}")
        torch.manual_seed(request.get("seed", 0))
        network, forward = self.build(graph, request["model"], request["hidden"], request["variant"])
        result = train(graph, network, forward, request["epochs"], request.get("warmup", 1))
        return dict(result, variant=request["variant"])

    def run(self):
        """Serves stdin, or runs what the command line asks for."""
        if self.given.worker:
            # What a library prints must not get between the answers.
            answers, sys.stdout = sys.stdout, sys.stderr
            for line in sys.stdin:
                print(json.dumps(self.attempt(json.loads(line))), file=answers, flush=True)
            return
        graph = self.load(self.given.graph)
        for variant in [self.given.variant] if self.given.variant else self.variants(graph, self.given.model):
            for _ in range(self.given.repeats):
                request = {"graph": self.given.graph, "model": self.given.model, "hidden": self.given.hidden}
                request.update(variant=variant, epochs=self.given.epochs)
                row = dict(self.about, threads=self.given.threads, **request)
                print(json.dumps(dict(row, **self.attempt(request))), flush=True)

    def attempt(self, request):
        """The answer, or the error as one."""
        try:
            return self.answer(request)
        except Exception as error:  # the driver decides what a failure means
            return {"error": f"{type(error).__name__}: {error}".split("\n")[0][:300]}

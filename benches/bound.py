"""The least time of a training epoch on a machine: compulsory bytes at copy speed, operations at
GEMM speed, the larger of the two for each operator, added up. docs/benchmarks.md has the formula.

Rows that are gathered count once an edge, as without a cache, so a graph that fits into the cache
can be faster than its bound.
"""

FLOAT, INDEX, OFFSET = 4, 4, 8


class Bound:
    """Adds up operators for a graph (`describe` of a worker) and a machine (`machine`)."""

    def __init__(self, graph, machine):
        self.graph = graph
        self.bandwidth = machine["copy_bytes_per_second"]
        self.peak = machine["gemm_flops_per_second"]
        self.bytes = self.flops = self.seconds = 0.0

    def add(self, bytes_moved, flops):
        """One operator."""
        self.bytes += bytes_moved
        self.flops += flops
        self.seconds += max(bytes_moved / self.bandwidth, flops / self.peak)

    def add_all(self, other):
        """The operators of another."""
        self.bytes += other.bytes
        self.flops += other.flops
        self.seconds += other.seconds

    def input_product(self, width):
        """X W forward, and the gradient of W backward: X is read twice, dense or sparse."""
        v, f, nnz = self.graph["vertices"], self.graph["features"], self.graph["nonzeros"]
        dense = (FLOAT * v * f, 2 * v * f * width)
        sparse = (OFFSET * v + (INDEX + FLOAT) * nnz, 2 * nnz * width)
        time = lambda cost: max(cost[0] / self.bandwidth, cost[1] / self.peak)  # noqa: E731
        read, flops = min(dense, sparse, key=time)
        for _ in range(2):
            self.add(read + FLOAT * v * width, flops)

    def product(self, inner, width):
        """H W forward; the gradients of H and of W backward."""
        v = self.graph["vertices"]
        for _ in range(3):
            self.add(FLOAT * v * (inner + width), 2 * v * inner * width)

    def aggregate(self, edges, width, passes=2):
        """Reduction over the edges at a width: forward, and with the edges reversed backward."""
        v = self.graph["vertices"]
        moved = edges * (FLOAT * width + INDEX) + v * (FLOAT * width + OFFSET)
        for _ in range(passes):
            self.add(moved, 2 * edges * width)

    def adam(self, parameters):
        """Adam: reads weight, gradient and two moments, writes all but the gradient."""
        self.add(7 * FLOAT * parameters, 0)

    def attend(self, edges, heads, width):
        """Attention over the edges. `width` is of all heads together.

        Forward gathers the rows and one source score a head. Backward, by source, gathers the
        gradient's rows and three numbers a head (score, logarithm of the sum, product of gradient
        and result of the destination), writes a number an edge and head, and reads it again by
        destination.
        """
        v = self.graph["vertices"]
        rows = v * (FLOAT * width + OFFSET)
        self.add(edges * (FLOAT * width + FLOAT * heads + INDEX) + rows, 2 * edges * width)
        numbers = 3 * FLOAT * heads + 2 * FLOAT * heads + INDEX
        self.add(edges * (FLOAT * width + INDEX + numbers) + 2 * rows, 4 * edges * width)


def deep_bound(model, hidden, graph, machine, heads=8):
    """(seconds, bytes, operations) of an epoch of a model of stacks.py.

    Products come before sums, but for GCN and GraphSAGE whose first sum is made beforehand. GATv2
    is charged as GAT with two products a layer, which leaves out what its scores need.
    """
    total = Bound(graph, machine)
    vertices, edges = graph["vertices"], graph["edges"]
    features, classes = graph["features"], graph["classes"]
    looped = edges + vertices
    if model in ("gcn_3", "sage_3"):
        maps, edges = (1, looped) if model == "gcn_3" else (2, edges)
        first, dense = Bound(graph, machine), Bound(graph, machine)
        first.input_product(maps * hidden)
        first.aggregate(edges, hidden)
        for _ in range(2):  # the sum beforehand is dense
            dense.add(FLOAT * vertices * (maps * features + hidden), 2 * vertices * maps * features * hidden)
        best = min(first, dense, key=lambda b: b.seconds)
        total.add_all(best)
        total.product(hidden, maps * hidden)
        total.aggregate(edges, hidden)
        total.product(hidden, maps * classes)
        total.aggregate(edges, min(hidden, classes))
        total.adam(maps * hidden * (features + hidden + classes))
    elif model in ("gat_3", "gatv2_3"):
        maps = 1 if model == "gat_3" else 2
        total.input_product(maps * hidden)
        total.attend(looped, heads, hidden)
        total.product(hidden, maps * hidden)
        total.attend(looped, heads, hidden)
        total.product(hidden, maps * classes)
        total.attend(looped, 1, classes)
        total.adam(maps * hidden * (features + hidden + classes))
    elif model == "gin_3":
        total.input_product(hidden)
        for inner, width in ((hidden, hidden), (hidden, classes)):
            total.aggregate(edges, inner)
            total.product(inner, inner)
            total.product(inner, width)
        total.aggregate(edges, classes)
        total.product(classes, classes)
        total.adam(hidden * (features + 3 * hidden + classes))
    elif model == "gcnii_8":
        total.input_product(hidden)
        for _ in range(8):
            total.aggregate(looped, hidden)
            total.product(hidden, hidden)
        total.product(hidden, classes)
        total.adam(hidden * (features + 8 * hidden + classes))
    elif model == "appnp_10":
        total.input_product(hidden)
        total.product(hidden, classes)
        for _ in range(10):
            total.aggregate(looped, classes)
        total.adam(hidden * (features + classes))
    elif model == "rgcn_3":
        # The first weight has a row for each vertex and relation: an edge looks one up, and adds to its gradient.
        rows = (graph["relations"] + 1) * vertices
        total.aggregate(edges, hidden)
        total.add(FLOAT * rows * hidden, 0)
        for width in (hidden, classes):
            for _ in range(3):
                total.add(edges * (FLOAT * hidden + INDEX) + vertices * FLOAT * (hidden + width), 2 * edges * hidden * width)
        total.adam((rows + (graph["relations"] + 1) * (hidden + classes)) * hidden)
    else:  # sgc_3: the sums beforehand are dense, so multiplying first may cost less
        first, dense = Bound(graph, machine), Bound(graph, machine)
        first.input_product(classes)
        for _ in range(3):
            first.aggregate(looped, classes)
        for _ in range(2):
            dense.add(FLOAT * vertices * (features + classes), 2 * vertices * features * classes)
        total.add_all(min(first, dense, key=lambda b: b.seconds))
        total.adam(features * classes)
    return total.seconds, total.bytes, total.flops


def bound(model, hidden, graph, machine, heads=8):
    """(seconds, bytes, operations) of an epoch of a model: of two layers, unless it says otherwise."""
    if "_" in model:
        return deep_bound(model, hidden, graph, machine, heads)
    total = Bound(graph, machine)
    edges, features, classes = graph["edges"], graph["features"], graph["classes"]
    if model != "sage":
        edges += graph["vertices"]  # self loops
    if model == "gat":
        total.input_product(hidden)
        total.attend(edges, heads, hidden)
        total.product(hidden, classes)
        total.attend(edges, 1, classes)
        total.adam(hidden * (features + classes))
    else:
        maps = 2 if model == "sage" else 1  # of the vertex itself, and of its neighbours
        # X needs no gradient: aggregating it first costs a forward pass only.
        first, later = Bound(graph, machine), Bound(graph, machine)
        first.aggregate(edges, hidden)
        later.aggregate(edges, features, passes=1)
        best = min(first, later, key=lambda b: b.seconds)
        total.add_all(best)
        total.input_product(maps * hidden)
        total.product(hidden, maps * classes)
        total.aggregate(edges, min(hidden, classes))
        total.adam(maps * hidden * (features + classes))
    return total.seconds, total.bytes, total.flops

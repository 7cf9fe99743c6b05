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


def bound(model, hidden, graph, machine, heads=8):
    """(seconds, bytes, operations) of an epoch of the two-layer model."""
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
        for field in ("bytes", "flops", "seconds"):
            setattr(total, field, getattr(best, field))
        total.input_product(maps * hidden)
        total.product(hidden, maps * classes)
        total.aggregate(edges, min(hidden, classes))
        total.adam(maps * hidden * (features + classes))
    return total.seconds, total.bytes, total.flops

"""Models of several layers, written once for all peers. A peer gives its own layers.

    gcn_3 sage_3 gat_3 gatv2_3 gin_3     three layers
    gcnii_8                              eight layers between two linear maps
    appnp_10                             two linear maps, then ten steps
    sgc_3                                a linear map on features propagated thrice beforehand
    rgcn_3                               three layers with edge types; vertices have no features

They are the models of the same names in benches/models. A library has `gcn(f, d)`, `sage(f, d)`,
`gin(f, d)`, `linear(f, d, first)`, `gat(f, d, heads)`, `gatv2(f, d, heads)`, `gcn2(d, layer)`,
`rgcn(f, d)`, `appnp(steps)`, which return modules of one tensor, and `propagated(x, times)`. The first layer gets
`first=True`: if the features are sparse, it has to multiply them as they are stored, and its input
means nothing.
"""

import torch

MODELS = ["gcn_3", "sage_3", "gat_3", "gatv2_3", "gin_3", "gcnii_8", "appnp_10", "sgc_3", "rgcn_3"]
HEADS = 8


class Perceptron(torch.nn.Module):
    """What follows the sum of a GIN layer that multiplied first: bias, norm, ReLU, linear map."""

    def __init__(self, width):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(width))
        self.norm = torch.nn.LayerNorm(width)
        self.last = torch.nn.Linear(width, width)

    def forward(self, s):
        return self.last(torch.relu(self.norm(s + self.bias)))


class FirstRgcn(torch.nn.Module):
    """The first R-GCN layer where a vertex is known by its number alone: weights are rows to look up.

    `total` sums a row of each edge by destination.
    """

    def __init__(self, graph, width, total):
        super().__init__()
        self.rows = graph.types * graph.vertices + graph.src
        self.shares = graph.shares()[:, None]
        self.total = total
        self.weight = torch.nn.Parameter(torch.empty(graph.relations * graph.vertices, width))
        self.own = torch.nn.Parameter(torch.empty(graph.vertices, width))
        self.bias = torch.nn.Parameter(torch.zeros(width))
        for weight in (self.weight, self.own):
            torch.nn.init.xavier_uniform_(weight)

    def forward(self, _):
        return self.total(self.weight[self.rows] * self.shares) + self.own + self.bias


class Gin(torch.nn.Module):
    """GIN that multiplies before it sums: `W ((1 + eps) h + sum h) = (1 + eps) W h + sum W h`."""

    def __init__(self, linear, width, total):
        super().__init__()
        self.linear, self.total, self.rest = linear, total, Perceptron(width)
        self.eps = torch.nn.Parameter(torch.zeros(1))

    def forward(self, h):
        h = self.linear(h)
        return self.rest((1 + self.eps) * h + self.total(h))


def build(library, graph, model, hidden):
    """The network and a function that gives its logits."""
    linear = library.linear
    features, classes = graph.features, graph.classes
    x = library.x
    relu, elu = torch.relu, torch.nn.functional.elu
    parts = torch.nn.ModuleList()

    def stack(layers, between):
        parts.extend(layers)

        def forward():
            h = x
            for n, layer in enumerate(parts):
                h = layer(h) if n == 0 else layer(between(h))
            return h

        return forward

    plain = {"gcn_3": library.gcn, "sage_3": library.sage, "gin_3": library.gin, "rgcn_3": library.rgcn}
    if model in plain:
        layer = plain[model]
        return parts, stack(
            [layer(features, hidden, first=True), layer(hidden, hidden), layer(hidden, classes)], relu
        )
    if model in ("gat_3", "gatv2_3"):
        layer = library.gat if model == "gat_3" else library.gatv2
        return parts, stack(
            [
                layer(features, hidden // HEADS, HEADS, first=True),
                layer(hidden, hidden // HEADS, HEADS),
                layer(hidden, classes, 1),
            ],
            elu,
        )
    if model == "gcnii_8":
        parts.extend([linear(features, hidden, True), linear(hidden, classes, False)])
        layers = torch.nn.ModuleList([library.gcn2(hidden, n) for n in range(1, 9)])
        parts.append(layers)

        def forward():
            h0 = h = relu(parts[0](x))
            for layer in layers:
                h = relu(layer(h, h0))
            return parts[1](h)

        return parts, forward
    if model == "appnp_10":
        parts.extend([linear(features, hidden, True), linear(hidden, classes, False), library.appnp(10)])
        return parts, lambda: parts[2](parts[1](relu(parts[0](x))))
    if model == "sgc_3":
        parts.append(torch.nn.Linear(features, classes))
        propagated = library.propagated(graph.dense, 3)
        return parts, lambda: parts[0](propagated)
    raise ValueError(f"no model {model!r}")

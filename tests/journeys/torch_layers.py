"""The layers of PyTorch Geometric that pyg_npz.py needs, in plain PyTorch, with the same names of weights.

They take the rows of all vertices and `edge_index`, whose row 0 are sources.
"""

import torch
from torch import nn


def gather(rows, targets, vertices):
    """The sum of the rows of edges at each target."""
    return torch.zeros(vertices, *rows.shape[1:]).index_add_(0, targets, rows)


def with_loops(edges, vertices):
    loops = torch.arange(vertices).repeat(2, 1)
    return torch.cat([edges, loops], 1)


class GCNConv(nn.Module):
    """Kipf and Welling, 2017."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.lin = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x, edges):
        source, target = with_loops(edges, len(x))
        scale = gather(torch.ones(len(target), 1), target, len(x)).rsqrt()
        return gather((self.lin(x) * scale)[source], target, len(x)) * scale + self.bias


class SAGEConv(nn.Module):
    """Hamilton et al., 2017, with the mean."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.lin_l = nn.Linear(inputs, outputs)
        self.lin_r = nn.Linear(inputs, outputs, bias=False)

    def forward(self, x, edges):
        source, target = edges
        count = gather(torch.ones(len(target), 1), target, len(x)).clamp(min=1)
        return self.lin_l(gather(x[source], target, len(x)) / count) + self.lin_r(x)


class GATConv(nn.Module):
    """Velickovic et al., 2018."""

    def __init__(self, inputs, outputs, heads=1, concat=True):
        super().__init__()
        self.lin = nn.Linear(inputs, heads * outputs, bias=False)
        self.att_src = nn.Parameter(torch.zeros(1, heads, outputs))
        self.att_dst = nn.Parameter(torch.zeros(1, heads, outputs))
        self.bias = nn.Parameter(torch.zeros(heads * outputs if concat else outputs))
        self.concat = concat

    def forward(self, x, edges):
        source, target = with_loops(edges, len(x))
        h = self.lin(x).view(len(x), *self.att_src.shape[1:])
        score = (h * self.att_src).sum(-1)[source] + (h * self.att_dst).sum(-1)[target]
        weight = nn.functional.leaky_relu(score, 0.2)
        weight = (weight - weight.max()).exp()
        weight = weight / gather(weight, target, len(x))[target]
        out = gather(h[source] * weight.unsqueeze(-1), target, len(x))
        return (out.flatten(1) if self.concat else out.mean(1)) + self.bias


class GINConv(nn.Module):
    """Xu et al., 2019."""

    def __init__(self, mlp, train_eps=True):
        super().__init__()
        assert train_eps, "gnnc learns it"
        self.nn = mlp
        self.eps = nn.Parameter(torch.zeros(1))

    def forward(self, x, edges):
        source, target = edges
        return self.nn((1 + self.eps) * x + gather(x[source], target, len(x)))


LAYERS = {"gcn": GCNConv, "sage": SAGEConv, "gat": GATConv, "gin": GINConv}

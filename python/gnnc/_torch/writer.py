"""The text of a model while a PyTorch module becomes one, with the weights and the way back."""

import re
from dataclasses import dataclass
from typing import Callable

import numpy as np

from .kit import TAKEN, TEXTS


class Unsupported(Exception):
    """A part of a module that no model can stand for: what is wrong, and what to do."""

    def __init__(self, what, help):
        super().__init__(f"{what}; {help}")


@dataclass
class Rows:
    """A tensor of the model: a name in its text, and the columns of a head. `heads` is 0 if there is no such dimension."""

    name: str
    width: int
    heads: int = 0
    #: Whether it is one row for all vertices, as a bias is.
    single: bool = False
    #: What log_softmax was taken of, which only a loss may undo.
    final: bool = False


@dataclass(frozen=True)
class Given:
    """An argument of `forward` that is no tensor of the model: `edges`, `weights`, `types`, `data`, `graph` or `batch`."""

    kind: str


@dataclass(frozen=True)
class Binding:
    """A parameter of the model and the one of the PyTorch module."""

    name: str
    path: str
    shape: tuple
    #: From the module's array to rows and columns.
    pack: Callable
    #: And back, given the shape of the module's array.
    unpack: Callable


def number(value):
    """A number in the language."""
    return repr(float(value))


#: How arrays of PyTorch become rows and columns, and back. The columns of a row are its heads, one after the other.
KINDS = {
    "transposed": (lambda a: a.T, lambda a, shape: a.T),
    "matrix": (lambda a: a, lambda a, shape: a),
    "row": (lambda a: a.reshape(1, -1), lambda a, shape: a.reshape(shape)),
    "relations": (
        lambda a: a.transpose(1, 0, 2).reshape(a.shape[1], -1),
        lambda a, shape: a.reshape(shape[1], shape[0], shape[2]).transpose(1, 0, 2),
    ),
}


class Writer:
    """Writes a model for a graph."""

    def __init__(self, graph, decay_of):
        self.graph = graph
        self.lines = []
        self.layers = {}
        self.bindings = []
        #: Norms with running statistics: their paths and the names of what goes in.
        self.norms = []
        #: Whether some layer runs over the graph's own self loops or their absence.
        self.sees_loops = False
        #: Whether the features are one of its own for each vertex, and why.
        self.identity = None
        self.uses_x = False
        #: Names of tensors whose rows are of graphs.
        self.pooled = set()
        self._decay_of = decay_of
        self._names = set(TAKEN)
        self._known = {}

    def let(self, hint, expression):
        """Defines a variable; returns its name."""
        name = re.sub(r"\W", "_", hint)
        name = name if re.match(r"[A-Za-z]", name) else f"h_{name.lstrip('_')}"
        if name in TAKEN:
            name = f"{name}_out"
        at, unique = 1, name
        while unique in self._names:
            at += 1
            unique = f"{name}_{at}"
        self._names.add(unique)
        # Variables, but neither functions nor the names of arguments, nor what is in quotes.
        read = re.findall(r"\b[A-Za-z]\w*\b(?!\s*[(=])", re.sub(r'"[^"]*"', "", expression))
        if self.pooled.intersection(read):
            self.pooled.add(unique)
        self.lines.append(f"let {unique} = {expression}")
        return unique

    def line(self, text):
        """Adds a statement."""
        self.lines.append(text)

    def layer(self, key, on="edges"):
        """The name of a layer of the kit, whose text the model gets."""
        name = key if on == "edges" else f"{key}_looped"
        self.layers.setdefault(name, TEXTS[key].format(name=name, on=on))
        return name

    def defined(self, h):
        """A tensor with 1 in the rows that nothing reads, so that functions that are not defined at 0 are finite.

        Of many graphs, tensors have rows of vertices and of graphs, and each layer reads one kind.
        """
        if not self.graph.num_graphs:
            return h
        return f"{self.layer('ones_inside' if h in self.pooled else 'ones_of_graphs')}({h})"

    def own_edges(self, what):
        """What a layer that adds no self loops runs on: the edges as PyTorch has them."""
        self.sees_loops = True
        if self.graph.self_loops == "some":
            raise Unsupported(
                f"{what} takes the graph's self loops as edges, but not every vertex has one, and gnnc stores none",
                "remove them before, for PyTorch too (remove_self_loops of torch_geometric.utils, dgl.remove_self_loop)",
            )
        return "edges" if self.graph.self_loops == "none" else "edges + loops"

    def edge_weights(self, value, what):
        """Whether a layer gets weights of edges; these are the one number of each edge of the graph."""
        if value is None:
            return False
        if not isinstance(value, Given) or value.kind != "weights":
            raise Unsupported(
                f"{what} gets weights of edges that `forward` computes", "pass the weights of the graph as they are"
            )
        columns = self.graph.statistics.get("edge_features", 0)
        if columns != 1:
            raise Unsupported(
                f"{what} gets weights of edges, but edges of the graph have {columns} numbers",
                "make the graph with one in `edge_attr`, or leave out the argument",
            )
        if self.graph.self_loops != "none":
            raise Unsupported(
                f"{what} gets weights of edges, but gnnc stores no weights of self loops, which the graph has",
                "remove its self loops before, for PyTorch too",
            )
        return True

    def parameter(self, path, tensor, kind, *, rows=None, heads=None):
        """Defines a parameter with the values of a PyTorch tensor; returns its name. A shared one is defined once."""
        key = (id(tensor), kind, heads)
        if key in self._known:
            return self._known[key]
        if not tensor.requires_grad:
            raise Unsupported(
                f"the parameter `{path}` does not require gradients",
                "gnnc trains all parameters; register it as a buffer",
            )
        pack, unpack = KINDS[kind]
        packed = pack(tensor.detach().cpu().numpy())
        words = [str(packed.shape[1] // (heads or 1))]
        if rows is None:
            rows = packed.shape[0]
        if rows > 1:
            words.append(f"rows = {rows}")
        if heads:
            words.append(f"heads = {heads}")
        if packed.shape[0] == 1 and not heads:
            words.append("init = zeros")
        decay = self._decay_of(tensor)
        if decay is not None:
            words.append(f"decay = {number(decay)}")
        words.append(f'name = "{path}"')
        name = self.let(path, f"parameter({', '.join(words)})")
        shape = tuple(tensor.shape)
        self.bindings.append(Binding(path, path, shape, pack, unpack))
        self._known[key] = name
        return name

    def weights(self, module):
        """The values of all parameters, by name."""
        return {binding.name: self._packed(module, binding) for binding in self.bindings}

    @staticmethod
    def _packed(module, binding):
        values = module.get_parameter(binding.path).detach().cpu().numpy()
        return np.ascontiguousarray(binding.pack(values), dtype=np.float32)[None]

    def linear(self, path, module, h):
        """The product with the weight of a linear layer, and its bias; `h` is a name."""
        weight = self.parameter(f"{path}.weight", module.weight, "transposed")
        return f"matmul({h}, {weight})" + self.plus(f"{path}.bias", module.bias)

    def plus(self, path, tensor):
        """The addition of a bias; nothing if there is none."""
        return "" if tensor is None else f" + {self.parameter(path, tensor, 'row')}"


def rows(value, what):
    """The tensor that an argument is."""
    if not isinstance(value, Rows):
        found = f"the {value.kind}" if isinstance(value, Given) else repr(value)
        raise Unsupported(
            f"{what} gets {found} where a tensor with a row for each vertex is expected", "change the call"
        )
    if value.final:
        raise Unsupported(f"{what} goes on after log_softmax", "return log_softmax, or leave it out: the loss takes it")
    return value


def flat(writer, value, what):
    """The name of a tensor without heads."""
    value = rows(value, what)
    if value.heads:
        raise Unsupported(
            f"{what} gets {value.heads} heads", "flatten them first, as in `h.flatten(1)`, or average them, `h.mean(1)`"
        )
    return value.name

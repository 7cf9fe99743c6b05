"""Functions and small modules of PyTorch in gnnc's language."""

import operator

import torch

from .writer import Given, Rows, Unsupported, flat, number, rows


def _elu(h, alpha=1.0):
    return f"elu({h})" if alpha == 1 else f"relu({h}) + {number(alpha)} * (elu({h}) - relu({h}))"


def _gelu(h, approximate="none"):
    if approximate != "tanh":
        raise Unsupported("the exact GELU needs the error function, which gnnc does not have", 'use approximate="tanh"')
    return f"0.5 * {h} * (1 + tanh(0.7978845608028654 * ({h} + 0.044715 * {h} * {h} * {h})))"


_SELU = "1.0507009873554805 * (relu({h}) + 1.6732632423543772 * (elu({h}) - relu({h})))"

#: Functions of one tensor by name, for functions, methods and modules alike. Other arguments go by name.
ELEMENTWISE = {
    "relu": lambda h: f"relu({h})",
    "leaky_relu": lambda h, negative_slope=0.01: f"leaky_relu({h}, {number(negative_slope)})",
    "elu": _elu,
    "selu": lambda h: _SELU.format(h=h),
    "sigmoid": lambda h: f"sigmoid({h})",
    "tanh": lambda h: f"tanh({h})",
    "silu": lambda h: f"{h} * sigmoid({h})",
    "gelu": _gelu,
    "exp": lambda h: f"exp({h})",
    "log": lambda h: f"log({h})",
    "sqrt": lambda h: f"sqrt({h})",
    "rsqrt": lambda h: f"rsqrt({h})",
    "neg": lambda h: f"0 - {h}",
}
#: Names of these arguments by position.
ARGUMENTS = {"leaky_relu": ["negative_slope"], "elu": ["alpha"], "gelu": ["approximate"]}
IGNORED = {"inplace", "training"}


def elementwise(writer, hint, name, value, args=(), kwargs=None):
    """A function of each element."""
    value = rows(value, name)
    given = dict(zip(ARGUMENTS.get(name, []), args))
    given.update({key: v for key, v in (kwargs or {}).items() if key not in IGNORED})
    h = value.name
    if name in PARTIAL and not value.single:
        h = writer.defined(h)
    return Rows(writer.let(hint, ELEMENTWISE[name](h, **given)), value.width, value.heads, value.single)


def dropped(writer, hint, value, p=0.5, training=True):
    """Dropout in training."""
    value = rows(value, "dropout")
    if not training or p == 0:
        return value
    return Rows(writer.let(hint, f"dropout({value.name}, {number(p)})"), value.width, value.heads)


def log_softmax(value, dim=None):
    """The end of a model: the loss takes the logits themselves."""
    value = rows(value, "log_softmax")
    if value.heads or dim not in (1, -1):
        raise Unsupported(
            "log_softmax over another dimension than the classes", "use dim=1, on a tensor of vertices and classes"
        )
    return Rows(value.name, value.width, final=True)


#: Functions that are not defined at 0.
PARTIAL = {"log", "sqrt", "rsqrt"}
#: Pools: their names in PyTorch Geometric and in gnnc's language.
POOLS = {"add": "sum", "mean": "mean", "max": "max"}
#: Functions that change edges.
OF_EDGES = (
    "add_self_loops",
    "add_remaining_self_loops",
    "remove_self_loops",
    "to_undirected",
    "coalesce",
    "dropout_edge",
    "dropout_adj",
    "dropout_node",
    "degree",
    "to_dense_batch",
)
#: What stands for a pool that was called by another name than its own.
RECORDED = "recorded_pool"
SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "div": "/"}


def combined(writer, hint, name, a, b, scale=1):
    """The sum, difference, product or quotient of tensors and numbers."""
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[SIGNS[name]](a, b)
    names, found = [], []
    for value in (a, b):
        if isinstance(value, (int, float)):
            names.append(number(value) if value >= 0 else f"({number(value)})")
        else:
            found.append(rows(value, f"`{SIGNS[name]}`"))
            names.append(found[-1].name)
    widths = {value.width for value in found} - {1}
    if len(widths) > 1 or len({value.heads for value in found}) > 1:
        shapes = " and ".join(f"{value.heads or ''}{' x ' if value.heads else ''}{value.width}" for value in found)
        raise Unsupported(f"`{SIGNS[name]}` of tensors of {shapes} columns", "make them equal")
    if SIGNS[name] == "/" and isinstance(b, Rows) and not b.single:
        names[1] = writer.defined(names[1])
    right = names[1] if scale == 1 else f"{number(scale)} * {names[1]}"
    text = writer.let(hint, f"{names[0]} {SIGNS[name]} {right}")
    return Rows(text, max(value.width for value in found), found[0].heads, all(value.single for value in found))


def concatenated(writer, hint, values, dim):
    """Columns beside each other."""
    values = [rows(value, "a concatenation") for value in values]
    if dim not in (1, -1) or any(value.heads for value in values):
        raise Unsupported(
            f"a concatenation along dimension {dim}", "concatenate columns of tensors without heads, dim=-1"
        )
    names = ", ".join(value.name for value in values)
    return Rows(writer.let(hint, f"concat({names})"), sum(value.width for value in values))


def largest(writer, hint, values):
    """The largest of each element."""
    values = [rows(value, "max") for value in values]
    text = values[0].name
    for value in values[1:]:
        text = f"max({text}, {value.name})"
    return Rows(writer.let(hint, text), values[0].width, values[0].heads)


def normalized(writer, hint, value, p=2.0, dim=1, eps=1e-12):
    """Rows of length one."""
    h = flat(writer, value, "normalize")
    if p != 2 or dim not in (1, -1):
        raise Unsupported(f"normalize with p={p} along dimension {dim}", "use p=2, dim=-1")
    return Rows(writer.let(hint, f"{h} * rsqrt(max(dot({h}, {h}), {number(eps * eps)}))"), value.width)


def merged(writer, hint, value):
    """Heads beside each other."""
    value = rows(value, "flatten")
    if not value.heads:
        return value
    return Rows(writer.let(hint, f"merge_heads({value.name})"), value.width * value.heads)


def averaged(writer, hint, value, dim):
    """The mean of the heads."""
    value = rows(value, "mean")
    if not value.heads or dim not in (1, -2):
        raise Unsupported(f"the mean along dimension {dim}", "only heads can be averaged, as in `h.mean(1)`")
    return Rows(writer.let(hint, f"mean_heads({value.name})"), value.width)


def squeezed(writer, hint, value, dim=None):
    """One head without its dimension."""
    value = rows(value, "squeeze")
    if value.heads != 1 or dim not in (None, 1, -2):
        raise Unsupported("squeeze of something else than one head", "leave it out")
    return merged(writer, hint, value)


def function(writer, hint, target, args, kwargs):
    """What a function of PyTorch computes."""
    name = getattr(target, "__name__", str(target)).rstrip("_")
    name = {
        "iadd": "add",
        "isub": "sub",
        "imul": "mul",
        "itruediv": "truediv",
        "concat": "cat",
        "concatenate": "cat",
    }.get(name, name)
    return called(writer, hint, name, list(args), dict(kwargs))


def called(writer, hint, name, args, kwargs):
    """What a function or a method of a name computes."""
    if name == "_assert_is_none":
        # Of torch.fx, about the arguments that are left out.
        return None
    if name == "getattr":
        return attribute(writer, args[0], args[1])
    if name == "getitem":
        return item(args[0], args[1])
    if name in ELEMENTWISE:
        value = kwargs.pop("input", None) if not args else args.pop(0)
        return elementwise(writer, hint, name, value, args, kwargs)
    if name in SIGNS:
        both = [*args, *(kwargs[key] for key in ("input", "other") if key in kwargs)]
        return combined(writer, hint, name, both[0], both[1], kwargs.get("alpha", 1))
    if name in ("dropout", "feature_dropout"):
        keys = dict(zip(("input", "p", "training"), args))
        keys.update({key: value for key, value in kwargs.items() if key != "inplace"})
        return dropped(writer, hint, keys.pop("input"), **keys)
    if name == "log_softmax":
        return log_softmax(args[0], kwargs.get("dim", args[1] if len(args) > 1 else None))
    if name == "cat":
        values = args[0] if args else kwargs["tensors"]
        return concatenated(writer, hint, values, kwargs.get("dim", args[1] if len(args) > 1 else 0))
    if name in ("maximum", "max") and len(args) == 2:
        return largest(writer, hint, args)
    if name == "normalize":
        keys = dict(zip(("p", "dim", "eps"), args[1:]))
        return normalized(
            writer, hint, args[0], **{**keys, **{key: value for key, value in kwargs.items() if key != "out"}}
        )
    if name == "flatten" and [*args[1:], *kwargs.values()] == [1]:
        return merged(writer, hint, args[0])
    if name in ("view", "reshape"):
        return reshaped(writer, hint, args[0], args[1:])
    if name == "mean":
        return averaged(writer, hint, args[0], kwargs.get("dim", args[1] if len(args) > 1 else None))
    if name == "squeeze":
        return squeezed(writer, hint, args[0], *args[1:])
    if name in ("contiguous", "clone", "float", "to"):
        return args[0]
    for kind, reduce in POOLS.items():
        if name == f"global_{kind}_pool":
            keys = dict(zip(("x", "batch", "size"), args))
            return pooled(writer, hint, name, reduce, {**keys, **kwargs})
    if name == RECORDED:
        return pooled(writer, hint, f"global_{args[2]}_pool", args[2], dict(zip(("x", "batch", "size"), [*args[:2], args[3]])))
    if name in OF_EDGES:
        raise Unsupported(f"`{name}` works on edges inside `forward`", "prepare the graph before, for PyTorch too")
    if name == "size" or name == "dim":
        raise Unsupported(f"`{name}()` of a tensor", "models do not decide by sizes; write the number")
    raise Unsupported(
        f"`{name}` has no equal", "use the functions that docs/python.md lists, or write the model in gnnc's language"
    )


def pooled(writer, hint, what, reduce, arguments):
    """A row for each graph."""
    x, batch, size = (arguments.pop(key, None) for key in ("x", "batch", "size"))
    if arguments:
        raise Unsupported(f"`{what}` has no argument `{min(arguments)}`", "leave it out")
    h = flat(writer, x, f"`{what}`")
    if not writer.graph.num_graphs:
        raise Unsupported(
            f"`{what}`, but the graph is a single one",
            "make a gnnc.Graph of many with gnnc.Graph.from_pyg(torch_geometric.data.Batch.from_data_list(graphs))",
        )
    if not isinstance(batch, Given) or batch.kind != "batch":
        raise Unsupported(f"`{what}` without the graphs of the vertices", "pass the argument `batch` of `forward`")
    if size is not None:
        raise Unsupported(f"`{what}` with a number of graphs", "leave out `size`: the graph says it")
    if h in writer.pooled:
        raise Unsupported(f"`{what}` gets rows that a pool made already", "leave it out")
    name = writer.let(hint, f"pool({h}, {reduce})")
    writer.pooled.add(name)
    return Rows(name, x.width)


def reshaped(writer, hint, value, sizes):
    """Heads beside each other, by their width."""
    value = rows(value, "view")
    sizes = list(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (list, tuple)) else list(sizes)
    if len(sizes) == 2 and sizes[1] in (-1, value.width * max(value.heads, 1)):
        return merged(writer, hint, value)
    raise Unsupported(f"`view` into {sizes}", "only heads can be put beside each other, as in `h.flatten(1)`")


#: Attributes of a `Data`, and what they are.
OF_DATA = {
    "x": "x",
    "edge_index": "edges",
    "adj_t": "edges",
    "edge_weight": "weights",
    "edge_attr": "weights",
    "edge_type": "types",
    "batch": "batch",
}


def attribute(writer, value, name):
    """An attribute of a `Data`."""
    if isinstance(value, Given) and value.kind == "data" and name in OF_DATA:
        return features(writer) if name == "x" else Given(OF_DATA[name])
    raise Unsupported(f"the attribute `{name}`", f"of a Data, a model knows {', '.join(OF_DATA)}")


def item(value, key):
    """An item of a list, or a block of DGL's list of blocks."""
    if isinstance(value, Given) and value.kind == "graph":
        return value
    if isinstance(value, (list, tuple)):
        return value[key]
    if isinstance(key, Given):
        raise Unsupported(
            f"`h[{key.kind}]` gives each vertex the row of its graph, which is not imported",
            "put rows beside each other behind the pool",
        )
    raise Unsupported(f"the item {key!r} of a tensor", "models have no rows or columns by number")


def features(writer):
    """The features of the graph."""
    writer.uses_x = True
    if writer.graph.num_graphs and not writer.graph.num_features:
        raise Unsupported(
            "the vertices of the graphs have no features",
            "give each some, for PyTorch too, as torch_geometric.transforms.OneHotDegree and Constant do",
        )
    width = writer.graph.num_features or writer.graph.num_nodes
    if not writer.graph.num_features:
        writer.identity = writer.identity or "the graph has no features"
    return Rows("x", width)


def own_features(writer, what):
    """A feature of its own for each vertex."""
    writer.identity = what
    return Rows("x", writer.graph.num_nodes)


def constant(writer, path, tensor):
    """A parameter or a buffer that `forward` uses itself."""
    if not isinstance(tensor, torch.nn.Parameter):
        if tensor.numel() == 1:
            return float(tensor)
        raise Unsupported(f"the buffer `{path}`", "make it a parameter, or a part of the features")
    if tensor.dim() <= 1:
        return Rows(writer.parameter(path, tensor, "row"), tensor.numel(), single=True)
    if tensor.dim() == 2 and tensor.shape[0] == writer.graph.num_nodes:
        weight = writer.parameter(path, tensor, "matrix")
        own = own_features(writer, f"`{path}` has a row for each vertex")
        return Rows(writer.let(f"{path}_rows", f"matmul({own.name}, {weight})"), tensor.shape[1])
    raise Unsupported(
        f"the parameter `{path}` of shape {tuple(tensor.shape)}", "use a row, a number, or torch.nn.Linear"
    )

"""Follows the forward method of a module with torch.fx, and writes a model of what it does."""

import contextlib
import inspect
import sys
import traceback

import torch
from torch import fx

from ..errors import UnsupportedError
from . import dgl, modules, pyg
from .functions import OF_EDGES, POOLS, called, constant, features, function
from .writer import Given, Unsupported, Writer

HANDLERS = {**modules.MODULES, **pyg.LAYERS, **dgl.LAYERS}
#: Names of arguments of `forward`, and what they are.
ARGUMENTS = {
    "x": ("x", "h", "feat", "feats", "features", "feature", "input", "inputs", "in_feat", "node_feat", "n_feat"),
    "edges": ("edge_index", "edges", "adj", "adj_t"),
    "weights": ("edge_weight", "edge_weights", "edge_attr", "eweight", "e_weight"),
    "types": ("edge_type", "edge_types", "etype", "etypes"),
    "graph": ("g", "graph", "blocks"),
    "data": ("data",),
    "batch": ("batch",),
}
KNOWN = {name: kind for kind, names in ARGUMENTS.items() for name in names}
#: Words for `inputs`, as a user says them.
WORDS = {"x": "x", "edge_index": "edges", "edge_weight": "weights", "edge_attr": "weights", "edge_type": "types"}
WORDS.update({"graph": "graph", "data": "data", "batch": "batch"})


#: Packages whose modules are kept whole: they compute what tracing cannot follow.
WHOLE = ("dgl.", "torch_geometric.nn.norm", "torch_geometric.nn.aggr", "torch_geometric.nn.pool")


def key(module):
    """The library and the class of a module."""
    kind = type(module)
    return kind.__module__.partition(".")[0], kind.__name__


class Tracer(fx.Tracer):
    """Keeps whole the modules that have an equal, and the layers that can have none."""

    def is_leaf_module(self, module, path):
        if key(module) in HANDLERS or type(module).__module__.startswith(WHOLE):
            return True
        if any(base.__name__ == "MessagePassing" for base in type(module).__mro__):
            return True
        return super().is_leaf_module(module, path)


def whole_functions():
    """Functions of PyTorch Geometric that tracing keeps whole, so that the error names them."""
    nn, utils = (sys.modules.get(f"torch_geometric.{part}") for part in ("nn", "utils"))
    found = [getattr(nn, f"global_{kind}_pool", None) for kind in POOLS]
    return [function for function in [*found, *(getattr(utils, name, None) for name in OF_EDGES)] if function]


def recorded_pool(x, batch, reduce, size):
    """What a pool of PyTorch Geometric computes, however it was called."""
    raise NotImplementedError


@contextlib.contextmanager
def pools_recorded():
    """Lets tracing record pools that it does not find by their names, as `self.pool(h, batch)` and `pyg.global_add_pool(..)`.

    All of them call one function of PyTorch Geometric, which is another one meanwhile.
    """
    home = sys.modules.get("torch_geometric.nn.pool.glob")
    scatter = getattr(home, "scatter", None)
    if scatter is None:
        yield
        return

    def recorded(x, batch, dim=0, dim_size=None, reduce="sum"):
        if not isinstance(x, fx.Proxy):
            return scatter(x, batch, dim=dim, dim_size=dim_size, reduce=reduce)
        return x.tracer.create_proxy("call_function", recorded_pool, (x, batch, reduce, dim_size), {})

    home.scatter = recorded
    try:
        yield
    finally:
        home.scatter = scatter


def kinds_of(module, inputs, graph):
    """What the arguments of `forward` are, by their names; those that are unknown and have a default are left out."""
    found, unknown, left = {}, [], {}
    for name, argument in inspect.signature(type(module).forward).parameters.items():
        if name == "self":
            continue
        said = inputs.get(name)
        if said is not None and said not in WORDS:
            raise UnsupportedError(f"found inputs={{{name!r}: {said!r}}}, expected one of {', '.join(WORDS)}")
        kind = WORDS.get(said) or KNOWN.get(name)
        read = kind in ("x", "edges") or kind == "batch" and graph.num_graphs
        if kind and (argument.default is inspect.Parameter.empty or said or read):
            found[name] = kind
        elif argument.default is not inspect.Parameter.empty:
            left[name] = argument.default
        elif argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            unknown.append(name)
    if unknown:
        names = ", ".join(f"`{name}`" for name in unknown)
        likely = "batch" if "batch" in unknown[0] else "x"
        example = f'inputs={{"{unknown[0]}": "{likely}"}}'
        raise UnsupportedError(
            f"the arguments {names} of `forward` have names that do not say what they are; say it with {example}"
        )
    return found, left


def traced(module, left):
    """The graph of what `forward` does in training."""
    modes = [(part, part.training) for part in module.modules()]
    kind = type(module)
    if "forward" in vars(module) and hasattr(module.forward, "__func__"):
        # Sequential of PyTorch Geometric has one method a class and one an object.
        kind.forward = module.forward.__func__
    try:
        module.train()
        with pools_recorded():
            return Tracer(autowrap_functions=tuple(whole_functions())).trace(module, concrete_args=left or None)
    except Exception as error:  # noqa: BLE001 - whatever `forward` raises
        at = traceback.extract_tb(error.__traceback__)
        own = [
            frame
            for frame in at
            if not any(part in frame.filename for part in ("/site-packages/", "/gnnc/", "/torch/"))
        ]
        where = f" ({own[-1].filename.rpartition('/')[2]}, line {own[-1].lineno})" if own else ""
        raise UnsupportedError(
            f"`forward` of {kind.__name__} cannot be followed{where}: {str(error).splitlines()[0] if str(error) else error!r}; it may "
            "not decide by values or sizes of tensors, nor change edges: prepare the graph before"
        ) from error
    finally:
        for part, mode in modes:
            part.training = mode


class Broken:
    """The place of a value that could not be made."""


class Converter(Writer):
    """Writes a model of traced modules."""

    def __init__(self, graph, decay_of):
        super().__init__(graph, decay_of)
        self.problems = []

    def root(self, module, kinds, left):
        """Writes what a whole module does; returns what comes out."""
        given = {name: None if kind == "x" else Given(kind) for name, kind in kinds.items()}
        return self._run(
            module, "", traced(module, left), given, set(name for name, kind in kinds.items() if kind == "x")
        )

    def convert(self, module, path, *values):
        """Writes what a module inside does with some values."""
        if key(module) in HANDLERS:
            return self._call(module, path, values, {})
        names = [name for name in inspect.signature(type(module).forward).parameters if name != "self"]
        parameters = inspect.signature(type(module).forward).parameters
        given = dict(zip(names, values))
        left = {name: parameters[name].default for name in names[len(values) :]}
        return self._run(module, path, traced(module, left), given, set())

    def apply(self, function_or_module, path, value):
        """Writes what a function or a module that a layer holds does with a value."""
        if isinstance(function_or_module, torch.nn.Module):
            return self.convert(function_or_module, path, value)
        return function(self, path, function_or_module, [value], {})

    def _run(self, module, prefix, graph, given, own):
        env, out = {}, None
        for node in graph.nodes:
            path = ".".join(filter(None, [prefix, node.target if isinstance(node.target, str) else node.name]))
            try:
                env[node] = self._value(module, prefix, node, env, given, own)
            except Unsupported as why:
                what = f" ({type(module.get_submodule(node.target)).__name__})" if node.op == "call_module" else ""
                self.problems.append(f"{path}{what}: {why}")
                env[node] = Broken()
            if node.op == "output":
                out = env[node]
        return out

    def _value(self, module, prefix, node, env, given, own):
        def plain(argument):
            if isinstance(argument, fx.Node):
                return env[argument]
            if isinstance(argument, (list, tuple)):
                return [plain(one) for one in argument]
            if isinstance(argument, dict):
                return {name: plain(one) for name, one in argument.items()}
            return argument

        args, kwargs = plain(node.args), plain(node.kwargs)
        if broken(args) or broken(list(kwargs.values())):
            return Broken()
        hint = "_".join(filter(None, [prefix, node.name]))
        if node.op == "placeholder":
            if node.target in own:
                return features(self)
            # fx names the arguments that are left out like this.
            return given.get(node.target)
        if node.op == "get_attr":
            path = ".".join(filter(None, [prefix, node.target]))
            return constant(self, path, found_in(module, node.target))
        if node.op == "call_module":
            path = ".".join(filter(None, [prefix, node.target]))
            return self._call(module.get_submodule(node.target), path, args, kwargs)
        if node.op == "call_method":
            return called(self, hint, node.target.rstrip("_"), args, kwargs)
        if node.op == "call_function":
            return function(self, hint, node.target, args, kwargs)
        return args[0]

    def _call(self, module, path, args, kwargs):
        convert = HANDLERS.get(key(module))
        if convert is None:
            library = key(module)[0]
            names = sorted(name for of, name in HANDLERS if of == library) or ["those that docs/python.md lists"]
            raise Unsupported("there is no equal in gnnc", f"use one of {', '.join(names)}")
        if any(isinstance(p, torch.nn.parameter.UninitializedParameter) for p in module.parameters()):
            raise Unsupported("its width is not known yet", "run the module once, so that PyTorch fills in the -1")
        if module._forward_hooks or module._forward_pre_hooks:
            raise Unsupported("it has hooks, which no model can follow", "remove them")
        try:
            return convert(self, module, path, *args, **kwargs)
        except TypeError as error:
            if "argument" not in str(error):
                raise
            raise Unsupported(
                f"it is called with arguments that are not followed ({error})", "leave them out"
            ) from error


def found_in(module, path):
    """A parameter or a buffer by its path."""
    for name in path.split("."):
        module = getattr(module, name)
    return module


def broken(values):
    """Whether some value could not be made."""
    return any(isinstance(value, Broken) or (isinstance(value, list) and broken(value)) for value in values)

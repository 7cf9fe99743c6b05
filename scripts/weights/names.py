"""The names and shapes of parameters in gnnc, PyTorch Geometric and DGL.

A layer of gnnc is first cut into parts that all three have (`parts`), such as the weight of the neighbors of a
`sage_conv`; then the parts get the names and shapes of a library (`LIBRARIES`). An import is the way back.
"""

from dataclasses import dataclass

import numpy as np
import torch


class Mismatch(Exception):
    """Weights that do not belong to a model; says which, and what was expected."""


@dataclass(frozen=True)
class Name:
    """The name of a part in a library."""

    name: str
    # Whether the library has outputs x inputs where gnnc has inputs x outputs.
    transposed: bool = False


def linear(prefix):
    return {"weight": Name(f"{prefix}weight", transposed=True), "bias": Name(f"{prefix}bias")}


def mlp(prefix):
    """The two linear layers of GIN, in `Sequential(Linear, LayerNorm, ReLU, Linear)`."""
    first = {f"linear_1.{part}": name for part, name in linear(f"{prefix}0.").items()}
    norm = {"layer_norm_1.scale": Name(f"{prefix}1.weight"), "layer_norm_1.shift": Name(f"{prefix}1.bias")}
    last = {f"linear_2.{part}": name for part, name in linear(f"{prefix}3.").items()}
    return {"eps": Name("eps"), **first, **norm, **last}


BOTH = {
    "linear": linear(""),
    "layer_norm": {"scale": Name("weight"), "shift": Name("bias")},
    "gcnii_conv": {"weight": Name("weight1")},
}
LIBRARIES = {
    "pyg": {
        **BOTH,
        "gcn_conv": {"weight": Name("lin.weight", transposed=True), "bias": Name("bias")},
        "sage_conv": {
            "neighbors": Name("lin_l.weight", transposed=True),
            "self": Name("lin_r.weight", transposed=True),
            "bias": Name("lin_l.bias"),
        },
        "gat_conv": {
            "weight": Name("lin.weight", transposed=True),
            "of_destination": Name("att_dst"),
            "of_source": Name("att_src"),
            "bias": Name("bias"),
        },
        "gin_conv": mlp("nn."),
    },
    "dgl": {
        **BOTH,
        "gcn_conv": {"weight": Name("weight"), "bias": Name("bias")},
        "sage_conv": {
            "neighbors": Name("fc_neigh.weight", transposed=True),
            "self": Name("fc_self.weight", transposed=True),
            "bias": Name("fc_self.bias"),
        },
        "gat_conv": {
            "weight": Name("fc.weight", transposed=True),
            "of_destination": Name("attn_r"),
            "of_source": Name("attn_l"),
            "bias_of_heads": Name("bias"),
        },
        "gin_conv": mlp("apply_func."),
    },
}


def kind(layer):
    """`gcn_conv` of `block_1/gcn_conv_2.0`."""
    return layer.split("/")[-1].split(".")[0].rpartition("_")[0]


@dataclass
class Place:
    """Where the parameters of a layer are in a checkpoint."""

    # The tensor of each parameter, by the parameter's name within the layer.
    tensors: dict
    # Which iteration of a repeat this is.
    iteration: int


def layers(checkpoint):
    """The layers of a checkpoint by name. Those inside of a `gin_conv` belong to it, those of a repeat are numbered."""
    found = {}
    for tensor in checkpoint.parameters():
        layer, _, parameter = tensor.rpartition(".")
        outer, _, inner = layer.rpartition("/")
        if kind(outer) == "gin_conv":
            layer, parameter = outer, f"{inner}.{parameter}"
        times = len(checkpoint.tensors[tensor])
        for iteration in range(times):
            numbered = f"{layer}.{iteration}" if times > 1 else layer
            found.setdefault(numbered, Place({}, iteration)).tensors[parameter] = tensor
    return found


def own(checkpoint, place):
    """The parameters of a layer: arrays of rows x columns."""
    return {name: checkpoint.tensors[tensor][place.iteration] for name, tensor in place.tensors.items()}


def heads_of(layer, values, known):
    """How many heads a `gat_conv` has, and whether its result is their mean."""
    columns, of_scores = values["weight"].shape[1], values["attention"].size // 2
    if of_scores != columns:
        raise Mismatch(f"{layer} is not the standard layer: {columns} columns, but {of_scores} scores")
    bias = values["bias"].size if "bias" in values else columns
    heads = columns // bias if bias < columns else known.get(layer)
    if not heads:
        raise Mismatch(f"a checkpoint does not say how many heads {layer} has; give --heads {layer}=NUMBER")
    if columns % heads:
        raise Mismatch(f"{layer} has {columns} columns, which {heads} heads do not divide")
    return heads, bias < columns


def parts(layer, values, known, names):
    """The parts of a layer that libraries have, from its parameters. Own layers stay as they are."""
    if kind(layer) == "sage_conv":
        # The vertex itself comes first, then the mean of its neighbors.
        itself, neighbors = np.split(values["weight"], 2)
        cut = {"self": itself, "neighbors": neighbors, **bias_of(values)}
    elif kind(layer) == "gat_conv":
        heads, _ = heads_of(layer, values, known)
        destination, source = np.split(values["attention"].reshape(1, heads, -1), 2, axis=2)
        cut = {"weight": values["weight"], "of_destination": destination, "of_source": source, **bias_of(values)}
        if "bias_of_heads" in names and "bias" in cut:
            # DGL has a bias for each head, also where the heads are averaged later.
            columns, bias = values["weight"].shape[1], cut.pop("bias")
            cut["bias_of_heads"] = np.tile(bias, columns // len(bias))
    elif kind(layer) in BOTH or kind(layer) in ("gcn_conv", "gin_conv"):
        vectors = ("bias", "scale", "shift", "eps")
        cut = {name: v.reshape(-1) if name.endswith(vectors) else v for name, v in values.items()}
        if kind(layer) == "gin_conv":
            # The libraries have it also where it is not learned.
            cut.setdefault("eps", np.zeros(1, dtype=np.float32))
    else:
        cut = values
    return cut


def bias_of(values):
    return {"bias": values["bias"].reshape(-1)} if "bias" in values else {}


def whole(layer, cut, values):
    """The parameters of a layer from its parts: the way back. `values` have the shapes."""
    if kind(layer) == "sage_conv":
        weight = np.concatenate([cut["self"], cut["neighbors"]])
        cut = {"weight": weight, **{name: v for name, v in cut.items() if name == "bias"}}
    elif kind(layer) == "gat_conv":
        cut = dict(cut)
        both = [cut.pop("of_destination"), cut.pop("of_source")]
        cut["attention"] = np.concatenate(both, axis=2)
        if "bias_of_heads" in cut:
            of_heads = cut.pop("bias_of_heads")
            cut["bias"] = of_heads.reshape(-1, values["bias"].size).mean(0)
    return {name: part.reshape(values[name].shape) for name, part in cut.items()}


def names_of(layer, values, library):
    """The names of a layer's parts in a library; own layers keep gnnc's."""
    return LIBRARIES[library].get(kind(layer), {name: Name(name) for name in values})


def state_of(layer, values, library, known):
    """The `state_dict` of a layer."""
    names = names_of(layer, values, library)
    try:
        cut = parts(layer, values, known, names)
        named = {names[part]: array for part, array in cut.items()}
    except (KeyError, ValueError) as error:
        found = ", ".join(values)
        raise Mismatch(f"{layer} is not the standard layer of this name: its parameters are {found}") from error
    return {name.name: array.T if name.transposed else array for name, array in named.items()}


def exported(checkpoint, library, known):
    """The `state_dict` of every layer of a checkpoint, in a library's names."""
    found = {}
    for layer, place in layers(checkpoint).items():
        state = state_of(layer, own(checkpoint, place), library, known)
        found[layer] = {name: torch.tensor(np.ascontiguousarray(array)) for name, array in state.items()}
    return found


def imported(checkpoint, state, library, known, renamed):
    """Puts weights into a checkpoint. `state` is what an export gives, or the `state_dict` of a whole model.

    Raises Mismatch with every name that does not fit; the checkpoint then stays as it is.
    """
    places = layers(checkpoint)
    given, problems = by_layer(state, places, renamed)
    changed = {}
    for layer, place in places.items():
        if layer not in given:
            problems.append(f"{layer}: missing")
            continue
        values, lines = read_back(layer, own(checkpoint, place), given[layer], library, known)
        problems.extend(lines)
        changed[layer] = values
    if problems:
        lines = "\n  ".join(problems)
        raise Mismatch(f"these weights are not those of the checkpoint's model; nothing was written:\n  {lines}")
    for layer, values in changed.items():
        for name, array in values.items():
            tensor = places[layer].tensors[name]
            copy = checkpoint.tensors[tensor].copy()
            copy[places[layer].iteration] = array
            checkpoint.tensors[tensor] = copy


def by_layer(state, places, renamed):
    """Weights by layer, and a line for each name that belongs to none."""
    flat = []
    for name, value in state.items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        flat.extend((f"{name}.{key}".rstrip("."), tensor) for key, tensor in inner)
    modules = {**{layer: layer for layer in places}, **renamed}
    given, problems = {}, []
    for name, tensor in flat:
        module = max((m for m in modules if name.startswith(f"{m}.")), key=len, default=None)
        layer = modules.get(module)
        if layer not in places:
            problems.append(f"{name}: of no layer of the checkpoint, which has {', '.join(places)}")
            continue
        weights, inner = given.setdefault(layer, {}), name[len(module) + 1 :]
        if inner in weights:
            problems.append(f"{name}: the second one for {layer}")
        weights[inner] = tensor.detach().to(torch.float32).numpy()
    return given, problems


def read_back(layer, values, found, library, known):
    """The parameters of a layer from a `state_dict`, and a line for each name that does not fit."""
    if kind(layer) == "gat_conv":
        scores = found.get(LIBRARIES[library]["gat_conv"]["of_source"].name)
        fitting = scores is not None and scores.ndim == 3 and scores.shape[1] > 0
        known = {layer: scores.shape[1] if fitting else 1, **known}
    expected = state_of(layer, values, library, known)
    lines = differences(layer, found, expected)
    if lines:
        return {}, lines
    names = names_of(layer, values, library).items()
    transposed = {part: name.transposed for part, name in names}
    cut = {part: found[name.name] for part, name in names if name.name in found}
    cut = {part: array.T if transposed[part] else array for part, array in cut.items()}
    if kind(layer) == "gin_conv" and "eps" not in values and cut.pop("eps").any():
        return {}, [f"{layer}.eps: not 0, but the model does not learn it (`learn_eps = false`)"]
    return whole(layer, cut, values), []


def differences(layer, found, expected):
    """A line for each name of a layer that is missing or unknown, and for each wrong shape."""
    lines = [f"{layer}.{name}: missing" for name in expected if name not in found]
    for name, array in found.items():
        if name not in expected:
            lines.append(f"{layer}.{name}: unknown; expected {', '.join(expected)}")
        elif array.shape != expected[name].shape:
            lines.append(f"{layer}.{name}: shape {list(array.shape)}, expected {list(expected[name].shape)}")
    return lines

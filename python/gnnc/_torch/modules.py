"""Modules of PyTorch, and those of PyTorch Geometric and DGL that are no graph layers."""

from .functions import concatenated, dropped, elementwise, largest, log_softmax
from .writer import Rows, Unsupported, flat, number, rows


def linear(writer, module, path, value):
    h = flat(writer, value, "Linear")
    return Rows(writer.let(path, writer.linear(path, module, h)), module.weight.shape[0])


def affine(writer, path, h, module, prefix=""):
    """A normalized tensor with its scale and shift."""
    if module.weight is None:
        return h
    weight = writer.parameter(f"{path}.{prefix}weight", module.weight, "row")
    return f"{h} * {weight}" + writer.plus(f"{path}.{prefix}bias", module.bias)


def layer_norm(writer, module, path, value, batch=None, batch_size=None):
    h = flat(writer, value, "LayerNorm")
    shape = getattr(module, "normalized_shape", None)
    if shape is not None and tuple(shape) != (value.width,):
        raise Unsupported(f"LayerNorm over {tuple(shape)}", f"normalize the {value.width} columns of a vertex")
    by_row = getattr(module, "mode", "node") == "node"
    if not by_row and (batch is not None or writer.graph.num_graphs):
        raise Unsupported('LayerNorm(mode="graph") of many graphs', 'use mode="node"')
    layer = writer.layer("normalized_rows" if by_row else "normalized_graph")
    text = affine(writer, path, f"{layer}({h}, {number(module.eps)})", module)
    return Rows(writer.let(path, text), value.width)


def batch_norm(writer, module, path, value):
    h = flat(writer, value, "BatchNorm")
    inner, prefix = (module.module, "module.") if hasattr(module, "module") else (module, "")
    if inner.track_running_stats:
        h = writer.let(f"{path}_input", f"1 * {h}") if h == "x" else h
        writer.norms.append((path + ("." + prefix.rstrip(".") if prefix else ""), h, h in writer.pooled))
    of_many = "normalized_columns_of_graphs" if h in writer.pooled else "normalized_columns_inside"
    layer = writer.layer(of_many if writer.graph.num_graphs else "normalized_columns")
    text = affine(writer, path, f"{layer}({h}, {number(inner.eps)})", inner, prefix)
    return Rows(writer.let(path, text), value.width)


def dropout(writer, module, path, value):
    return dropped(writer, path, value, module.p)


def identity(writer, module, path, value, *ignored):
    return value


def prelu(writer, module, path, value):
    value = rows(value, "PReLU")
    weight = writer.parameter(f"{path}.weight", module.weight, "row")
    h = value.name
    return Rows(writer.let(path, f"relu({h}) - {weight} * relu(0 - {h})"), value.width)


def of_elements(name, *attributes):
    """A module that computes a function of each element, with arguments in its attributes."""

    def convert(writer, module, path, value):
        given = {key: getattr(module, key) for key in attributes}
        return elementwise(writer, path, name, value, kwargs=given)

    return convert


def ends(writer, module, path, value):
    return log_softmax(value, module.dim)


def jumping_knowledge(writer, module, path, values):
    mode = module.mode
    if mode == "cat":
        return concatenated(writer, path, values, -1)
    if mode == "max":
        return largest(writer, path, values)
    raise Unsupported(
        'JumpingKnowledge("lstm") needs a recurrent layer, which gnnc does not have', 'use "cat" or "max"'
    )


NAMED = {
    "ReLU": of_elements("relu"),
    "LeakyReLU": of_elements("leaky_relu", "negative_slope"),
    "ELU": of_elements("elu", "alpha"),
    "SELU": of_elements("selu"),
    "Sigmoid": of_elements("sigmoid"),
    "Tanh": of_elements("tanh"),
    "SiLU": of_elements("silu"),
    "GELU": of_elements("gelu", "approximate"),
    "PReLU": prelu,
    "Identity": identity,
    "Dropout": dropout,
    "Linear": linear,
    "LayerNorm": layer_norm,
    "BatchNorm1d": batch_norm,
    "LogSoftmax": ends,
}
TORCH = {("torch", name): convert for name, convert in NAMED.items()}
PYG = {
    ("torch_geometric", "Linear"): linear,
    ("torch_geometric", "LayerNorm"): layer_norm,
    ("torch_geometric", "BatchNorm"): batch_norm,
    ("torch_geometric", "JumpingKnowledge"): jumping_knowledge,
}
DGL = {("dgl", "JumpingKnowledge"): jumping_knowledge, ("dgl", "Identity"): identity}
MODULES = {**TORCH, **PYG, **DGL}

"""gnnc plans and trains graph neural networks.

A model comes from PyTorch Geometric or DGL (`from_torch`) or from a text in gnnc's language (`Model`), a graph from
arrays or another library (`Graph`). `plan` says how to place a model on a cluster, `train` trains it on this machine,
`predict` says what it computes, and `Run.to_torch` puts trained weights back into the PyTorch module.
"""

from __future__ import annotations

from typing import Any, Mapping

from ._gnnc import __build__, __version__
from .errors import Error, InputError, MachineError, UnsupportedError
from .graph import Graph
from .model import Model, Predictions, embeddings, predict
from .plan import Plan, plan
from .train import Epoch, Run, train

__all__ = [
    "Epoch",
    "Error",
    "Graph",
    "InputError",
    "MachineError",
    "Model",
    "Plan",
    "Predictions",
    "Run",
    "UnsupportedError",
    "__build__",
    "__version__",
    "embeddings",
    "from_torch",
    "plan",
    "predict",
    "train",
]


def from_torch(
    module: Any,
    graph: Graph,
    *,
    inputs: Mapping[str, str] | None = None,
    loss: Any = None,
    optimizer: Any = None,
    epochs: int = 200,
    name: str | None = None,
) -> Model:
    """Makes a model of a PyTorch module with layers of PyTorch Geometric or DGL, with the module's weights.

    `graph` is the `Graph` to run on; its statistics, features and classes go into the model's text. The forward method
    of `module` is traced with torch.fx, so it may not decide by the values of tensors.

    inputs:    what the arguments of `forward` are, if their names do not say it, such as `{"signal": "x"}`; the values
               are `x`, `edge_index`, `edge_weight`, `edge_attr`, `edge_type`, `data`, `graph` (of DGL) or `batch`
    loss:      a loss of the language (`"cross_entropy"`, `"bce_with_logits"`, `"mse"`, `"mae"`) or a PyTorch loss; by
               default cross entropy, which needs one class per vertex
    optimizer: a PyTorch optimizer of the module's parameters, or one in the language, such as `"adam(lr = 0.01)"`
    epochs:    epochs to train, unless `train` says it

    Raises `UnsupportedError` that names all parts that have no equal, with their paths in the module.
    """
    from ._torch import from_torch as convert

    return convert(module, graph, inputs=inputs, loss=loss, optimizer=optimizer, epochs=epochs, name=name)

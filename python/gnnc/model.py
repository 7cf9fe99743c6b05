"""Models, and what they compute."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Mapping

import numpy as np

from . import _gnnc
from .errors import InputError
from .graph import Graph


def matrices(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Weights as native code takes them: by name, the shape and a matrix."""
    found = {}
    for name, values in weights.items():
        values = np.ascontiguousarray(values, dtype=np.float32)
        if values.ndim != 3:
            raise InputError(f"found `{name}` of shape {values.shape}, expected (iterations, rows, columns)")
        found[name] = (values.shape, values.reshape(-1, values.shape[2]))
    return found


def words(knobs: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Names and values of knobs as the command line writes them."""

    def word(value: Any) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        return ",".join(map(word, value)) if isinstance(value, (list, tuple)) else str(value)

    return [(str(name).replace("_", "-"), word(value)) for name, value in (knobs or {}).items()]


def native(graph: Graph | None) -> _gnnc.Graph | None:
    """The native part of a graph, if there is one."""
    if graph is None or isinstance(graph, Graph):
        return None if graph is None else graph._native
    raise InputError(
        f"found a {type(graph).__name__} as the graph, expected a gnnc.Graph; gnnc.Graph.from_pyg makes one of a Data"
    )


def model_of(model: Model | str | os.PathLike[str]) -> Model:
    """A model as it is, or of its text or path."""
    if hasattr(model, "forward"):
        raise InputError(
            f"found a {type(model).__name__} as the model, expected a gnnc.Model; gnnc.from_torch makes one of it"
        )
    return model if isinstance(model, Model) else Model(model)


class Model:
    """A model in gnnc's language (docs/language.md), with weights if it was trained or comes from PyTorch.

    source: the text of a model, or the path of a `.gir` file. A model without a `graph` item runs on the `Graph` that it is
            used with.
    set:    values of the model's parameters and of numbers of its `train` block, such as `{"hidden": 64, "train.lr": 0.1}`
    """

    def __init__(
        self,
        source: str | os.PathLike[str],
        *,
        set: Mapping[str, float] | None = None,
        weights: Mapping[str, np.ndarray] | None = None,
    ) -> None:
        self.is_file = not (isinstance(source, str) and ("\n" in source or "{" in source))
        self.path = os.fspath(source) if self.is_file else "model.gir"
        if self.is_file:
            try:
                with open(self.path, encoding="utf-8") as file:
                    self.text = file.read()
            except (OSError, UnicodeDecodeError) as error:
                said = getattr(error, "strerror", None) or str(error)
                raise InputError(f"cannot read {self.path}: {said}") from error
        else:
            self.text = str(source)
        self.set = [(str(key), float(value)) for key, value in (set or {}).items()]
        #: Parameters by name: arrays of iterations x rows x columns. Empty if there are none yet.
        self.weights = dict(weights or {})
        #: The PyTorch module that the model comes from, and how to go back; `None` without one.
        self.source: Any = None

    def check(self, graph: Graph | None = None) -> str:
        """Checks the model with `graph` or with its own. Raises `InputError` with all errors; returns the warnings."""
        self._fits(graph)
        return _gnnc.check(self._on(graph), native(graph))[1]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the text of the model, for the command line."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)

    def with_weights(self, weights: Mapping[str, np.ndarray]) -> Model:
        """The same model with other weights."""
        model = Model.__new__(Model)
        model.__dict__.update(self.__dict__)
        model.weights = dict(weights)
        return model

    def to_torch(self, module: Any = None, graph: Graph | None = None) -> Any:
        """Puts the weights into the PyTorch module that the model comes from, or into `module` of the same kind.

        Running statistics of batch norm become those of the vertices of `graph`, which has to be given if there are any.
        Returns the module.
        """
        if self.source is None:
            raise InputError("this model does not come from PyTorch; its weights are in the attribute `weights`")
        return self.source.put_back(self, module, graph)

    def _on(self, graph: Graph | None) -> SimpleNamespace:
        """The model as native code takes it. A model without a graph gets the item of the one that it runs on."""
        text = self.text
        wanted = re.search(r"^\s*model\b[^{]*\bon\s+(\w+)", text, re.MULTILINE)
        if graph is not None and wanted and not re.search(r"^\s*graph\b", text, re.MULTILINE):
            text = f"{text}\n{graph.item(wanted[1])}"
        return SimpleNamespace(text=text, path=self.path, is_file=self.is_file and text == self.text, set=self.set)

    def _fits(self, graph: Graph | None) -> None:
        """Refuses a graph on which the layers of a PyTorch module would compute something else."""
        if self.source is not None and graph is not None:
            self.source.fits(graph)

    def __repr__(self) -> str:
        count = sum(values.size for values in self.weights.values())
        return f"<gnnc.Model {self.path}: {count} weights>"

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Predictions:
    """What a model says about every vertex, every graph of many, or every pair."""

    #: A row of numbers for each of them, before softmax or sigmoid.
    logits: np.ndarray
    #: What the numbers are: of a `class`, of `several` labels, or `numbers` themselves.
    labels: str
    #: Scores on the vertices with labels: `metric`, `train`, `val` and `test`; `None` if the graph has no labels.
    scores: dict[str, Any] | None

    @property
    def probabilities(self) -> np.ndarray:
        """The probability of each class or label; the numbers themselves of a regression."""
        if self.labels == "numbers":
            return self.logits
        if self.labels == "several":
            return 1 / (1 + np.exp(-self.logits))
        powers = np.exp(self.logits - self.logits.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    @property
    def classes(self) -> np.ndarray:
        """The most probable class of each; of several labels, whether it has each."""
        if self.labels == "numbers":
            raise InputError("these predictions are numbers, not classes; they are in the attribute `logits`")
        return self.logits > 0 if self.labels == "several" else self.logits.argmax(axis=1)


def given(model: Model, checkpoint: str | os.PathLike[str] | None) -> str | None:
    """Checks that there are weights to evaluate."""
    if checkpoint is None and not model.weights:
        raise InputError("the model has no weights; train it, make it with gnnc.from_torch, or name a checkpoint")
    return None if checkpoint is None else os.fspath(checkpoint)


def predict(
    model: Any,
    graph: Graph | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    last: bool = False,
    workers: int = 1,
    threads: int | None = None,
) -> Predictions:
    """What a model with weights says about the vertices (or the graphs, or the pairs) of `graph`, or of its own graph.

    checkpoint: take the weights of a run of `train` or of the command line; those of its best epoch unless `last`
    threads:    threads per worker, by default as many as there are processors
    """
    model = getattr(model, "model", model)
    model = model_of(model)
    model._fits(graph)
    checkpoint = given(model, checkpoint)
    threads = threads or threads_of(workers)
    found = _gnnc.predict(model._on(graph), native(graph), matrices(model.weights), checkpoint, last, workers, threads)
    return Predictions(np.asarray(found["logits"]), found["labels"], found["scores"])


def embeddings(
    model: Any,
    name: str,
    graph: Graph | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    last: bool = False,
    workers: int = 1,
    threads: int | None = None,
) -> np.ndarray:
    """The rows of the tensor that a model calls `name`, one for each vertex; graphs and pairs are the last vertices.

    The rest is as in `predict`.
    """
    model = getattr(model, "model", model)
    model = model_of(model)
    model._fits(graph)
    checkpoint = given(model, checkpoint)
    threads = threads or threads_of(workers)
    rows = _gnnc.rows_of(
        model._on(graph), native(graph), name, matrices(model.weights), checkpoint, last, workers, threads
    )
    return np.asarray(rows)


def threads_of(workers: int) -> int:
    """Threads of each worker, so that all together are as many as this process may use processors."""
    return max(len(os.sched_getaffinity(0)) // max(workers, 1), 1)

"""Training runs."""

from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping

import numpy as np

from . import _gnnc
from .errors import InputError
from .graph import Graph
from .model import Model, Predictions, embeddings, matrices, model_of, native, predict, threads_of, words
from .plan import Plan


@dataclass(frozen=True)
class Epoch:
    """An epoch, as callbacks get it. Scores are `None` where there are none."""

    epoch: int
    epochs: int
    loss: float
    val_loss: float | None
    metric: str | None
    train: float | None
    val: float | None
    test: float | None
    learning_rate: float
    seconds: float


#: What sees the epochs of a run.
Callback = Callable[[Epoch], Any]


class Run:
    """A training run: the trained model and what was measured."""

    def __init__(self, model: Model, graph: Graph | None, found: dict[str, Any], history: list[Epoch]) -> None:
        last, best = (
            {name: np.asarray(values) for name, values in (part or {}).items()}
            for part in (found["last"], found["best"])
        )
        #: The model with the weights of the best epoch, or of the last one if the graph has no validation vertices.
        self.model = model.with_weights(best or last)
        #: The model with the weights of the last epoch.
        self.last = model.with_weights(last)
        #: The graph it was trained on; `None` for the model's own.
        self.graph = graph
        #: What callbacks get of each epoch: `pandas.DataFrame(run.history)` is a table.
        self.history = history
        #: The loss of each epoch.
        self.losses = np.array(found["losses"])
        #: The wall time of each epoch in seconds, without evaluation.
        self.seconds = np.array(found["seconds"])
        #: Scores of the best epoch: `metric`, `train`, `val` and `test`.
        self.scores = found["scores"]
        #: The summary of `gnnc train --format json`.
        self.summary = json.loads(found["summary"])

    def predict(self, graph: Graph | None = None, **options: Any) -> Predictions:
        """`gnnc.predict` of the trained model, by default on the graph it was trained on."""
        return predict(self.model, self.graph if graph is None else graph, **options)

    def embeddings(self, name: str, graph: Graph | None = None, **options: Any) -> np.ndarray:
        """`gnnc.embeddings` of the trained model, by default on the graph it was trained on."""
        return embeddings(self.model, name, self.graph if graph is None else graph, **options)

    def to_torch(self, module: Any = None) -> Any:
        """Puts the trained weights into the PyTorch module that the model comes from, or into `module`; returns it."""
        return self.model.to_torch(module, self.graph)

    def __repr__(self) -> str:
        test = self.scores["test"]
        scored = "" if test is None else f", test {self.scores['metric']} {test:.4f}"
        return f"<gnnc.Run of {self.summary['model']}: {self.summary['epochs']} epochs{scored}>"


def train(
    model: Model | str | os.PathLike[str],
    graph: Graph | None = None,
    *,
    epochs: int | None = None,
    lr: float | None = None,
    seed: int | None = None,
    workers: int = 1,
    threads: int | None = None,
    device: str = "cpu",
    placement: str | None = None,
    cluster: str | None = None,
    allow: Iterable[str] = (),
    storage: str = "f32",
    knobs: Mapping[str, Any] | None = None,
    plan: Plan | None = None,
    evaluate_every: int = 1,
    target: float | None = None,
    callbacks: Callback | Iterable[Callback] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 100,
    resume: str | os.PathLike[str] | None = None,
) -> Run:
    """Trains a model; it begins with the model's weights, or with weights drawn from the seed if it has none.

    model:          a `Model`, its text, or its path
    graph:          a `Graph` in place of the model's own
    epochs, lr, seed: in place of those of the model's `train` block
    workers:        workers that divide the graph; threads: of each, by default as many as there are processors
    device:         `cpu`, `cuda` or `cuda:N`
    placement:      the name of a placement, or `best` for that of a plan; allow: permissions, as in `plan`
    knobs:          options of the command line by name, such as `{"batch": 1024, "fanouts": [25, 10]}` with
                    `allow=["sample"]`, or `{"wire": "int8", "slices": 2}`
    plan:           a `Plan` whose choice is followed, in place of workers, placement, allow, storage and knobs
    evaluate_every: epochs between evaluations
    target:         the validation score at which the run ends
    callbacks:      functions that get an `Epoch` after each epoch; one that returns `False` ends the run
    checkpoint:     a file to write every `checkpoint_every` epochs and at the end; resume: a checkpoint to go on from

    Ctrl-C stops the run, writes the checkpoint and raises `KeyboardInterrupt`, whose attribute `run` is the `Run` so far.
    """
    model = model_of(model)
    model._fits(graph)
    if plan is not None and (workers != 1 or placement or knobs or allow or storage != "f32" or cluster):
        raise InputError(
            "a plan fixes the workers, the placement, permissions, storage, knobs and the cluster; leave them out, or plan again "
            "with them"
        )
    chosen = None if plan is None else plan.chosen
    ranks = chosen["parameters"]["ranks"] if chosen else workers
    told = [callbacks] if callable(callbacks) else list(callbacks)

    history: list[Epoch] = []

    def watch(about: dict[str, Any]) -> bool:
        scores = about.pop("scores") or dict.fromkeys(("metric", "train", "val", "test"))
        epoch = Epoch(**about, **scores)
        history.append(epoch)
        # All of them see the epoch, also if one ends the run.
        return all([call(epoch) is not False for call in told])

    how = {
        "epochs": epochs,
        "seed": seed,
        "lr": lr,
        "workers": workers,
        "threads": threads or threads_of(ranks),
        "device": device,
        "placement": placement,
        "cluster": cluster,
        "allow": list(allow),
        "storage": storage,
        "knobs": words(knobs),
        "plan": None if plan is None else plan.json,
        "evaluate_every": evaluate_every,
        "target": target,
        "checkpoint": None if checkpoint is None else os.fspath(checkpoint),
        "checkpoint_every": checkpoint_every,
        "resume": None if resume is None else os.fspath(resume),
    }
    found, interrupted = _gnnc.train(
        model._on(graph), native(graph), matrices(model.weights), how, watch
    )
    for warning in found["warnings"]:
        warnings.warn(warning, stacklevel=2)
    run = Run(model, graph, found, history)
    if interrupted is not None:
        interrupted.run = run  # type: ignore[attr-defined]
        raise interrupted
    return run

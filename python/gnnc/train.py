"""Training runs."""

import json
import os
from dataclasses import dataclass

import numpy as np

from . import _gnnc
from .model import embeddings, matrices, model_of, native, predict, threads_of


@dataclass(frozen=True)
class Epoch:
    """An epoch, as callbacks get it. Scores are `None` where there are none."""

    epoch: int
    epochs: int
    loss: float
    val_loss: "float | None"
    metric: "str | None"
    train: "float | None"
    val: "float | None"
    test: "float | None"
    learning_rate: float
    seconds: float


class Run:
    """A training run: the trained model and what was measured."""

    def __init__(self, model, graph, found):
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
        #: The loss of each epoch.
        self.losses = np.array(found["losses"])
        #: The wall time of each epoch in seconds, without evaluation.
        self.seconds = np.array(found["seconds"])
        #: Scores of the best epoch: `metric`, `train`, `val` and `test`.
        self.scores = found["scores"]
        #: The summary of `gnnc train --format json`.
        self.summary = json.loads(found["summary"])

    def predict(self, graph=None, **options):
        """`gnnc.predict` of the trained model, by default on the graph it was trained on."""
        return predict(self.model, self.graph if graph is None else graph, **options)

    def embeddings(self, name, graph=None, **options):
        """`gnnc.embeddings` of the trained model, by default on the graph it was trained on."""
        return embeddings(self.model, name, self.graph if graph is None else graph, **options)

    def to_torch(self, module=None):
        """Puts the trained weights into the PyTorch module that the model comes from, or into `module`; returns it."""
        return self.model.to_torch(module, self.graph)

    def __repr__(self):
        test = self.scores["test"]
        scored = "" if test is None else f", test {self.scores['metric']} {test:.4f}"
        return f"<gnnc.Run of {self.summary['model']}: {self.summary['epochs']} epochs{scored}>"


def train(
    model,
    graph=None,
    *,
    epochs=None,
    lr=None,
    seed=None,
    workers=1,
    threads=None,
    device="cpu",
    placement=None,
    cluster=None,
    allow=(),
    storage="f32",
    evaluate_every=1,
    target=None,
    callbacks=(),
    checkpoint=None,
    checkpoint_every=100,
    resume=None,
):
    """Trains a model; it begins with the model's weights, or with weights drawn from the seed if it has none.

    model:          a `Model`, its text, or its path
    graph:          a `Graph` in place of the model's own
    epochs, lr, seed: in place of those of the model's `train` block
    workers:        workers that divide the graph; threads: of each, by default as many as there are processors
    device:         `cpu`, `cuda` or `cuda:N`
    placement:      the name of a placement, or `best` for that of a plan; allow: permissions, as in `plan`
    evaluate_every: epochs between evaluations
    target:         the validation score at which the run ends
    callbacks:      functions that get an `Epoch` after each epoch; one that returns `False` ends the run
    checkpoint:     a file to write every `checkpoint_every` epochs and at the end; resume: a checkpoint to go on from

    Ctrl-C stops the run, writes the checkpoint and raises `KeyboardInterrupt`, whose attribute `run` is the `Run` so far.
    """
    model = model_of(model)
    model._fits(graph)
    told = [callbacks] if callable(callbacks) else list(callbacks)

    def watch(about):
        scores = about.pop("scores") or dict.fromkeys(("metric", "train", "val", "test"))
        epoch = Epoch(**about, **scores)
        # All of them see the epoch, also if one ends the run.
        return all([call(epoch) is not False for call in told])

    how = {
        "epochs": epochs,
        "seed": seed,
        "lr": lr,
        "workers": workers,
        "threads": threads or threads_of(workers),
        "device": device,
        "placement": placement,
        "cluster": cluster,
        "allow": list(allow),
        "storage": storage,
        "evaluate_every": evaluate_every,
        "target": target,
        "checkpoint": None if checkpoint is None else os.fspath(checkpoint),
        "checkpoint_every": checkpoint_every,
        "resume": None if resume is None else os.fspath(resume),
    }
    found, interrupted = _gnnc.train(
        model._on(graph), native(graph), matrices(model.weights), how, watch if told else None
    )
    run = Run(model, graph, found)
    if interrupted is not None:
        interrupted.run = run
        raise interrupted
    return run

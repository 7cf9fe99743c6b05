"""What is trained on both devices, and what the processor answers: computed by `build`, kept in the bundle."""

import hashlib
import json
import os
import re
from pathlib import Path

from .processes import Child, say, write

EPOCHS = 5  # after which losses are compared
# The same of examples whose epochs have a step for each batch: rounding grows with every step.
EPOCHS_OF_BATCHES = 1
STALE = ["--allow", "stale"]
PLACEMENTS = {
    "graph": [],
    "tensor": [],
    "broadcast": [],
    "mixed": [],
    "push-pull": [],
    "tensor-decoupled": ["--allow", "decouple"],
    "skip-broadcast": [*STALE, "--skip", "fixed:1"],
    "pipeline": [*STALE, "--chunks", "8"],
    "hybrid": [*STALE, "--stages", "2", "--chunks", "4"],
}
# What placements have beside themselves: messages by node, sums in place of rows, fewer bits, and groups of slices.
LAYOUTS = {
    "graph on nodes of 2": ["graph", "--node-ranks", "2"],
    "graph with a joint cover": ["graph", "--cover", "joint"],
    "graph with a joint cover on nodes of 2": ["graph", "--cover", "joint", "--node-ranks", "2"],
    "graph with rows as bf16": ["graph", "--allow", "quantise", "--wire", "bf16"],
    "graph with rows as int8": ["graph", "--allow", "quantise", "--wire", "int8"],
    "graph with interior rows": ["graph", "--interior"],
    "tensor in groups of 2": ["tensor", "--slices", "2"],
    "tensor in groups of 2 with rows as int8": ["tensor", "--slices", "2", "--allow", "quantise", "--wire", "int8"],
}
LAID_OUT = ["gcn_cora", "gat_cora"]
PLACED = ["gcn_cora", "gat_cora", "gcn_8_squirrel"]
TOGETHER = [("gcn_cora", "graph"), ("gat_cora", "graph"), ("gcn_cora", "tensor"), ("gcn_cora", "push-pull")]
FIRST = ["gcn_cora", "gat_cora"]  # what is looked at before everything else
KEPT = ("train_loss", "epoch_seconds", "metric")
# Batches of the placements that train on them.
BATCHES = ["--allow", "sample", "--batch", "32", "--fanouts", "10,10"]
ON_BATCHES = {"minibatch": [], "push-pull": [], "model-migration": ["--merges", "1"]}
BATCHED = ["sage_cora", "gat_cora"]


def examples(folder):
    """Names of all examples, and whether their data are in the repository."""
    paths = sorted((folder / "examples").glob("*.gir"))
    return {path.stem: bool(re.search(r'"data/\w+\.npz"', path.read_text())) for path in paths}


def few(folder, example):
    """An example for a few epochs."""
    text = (folder / "examples" / f"{example}.gir").read_text()
    by_batch = re.search(r"^\s*batch = ", text, re.MULTILINE)
    return [example, "--epochs", str(EPOCHS_OF_BATCHES if by_batch else EPOCHS)]


def some(example):
    """An example on the whole graph for a few epochs."""
    return [example, "--epochs", str(EPOCHS)]


def placed(example, placement):
    """An example on four ranks. The default partitioner differs between processor and GPU."""
    return [*some(example), "--workers", "4", "--partitioner", "metis", "--placement", placement, *PLACEMENTS.get(placement, [])]


def laid_out(example, name):
    """An example on four ranks, in one of `LAYOUTS`."""
    placement, *options = LAYOUTS[name]
    return [*placed(example, placement), *options]


def batched(example, placement):
    """An example on sampled batches, on four ranks."""
    return [*placed(example, placement), *BATCHES, *ON_BATCHES[placement]]


def scored(said):
    """What a run says of the test vertices: the name of the metric and its value; None without one."""
    name = f"test_{said.get('metric') or 'accuracy'}"
    return (name, said[name]) if said.get(name) is not None else None


def together(example, placement):
    """An example on two ranks."""
    return [*some(example), "--workers", "2", "--partitioner", "metis", "--placement", placement]


def command(gnnc, training, words=()):
    """The command that trains it."""
    example, *rest = training
    return [gnnc, "train", f"examples/{example}.gir", *rest, *words, "--format", "json"]


def answer(child):
    """The JSON of a run that has ended, or a RuntimeError with what it said."""
    if child.late:
        raise RuntimeError(f"not done after {child.seconds:.0f} s")
    try:
        said = json.loads(child.read("out"))
    except ValueError:
        raise RuntimeError(f"{child.ending()}: {child.read('err').strip()[-400:]}") from None
    if "error" in said:
        raise RuntimeError(said["error"]["message"])
    return said


def all_of(folder):
    """Everything that the processor is asked."""
    here = [name for name, there in examples(folder).items() if there]
    wanted = [training for name in here for training in (few(folder, name), [name])]
    wanted += [placed(name, placement) for name in PLACED for placement in PLACEMENTS]
    wanted += [laid_out(name, layout) for name in LAID_OUT for layout in LAYOUTS]
    wanted += [batched(name, placement) for name in BATCHED for placement in ON_BATCHES]
    return wanted + [together(*pair) for pair in TOGETHER]


class Answers:
    """What the processor answered, by training, in a file; of one binary and one machine."""

    def __init__(self, path, gnnc):
        self.path, self.known = path, {}
        self.binary = hashlib.sha256(gnnc.read_bytes()).hexdigest()
        try:
            there = json.loads(path.read_text())
        except (OSError, ValueError):
            return
        if there.get("binary") == self.binary:
            self.known = there["answers"]

    def of(self, training):
        """The answer, if it is known."""
        return self.known.get(" ".join(training))

    def add(self, training, found):
        """Keeps an answer."""
        score = scored(found)
        kept = [*KEPT, "error", *([score[0]] if score else [])]
        self.known[" ".join(training)] = {key: found[key] for key in kept if key in found}
        write(self.path, json.dumps({"binary": self.binary, "answers": self.known}, indent=1) + "\n")


def on_processor(run, training):
    """Trains on the processor, where `run` takes a command and gives the ended process."""
    threads = [] if "--workers" in training else ["--threads", str(os.cpu_count() or 1)]
    try:
        return answer(run(threads))
    except RuntimeError as error:
        return {"error": str(error)}


def precompute(folder, path, seconds):
    """Asks the processor everything that is not known yet, each for at most so many seconds."""
    gnnc = folder / "gnnc"
    answers = Answers(path, gnnc)
    wanted = [training for training in all_of(folder) if answers.of(training) is None]
    environment = dict(os.environ)
    log = path.with_suffix(".log")
    for number, training in enumerate(wanted):

        def run(words, training=training):
            return Child(command(gnnc, training, words), folder, environment, log).wait(seconds)

        found = on_processor(run, training)
        say(f"processor, {number + 1} of {len(wanted)}: {' '.join(training)}: {found.get('error') or found['train_loss']}")
        answers.add(training, found)
    for kind in ("out", "err"):
        Path(f"{log}.{kind}").unlink(missing_ok=True)
    return answers

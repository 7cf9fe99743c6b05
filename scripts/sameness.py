#!/usr/bin/env python3
"""Losses of 50 epochs with several workers beside one worker's.

    cargo build --release && python3 scripts/sameness.py [--equal-bits] [PLACEMENT,.. [MODEL,.. [GRAPH,..]]]

Prints a table of the largest |a - b| / (1e-5 + 1e-4 |b|) over the epochs: at most 1 is the same. The last
column is a yardstick: the same for one worker whose learning rate is larger by 2 in ten million, which is
what the rounding of a sum in another order amounts to. The placement tensor-decoupled, which is not among those
taken by default, is another function than the model and compared with one worker that computes it. Exits 1 if several workers are over the limit where
the yardstick is not.

With --equal-bits the limit is 0: cells say in how many epochs the loss is another number, a placement that refuses equal
bits has a dash, and there is no yardstick. Exits 1 if any loss differs.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = {"gcn": [], "sage": [], "gat": [], "gin": [], "gcnii": ["--set", "depth=16"], "appnp": []}
GRAPHS = ["cora", "squirrel", "photo"]
PLACEMENTS = ["graph", "tensor", "broadcast", "push-pull", "mixed"]
RELAXED = ["tensor-decoupled"]
# Has no decoupled form of its own: its transforms come first already.
DECOUPLED = ["appnp"]
WORKERS = [2, 3, 4, 5, 8]
EPOCHS = 50
RATE = re.compile(r"lr = ([0-9.]+)")


REFUSES = "equal bits on any number of workers cannot be combined with"


def losses(model, graph, workers, placement="graph", file=None, equal_bits=False):
    """The losses of some epochs; None if the placement refuses equal bits."""
    allow = ["--allow", "decouple"] if placement in RELAXED else []
    command = [
        os.environ.get("GNNC") or ROOT / "target/release/gnnc", "bench-epoch", file or ROOT / f"examples/{model}_cora.gir",
        "--graph", ROOT / f"examples/data/{graph}.npz", "--workers", str(workers), "--partitioner", "metis", "--placement", placement, *allow,
        "--epochs", str(EPOCHS), "--format", "json", *MODELS[model], *(["--equal-bits"] if equal_bits else []),
    ]
    found = subprocess.run(command, capture_output=True, text=True)
    if equal_bits and REFUSES in found.stdout:
        return None
    if found.returncode:
        sys.exit(found.stdout + found.stderr)
    return json.loads(found.stdout)["losses"]


def distance(many, one):
    assert len(many) == len(one) == EPOCHS
    return max(abs(a - b) / (1e-5 + 1e-4 * abs(b)) for a, b in zip(many, one))


def nudged(model, graph, placement):
    """Losses of one worker whose learning rate is larger by 2e-7 of itself."""
    text = (ROOT / f"examples/{model}_cora.gir").read_text()
    assert RATE.search(text)
    text = RATE.sub(lambda rate: f"lr = {float(rate[1]) * (1 + 2e-7):.12f}", text)
    text = text.replace('"data/', f'"{ROOT}/examples/data/')
    with tempfile.NamedTemporaryFile("w", suffix=".gir") as file:
        file.write(text)
        file.flush()
        return losses(model, graph, 1, placement, file.name)


def equal(graphs, models, placements):
    """Prints in how many epochs losses of several workers are other numbers than one worker's; returns in how many in all."""
    print("| graph | model | placement | loss at epoch 50 |", " | ".join(f"{w} workers" for w in WORKERS), "|")
    print("| --- " * (4 + len(WORKERS)) + "|")
    differ = 0
    for graph in graphs:
        for model in models:
            one = losses(model, graph, 1, equal_bits=True)
            for placement in placements:
                many = [losses(model, graph, workers, placement, equal_bits=True) for workers in WORKERS]
                counts = [found and sum(a != b for a, b in zip(found, one, strict=True)) for found in many]
                differ += sum(count or 0 for count in counts)
                cells = " | ".join("-" if count is None else str(count) for count in counts)
                print(f"| {graph} | {model} | {placement} | {one[-1]:.6f} | {cells} |", flush=True)
    print(f"\nepochs with another loss: {differ}")
    return differ


def some(known):
    """Names of `known` with commas between them."""
    def names(text):
        unknown = [name for name in text.split(",") if name not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"found {', '.join(unknown)}, expected some of {', '.join(known)}")
        return text.split(",")
    return names


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--equal-bits", action="store_true", help="compare bit for bit")
for name, known, default in [
    ("placements", PLACEMENTS + RELAXED, PLACEMENTS), ("models", list(MODELS), list(MODELS)), ("graphs", GRAPHS, GRAPHS),
]:
    parser.add_argument(name, nargs="?", type=some(known), default=default, help=",".join(known))
chosen = parser.parse_args()
placements, models, graphs = chosen.placements, chosen.models, chosen.graphs
if chosen.equal_bits:
    sys.exit(bool(equal(graphs, models, placements)))
failed, worst = [], 0.0
print("| graph | model | placement | loss at epoch 50 |", " | ".join(f"{w} workers" for w in WORKERS), "| yardstick |")
print("| --- " * (5 + len(WORKERS)) + "|")
for graph in graphs:
    for model in models:
        alone = {}
        for placement in placements:
            if placement in RELAXED and model in DECOUPLED:
                continue
            if (placement in RELAXED) not in alone:
                one = losses(model, graph, 1, placement)
                alone[placement in RELAXED] = one, distance(nudged(model, graph, placement), one)
            one, yardstick = alone[placement in RELAXED]
            row = [distance(losses(model, graph, workers, placement), one) for workers in WORKERS]
            worst = max(worst, *row)
            if max(row) > max(1, yardstick):
                failed.append(f"{model} on {graph}, {placement}")
            cells = " | ".join(f"{value:.3f}" for value in [*row, yardstick])
            print(f"| {graph} | {model} | {placement} | {one[-1]:.6f} | {cells} |", flush=True)
print(f"\nlargest: {worst:.3f} (1 is the limit); over the limit and the yardstick: {failed or 'none'}")
sys.exit(bool(failed))

#!/usr/bin/env python3
"""Accuracy and bytes of training with copies of other ranks' embeddings beside one worker's.

    cargo build --release && python3 scripts/skipping.py [EXAMPLES [RULES [OPTION ..]]]

What stands behind an example and a comma is set, as in `gcnii_cora,depth=16`, but for graph=NAME, another graph of
examples/data, and features=plain, which are then not divided by their sums. Options are those of `gnnc train`, for all
runs, as in --epochs 200.

Prints a table: mean test accuracy (and standard deviation) over the seeds on one worker and on four that
leave out broadcasts by a rule, the share of the embeddings' bytes (all that is sent forward, and their gradients if
the rule ends in /stop) that was left out, and the same of all bytes, gradients included; the mean and the largest age of the rows that were read; what is
sent in an epoch. `graph` and `broadcast` in place of a rule are those placements, which leave nothing out.
Exits 1 if a rule loses more than a point of accuracy against one worker.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ["gcn_cora", "gcn_citeseer", "sage_cora", "gcnii_cora,depth=16", "sage_photo", "gcn_cora,dropout=0"]
RULES = ["fixed:1", "fixed:3", "adaptive:1", "adaptive:3", "gap:0.01", "gap:0.03"]
PLACEMENTS = ["graph", "broadcast"]
WORKERS, SEEDS, POINT = 4, 5, 0.01


def train(example, more):
    name, *settings = example.split(",")
    text = (ROOT / f"examples/{name}.gir").read_text().replace('"data/', f'"{ROOT}/examples/data/')
    options = ["--seeds", str(SEEDS), "--format", "json", *more]
    for setting in settings:
        key, _, value = setting.partition("=")
        if setting == "features=plain":
            text = text.replace("normalize_features = true", "normalize_features = false")
        elif key == "graph":
            options += ["--graph", ROOT / f"examples/data/{value}.npz"]
        else:
            options += ["--set", setting]
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / f"{name}.gir"
        model.write_text(text)
        gnnc = os.environ.get("GNNC") or ROOT / "target/release/gnnc"
        found = subprocess.run([gnnc, "train", model, *options], capture_output=True, text=True)
    if found.returncode:
        sys.exit(found.stdout + found.stderr)
    return json.loads(found.stdout)


def accuracy(found):
    return f"{100 * found['test_accuracy']:.2f} % ({100 * found['test_accuracy_deviation']:.2f} %)"


def ages(runs):
    """Mean and largest age of the rows that were read."""
    rows, sum_of_ages, oldest = 0, 0, 0
    for layer in (layer for run in runs for layer in run.get("staleness", {"layers": []})["layers"]):
        for age, read in layer["ages"].items():
            rows, sum_of_ages, oldest = rows + read, sum_of_ages + int(age) * read, max(oldest, int(age))
    return f"{sum_of_ages / max(1, rows):.2f}, {oldest}"


def row(example, rule, one, options):
    """A row of the table, and whether it is more than a point below one worker."""
    placed = [rule] if rule in PLACEMENTS else ["skip-broadcast", "--allow", "stale", "--skip", rule]
    four = train(example, [*options, "--workers", str(WORKERS), "--partitioner", "metis", "--placement", *placed])
    of = lambda key: sum(run.get(key, 0) for run in four["runs"])
    left, sent = of("bytes_skipped"), of("bytes_sent")
    shares = f"{100 * left / max(1, of('bytes_skippable')):.1f} % | {100 * left / (sent + left):.1f} %"
    text = (f"| {example} | {rule} | {accuracy(one)} | {accuracy(four)} | {shares} | {ages(four['runs'])} "
            f"| {sent / of('epochs') / 1024:.0f} |")
    return text, four["test_accuracy"] < one["test_accuracy"] - POINT


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="Other options are those of gnnc train, for all runs.")
    parser.add_argument("examples", nargs="?", default=" ".join(EXAMPLES), help="with blanks in between")
    parser.add_argument("rules", nargs="?", default=" ".join(RULES), help="with blanks in between")
    chosen, options = parser.parse_known_args()
    failed = []
    print("| example | rule | one worker | four workers | left out, embeddings | left out, all | ages read: mean, largest | KiB an epoch |")
    print("| --- | --- | --- | --- | --- | --- | --- | --: |", flush=True)
    for example in chosen.examples.split():
        one = train(example, options)
        for rule in chosen.rules.split():
            text, lost = row(example, rule, one, options)
            print(text, flush=True)
            failed += [f"{example} {rule}"] if lost else []
    if failed:
        sys.exit("more than a point below one worker: " + ", ".join(failed))


if __name__ == "__main__":
    main()

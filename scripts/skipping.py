#!/usr/bin/env python3
"""Accuracy and bytes of training with copies of other ranks' embeddings beside one worker's.

    cargo build --release && python3 scripts/skipping.py ['EXAMPLE EXAMPLE ..' ['RULE RULE ..']]

Prints a table: mean test accuracy (and standard deviation) over the seeds on one worker and on four that
leave out broadcasts by a rule, the share of the embeddings' bytes (all that is sent forward, and their gradients if
the rule ends in /stop) that was left out, and the same of all bytes, gradients included; the mean and the largest age of the rows that were read; what is
sent in an epoch. `graph` and `broadcast` in place of a rule are those placements, which leave nothing out.
Exits 1 if a rule loses more than a point of accuracy against one worker.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What stands behind a comma is set: `gcnii_cora,depth=16`.
EXAMPLES = ["gcn_cora", "gcn_citeseer", "sage_cora", "gcnii_cora,depth=16", "sage_photo", "gcn_cora,dropout=0"]
RULES = ["fixed:1", "fixed:3", "adaptive:1", "adaptive:3", "gap:0.01", "gap:0.03"]
PLACEMENTS = ["graph", "broadcast"]
WORKERS, SEEDS, POINT = 4, 5, 0.01


def train(example, *more):
    name, *settings = example.split(",")
    command = [
        os.environ.get("GNNC") or ROOT / "target/release/gnnc", "train", ROOT / f"examples/{name}.gir",
        "--seeds", str(SEEDS), "--format", "json", *more,
    ]
    for setting in settings:
        command += ["--set", setting]
    found = subprocess.run(command, capture_output=True, text=True)
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


chosen = [argument.split() for argument in sys.argv[1:3]]
examples, rules = chosen + [EXAMPLES, RULES][len(chosen):]
failed = []
print("| example | rule | one worker | four workers | left out, embeddings | left out, all | ages read: mean, largest | KiB an epoch |")
print("| --- | --- | --- | --- | --- | --- | --- | --: |")
for example in examples:
    one = train(example)
    for rule in rules:
        placed = [rule] if rule in PLACEMENTS else ["skip-broadcast", "--allow", "stale", "--skip", rule]
        four = train(example, "--workers", str(WORKERS), "--placement", *placed)
        of = lambda key: sum(run.get(key, 0) for run in four["runs"])
        left, sent = of("bytes_skipped"), of("bytes_sent")
        print(
            f"| {example} | {rule} | {accuracy(one)} | {accuracy(four)} | {100 * left / max(1, of('bytes_skippable')):.1f} % | "
            f"{100 * left / (sent + left):.1f} % | {ages(four['runs'])} | {sent / of('epochs') / 1024:.0f} |",
            flush=True,
        )
        if four["test_accuracy"] < one["test_accuracy"] - POINT:
            failed.append(f"{example} {rule}")
if failed:
    sys.exit("more than a point below one worker: " + ", ".join(failed))

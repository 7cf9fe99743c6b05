#!/usr/bin/env python3
"""Bytes of an epoch when models go to the features, beside fetching the features for each worker's seeds.

    scripts/migration.py                          # cora, photo, squirrel and computers, 4 and 8 workers
    scripts/migration.py --graphs cora --workers 4

All placements train the same batches with the same draws; the script checks that their losses agree. Prints a
markdown table. `dealt` is what HopGNN compares with (model-centric): each worker has a run of the batch.

`naive` is not run. It is what HopGNN warns of: in each layer that reads features, a model goes to all workers with
the partial sums of its whole run, the lists of its blocks and its weights. Of GraphSAGE that is the first layer, whose
V_1 rows take up a sum and their own features, F columns each:

    M (M - 1) (4 P + 8 F V_1 + lists) + 8 (M - 1) P

bytes of a step, with the mean of V_1 and of the lists over the runs of the first batch.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from closed_forms import call, drawn, levels  # noqa: E402  (found by the lines before)
from graphs import graph_file  # noqa: E402

# Seeds of a batch.
GRAPHS = {"cora": 140, "photo": 574, "squirrel": 624, "computers": 1032}
WAYS = [
    ("dealt", ["--placement", "minibatch", "--roots", "dealt"]),
    ("home", ["--placement", "minibatch"]),
    ("full", ["--placement", "model-migration"]),
    ("gradient", ["--placement", "model-migration", "--migrate", "gradient"]),
    ("one visit", ["--placement", "model-migration", "--merges", "LAST"]),
]


def run(gnnc, graph, workers, ways, options):
    """Loss and bytes of an epoch."""
    ways = [str(workers - 1) if word == "LAST" else word for word in ways]
    command = [gnnc, "train", ROOT / "benches/models/sage.gir", "--graph", graph_file(graph, gnnc), *ways]
    command += ["--workers", workers, "--partitioner", options.partitioner, "--allow", "sample", "--epochs", 1]
    command += ["--set", f"hidden={options.hidden}", "--batch", GRAPHS[graph], "--fanouts", options.fanouts]
    command += ["--check", "bytes", "--format", "json", "--quiet"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    assert found["bytes_sent"] == found["bytes_predicted"]
    return found["train_loss"], found["bytes_sent"]


def naive(graph, workers, options):
    """Bytes of an epoch of models that carry partial sums of features."""
    file = graph_file(graph, options.gnnc)
    stats = json.loads(call(options.gnnc, "graph", "stats", file, "--format", "json"))
    features, classes, hidden = stats["features"], stats["classes"], options.hidden
    seeds, hops = drawn(options, file, GRAPHS[graph])
    runs = [seeds[rank * len(seeds) // workers : (rank + 1) * len(seeds) // workers] for rank in range(workers)]
    carried = 0
    for run_of_rank in runs:
        found, edges = levels(run_of_rank, hops)
        lists = sum(len(level) + 1 for level in found) + sum(edges)
        carried += 4 * lists + 8 * features * len(found[1])
    weights = 2 * features * hidden + hidden + 2 * hidden * classes + classes
    steps = -(-stats["split"][0] // GRAPHS[graph])
    return steps * (workers - 1) * (carried + 4 * workers * weights + 8 * weights)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--graphs", nargs="*", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--workers", nargs="*", type=int, default=[4, 8])
    parser.add_argument("--partitioner", default="metis")
    parser.add_argument("--fanouts", default="10,10")
    parser.add_argument("--hidden", type=int, default=16)
    options = parser.parse_args()
    names = [name for name, _ in WAYS]
    print(f"| graph | workers | {' | '.join(names)} | naive | full / dealt |")
    print("| --- " * (len(names) + 4) + "|")
    for graph in options.graphs:
        for workers in options.workers:
            found = {name: run(options.gnnc, graph, workers, ways, options) for name, ways in WAYS}
            first = found["home"][0]
            assert all(abs(loss - first) < 1e-5 * first for loss, _ in found.values()), found
            sent = {name: bytes_sent / 1e6 for name, (_, bytes_sent) in found.items()}
            cells = " | ".join(f"{sent[name]:.1f}" for name in names)
            carried = naive(graph, workers, options) / 1e6
            print(f"| {graph} | {workers} | {cells} | {carried:.1f} | {sent['full'] / sent['dealt']:.2f} |", flush=True)


main()

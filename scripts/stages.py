#!/usr/bin/env python3
"""Predicted and measured timelines of pipelines with two stages on this machine, side by side.

    cargo build --release && target/release/gnnc calibrate --out target/bench/machine.toml
    python3 scripts/stages.py [--machine FILE] [--rounds 10]

For each row: the epoch, its parts (computing, exposed communication, bubble; mean over the ranks, of the
median epoch) and the memory of the worst rank that a plan for the calibrated machine predicts, and those
that a run on two cores has. A bubble is what is left of an epoch on a rank when computing and exposed
communication are taken away. Times are in milliseconds. All rows run once a round, so that an hour
in which others slow the machine down is one of all rows; of the runs of a row those with the faster half of epochs
count, each part with its median. Prints a markdown table.
Needs Python 3.9 and nothing else.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The model, the graph, what is set, chunks and runs of layers of each stage.
ROWS = [
    ("gcnii_32_squirrel", "squirrel", {"hidden": 128, "depth": 8}, 4, 1),
    ("gcnii_32_squirrel", "squirrel", {"hidden": 128, "depth": 8}, 4, 2),
    ("gcnii_32_squirrel", "squirrel", {"hidden": 128, "depth": 8}, 8, 1),
    ("gcnii_32_squirrel", "photo", {"hidden": 256, "depth": 8}, 4, 1),
    ("gcnii_32_squirrel", "photo", {"hidden": 256, "depth": 8}, 4, 2),
    ("gcnii_32_squirrel", "photo", {"hidden": 256, "depth": 8}, 8, 1),
    ("res_plus_32_photo", "squirrel", {"hidden": 256, "depth": 8}, 8, 1),
    ("res_plus_32_photo", "photo", {"hidden": 256, "depth": 8}, 8, 1),
]


def gnnc(*arguments):
    command = [os.environ.get("GNNC") or ROOT / "target/release/gnnc", *arguments, "--format", "json"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def parts(total, side):
    """Seconds of the epoch, computing, exposed communication and bubble."""
    epoch = total["seconds"][side]
    compute, copy, network, _host = (resource[side] for resource in total["resources"])
    return epoch, compute + copy, network, epoch - compute - copy - network


class Row:
    """One line of the table: what the plan predicts, and what runs measure."""

    def __init__(self, number, model, graph, sets, chunks, turns, options, folder):
        self.name = f"{model.split('_32')[0]}, {sets['depth']} layers of {sets['hidden']} | {graph} | {chunks} | {turns}"
        self.planned, self.measured = folder / f"planned{number}.json", folder / "measured.json"
        base = [ROOT / f"examples/{model}.gir", "--graph", ROOT / f"examples/data/{graph}.npz"]
        for name, value in sets.items():
            base += ["--set", f"{name}={value}"]
        plan = gnnc("plan", *base, "--cluster", options.machine, "--allow", "stale", "--trace", self.planned,
                    "--pin", f"placement=pipeline,ranks=2,stages=2,chunks={chunks},virtual-stages={turns}")
        chosen = plan["candidates"][plan["chosen"]]
        self.asked = [*base, "--placement", "pipeline", "--allow", "stale", "--workers", "2", "--stages", "2", "--virtual-stages", turns,
                      "--layers", ",".join(map(str, chosen["parameters"]["layers"])), "--chunks", chunks,
                      "--epochs", options.epochs, "--evaluate-every", options.epochs, "--trace", self.measured]
        self.memory, self.runs = [chosen["peak_memory_bytes"], 0], []

    def run(self):
        run = gnnc("train", *self.asked)
        self.memory[1] = max(self.memory[1], run["peak_memory_bytes"])
        totals = gnnc("trace", "diff", self.planned, self.measured)["totals"]
        step = next(total for total in totals if total["phase"] == "step")
        self.predicted = parts(step, 0)
        self.runs.append(parts(step, 1))

    def line(self):
        quiet = sorted(self.runs)[: (len(self.runs) + 1) // 2]
        measured = [statistics.median(part) for part in zip(*quiet)]
        cells = [f"{1e3 * self.predicted[i]:.{2 if i == 2 else 1}f} / {1e3 * measured[i]:.{2 if i == 2 else 1}f}" for i in (1, 2, 3, 0)]
        cells.append(" / ".join(f"{size / 2**20:.1f}" for size in self.memory))
        return f"| {self.name} | {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", default=ROOT / "target/bench/machine.toml", help="of gnnc calibrate")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = [Row(number, *row, options, Path(folder)) for number, row in enumerate(ROWS)]
        for _ in range(options.rounds):
            for row in rows:
                row.run()
    print("| model | graph | chunks | runs | computing ms | exposed ms | bubble ms | epoch ms | memory MiB |")
    print("| --- | --- | --: | --: | --: | --: | --: | --: | --: |")
    for row in rows:
        print(row.line())


if __name__ == "__main__":
    main()

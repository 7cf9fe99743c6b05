#!/usr/bin/env python3
"""Predicted and measured timelines of pipelines with two stages on this machine, side by side.

    cargo build --release && target/release/gnnc calibrate --out target/bench/machine.toml
    python3 scripts/stages.py [--machine FILE] [--rounds 5]

For each row: the epoch, its parts (computing, exposed communication, bubble; mean over the ranks, of the
median epoch) and the memory of the worst rank that a plan for the calibrated machine predicts, and those
that a run on two cores has. A bubble is what is left of an epoch on a rank when computing and exposed
communication are taken away. Times are in milliseconds. Runs are repeated and those with the faster half of
epochs count, each part with its median: others on the machine only make it slower. Prints a markdown table.
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


def row(model, graph, sets, chunks, turns, options, folder):
    base = [ROOT / f"examples/{model}.gir", "--graph", ROOT / f"examples/data/{graph}.npz"]
    for name, value in sets.items():
        base += ["--set", f"{name}={value}"]
    planned, measured = folder / "planned.json", folder / "measured.json"
    plan = gnnc("plan", *base, "--cluster", options.machine, "--allow", "stale", "--trace", planned,
                "--pin", f"placement=pipeline,ranks=2,stages=2,chunks={chunks},turns={turns}")
    chosen = plan["candidates"][plan["chosen"]]
    runs, memory = [], 0
    for _ in range(options.rounds):
        run = gnnc("train", *base, "--placement", "pipeline", "--allow", "stale", "--workers", "2", "--stages", "2", "--turns", str(turns),
                   "--layers", ",".join(map(str, chosen["parameters"]["layers"])), "--chunks", str(chunks),
                   "--epochs", str(options.epochs), "--evaluate-every", str(options.epochs), "--trace", measured)
        totals = gnnc("trace", "diff", planned, measured)["totals"]
        step = next(total for total in totals if total["phase"] == "step")
        runs.append(parts(step, 1))
        memory = max(memory, run["peak_memory_bytes"])
    quiet = sorted(runs)[: (len(runs) + 1) // 2]
    return parts(step, 0), [statistics.median(part) for part in zip(*quiet)], chosen["peak_memory_bytes"], memory


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", default=ROOT / "target/bench/machine.toml", help="of gnnc calibrate")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    print("| model | graph | chunks | runs | computing ms | exposed ms | bubble ms | epoch ms | memory MiB |")
    print("| --- | --- | --: | --: | --: | --: | --: | --: | --: |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for model, graph, sets, chunks, turns in ROWS:
            planned, measured, *memory = row(model, graph, sets, chunks, turns, options, Path(folder))
            cells = [f"{1e3 * planned[i]:.{2 if i == 2 else 1}f} / {1e3 * measured[i]:.{2 if i == 2 else 1}f}" for i in (1, 2, 3, 0)]
            cells.append(" / ".join(f"{size / 2**20:.1f}" for size in memory))
            name = f"{model.split('_32')[0]}, {sets['depth']} layers of {sets['hidden']}"
            print(f"| {name} | {graph} | {chunks} | {turns} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Epochs on sampled batches as planned for this machine, beside measured ones.

    cargo build --release
    target/release/gnnc calibrate --ranks 2 --out target/bench/machine.toml
    python3 scripts/forecasts.py --machine target/bench/machine.toml [--turns 2]

GraphSAGE on graphs that no calibration measures, with one worker and with two. The shortest epoch of all turns counts.
Prints a markdown table, and how many forecasts are within their printed range and within 25 %. Needs Python 3.9 and
nothing else.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from graphs import graph_file  # noqa: E402  (found by the line before)

MODEL = ROOT / "benches/models/sage.gir"
# Graph, seeds of a batch, fanouts.
CASES = [
    ("photo", 512, "10,10"),
    ("photo", 1024, "25,10"),
    ("squirrel", 624, "10,10"),
    ("computers", 1032, "10,5"),
    ("minesweeper", 1000, "10,10"),
]


def call(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--machine", default=ROOT / "target/bench/machine.toml", type=Path)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--hidden", type=int, nargs="*", default=[16, 128])
    options = parser.parse_args()
    print("| graph | batch | fanouts | workers | samplers | hidden | planned ms | measured ms | planned / measured |")
    print("| --- | --: | --- | --: | --: | --: | --: | --: | --: |")
    ratios, inside = [], 0
    for graph, batch, fanouts in CASES:
        file = graph_file(graph, options.gnnc)
        for workers, samplers in ((1, 0), (1, 1), (2, 0)):
            for hidden in options.hidden:
                common = ["--graph", file, "--set", f"hidden={hidden}", "--batch", batch, "--fanouts", fanouts]
                common += ["--samplers", samplers, "--allow", "sample", "--format", "json"]
                pin = f"placement=minibatch,ranks={workers},partitioner=metis"
                plan = call(options.gnnc, "plan", MODEL, *common, "--cluster", options.machine, "--gpus", workers, "--pin", pin)
                without = [one for one in plan["candidates"] if not one["parameters"]["sampling"].get("cache")]
                planned, within = without[0]["epoch_seconds"], without[0]["range"]
                train = ["--placement", "minibatch", "--workers", workers, "--partitioner", "metis"]
                train += ["--epochs", 6, "--evaluate-every", 100]
                turns = range(options.turns)
                measured = min(call(options.gnnc, "train", MODEL, *common, *train)["epoch_seconds"] for _ in turns)
                ratios.append(planned / measured)
                inside += within["low"] <= measured <= within["high"]
                cells = [graph, batch, fanouts, workers, samplers, hidden, f"{1e3 * planned:.1f}", f"{1e3 * measured:.1f}", f"{ratios[-1]:.2f}"]
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    near = sum(0.8 <= ratio <= 1.25 for ratio in ratios)
    print(f"\nmedian {statistics.median(ratios):.2f}; {inside} of {len(ratios)} in the printed range, {near} within 25 %")


if __name__ == "__main__":
    main()

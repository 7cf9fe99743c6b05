#!/usr/bin/env python3
"""From which hidden width push-pull is worse than fetching features, as measured on this machine and as planned.

    cargo build --release && target/release/gnnc calibrate --out target/bench/machine.toml
    python3 scripts/crossover.py [--machine FILE] [--widths 4 16 64 256]

Trains two-layer GraphSAGE on batches with both placements, for each width, and plans both on the calibrated machine.
Placements take turns; the fastest epoch of all turns counts. Prints a markdown table and, for bytes and seconds, the
width at which both cost the same, by interpolation between widths on a logarithmic scale. Needs Python 3.9 and nothing
else.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACEMENTS = ("minibatch", "push-pull")


def gnnc(options, *arguments):
    command = [str(part) for part in (options.gnnc, *arguments, "--format", "json")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def batches(options, width):
    return ["--set", f"hidden={width}", "--batch", options.batch, "--fanouts", "10,10"]


def measured(options, placement, width):
    run = gnnc(
        options, "train", options.model, "--placement", placement, "--workers", options.workers, "--epochs", 6,
        "--evaluate-every", 100, "--allow", "sample", "--partitioner", "metis", *batches(options, width),
    )  # fmt: skip
    return {"seconds": run["epoch_seconds"], "bytes": run["bytes_sent"] / run["epochs"]}


def planned(options, placement, width):
    pin = f"placement={placement},ranks={options.workers}"
    plan = gnnc(
        options, "plan", options.model, "--cluster", options.machine, "--gpus", options.workers, "--allow", "sample",
        "--pin", pin, *batches(options, width),
    )  # fmt: skip
    for one in plan["candidates"]:
        sampling = one["parameters"].get("sampling")
        if sampling and not {"slices", "cache"} & sampling.keys() and one["parameters"].get("partitioner") == "metis":
            return {"seconds": one["epoch_seconds"], "bytes": one["bytes"]}
    sys.exit(f"no plan of {placement} with hidden {width}")


def crossing(widths, ratios):
    """The width at which push-pull costs as much as fetching."""
    known = list(zip(widths, ratios))
    for (low, below), (high, above) in zip(known, known[1:]):
        if below <= 1 < above:
            share = -math.log(below) / (math.log(above) - math.log(below))
            return f"{math.exp(math.log(low) + share * (math.log(high) - math.log(low))):.0f}"
    return f"above {widths[-1]}" if ratios[-1] <= 1 else f"below {widths[0]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=os.environ.get("GNNC") or ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--machine", default=ROOT / "target/bench/machine.toml", type=Path)
    parser.add_argument("--model", default=ROOT / "examples/sage_photo.gir", type=Path)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--widths", type=int, nargs="*", default=[4, 16, 64, 256, 1024])
    options = parser.parse_args()
    kinds = [("measured", "bytes"), ("planned", "bytes"), ("measured", "seconds"), ("planned", "seconds")]
    ratios = {kind: [] for kind in kinds}
    print("| hidden | MiB, minibatch | MiB, push-pull | planned MiB | ms, minibatch | ms, push-pull | planned ms |")
    print("| --: | --: | --: | --: | --: | --: | --: |")
    for width in options.widths:
        best = {}
        for _ in range(options.turns):
            for placement in PLACEMENTS:
                run = measured(options, placement, width)
                seconds = min(run["seconds"], best.get(placement, run)["seconds"])
                best[placement] = {**run, "seconds": seconds}
        plans = {placement: planned(options, placement, width) for placement in PLACEMENTS}
        for name, costs in (("measured", best), ("planned", plans)):
            for what in ("bytes", "seconds"):
                ratios[name, what].append(costs["push-pull"][what] / costs["minibatch"][what])
        mib = [f"{best[one]['bytes'] / 2**20:.2f}" for one in PLACEMENTS]
        ms = [f"{best[one]['seconds'] * 1e3:.1f}" for one in PLACEMENTS]
        planned_mib = ", ".join(f"{plans[one]['bytes'] / 2**20:.2f}" for one in PLACEMENTS)
        planned_ms = ", ".join(f"{plans[one]['seconds'] * 1e3:.1f}" for one in PLACEMENTS)
        print(f"| {width} | {mib[0]} | {mib[1]} | {planned_mib} | {ms[0]} | {ms[1]} | {planned_ms} |", flush=True)
    print()
    for name, what in kinds:
        print(f"- {what}, {name}: both cost the same with {crossing(options.widths, ratios[name, what])} hidden columns")


if __name__ == "__main__":
    main()

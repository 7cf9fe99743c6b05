#!/usr/bin/env python3
"""The memory that plans of sampled batches promise, over what runs report.

    cargo build --release
    python3 scripts/memory.py           # a few minutes, once the graph of the benchmarks is there

Trains two epochs of GraphSAGE with an evaluation on the arxiv-like graph, fanouts 25,10, batches of
1000 seeds, on METIS parts; evaluations run over the whole graph, or over batches with fanouts 20,20.
Prints a markdown table.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from graphs import graph_file  # noqa: E402  (found by the line before)

MODEL = ROOT / "benches" / "models" / "sage.gir"
BATCHES = ["--allow", "sample,stale", "--batch", "1000", "--fanouts", "25,10"]
WAYS = [
    ("minibatch", ""),
    ("push-pull", ""),
    ("push-pull", "--delay 2"),
    ("push-pull", "--delay 3"),
    ("push-pull", "--slices 1"),
    ("push-pull", "--slices 2"),
    ("minibatch", "--eval-fanouts 20,20"),
    ("push-pull", "--eval-fanouts 20,20"),
    ("push-pull", "--eval-fanouts 20,20 --slices 2"),
]


def answer(gnnc, *command):
    """What gnnc answers in JSON."""
    command = [gnnc, *command, *BATCHES, "--format", "json"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--workers", nargs="*", default=[2, 4], type=int)
    options = parser.parse_args()
    file = graph_file("arxiv-like", options.gnnc)
    if file is None:
        sys.exit(1)
    print("| placement | options | workers | planned MiB | reported MiB | planned / reported |")
    print("| --- | --- | --: | --: | --: | --: |")
    for (placement, more), workers in ((way, workers) for way in WAYS for workers in options.workers):
        what = [MODEL, "--graph", file, *more.split()]
        if placement == "push-pull" and "--slices" not in more:
            what += ["--slices", workers]
        pin = f"placement={placement},ranks={workers},partitioner=metis"
        plan = answer(options.gnnc, "plan", *what, "--cluster", "cpu", "--gpus", workers, "--pin", pin)
        planned = next(c for c in plan["candidates"] if "sampling" in c["parameters"])["peak_memory_bytes"]
        run = answer(options.gnnc, "train", *what, "--placement", placement, "--workers", workers,
                     "--partitioner", "metis", "--epochs", 2)
        reported = run["peak_memory_bytes"]
        shown = f"`{more}`" if more else ""
        cells = [placement, shown, workers, f"{planned / 2**20:.1f}", f"{reported / 2**20:.1f}", f"{planned / reported:.4f}"]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()

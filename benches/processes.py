#!/usr/bin/env python3
"""Epochs of workers in processes beside those of workers that are threads.

    cargo build --release && python3 benches/processes.py [--turns 5] [--workers 2,4]

Trains each model with as many workers in one process and in processes that mpirun starts, in turns, and prints a markdown table of
the median epochs, without evaluation, and of the median of their quotients.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GNNC = os.environ.get("GNNC") or ROOT / "target/release/gnnc"
# Open MPI refuses more processes than cores, and the system's administrator.
os.environ.update(
    OMPI_MCA_rmaps_base_oversubscribe="1",
    PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
    OMPI_ALLOW_RUN_AS_ROOT="1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
)
SAMPLED = ["--allow", "sample", "--batch", "256", "--fanouts", "10,10"]
CASES = {
    "GCN, squirrel, graph": ("gcn_cora", "squirrel", []),
    "GCN, squirrel, tensor": ("gcn_cora", "squirrel", ["--placement", "tensor"]),
    "GAT, photo, graph": ("gat_cora", "photo", []),
    "GraphSAGE, photo, minibatch": ("sage_cora", "photo", ["--placement", "minibatch", *SAMPLED]),
    "GraphSAGE, photo, push-pull on batches": ("sage_cora", "photo", ["--placement", "push-pull", *SAMPLED]),
}


def epoch(before, workers, model, graph, more):
    train = [GNNC, "train", ROOT / f"examples/{model}.gir", "--graph", ROOT / f"examples/data/{graph}.npz", "--epochs", "12"]
    train += ["--evaluate-every", "12", "--workers", workers, "--format", "json", *more]
    found = subprocess.run([str(part) for part in [*before, *train]], capture_output=True, text=True)
    if found.returncode:
        sys.exit(found.stdout + found.stderr)
    return json.loads(found.stdout)["epoch_seconds"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--turns", type=int, default=5)
    arguments.add_argument("--workers", default="2,4")
    options = arguments.parse_args()
    print("| model, graph, placement | workers | threads | processes | processes / threads |\n| --- | --: | --: | --: | --: |")
    for name, case in CASES.items():
        for workers in map(int, options.workers.split(",")):
            turns = [(epoch([], workers, *case), epoch(["mpirun", "-n", workers], workers, *case)) for _ in range(options.turns)]
            threads, processes = ([1e3 * turn[way] for turn in turns] for way in (0, 1))
            quotient = statistics.median(many / one for one, many in zip(threads, processes))
            medians = " | ".join(f"{statistics.median(times):.2f} ms" for times in (threads, processes))
            print(f"| {name} | {workers} | {medians} | {quotient:.2f} |", flush=True)


if __name__ == "__main__":
    main()

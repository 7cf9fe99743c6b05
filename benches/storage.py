#!/usr/bin/env python3
"""Epochs on the processor with tensors in 32 and in 16 bits, in turns; prints a table.

Python 3.9 or newer, no packages. The RMAT graph is the one of benches/epoch.py, which makes it.
"""

import argparse
import json
import statistics
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STORAGES = ["f32", "bf16", "f16"]


def numbers(text):
    return [int(part) for part in text.split(",")]


def epoch(options, model, hidden, storage):
    """Median seconds of an epoch of one run, and bytes of its memory."""
    command = [options.gnnc, "bench-epoch", ROOT / "benches" / "models" / f"{model}.gir"]
    command += ["--graph", options.graph, "--set", f"hidden={hidden}", "--storage", storage]
    command += ["--epochs", options.epochs, "--threads", options.threads, "--format", "json"]
    answer = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True)
    found = json.loads(answer.stdout)
    return statistics.median(found["epoch_seconds"][1:]), found["peak_memory_bytes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target" / "release" / "gnnc")
    parser.add_argument("--graph", default=ROOT / "target" / "bench" / "rmat.npz")
    parser.add_argument("--models", type=lambda text: text.split(","), default=["gcn", "sage", "gat"])
    parser.add_argument("--hidden", type=numbers, default=[64, 256])
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print("| model | hidden | f32 | bf16 | f16 | memory f32, bf16 |")
    print("| --- | --- | --- | --- | --- | --- |")
    for model in options.models:
        for hidden in options.hidden:
            seconds, memory = {storage: [] for storage in STORAGES}, {}
            for _ in range(options.rounds):
                for storage in STORAGES:
                    found, memory[storage] = epoch(options, model, hidden, storage)
                    seconds[storage].append(found)
            median = {storage: statistics.median(found) for storage, found in seconds.items()}
            of = {storage: f"{1e3 * median[storage]:.0f} ms ({median[storage] / median['f32']:.2f})" for storage in STORAGES[1:]}
            mib = [f"{memory[storage] / 2**20:.0f}" for storage in STORAGES[:2]]
            print(f"| {model} | {hidden} | {1e3 * median['f32']:.0f} ms | {of['bf16']} | {of['f16']} | {mib[0]}, {mib[1]} MiB |", flush=True)


if __name__ == "__main__":
    main()

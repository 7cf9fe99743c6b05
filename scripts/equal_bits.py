#!/usr/bin/env python3
"""What equal bits on any number of workers cost: epochs with --equal-bits beside those without.

    cargo build --release && python3 scripts/equal_bits.py [--workers 1,2] [--threads 1] [--rounds 7]
        [--models gcn,sage] [--graphs cora,photo] [--set NAME=VALUE]

Both are timed in turns of a second by one process each, so both meet the same load. Prints a table of the median epoch
of each and of the median ratio over the turns, with the smallest and the largest ratio.
"""

import argparse
import json
import os
import statistics
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GNNC = os.environ.get("GNNC") or ROOT / "target/release/gnnc"
SECONDS = 1.0


def names(text):
    return text.split(",")


def numbers(text):
    return [int(number) for number in text.split(",")]


def started(model, graph, workers, threads, settings, equal_bits):
    file = next(path for path in (Path(graph), ROOT / f"examples/data/{graph}.npz") if path.exists())
    command = [
        GNNC, "bench-epoch", ROOT / f"examples/{model}_cora.gir", "--graph", file, "--workers", str(workers),
        "--threads", str(threads), "--interleave", *[word for one in settings for word in ("--set", one)],
        *(["--equal-bits"] if equal_bits else []),
    ]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def turn(process):
    """The median epoch of a turn, in milliseconds."""
    process.stdin.write(f"{SECONDS}\n")
    process.stdin.flush()
    return 1000 * statistics.median(json.loads(process.stdout.readline()))


def compared(*case, rounds):
    processes = [started(*case, equal_bits) for equal_bits in (False, True)]
    try:
        for process in processes:
            turn(process)
        return [[turn(process) for process in processes] for _ in range(rounds)]
    finally:
        for process in processes:
            process.stdin.close()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=numbers, default=[1, 2], metavar="N,..")
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--rounds", type=int, default=7, metavar="N")
    parser.add_argument("--models", type=names, default=["gcn", "sage", "gat", "gin", "gcnii", "appnp"], metavar="NAME,..")
    parser.add_argument("--graphs", type=names, default=["cora", "squirrel", "photo"], metavar="NAME,..")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    chosen = parser.parse_args()
    print("| graph | model | workers | epoch, ms | with equal bits, ms | ratio | from, to |")
    print("| --- | --- | --- | --: | --: | --: | --- |")
    ratios = []
    for graph in chosen.graphs:
        for model in chosen.models:
            for workers in chosen.workers:
                turns = compared(model, graph, workers, chosen.threads, chosen.set, rounds=chosen.rounds)
                plain, equal = (statistics.median(column) for column in zip(*turns))
                each = sorted(two / one for one, two in turns)
                ratios.append(statistics.median(each))
                span = f"{each[0]:.2f}, {each[-1]:.2f}"
                print(f"| {Path(graph).stem} | {model} | {workers} | {plain:.2f} | {equal:.2f} | {ratios[-1]:.3f} | {span} |", flush=True)
    print(f"\ngeometric mean of the ratios: {statistics.geometric_mean(ratios):.3f}; largest: {max(ratios):.3f}")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Epochs of two builds of gnnc, trained by turns; prints a table of times and their ratio.

    benches/builds.py OLD NEW                     # binaries
    benches/builds.py OLD NEW --rows 'gat .* 64'  # models, graphs and widths that match

Python 3.9 or newer, no packages. The graphs are those of benches/epoch.py; one that is not there is left out.
"""

import argparse
import itertools
import json
import re
import statistics
import subprocess
from pathlib import Path

from epoch import GRAPHS, MODELS
from graphs import graph_file

ROOT = Path(__file__).resolve().parent.parent


class Runner:
    """A training run that does epochs when asked; `options` are further ones of `gnnc bench-epoch`."""

    def __init__(self, binary, model, graph, hidden, options):
        command = [binary, "bench-epoch", ROOT / "benches/models" / f"{model}.gir", "--interleave", "--format", "json"]
        command += ["--graph", graph, "--set", f"hidden={hidden}", *options]
        command = [str(part) for part in command]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self, seconds):
        print(seconds, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def row(options, model, graph, hidden):
    """Medians and shortest epochs of both builds, in seconds, and the median of the rounds' ratios."""
    more = ["--threads", options.threads, "--no-cache"]
    runners = [Runner(binary, model, graph, hidden, more) for binary in (options.old, options.new)]
    times = ([], [])
    ratios = []
    for number in range(options.rounds):
        medians = [0.0, 0.0]
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            found = runners[which].turn(options.seconds)
            times[which].extend(found)
            medians[which] = statistics.median(found)
        ratios.append(medians[1] / medians[0])
    for runner in runners:
        runner.end()
    return [statistics.median(found) for found in times], [min(found) for found in times], statistics.median(ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="a gnnc binary")
    parser.add_argument("new", help="another one")
    parser.add_argument("--rows", default="", help="regular expression on 'model graph hidden'")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print("| model | graph | hidden | old ms | new ms | new / old, shortest | new / old, rounds |")
    print("| --- | --- | --: | --: | --: | --: | --: |")
    for model, graph, hidden in itertools.product(MODELS, GRAPHS, [16, 64, 256]):
        if not re.search(options.rows, f"{model} {graph} {hidden}"):
            continue
        if file := graph_file(graph, Path(options.new)):
            medians, shortest, rounds = row(options, model, file, hidden)
            times = " | ".join(f"{1e3 * seconds:.2f}" for seconds in medians)
            print(f"| {model} | {graph} | {hidden} | {times} | {shortest[1] / shortest[0]:.3f} | {rounds:.3f} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Epochs of a run on several threads, one for each partitioner, trained by turns; prints a table of times.

    cargo build --release
    benches/partitioners.py                       # 2 workers
    benches/partitioners.py --rows 'gat .*' --workers 4

Python 3.9 or newer, no packages. The graphs are those of benches/graphs.py; one that is not there is left out.
"""

import argparse
import json
import re
import statistics
import subprocess
from pathlib import Path

from builds import Runner
from graphs import ROOT, graph_file

PARTITIONERS = ["metis", "metis-edges", "hash"]
GRAPHS, MODELS = ["cora", "photo", "squirrel", "arxiv-like", "reddit-like"], ["gcn", "sage", "gat"]


def facts(gnnc, file, workers):
    """The replication factor and the imbalance in edges of each partitioner's parts."""
    found = []
    for name in PARTITIONERS:
        command = [gnnc, "graph", "partition", file, "--parts", workers, "--partitioner", name, "--format", "json"]
        answer = json.loads(subprocess.run(list(map(str, command)), capture_output=True, check=True, text=True).stdout)
        found.append(f"{answer['alpha']:.2f}, {answer['edge_balance']:.2f}")
    return found


def row(options, model, file):
    """Median epochs in seconds, and the median of the rounds' ratios to the first partitioner."""
    more = ["--workers", options.workers, "--partitioner"]
    runners = [Runner(options.gnnc, model, file, options.hidden, [*more, name]) for name in PARTITIONERS]
    times, ratios = [[] for _ in runners], [[] for _ in runners]
    for number in range(options.rounds):
        medians = [0.0] * len(runners)
        # A different one goes first each round.
        for which in [(number + place) % len(runners) for place in range(len(runners))]:
            found = runners[which].turn(options.seconds)
            times[which].extend(found)
            medians[which] = statistics.median(found)
        for which, median in enumerate(medians):
            ratios[which].append(median / medians[0])
    for runner in runners:
        runner.end()
    return [statistics.median(found) for found in times], [statistics.median(found) for found in ratios]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", type=Path, default=ROOT / "target" / "release" / "gnnc", help="the binary")
    parser.add_argument("--rows", default="", help="regular expression on 'model graph'")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=64)
    options = parser.parse_args()
    heads = [f"{name} ms" for name in PARTITIONERS] + [f"{name} / metis" for name in PARTITIONERS[1:]]
    heads += [f"{name}: α, imbalance" for name in PARTITIONERS]
    print(f"| graph | model | {' | '.join(heads)} |")
    print(f"| --- | --- |{' --: |' * len(heads)}")
    for graph in GRAPHS:
        models = [model for model in MODELS if re.search(options.rows, f"{model} {graph}")]
        file = graph_file(graph, options.gnnc) if models else None
        if not file:
            continue
        about = facts(options.gnnc, file, options.workers)
        for model in models:
            medians, ratios = row(options, model, file)
            cells = [f"{1e3 * seconds:.2f}" for seconds in medians] + [f"{ratio:.2f}" for ratio in ratios[1:]]
            print(f"| {graph} | {model} | {' | '.join(cells + about)} |", flush=True)


if __name__ == "__main__":
    main()

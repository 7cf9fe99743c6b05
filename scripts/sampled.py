#!/usr/bin/env python3
"""Test accuracies of models trained on sampled neighbors beside those trained on all neighbors.

    scripts/sampled.py                            # all graphs and models; --seeds 3 for a look
    scripts/sampled.py --graphs cora --models gcn

Both train on the same batches of seeds with the same steps, and are evaluated on the whole graph. Prints a
markdown table of means, standard deviations and medians over seeds.

    scripts/sampled.py --eval-fanouts 10,10       # evaluations on the whole graph beside those on batches

Then both columns are evaluations of the same runs, which train with --fanouts.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from graphs import graph_file  # noqa: E402  (found by the line before)

# Seeds of a batch, and epochs: about as many steps on each graph.
GRAPHS = {"cora": (35, 50), "squirrel": (312, 30), "photo": (574, 25), "computers": (1032, 25)}
MODELS = ["sage", "gcn", "gat"]


def accuracy(gnnc, model, graph, fanouts, options, evaluation=None):
    """(mean, standard deviation, median) of the test accuracy."""
    batch, epochs = GRAPHS[graph]
    command = [gnnc, "train", ROOT / "benches/models" / f"{model}.gir", "--graph", graph_file(graph, gnnc)]
    command += ["--set", f"hidden={options.hidden}", "--placement", "minibatch", "--allow", "sample"]
    command += ["--batch", batch, "--fanouts", fanouts, "--epochs", epochs, "--seeds", options.seeds]
    command += ["--threads", options.threads, "--format", "json"]
    command += ["--eval-fanouts", evaluation] if evaluation else []
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    median = statistics.median(run["test_accuracy"] for run in found["runs"])
    return found["test_accuracy"], found["test_accuracy_deviation"], median


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--graphs", nargs="*", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--models", nargs="*", default=MODELS, choices=MODELS)
    parser.add_argument("--fanouts", default="10,10")
    parser.add_argument("--eval-fanouts")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    evaluation = options.eval_fanouts
    columns = ["all neighbors", f"fanouts {options.fanouts}"]
    if evaluation:
        columns = ["evaluated on the whole graph", f"evaluated with fanouts {evaluation}"]
    print(f"| graph | model | {columns[0]} | {columns[1]} | difference | of medians |")
    print("| --- | --- | --- | --- | --: | --: |")
    for graph, model in itertools.product(options.graphs, options.models):
        if graph_file(graph, options.gnnc) is None:
            continue
        ways = [("all,all", None), (options.fanouts, None)]
        if evaluation:
            ways = [(options.fanouts, None), (options.fanouts, evaluation)]
        whole, some = (accuracy(options.gnnc, model, graph, fanouts, options, how) for fanouts, how in ways)
        cells = [f"{100 * mean:.2f} % ({100 * spread:.2f} %)" for mean, spread, _ in (whole, some)]
        cells += [f"{100 * (some[n] - whole[n]):+.2f}" for n in (0, 2)]
        print(f"| {graph} | {model} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

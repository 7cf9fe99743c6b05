#!/usr/bin/env python3
"""Test accuracies of models whose batches read late weights beside those that read the newest ones.

    scripts/late.py                               # all graphs and models; --seeds 2 for a look
    scripts/late.py --graphs cora --models gcn

Late weights want smaller steps, so each way gets the learning rate with which its validation accuracy is
best. All ways train on the same batches, and as many of them. One worker computes what several do. Prints a
markdown table of means and standard deviations over seeds.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from sampled import GRAPHS, MODELS, ROOT, graph_file

WRITTEN = "lr = 0.01"


def accuracy(options, model, graph, delay, rate):
    """What `train --seeds` reports."""
    text = (ROOT / "benches/models" / f"{model}.gir").read_text()
    if WRITTEN not in text:
        sys.exit(f"{model}.gir: found no `{WRITTEN}`, expected it in the train block")
    batch, epochs = GRAPHS[graph]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{model}.gir"
        file.write_text(text.replace(WRITTEN, f"lr = {rate}"))
        command = [options.gnnc, "train", file, "--graph", graph_file(graph, options.gnnc), "--set", f"hidden={options.hidden}"]
        command += ["--placement", "push-pull", "--allow", "sample,stale", "--delay", delay, "--batch", batch]
        command += ["--fanouts", options.fanouts, "--epochs", epochs, "--seeds", options.seeds]
        command += ["--threads", options.threads, "--format", "json"]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--graphs", nargs="*", default=["cora", "squirrel", "photo"], choices=list(GRAPHS))
    parser.add_argument("--models", nargs="*", default=MODELS, choices=MODELS)
    parser.add_argument("--delays", nargs="*", type=int, default=[0, 3])
    parser.add_argument("--rates", nargs="*", type=float, default=[0.01, 0.003, 0.001])
    parser.add_argument("--fanouts", default="10,10")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    print("| graph | model | delay | " + " | ".join(f"rate {rate}" for rate in options.rates) + " | best rate, by validation |")
    print("| --- | --- | --: |" + " --- |" * (len(options.rates) + 1))
    for graph, model, delay in itertools.product(options.graphs, options.models, options.delays):
        if graph_file(graph, options.gnnc) is None:
            continue
        found = [accuracy(options, model, graph, delay, rate) for rate in options.rates]
        cell = lambda one: f"{100 * one['test_accuracy']:.2f} % ({100 * one['test_accuracy_deviation']:.2f} %)"
        best = max(range(len(found)), key=lambda n: found[n]["val_accuracy"])
        cells = [cell(one) for one in found] + [f"{options.rates[best]}: {cell(found[best])}"]
        print(f"| {graph} | {model} | {delay} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

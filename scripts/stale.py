#!/usr/bin/env python3
"""Accuracy and speed of learning in pipelines beside one worker, mean of several seeds.

    cargo build --release && python3 scripts/stale.py [--graphs cora,..] [--models gcnii,..] [--ways 4x1,..]

A way SxW is S stages of W workers each, with four chunks a stage, SxW/K the same with K chunks, SxW/K*V with V
runs of layers a stage; 1x1 is one worker without chunks, which the others are compared with. Accuracy is that
on the test vertices at the epoch of the lowest validation loss. Epochs to target are those until the validation
accuracy, mean of the seeds, first reaches --target of the highest that one worker's mean reaches; a way that
has not reached it in --epochs is run again for --longer. The interval holds 90 % of 1000 draws of as many seeds
with replacement, the same seeds for both. Of each seed: the mean over the seeds of the epochs until it first
reaches --target of the mean over the seeds of the highest that one worker reaches (all epochs, if never),
divided by that of one worker.

With --ablation the ways have one technique less, or one number another, each. --curves keeps all runs in a file, with
the command and the model of each, and makes none again that is in there; delete it when the compiler changes. Runs go
through all epochs: the models' patience is left out. Prints a markdown table. Needs Python 3.9 and nothing else.
"""

import argparse
import csv
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = {"gcnii": "gcnii_32_squirrel", "res+": "res_plus_32_photo"}
ABLATION = {
    "4x1": [],
    "4x1, fixed order": ["--no-shuffle"],
    "4x1, history of the last epoch": ["--interval", "1"],
    "4x1, fixed order, history of the last epoch": ["--no-shuffle", "--interval", "1"],
    "4x1, histories of 3 epochs": ["--interval", "3"],
    "4x1/8": [],
    "4x1/4": [],
    "8x1/8": [],
    "4x2/4": [],
}
WAY = re.compile(r"(\d+)x(\d+)(?:/(\d+))?(?:\*(\d+))?")
# Graphs whose features are taken as they are: divided by their sums they are so small that little is learned of them.
PLAIN = ["photo"]


def source(model, graph, folder, options):
    """A copy of the model's file, with the options' learning rate and without patience."""
    file = ROOT / (options.file or f"examples/{MODELS[model]}.gir")
    text = re.sub(r"^ *patience = .*\n", "", file.read_text(), flags=re.M)
    if graph in PLAIN:
        text = text.replace("normalize_features = true", "normalize_features = false")
    if options.lr:
        text = re.sub(r"\blr = [\d.e-]+", f"lr = {options.lr}", text)
    copy = Path(folder) / file.name
    copy.write_text(text.replace('"data/', f'"{ROOT}/examples/data/'))
    return copy


def arguments(graph, way, seed, epochs, options):
    """What gnnc is asked for, but for the model."""
    stages, width, chunks, turns = WAY.fullmatch(way.split(",")[0]).groups()
    stages, width = int(stages), int(width)
    found = ["--graph", f"examples/data/{graph}.npz", "--seed", seed]
    found += ["--epochs", epochs, "--evaluate-every", options.every]
    for setting in {"hidden": "hidden=64", **{item.split("=")[0]: item for item in options.set}}.values():
        found += ["--set", setting]
    if stages * width > 1:
        placement = "pipeline" if width == 1 else "hybrid"
        found += ["--placement", placement, "--allow", "stale", "--workers", stages * width, "--stages", stages]
        found += ["--partitioner", "metis"]
        found += [*(["--chunks", chunks] if chunks else []), *(["--virtual-stages", turns] if turns else []), *ABLATION.get(way, [])]
    return [str(part) for part in found]


def run(file, asked):
    """The accuracy on the test vertices in percent, and epochs and validation accuracies."""
    program, curve = os.environ.get("GNNC") or ROOT / "target/release/gnnc", file.with_suffix(".csv")
    command = [program, "train", file, *asked, "--curve", curve, "--format", "json"]
    found = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if found.returncode:
        sys.exit(found.stdout + found.stderr)
    with curve.open() as rows:
        points = [(int(row["epoch"]), round(100 * float(row["val_accuracy"]), 3)) for row in csv.DictReader(rows)]
    return {"test": 100 * json.loads(found.stdout)["test_accuracy"], "curve": points}


def kept(file, asked, options):
    """The same, from the file of curves where it is in there."""
    if not options.curves:
        return run(file, asked)
    runs = json.loads(options.curves.read_text()) if options.curves.exists() else {}
    name = " ".join([*asked, file.read_text().replace(str(ROOT), "")])
    if name not in runs:
        found = run(file, asked)
        runs = json.loads(options.curves.read_text()) if options.curves.exists() else {}
        runs[name] = found
        aside = options.curves.with_suffix(".new")
        aside.write_text(json.dumps(runs))
        aside.replace(options.curves)
    return runs[name]


def mean_curve(runs):
    return [(points[0][0], statistics.fmean(val for _, val in points)) for points in zip(*(run["curve"] for run in runs))]


def highest(curve):
    return max(val for _, val in curve)


def reached(curve, target, never):
    return next((epoch for epoch, val in curve if val >= target), never)


def times(runs, alone, share):
    """Epochs to the target of the mean curve, and those of one worker; infinity if never."""
    mean, base = mean_curve(runs), mean_curve(alone)
    target = share * highest(base)
    return reached(mean, target, float("inf")), reached(base, target, float("inf"))


def interval(runs, alone, share, draws=1000):
    """What nine of ten ratios of drawn seeds lie between."""
    random.seed(0)
    ratios = []
    for _ in range(draws):
        seeds = random.choices(range(len(runs)), k=len(runs))
        epochs, base = times([runs[seed] for seed in seeds], [alone[seed] for seed in seeds], share)
        ratios.append(epochs / base)
    ratios.sort()
    return ratios[draws // 20], ratios[-1 - draws // 20]


def of_each(runs, alone, share):
    """The ratio of mean epochs to a target that each seed reaches by itself, and how many never do."""
    target = share * statistics.fmean(highest(run["curve"]) for run in alone)
    epochs = [[reached(run["curve"], target, None) for run in some] for some in (runs, alone)]
    last = [some[0]["curve"][-1][0] for some in (runs, alone)]
    ratio = sum(epoch or last[0] for epoch in epochs[0]) / sum(epoch or last[1] for epoch in epochs[1])
    return ratio, epochs[0].count(None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", default="cora,citeseer,squirrel,photo")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--ways", default="4x1,8x1,4x2")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--longer", type=int, help="epochs of a way that has not reached the target")
    parser.add_argument("--every", type=int, default=2, help="epochs between evaluations")
    parser.add_argument("--target", type=float, default=0.98)
    parser.add_argument("--set", action="append", default=[], help="a parameter of the model, as gnnc takes it")
    parser.add_argument("--lr", help="learning rate in place of the model's")
    parser.add_argument("--file", help="model file in place of those of --models")
    parser.add_argument("--curves", type=Path, help="JSON file that keeps the runs")
    options = parser.parse_args()
    ways = list(ABLATION) if options.ablation else options.ways.split(",")
    print("| model | graph | way | test accuracy | against one worker | epochs to target | against one worker | of each seed |")
    print("| --- | --- | --- | --: | --: | --: | --: | --: |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        compare(options, ways, folder)


def compare(options, ways, folder):
    for model in options.models.split(","):
        for graph in options.graphs.split(","):
            file, alone = source(model, graph, folder, options), None
            for way in ["1x1", *ways]:
                seeds = lambda epochs: [kept(file, arguments(graph, way, seed, epochs, options), options) for seed in range(options.seeds)]
                runs = longer = seeds(options.epochs)
                alone = alone or runs
                if options.longer and times(runs, alone, options.target)[0] == float("inf"):
                    longer = seeds(options.longer)
                print(f"| {model} | {graph} | {way} | {row(runs, longer, alone, options.target)} |", flush=True)


def row(runs, longer, alone, share):
    tests, base = ([run["test"] for run in some] for some in (runs, alone))
    mean, spread = statistics.fmean(tests), statistics.stdev(tests) if len(tests) > 1 else 0.0
    epochs, once = times(longer, alone, share)
    low, high = interval(longer, alone, share)
    each, never = of_each(longer, alone, share)
    late = f" ({never} never)" if never else ""
    ratio = lambda value: "never" if value == float("inf") else f"{value:.2f}"
    return (f"{mean:.2f} ± {spread:.2f} % | {mean - statistics.fmean(base):+.2f} | {'never' if epochs == float('inf') else epochs} "
            f"| {ratio(epochs / once)} ({ratio(low)} to {ratio(high)}) | {each:.2f}{late}")


if __name__ == "__main__":
    main()

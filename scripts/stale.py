#!/usr/bin/env python3
"""Accuracy and speed of learning in pipelines beside one worker, mean of several seeds.

    cargo build --release && python3 scripts/stale.py [--graphs cora,..] [--models gcnii,..] [--ways 4x1,..]

A way SxW is S stages of W workers each, with four chunks a stage, SxW/K the same with K chunks; 1x1 is one worker
without chunks, which the others are compared with. Accuracy is that on the test vertices at the epoch of the lowest validation loss. Epochs to target are
those until the validation accuracy first reaches --target of the best that one worker reaches (mean of the
seeds). With --ablation the ways have one technique less, or one number another, each. Prints a markdown table.
Needs Python 3.9 and nothing else.
"""

import argparse
import os
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
# Graphs whose features are taken as they are: divided by their sums they are so small that little is learned of them.
PLAIN = ["photo"]
EPOCH = re.compile(r"^ *(\d+) +[\d.naif-]+ +[\d.]+ % +([\d.]+) % +[\d.]+ %", re.M)
TEST = re.compile(r"^test accuracy +([\d.]+) %", re.M)


def source(model, graph, folder):
    """The model's file; for some graphs a copy."""
    file = ROOT / f"examples/{MODELS[model]}.gir"
    if graph not in PLAIN:
        return file
    copy = Path(folder) / file.name
    text = file.read_text().replace("normalize_features = true", "normalize_features = false")
    copy.write_text(text.replace('"data/', f'"{ROOT}/examples/data/'))
    return copy


def run(file, graph, way, seed, options):
    shape, _, chunks = way.split(",")[0].partition("/")
    stages, width = map(int, shape.split("x"))
    command = [
        os.environ.get("GNNC") or ROOT / "target/release/gnnc", "train", file,
        "--graph", ROOT / f"examples/data/{graph}.npz", "--set", "hidden=64",
        "--epochs", str(options.epochs), "--evaluate-every", str(options.every), "--seed", str(seed),
    ]
    if stages * width > 1:
        placement = "pipeline" if width == 1 else "hybrid"
        command += ["--placement", placement, "--allow", "stale", "--workers", str(stages * width)]
        command += ["--stages", str(stages), *(["--chunks", chunks] if chunks else []), *ABLATION.get(way, [])]
    found = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if found.returncode:
        sys.exit(found.stdout + found.stderr)
    curve = [(int(epoch), float(val)) for epoch, val in EPOCH.findall(found.stdout)]
    return float(TEST.search(found.stdout)[1]), curve


def reached(curve, target):
    return next((epoch for epoch, val in curve if val >= target), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", default="cora,citeseer,squirrel,photo")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--ways", default="4x1,8x1,4x2")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--every", type=int, default=2, help="epochs between evaluations")
    parser.add_argument("--target", type=float, default=0.98)
    options = parser.parse_args()
    ways = list(ABLATION) if options.ablation else options.ways.split(",")
    print("| model | graph | way | test accuracy | against one worker | epochs to target | against one worker |")
    print("| --- | --- | --- | --: | --: | --: | --: |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        compare(options, ways, folder)


def compare(options, ways, folder):
    for model in options.models.split(","):
        for graph in options.graphs.split(","):
            file, alone = source(model, graph, folder), None
            for way in ["1x1", *ways]:
                runs = [run(file, graph, way, seed, options) for seed in range(options.seeds)]
                tests = [test for test, _ in runs]
                if alone is None:
                    best = statistics.mean(max(val for _, val in curve) for _, curve in runs)
                    target = options.target * best
                epochs = [reached(curve, target) for _, curve in runs]
                missed = epochs.count(None)
                epochs = statistics.mean([epoch or options.epochs for epoch in epochs])
                test, spread = statistics.mean(tests), statistics.stdev(tests) if len(tests) > 1 else 0.0
                alone = alone or (test, epochs)
                late = f" ({missed} never)" if missed else ""
                print(f"| {model} | {graph} | {way} | {test:.2f} ± {spread:.2f} % | {test - alone[0]:+.2f} "
                      f"| {epochs:.0f}{late} | {epochs / alone[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()

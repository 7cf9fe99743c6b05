#!/usr/bin/env python3
"""Meshes of ranks: groups of C workers divide the vertices, and the workers of a group the columns. Bytes by closed form, as
planned and as sent.

    cargo build --release && python3 scripts/meshes.py GRAPH.npz.. [--workers 8] [--processes] [--layers 3] [--width 24]

Trains a model of some layers `aggregate(sum) |> linear |> relu` of one width for two epochs on each mesh, from R = M groups of
one worker (placement graph) to one group of all (tensor). In an epoch, M workers in R groups of C, with V vertices and
replication factor a of R parts, send floats

    layers * width * V * (2 a + 4 (C - 1) / C)

for rows, and 2 (M - 1) for each parameter and the loss. Prints a markdown table, and exits with 1 if bytes differ.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GNNC = os.environ.get("GNNC") or ROOT / "target/release/gnnc"
MODEL = """graph g = "{graph}"
model m() on g {{
  let h = x |> linear({width})
{layers}
  loss cross_entropy(h |> linear(classes), labels, on = train)
}}
train {{ optimizer = sgd(lr = 0.01) epochs = 2 }}
"""


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("graphs", nargs="+", type=Path)
    arguments.add_argument("--workers", type=int, default=8)
    arguments.add_argument("--layers", type=int, default=3)
    arguments.add_argument("--width", type=int, default=24)
    arguments.add_argument("--processes", action="store_true", help="workers are processes of mpirun, not threads")
    options = arguments.parse_args()
    workers = options.workers
    sizes = [size for size in range(1, workers + 1) if workers % size == 0]
    print("| graph | R x C | rows read of other groups | closed form | planned | sent | closed form / that of graph |")
    print("| --- | --- | --: | --: | --: | --: | --: |")
    wrong = False
    for graph in options.graphs:
        with tempfile.TemporaryDirectory() as folder:
            model = Path(folder) / "m.gir"
            layer = f"  let h = h |> aggregate(sum) |> linear({options.width}) |> relu\n"
            text = MODEL.format(graph=graph.resolve(), width=options.width, layers=layer * options.layers)
            model.write_text(text)
            first = None
            for size in sizes:
                groups = workers // size
                vertices, rows = halo_rows(graph, groups)
                found, planned = sent(model, workers, size, options), plan(model, workers, size)
                floats = options.layers * options.width * (2 * rows * size + 4 * (size - 1) * vertices) // size
                rest = 2 * (workers - 1) * (parameters(graph, options) + 1)
                expected = 4 * (floats + rest)
                first = first or expected
                wrong |= not expected == planned == found
                share = f"{expected / first:.3f}"
                cells = [graph.stem, f"{groups} x {size}", *(f"{n:,}" for n in (rows, expected, planned, found)), share]
                print(f"| {' | '.join(cells)} |", flush=True)
    sys.exit(wrong)


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr or done.stdout)
    return done.stdout


def halo_rows(graph, groups):
    """The vertices, and the rows that groups read of each other."""
    if groups == 1:
        return json.loads(run(GNNC, "graph", "stats", graph, "--format", "json"))["vertices"], 0
    found = json.loads(run(GNNC, "graph", "stats", graph, "--parts", groups, "--partitioner", "metis", "--format", "json"))
    return found["vertices"], found["exchanges"][0]["rows"]


def parameters(graph, options):
    """Numbers of all parameters."""
    about = json.loads(run(GNNC, "graph", "stats", graph, "--format", "json"))
    width, classes = options.width, about["classes"]
    return (about["features"] + 1) * width + options.layers * (width + 1) * width + (width + 1) * classes


def knobs(size, workers):
    """The options of a mesh. The workers of a group have a slice each."""
    placement = "graph" if size == 1 else "tensor"
    return placement, [] if size in (1, workers) else ["--slices", size]


def sent(model, workers, size, options):
    """Bytes that workers send in an epoch."""
    placement, slices = knobs(size, workers)
    command = [GNNC, "train", model, "--placement", placement, "--partitioner", "metis", *slices]
    if options.processes:
        command = ["mpirun", "--oversubscribe", "-n", workers, *command]
    else:
        command += ["--workers", workers]
    text = run(*command)
    found = re.search(r"sent +([0-9_]+) bytes in the epochs of this run, as predicted", text)
    if not found:
        sys.exit(f"no bytes as predicted in\n{text}")
    return int(found.group(1).replace("_", "")) // 2


def plan(model, workers, size):
    """Bytes that a plan says workers send in an epoch."""
    placement, slices = knobs(size, workers)
    pins = f"placement={placement},ranks={workers}"
    pins += ",chunks=1" if size == workers else ",partitioner=metis"
    pins += ",node-ranks=1,cover=rows" if size == 1 else ""
    command = [GNNC, "plan", model, "--gpus", workers, "--cluster", "h100x8", "--pin", pins, "--format", "json", *slices]
    found = json.loads(run(*command))
    asked = str(size) if slices else None
    return next(one["bytes"] for one in found["candidates"] if one["parameters"].get("slices") == asked)


if __name__ == "__main__":
    main()

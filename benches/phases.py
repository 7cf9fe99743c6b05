#!/usr/bin/env python3
"""Where an epoch of sampled GraphSAGE goes, phase by phase, beside what the machine could do.

    cargo build --release
    benches/peers/setup.sh dgl          # once: its PyTorch measures the machine
    python3 benches/phases.py

One thread, two layers, fanouts 25,10, batches of 1000 seeds, on the graphs of benches/minibatch.py.
The bound of a phase is the larger of its bytes at copy speed and its operations at GEMM speed, as
PyTorch reaches them here:

    sample      two lines of 64 bytes an edge, which are read at random
    fetch-rows  rows of level 1, read and written
    aggregate   a row and an index an edge, and the rows of the result; layer 2 both ways
    products    two of layer 1, three of layer 2
    rest        maps, loss, optimizer: the rows that they read and write, once each
"""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from graphs import ROOT, graph_file
from minibatch import BENCHES, GRAPHS

LINE, FLOAT, INDEX = 64, 4, 4
PHASES = {
    "sample": ["sample", "numbers"],
    "fetch-rows": ["fetch-rows"],
    "aggregate": ["spmm", "spmm-t"],
    "products": ["gemm"],
}


def ask(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def machine():
    """Bytes and operations a second, of one thread."""
    code = "import json, torch, worker; torch.set_num_threads(1); print(json.dumps(worker.machine()))"
    python = str(ROOT / ".venv-dgl/bin/python")
    done = subprocess.run([python, "-c", code], cwd=BENCHES / "peers", capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return found["copy_bytes_per_second"], found["gemm_flops_per_second"]


def sizes(gnnc, file):
    """Mean rows of the levels, edges of the layers, and batches of an epoch."""
    words = ["graph", "sample", file, "--batch", 1000, "--fanouts", "25,10", "--batches", 20, "--format", "json"]
    found = ask([gnnc, *words])
    levels = {one["level"]: one["mean"] for one in found["levels"]}
    edges = {one["layer"]: one["mean"] for one in found["layers"]}
    return levels, edges, found["batches_of_epoch"]


def measured(gnnc, file, hidden):
    """Seconds of an epoch by name of instruction, the least of three epochs."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        words = ["train", BENCHES / "models/sage.gir", "--graph", file, "--set", f"hidden={hidden}"]
        words += ["--placement", "minibatch", "--allow", "sample", "--batch", 1000, "--fanouts", "25,10"]
        ask([gnnc, *words, "--epochs", 3, "--evaluate-every", 3, "--trace", trace, "--format", "json"])
        events = json.loads(trace.read_text())["traceEvents"]
    epochs = {}
    for event in events:
        if event.get("cat") == "step":
            epoch = epochs.setdefault(event["args"]["epoch"], {})
            epoch[event["name"]] = epoch.get(event["name"], 0.0) + event["dur"] / 1e6
    return min(epochs.values(), key=lambda epoch: sum(epoch.values()))


def bounds(shape, hidden, levels, edges, batches, rates):
    """Least seconds of an epoch by phase."""
    copy, gemm = rates
    features, classes = shape["features"], shape["classes"]
    first, seeds = levels[1], levels[2]
    row = lambda columns: FLOAT * columns  # noqa: E731
    aggregated = edges[1] * (row(features) + INDEX) + first * row(features)
    aggregated += 2 * (edges[2] * (row(hidden) + INDEX) + first * row(hidden))
    products = 2 * 2 * first * 2 * features * hidden + 3 * 2 * seeds * 2 * hidden * classes
    concatenated = first * (row(features) * 4 + row(hidden) * 6)
    found = {
        "sample": 2 * LINE * (edges[1] + edges[2]) / copy,
        "fetch-rows": 2 * first * row(features) / copy,
        "aggregate": aggregated / copy,
        "products": products / gemm,
        "rest": concatenated / copy,
    }
    return {phase: batches * seconds for phase, seconds in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--graphs", nargs="*", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--hidden", nargs="*", default=[32, 256], type=int)
    options = parser.parse_args()
    rates = machine()
    print(f"copies {rates[0] / 1e9:.1f} GB/s, products {rates[1] / 1e9:.0f} GFLOP/s\n")
    print("| graph | hidden | phase | seconds | bound | seconds / bound |")
    print("| --- | --: | --- | --: | --: | --: |")
    for graph in options.graphs:
        file = graph_file(graph, options.gnnc)
        levels, edges, batches = sizes(options.gnnc, file)
        for hidden in options.hidden:
            least = bounds(GRAPHS[graph], hidden, levels, edges, batches, rates)
            spent = measured(options.gnnc, file, hidden)
            of_phase = {phase: sum(spent.pop(name, 0.0) for name in names) for phase, names in PHASES.items()}
            of_phase["rest"] = sum(spent.values())
            least["all"], of_phase["all"] = sum(least.values()), sum(of_phase.values())
            for phase, seconds in of_phase.items():
                bound = least[phase]
                print(f"| {graph} | {hidden} | {phase} | {seconds:.3f} | {bound:.3f} | {seconds / bound:.2f} |", flush=True)


if __name__ == "__main__":
    main()

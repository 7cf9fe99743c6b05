#!/usr/bin/env python3
"""How the time of an epoch grows with the graph: nanoseconds an edge, on R-MAT graphs of one shape.

    cargo build --release
    python3 benches/growth.py [--models gcn_3,sage_3,gat_3] [--edges 50000,200000,800000,3200000]

All graphs have 16 edges a vertex, 64 dense features and 16 classes; hidden 64, one thread. Prints a markdown table:
the shortest epoch of each model and graph over its edges, and the last over the first.
"""

import argparse
import json
import subprocess
from pathlib import Path

from graphs import ROOT

BENCHES = Path(__file__).resolve().parent
DEGREE, FEATURES, CLASSES, HIDDEN = 16, 64, 16, 64


def run(*command):
    """What a command prints."""
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout


def graph(gnnc, edges):
    """The file of the graph with so many edges; it is made where it is missing."""
    file = ROOT / "target" / "bench" / f"growth-{edges}.npz"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        run(
            gnnc, "graph", "generate", "rmat", "--vertices", edges // DEGREE, "--edges", edges,
            "--features", FEATURES, "--classes", CLASSES, "--seed", 1, "--out", file,
        )  # fmt: skip
    return file


def shortest(gnnc, model, file, edges):
    """Seconds of the shortest epoch."""
    epochs = max(4, min(60, 20_000_000 // edges))
    model = BENCHES / "models" / f"{model}.gir"
    options = ["--graph", file, "--set", f"hidden={HIDDEN}", "--epochs", epochs, "--format", "json"]
    return min(json.loads(run(gnnc, "bench-epoch", model, *options))["epoch_seconds"][1:])


def main():
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="gcn_3,sage_3,gat_3,gatv2_3,gin_3,gcnii_8,appnp_10,sgc_3")
    parser.add_argument("--edges", default="50000,200000,800000,3200000")
    parser.add_argument("--gnnc", type=Path, default=ROOT / "target" / "release" / "gnnc", help="the binary")
    options = parser.parse_args()
    sizes = [int(n) for n in options.edges.split(",")]
    files = {edges: graph(options.gnnc, edges) for edges in sizes}
    print("| model | " + " | ".join(f"{edges:,} edges" for edges in sizes) + " | growth |")
    print("| --- |" + " --: |" * (len(sizes) + 1))
    for model in options.models.split(","):
        # In turns, as the machine's speed drifts.
        turns = [[shortest(options.gnnc, model, files[edges], edges) / edges for edges in sizes] for _ in range(2)]
        each = [min(turn[n] for turn in turns) * 1e9 for n in range(len(sizes))]
        print(f"| {model} | " + " | ".join(f"{ns:.0f}" for ns in each) + f" | {each[-1] / each[0]:.2f} |", flush=True)


if __name__ == "__main__":
    main()

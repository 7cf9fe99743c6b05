#!/usr/bin/env python3
"""Halo rows by themselves, with partial sums, in two tiers, and both: as counted on the graph, as a plan says, and as a run sends them.

    cargo build --release && python3 scripts/halos.py GRAPH.npz.. [--nodes 2x2,2x4,4x2]

Trains two layers of a GCN for two epochs, on threads. Prints a markdown table, and exits 1 if numbers differ.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GNNC = os.environ.get("GNNC") or ROOT / "target/release/gnnc"
EPOCHS = 2
MODEL = """
graph g = "{graph}"
model m() on g {{
  let h = x |> linear(16) |> relu |> gcn_conv(16) |> relu
  loss cross_entropy(h |> gcn_conv(16) |> linear(classes), labels, on = train)
}}
train {{ epochs = {epochs} }}
"""


def gnnc(*command):
    done = subprocess.run([str(part) for part in [GNNC, *command, "--format", "json"]], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("graphs", nargs="+", type=Path)
    arguments.add_argument("--nodes", default="2x2,2x4,4x2")
    options = arguments.parse_args()
    wrong = []
    print(
        "| graph | nodes x ranks | rows | fewest rows and sums | of rows | bytes an epoch: rows, fewest "
        "| rows between nodes, one tier | two tiers | both | bytes between nodes an epoch: two tiers, both |"
    )
    print("| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "gcn.gir"
        for graph in options.graphs:
            model.write_text(MODEL.format(graph=graph.resolve(), epochs=EPOCHS))
            for shape in options.nodes.split(","):
                nodes, of_node = map(int, shape.split("x"))
                ranks = nodes * of_node
                found = gnnc("graph", "stats", graph, "--parts", ranks, "--nodes", nodes, "--partitioner", "metis")["exchanges"][0]
                rows, crossing = found["rows"], found["two_tiers"]["between"]["rows"]
                cluster = f"gpu=t4 nodes={nodes} gpus={of_node}"
                volumes, runs = {}, {}
                for way in ["--cover rows", "--cover joint", f"--node-ranks {of_node}"]:
                    option, value = way.split()
                    pin = f"placement=graph,ranks={ranks},partitioner=metis,{option.removeprefix('--')}={value}"
                    plan = gnnc("plan", model, "--cluster", cluster, "--pin", pin)
                    volumes[option, value] = plan["candidates"][plan["chosen"]]
                    knobs = ["--placement", "graph", "--partitioner", "metis", option, value]
                    runs[option, value] = gnnc("train", model, "--workers", ranks, *knobs, "--evaluate-every", EPOCHS)
                both = ["--cover", "joint", "--node-ranks", of_node]
                both = gnnc("train", model, "--workers", ranks, "--partitioner", "metis", *both, "--evaluate-every", EPOCHS)
                fewest = both["bytes_crossed"] // EPOCHS
                flat, joint, tiers = volumes.values()
                sent = [run["bytes_sent"] // EPOCHS for run in runs.values()]
                crossed = list(runs.values())[2]["bytes_crossed"] // EPOCHS
                halos = [plan["volume"]["halo"] for plan in (flat, joint)]
                between = tiers["volume"]["halo_between"]
                # Every row of an exchange has equally many bytes.
                fits = halos[1] * rows == halos[0] * found["cover"] and between * rows == halos[0] * crossing
                fits = fits and fewest * rows == halos[0] * found["two_tiers"]["between"]["cover"]
                if not fits or sent != [plan["bytes"] for plan in (flat, joint, tiers)] or crossed != between:
                    wrong.append(f"{graph.stem} {shape}: {found}, halos {halos}, {between} between nodes, sent {sent}, {crossed}")
                one = found["one_tier"]["between"]["rows"]
                cells = [
                    graph.stem, shape, f"{rows:,}", f"{found['cover']:,}", f"{found['cover'] / rows:.2f}", f"{halos[0]:,}, {halos[1]:,}",
                    f"{one:,}", f"{crossing:,}", f"{found['two_tiers']['between']['cover']:,}", f"{crossed:,}, {fewest:,}",
                ]
                print(f"| {' | '.join(cells)} |", flush=True)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()

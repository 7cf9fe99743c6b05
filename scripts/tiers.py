#!/usr/bin/env python3
"""Halo rows between nodes in one tier and in two: as counted on the graph, as a plan says, and as a run sends them.

    cargo build --release && python3 scripts/tiers.py GRAPH.npz.. [--nodes 2x2,2x4,4x2]

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
    print("| graph | nodes x ranks | halo rows | between nodes, one tier | two tiers | of one tier | bytes between nodes an epoch |")
    print("| --- | --- | --: | --: | --: | --: | --: |")
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
                pin = f"placement=graph,ranks={ranks},partitioner=metis,node-ranks={of_node}"
                plan = gnnc("plan", model, "--cluster", cluster, "--pin", pin)
                volume = plan["candidates"][plan["chosen"]]["volume"]
                way = ["--placement", "graph", "--partitioner", "metis", "--node-ranks", of_node]
                run = gnnc("train", model, "--workers", ranks, *way, "--evaluate-every", EPOCHS)
                sent = run["bytes_crossed"] // EPOCHS
                # Every row of an exchange has equally many bytes.
                if volume["halo"] * crossing != volume["halo_between"] * rows or sent != volume["halo_between"]:
                    wrong.append(f"{graph.stem} {shape}: {crossing} of {rows} rows, {volume}, {sent} bytes sent")
                flat = found["one_tier"]["between"]["rows"]
                cells = [graph.stem, shape, f"{rows:,}", f"{flat:,}", f"{crossing:,}", f"{crossing / flat:.2f}", f"{sent:,}"]
                print(f"| {' | '.join(cells)} |", flush=True)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()

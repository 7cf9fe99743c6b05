#!/usr/bin/env python3
"""What parts of graphs send each other: rows, partial sums, or the fewest of both; by each pair of ranks, or to each node once.

    cargo build --release && python3 scripts/covers.py GRAPH.npz.. [--parts 2,4,8] [--partitioner metis]

Counts are of one direction of an aggregation. The largest number of parts is divided between two nodes. Prints a markdown table.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GNNC = os.environ.get("GNNC") or ROOT / "target/release/gnnc"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("graphs", nargs="+", type=Path)
    arguments.add_argument("--parts", default="2,4,8")
    arguments.add_argument("--partitioner", default="metis")
    options = arguments.parse_args()
    counts = [int(parts) for parts in options.parts.split(",")]
    most = max(counts)
    several = ", ".join(map(str, counts))
    print(
        f"| graph | replication factor at {most} | rows at {several} | sums at {most} | fewest of both | fewest / rows at {most} "
        "| between nodes: rows, fewest | once a node | inside: rows, fewest | once a node |"
    )
    print("| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |")
    join = lambda numbers: ", ".join(f"{number:,}" for number in numbers)
    for graph in options.graphs:
        command = [GNNC, "graph", "stats", graph, "--parts", options.parts, "--nodes", "2", "--partitioner", options.partitioner]
        done = subprocess.run([str(part) for part in [*command, "--format", "json"]], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        found = json.loads(done.stdout)
        all_parts = {one["parts"]: one for one in found["exchanges"]}
        last = all_parts[most]
        tiers = [last[way][place] for place in ("between", "inside") for way in ("one_tier", "two_tiers")]
        cells = [
            f"{graph.stem} ({found['vertices']:,})",
            f"{last['rows'] / found['vertices']:.3f}",
            join(all_parts[parts]["rows"] for parts in counts),
            join([last["sums"]]),
            join(all_parts[parts]["cover"] for parts in counts),
            f"{last['cover'] / max(last['rows'], 1):.3f}",
            *(join([tier["rows"], tier["cover"]]) for tier in tiers),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Planned epochs beside those that docs/gpu.md says an H100 took: needs no GPU.

    python3 benches/gpu/forecasts.py

Plans GCN, GraphSAGE and GAT on the Reddit-like graph (hidden 64) and on the Twitter-like one (64 and 256) for one H100
that nobody calibrated, and prints planned over measured seconds, and whether the measured ones lie in the printed range.
Makes the graphs where they are missing (0.8 GB), as benches/gpu/epochs.py does.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from common import BENCHES, ROOT, gnnc_binary, graph_file, median, table

REDDIT = re.compile(r"^\| (\w+), (\d) layers \| ([\d.]+) ms \|", re.MULTILINE)
TWITTER = re.compile(r"^\| (\d) x (\d+) \| (\w+) \| ([\d.]+) ms \|", re.MULTILINE)


def measured():
    """Rows of the page: graph, model, layers, hidden columns, milliseconds."""
    page = (ROOT / "docs" / "gpu.md").read_text()
    for model, layers, took in REDDIT.findall(page):
        yield "reddit-like", model, int(layers), 64, float(took)
    for layers, hidden, model, took in TWITTER.findall(page):
        yield "twitter-like", model, int(layers), int(hidden), float(took)


def planned(file, model, layers, hidden):
    """The candidate on one H100."""
    name = model + ("" if layers == 2 else f"_{layers}")
    command = [
        gnnc_binary(), "plan", BENCHES / "models" / f"{name}.gir", "--graph", file, "--set", f"hidden={hidden}",
        "--cluster", "nodes=1 gpus=1 gpu=h100", "--pin", "ranks=1", "--format", "json",
    ]  # fmt: skip
    found = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if found.returncode:
        sys.exit(found.stdout + found.stderr)
    return json.loads(found.stdout)["candidates"][0]


def main(arguments):
    """Prints a row for each measured one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "target" / "bench", help="where graphs are kept")
    options = parser.parse_args(arguments)
    rows, ratios, inside = [], [], 0
    for graph, model, layers, hidden, took in measured():
        file = graph_file(graph, gnnc_binary(), options.folder)
        if not file:
            return 2
        plan = planned(file, model, layers, hidden)
        low, own, high = (1e3 * seconds for seconds in (plan["range"]["low"], plan["epoch_seconds"], plan["range"]["high"]))
        within = low <= took <= high
        inside += within
        ratios.append(own / took)
        rows.append([graph, model, layers, hidden, f"{took:g}", f"{own:.2f}", f"{low:.2f} to {high:.2f}", f"{own / took:.2f}", "yes" if within else "no"])
    print(table(["graph", "model", "layers", "hidden", "measured ms", "planned ms", "range", "planned / measured", "in range"], rows))
    print(f"\nplanned / measured: median {median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}; {inside} of {len(rows)} in range")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

#!/usr/bin/env python3
"""Hit rates of caches: as planned with the graph at hand, from statistics alone, and as measured.

    scripts/caches.py                             # photo, squirrel and computers; 4 workers, METIS parts
    scripts/caches.py --graphs photo --by degree

A hit rate is the share of the rows of other workers that are not sent. Planned ones follow from predicted bytes
without a cache, with it, and with all rows cached; measured ones are those of the last of three epochs. Prints a
markdown table.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from graphs import graph_file  # noqa: E402  (found by the line before)

# Seeds of a batch.
GRAPHS = {"photo": 574, "squirrel": 624, "computers": 1032}
KINDS = ["degree", "probability", "counts"]


def call(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


class Case:
    """A graph, and how batches are drawn from it."""

    def __init__(self, graph, options):
        self.options, self.gnnc = options, options.gnnc
        self.file = graph_file(graph, self.gnnc)
        self.vertices = call([self.gnnc, "graph", "stats", self.file, "--format", "json"])["vertices"]
        self.draws = ["--allow", "sample", "--batch", GRAPHS[graph], "--fanouts", options.fanouts]

    def train(self, rows, by):
        command = [self.gnnc, "train", ROOT / "benches/models/sage.gir", "--graph", self.file, *self.draws]
        command += ["--placement", "minibatch", "--workers", self.options.workers, "--partitioner", "metis"]
        command += ["--roots", self.options.roots, "--cache", rows, "--cache-by", by, "--epochs", 3, "--quiet"]
        return call([*command, "--check", "bytes", "--format", "json"])["cache_hits"]

    def planned(self, workload, rows, by):
        """Predicted bytes of an epoch."""
        source = ["--workload", workload] if workload else ["--graph", self.file]
        command = [self.gnnc, "plan", ROOT / "benches/models/sage.gir", *source, *self.draws]
        command += ["--gpus", self.options.workers, "--roots", self.options.roots, "--format", "json"]
        command += ["--pin", "placement=minibatch", "--pin", f"ranks={self.options.workers}"]
        command += ["--pin", "partitioner=metis", "--cache", rows, "--cache-by", by]
        return call(command)["candidates"][0]["bytes"]

    def predicted(self, workload, rows, by):
        none, some, all_rows = (self.planned(workload, n, by) for n in (0, rows, self.vertices))
        return (none - some) / (none - all_rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--graphs", nargs="*", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--by", nargs="*", default=KINDS, choices=KINDS)
    parser.add_argument("--shares", nargs="*", type=float, default=[0.05, 0.2])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--fanouts", default="10,10")
    parser.add_argument("--roots", default="home")
    options = parser.parse_args()
    print("| graph | rows | ranked by | planned % | from statistics % | measured % |")
    print("| --- | --- | --- | --- | --- | --- |")
    for graph in options.graphs:
        case = Case(graph, options)
        with tempfile.NamedTemporaryFile("w", suffix=".json") as workload:
            json.dump(call([case.gnnc, "graph", "stats", case.file, "--format", "json"]), workload)
            workload.flush()
            for share in options.shares:
                rows = int(share * case.vertices)
                for by in options.by:
                    measured = case.train(rows, by)
                    planned = case.predicted(None, rows, by)
                    guessed = f"{100 * case.predicted(workload.name, rows, by):.1f}" if by == "degree" else ""
                    cells = f"{100 * planned:.1f} | {guessed} | {100 * measured:.1f}"
                    print(f"| {graph} | {rows} | {by} | {cells} |", flush=True)


main()

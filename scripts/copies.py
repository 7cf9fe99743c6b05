#!/usr/bin/env python3
"""What copies of embeddings save, and what old copies cost in accuracy.

    cargo build --release && scripts/copies.py [--graphs photo squirrel] [--seeds 5]

Trains GraphSAGE on batches of graphs whose features are left out, so that its first weight has a row for each vertex,
on 4 workers with METIS parts. Each worker keeps copies of rows of others, which may lack some steps. Prints how many of
the reads of others' rows are served by copies, what an epoch sends, how much less that is than without copies, as planned
and as measured, and accuracies over seeds (mean and standard deviation), as a markdown table.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from graphs import graph_file  # noqa: E402  (found by the line before)

WORKERS = 4
MODEL = """graph data = "{graph}" {{ features = identity }}

model rows(hidden = 64, dropout = 0.3) on data {{
  let e = x |> linear(hidden, bias = false)
  let h = e |> dropout(dropout) |> sage_conv(hidden) |> relu
  let z = h |> dropout(dropout) |> sage_conv(classes)
  loss cross_entropy(z, labels, on = train)
}}

train {{
  optimizer = adam(lr = 0.01)
  epochs = {epochs}
  batch = {batch}
  fanouts = [10, 10]
  lazy_embeddings = true
  allow = [sample, stale]
}}
"""


def call(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return json.loads(done.stdout)


class Case:
    """A graph without features."""

    def __init__(self, graph, options, folder):
        self.options, self.gnnc = options, options.gnnc
        file = graph_file(graph, self.gnnc)
        self.vertices = call([self.gnnc, "graph", "stats", file, "--format", "json"])["vertices"]
        self.model = Path(folder) / f"{graph}.gir"
        self.model.write_text(MODEL.format(graph=file, epochs=options.epochs, batch=options.batch))

    def planned(self, copies):
        cluster = f"nodes=1 gpus={WORKERS} gpu=cpu-core link=10gb memory=1GiB"
        command = [self.gnnc, "plan", self.model, "--cluster", cluster, "--format", "json", *copies]
        for pin in ("placement=minibatch", f"ranks={WORKERS}", "partitioner=metis"):
            command += ["--pin", pin]
        return call(command)["candidates"][0]["bytes"]

    def trained(self, copies):
        command = [self.gnnc, "train", self.model, "--placement", "minibatch", "--workers", WORKERS, "--threads", 1]
        command += ["--partitioner", "metis", "--evaluate-every", self.options.epochs, "--check", "bytes", "--quiet"]
        seeds = range(self.options.seeds)
        return [call([*command, "--format", "json", "--seed", seed, *copies]) for seed in seeds]

    def row(self, copies):
        planned, runs = self.planned(copies), self.trained(copies)
        sent = runs[0]["bytes_sent"] / runs[0]["epochs"]
        accuracies = [100 * run["test_accuracy"] for run in runs]
        spread = statistics.stdev(accuracies) if len(accuracies) > 1 else 0.0
        return {
            "hits": 100 * (runs[0].get("cache_hits") or 0.0),
            "planned": planned,
            "sent": sent,
            "accuracy": f"{statistics.mean(accuracies):.2f} ± {spread:.2f}",
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--graphs", nargs="*", default=["photo", "squirrel"])
    parser.add_argument("--shares", nargs="*", type=float, default=[0.05, 0.2, 1.0])
    parser.add_argument("--ages", nargs="*", type=int, default=[4, 16, 1000])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    print("| graph | rows | age | from copies % | sent MiB | saved %, planned | saved % | test accuracy % |")
    print("| --- | --: | --: | --: | --: | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as folder:
        for graph in options.graphs:
            case = Case(graph, options, folder)
            ways = [(0, None)]
            ways += [(int(share * case.vertices), age) for share in options.shares for age in options.ages]
            without = None
            for rows, age in ways:
                found = case.row(["--cache", rows, "--cache-age", age] if rows else [])
                without = without or found
                planned, saved = (100 - 100 * found[what] / without[what] for what in ("planned", "sent"))
                sent = f"{found['sent'] / 2**20:.2f} | {planned:.1f} | {saved:.1f}"
                cells = f"{rows} | {age or ''} | {found['hits']:.1f} | {sent} | {found['accuracy']}"
                print(f"| {graph} | {cells} |", flush=True)


main()

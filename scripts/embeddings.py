#!/usr/bin/env python3
"""What stepping embeddings lazily saves on this machine: seconds, bytes and memory.

    cargo build --release && python3 scripts/embeddings.py [--turns 2] [--vertices 500000]

Trains GraphSAGE on batches of a generated graph whose vertices have no features, so that its first weight has a row
for each of them: all rows stepped in every batch, only those of the batch, and these with rows that lack the last
step, so that none waits for rows. Ways take turns; the fastest epoch of
all turns counts. Prints a markdown table. Needs Python 3.9 and nothing else.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "target" / "bench"
WAYS = {
    "all": [],
    "those of the batch": ["--lazy-embeddings"],
    "those of the batch, a step late": ["--lazy-embeddings", "--delay", "1", "--allow", "stale"],
}
MODEL = """graph data = "{graph}" {{ features = identity }}

model rows(hidden = 64) on data {{
  let e = x |> linear(hidden, bias = false)
  let h = e |> sage_conv(hidden) |> relu
  let z = h |> sage_conv(classes)
  loss cross_entropy(z, labels, on = train)
}}

train {{
  optimizer = adam(lr = 0.01)
  epochs = 2
  batch = 1024
  fanouts = [10, 10]
  allow = [sample]
}}
"""


def gnnc(options, *arguments):
    command = [str(part) for part in (options.gnnc, *arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=os.environ.get("GNNC") or ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--vertices", type=int, default=500_000)
    options = parser.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    graph = BENCH / f"embeddings-{options.vertices}.npz"
    if not graph.exists():
        gnnc(
            options, "graph", "generate", "rmat", "--vertices", options.vertices, "--edges", 10 * options.vertices,
            "--classes", 16, "--features", 1, "--out", graph,
        )  # fmt: skip
    model = BENCH / "embeddings.gir"
    model.write_text(MODEL.format(graph=graph))
    best = {}
    for _ in range(options.turns):
        for workers in (1, 2):
            for way, more in WAYS.items():
                report = json.loads(gnnc(
                    options, "train", model, "--placement", "minibatch", "--workers", workers, "--threads", 1,
                    "--evaluate-every", 100, "--eval-fanouts", "10,10", "--format", "json", *more,
                ))  # fmt: skip
                known = best.get((workers, way))
                if known is None or report["epoch_seconds"] < known["epoch_seconds"]:
                    best[workers, way] = report
    print("| workers | rows stepped | epoch | sent | peak memory of a worker |")
    print("| --: | --- | --: | --: | --: |")
    for (workers, way), report in best.items():
        epoch, memory = report["epoch_seconds"], report["peak_memory_bytes"] / 2**20
        sent = report.get("bytes_sent", 0) / 2**30 / report["epochs"]
        print(f"| {workers} | {way} | {epoch:.2f} s | {sent:.2f} GiB | {memory:.0f} MiB |")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Test accuracy and bytes of an epoch where rows travel as they are, in 16 bits and in 8.

    cargo build --release && python3 scripts/bits.py GRAPH.npz.. [--models gcn,gat,gcnii] [--seeds 10] [--workers 4]
    .. scripts/bits.py GRAPH.npz.. --models sage --batch 512 --epochs 30

Every run goes through all its epochs on threads, by METIS parts; accuracy is that on the test vertices at the epoch of the best
validation score. Seeds are the same for all formats. The interval holds 95 % of the means of 1000 draws of as many differences,
with replacement. With --batch, runs train on sampled batches (fanouts 10,10), and bytes are all that an epoch sends. Prints a markdown table. Exits 1 if a mean is more than 0.3 points below that of rows as they are, or if bytes
are not those that the rows of the graph say. Needs Python 3.9 and nothing else.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GNNC = os.environ.get("GNNC") or ROOT / "target/release/gnnc"
FORMATS = ["f32", "bf16", "int8"]
MODELS = {
    "gcn": """
  let h = x |> dropout(0.5) |> gcn_conv(64) |> relu
  let h = h |> dropout(0.5) |> gcn_conv(64) |> relu
  loss cross_entropy(h |> dropout(0.5) |> linear(classes), labels, on = train)""",
    "gat": """
  let h = x |> dropout(0.5) |> gat_conv(16, heads = 4) |> elu
  let h = h |> dropout(0.5) |> gat_conv(16, heads = 4) |> elu
  loss cross_entropy(h |> dropout(0.5) |> linear(classes), labels, on = train)""",
    "sage": """
  let h = x |> sage_conv(64) |> relu |> dropout(0.5)
  loss cross_entropy(h |> sage_conv(classes), labels, on = train)""",
    "gcnii": """
  let h0 = x |> dropout(0.5) |> linear(64) |> relu
  let h = h0
  repeat i in 1..=16 { h = h |> dropout(0.5) |> gcnii_conv(h0, alpha = 0.1, beta = log(0.5 / i + 1)) |> relu }
  loss cross_entropy(h |> dropout(0.5) |> linear(classes), labels, on = train)""",
}
# Bytes of a row of 64 numbers; of attention, with rows of 4 scores, which travel as they are.
ROWS = {"gcn": [256, 128, 68], "gcnii": [256, 128, 68], "gat": [256 + 16, 128 + 16, 68 + 16]}


def run(model, wire, options):
    command = [GNNC, "train", model, "--workers", options.workers, "--partitioner", "metis", "--wire", wire, "--allow", "quantise,sample"]
    command += ["--placement", "minibatch" if options.batch else "graph", "--seeds", options.seeds, "--format", "json"]
    if options.batch:
        command += ["--batch", options.batch, "--fanouts", "10,10"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)["runs"]


def halo(model, wire, options):
    """Bytes of halo rows of an epoch, as a plan on the graph counts them."""
    pin = f"placement=graph,ranks={options.workers},partitioner=metis,node-ranks=1,cover=rows,wire={wire}"
    cluster = f"gpu=t4 nodes=1 gpus={options.workers}"
    command = [GNNC, "plan", model, "--cluster", cluster, "--allow", "quantise", "--pin", pin, "--format", "json"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    plan = json.loads(done.stdout)
    return plan["candidates"][plan["chosen"]]["volume"]["halo"]


def interval(differences):
    draw = random.Random(0)
    means = sorted(statistics.mean(draw.choices(differences, k=len(differences))) for _ in range(1000))
    return means[25], means[974]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("graphs", nargs="+", type=Path)
    arguments.add_argument("--models", default="gcn,gat,gcnii")
    arguments.add_argument("--seeds", type=int, default=10)
    arguments.add_argument("--epochs", type=int, default=200)
    arguments.add_argument("--workers", type=int, default=4)
    arguments.add_argument("--batch", type=int)
    options = arguments.parse_args()
    wrong = []
    print("| graph | model | f32 | bf16 | difference | int8 | difference | bytes: f32, bf16, int8 |")
    print("| --- | --- | --: | --: | --: | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as folder:
        for graph in options.graphs:
            for name in options.models.split(","):
                model = Path(folder) / f"{name}.gir"
                model.write_text(
                    f'graph g = "{graph.resolve()}"\nmodel m() on g {{{MODELS[name]}\n}}\n'
                    f"train {{ epochs = {options.epochs} optimizer = adam(lr = 0.01) weight_decay = 5e-4 }}\n"
                )
                scores, bytes_sent = {}, {}
                for wire in FORMATS:
                    runs = run(model, wire, options)
                    scores[wire] = [100 * one["test_accuracy"] for one in runs]
                    bytes_sent[wire] = runs[0]["bytes_sent"] // runs[0]["epochs"] if options.batch else halo(model, wire, options)
                cells = [graph.stem, name]
                for wire in FORMATS:
                    mean, deviation = statistics.mean(scores[wire]), statistics.stdev(scores[wire])
                    cells.append(f"{mean:.2f} % ({deviation:.2f})")
                    if wire == "f32":
                        continue
                    differences = [a - b for a, b in zip(scores[wire], scores["f32"])]
                    low, high = interval(differences)
                    mean = statistics.mean(differences)
                    cells.append(f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]")
                    if mean < -0.3:
                        wrong.append(f"{graph.stem} {name} {wire}: {mean:+.2f} points")
                for wire, row in zip(FORMATS, ROWS.get(name, [])):
                    if bytes_sent[wire] * ROWS[name][0] != bytes_sent["f32"] * row:
                        wrong.append(f"{graph.stem} {name} {wire}: {bytes_sent[wire]} of {bytes_sent['f32']} bytes")
                cells.append(", ".join(f"{bytes_sent[wire]:_}" for wire in FORMATS))
                print("| " + " | ".join(cells) + " |", flush=True)
    for line in wrong:
        print(line, file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""What drawing batches ahead gains on this machine, and how much of its cores each way of training uses.

    cargo build --release && python3 scripts/ahead.py [--turns 3] [--machine machine.toml]

Trains GraphSAGE on batches of generated graphs whose neighborhoods take longer to draw than to train on, and on some
that do not: with one thread that does both, with two threads that do both together, and with one thread that trains
while others draw in tasks that they share, begun two ahead for each or by a score. Ways take turns; the fastest epoch
of all turns counts. `cores` is the processor time of the fastest run's process over its wall time, start included.
Losses must be equal to the last bit. With a calibrated machine, `planned` is the epoch of a plan, and `busy` the cores
that are busy in its virtual time: what one thread takes over what the way takes. Prints a markdown table. Needs Python
3.9 and nothing else.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "target" / "bench"
# Vertices, edges, features.
GRAPHS = {
    "narrow": (500_000, 10_000_000, 8),
    "wide": (200_000, 4_000_000, 256),
}
# Graph, hidden columns, fanouts.
CASES = [("narrow", 8, "10,10,5"), ("narrow", 64, "10,10"), ("wide", 64, "10,10")]
WAYS = {
    "one thread": ["--threads", 1],
    "two threads": ["--threads", 2],
    "one draws, one trains": ["--threads", 1, "--samplers", 1],
    "two draw, one trains": ["--threads", 1, "--samplers", 2],
    "one draws by score": ["--threads", 1, "--samplers", 1, "--launch", "scored"],
    "two draw by score": ["--threads", 1, "--samplers", 2, "--launch", "scored"],
}


def gnnc(options, *arguments):
    command = [str(part) for part in (options.gnnc, *arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def graph(options, name):
    vertices, edges, features = GRAPHS[name]
    file = BENCH / f"ahead-{name}.npz"
    if not file.exists():
        gnnc(
            options, "graph", "generate", "rmat", "--vertices", vertices, "--edges", edges, "--classes", 16,
            "--features", features, "--out", file,
        )  # fmt: skip
    return file


def model(file, layers):
    convs = ["let h1 = x |> sage_conv(hidden) |> relu"]
    convs += [f"let h{n} = h{n - 1} |> sage_conv(hidden) |> relu" for n in range(2, layers)]
    body = "\n".join(f"  {line}" for line in [*convs, f"let z = h{layers - 1} |> sage_conv(classes)"])
    text = f"""graph data = "{file}"

model sage(hidden = 16) on data {{
{body}
  loss cross_entropy(z, labels, on = train)
}}

train {{
  optimizer = adam(lr = 0.01)
  epochs = 3
  allow = [sample]
}}
"""
    path = BENCH / f"ahead-{layers}.gir"
    path.write_text(text)
    return path


def run(options, way, file, hidden, fanouts):
    """The report, and processor seconds over wall seconds."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    report = gnnc(
        options, "train", file, "--placement", "minibatch", "--batch", 1024, "--fanouts", fanouts, "--set",
        f"hidden={hidden}", "--evaluate-every", 100, "--format", "json", *WAYS[way],
    )  # fmt: skip
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**json.loads(report), "cores": used / wall}


def planned(options, way, file, hidden, fanouts):
    """Seconds of an epoch in a plan for one rank; none without a machine, and for ways that plans do not tell apart."""
    ways = WAYS[way]
    if options.machine is None or ways[1] > 1 or "--launch" in ways:
        return None
    plan = gnnc(
        options, "plan", file, "--cluster", options.machine, "--gpus", 1, "--nodes", 1, "--allow", "sample", "--batch", 1024,
        "--fanouts", fanouts, "--set", f"hidden={hidden}", "--pin", "placement=minibatch,ranks=1", "--format", "json",
        *ways[2:],
    )  # fmt: skip
    return json.loads(plan)["candidates"][0]["epoch_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=os.environ.get("GNNC") or ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--machine", type=Path)
    options = parser.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    print("| graph | hidden | fanouts | way | epoch | of one thread's | cores | planned | busy |")
    print("| --- | --: | --- | --- | --: | --: | --: | --: | --: |")
    for name, hidden, fanouts in CASES:
        file = model(graph(options, name), fanouts.count(",") + 1)
        best = {}
        for _ in range(options.turns):
            for way in WAYS:
                found = run(options, way, file, hidden, fanouts)
                if way not in best or found["epoch_seconds"] < best[way]["epoch_seconds"]:
                    best[way] = found
        losses = {report["train_loss"] for report in best.values()}
        if len(losses) > 1:
            sys.exit(f"losses differ: {losses}")
        one = best["one thread"]["epoch_seconds"]
        plans = {way: planned(options, way, file, hidden, fanouts) for way in WAYS}
        for way, report in best.items():
            seconds, plan = report["epoch_seconds"], plans[way]
            measured = f"{seconds:.2f} s | {seconds / one:.2f} | {report['cores']:.2f}"
            virtual = f"{plan:.2f} s | {plans['one thread'] / plan:.2f}" if plan else "- | -"
            print(f"| {name} | {hidden} | {fanouts} | {way} | {measured} | {virtual} |", flush=True)


if __name__ == "__main__":
    main()

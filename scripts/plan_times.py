#!/usr/bin/env python3
"""Seconds that `gnnc plan` takes for each example on 64 GPUs, with every relaxation permitted.

    cargo build --release && python3 scripts/plan_times.py [--rounds 3] [--examples gcn_cora ..]
    python3 scripts/plan_times.py --deep 16 32 100 200          # models of so many layers, written out one by one

Plans are made from statistics, as a user has them who has no graph at hand: `gnnc graph stats` writes them first where
the example names a file. Models that make sets of edges, such as pairs, read their graph. Sampled batches have 64 seeds and 10 neighbors in each hop that the model has. Prints a
markdown table: candidates, candidates that were rejected, and the fastest of the rounds. Needs Python 3.9 and nothing
else.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLUSTER = "nodes=8 gpus=8 gpu=a100-40 link=200gb"


def gnnc(options, *arguments):
    """Standard output of a command that must succeed; nothing if a plan found nothing that fits."""
    command = [str(part) for part in (options.gnnc, *arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return done.stdout


def statistics(options, example, folder):
    """The options that replace the graph of an example by its statistics; none if it must be read.

    It must be read if the model makes sets of edges of it, which statistics of a file do not have.
    """
    named = re.search(r'^graph \w+ = "([^"]+)"', example.read_text(), re.MULTILINE)
    if not named:
        return []
    file = Path(folder) / f"{example.stem}.json"
    file.write_text(gnnc(options, "graph", "stats", example.parent / named[1], "--format", "json"))
    found = ["--workload", file]
    plan = [options.gnnc, "plan", example, "--cluster", CLUSTER, *found]
    return found if subprocess.run(plan, capture_output=True).returncode == 0 else None


def hops(options, plan):
    """How many hops a batch of the model has, as the reason says that rejects one fanout; 1 if nothing does."""
    rejected = json.loads(gnnc(options, *plan, "--batch", 64, "--fanouts", 10, "--format", "json"))["rejected"]
    reasons = [row["reason"] for row in rejected if row["placement"] in ("minibatch", "push-pull")]
    for reason in reasons:
        found = re.search(r"aggregates (\d+) times", reason)
        if found:
            return int(found[1]) if int(found[1]) <= 16 else None
    return None if reasons else 1


def timed(options, arguments):
    """The output, and the seconds of the fastest round."""
    best, output = float("inf"), ""
    for _ in range(options.rounds):
        start = time.perf_counter()
        output = gnnc(options, *arguments)
        best = min(best, time.perf_counter() - start)
    return output, best


DEEP = """graph big {{ vertices = 232_965 edges = 114_615_892 features = 602 classes = 41 }}

model deep(hidden = 64) on big {{
{layers}
  loss cross_entropy(h{last} |> gcn_conv(classes), labels, on = train)
}}

train {{ optimizer = adam(lr = 0.01) }}
"""
# The first layer of each kind, and the others: `H` is what comes before it.
KINDS = {
    "GCN": ("x |> gcn_conv(hidden) |> relu", "H |> gcn_conv(hidden) |> relu"),
    "GraphSAGE": ("x |> sage_conv(hidden) |> relu", "H |> sage_conv(hidden) |> relu"),
    "GAT": ("x |> gat_conv(16, heads = 4) |> elu", "H |> gat_conv(16, heads = 4) |> elu"),
    "residual GCN": ("x |> linear(hidden)", "H + (H |> layer_norm |> relu |> gcn_conv(hidden))"),
}


def peak(command):
    """Seconds and megabytes of a command that must succeed."""
    start = time.perf_counter()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 3):
        sys.exit(f"{command} failed")
    return time.perf_counter() - start, used.ru_maxrss / 1000


def deep(options):
    """Prints the times of models on the statistics of Reddit whose layers are written out: the fastest round."""
    print(f"| layers | {' | '.join(KINDS)} |\n| --: |{' --: |' * len(KINDS)}")
    with tempfile.TemporaryDirectory() as folder:
        for count in options.deep:
            cells = []
            for first, other in KINDS.values():
                layers = [f"  let h0 = {first}"]
                layers += [f"  let h{n} = {other.replace('H', f'h{n - 1}')}" for n in range(1, count - 1)]
                model = Path(folder) / "deep.gir"
                model.write_text(DEEP.format(layers="\n".join(layers), last=count - 2))
                command = [options.gnnc, "plan", model, "--gpus", "8", "--top", "3"]
                seconds, megabytes = min(peak(command) for _ in range(options.rounds))
                cells.append(f"{seconds:.1f} s, {megabytes:.0f} MB")
            print(f"| {count} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=os.environ.get("GNNC", ROOT / "target" / "release" / "gnnc"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--examples", nargs="*", help="names without .gir; all without it")
    parser.add_argument("--deep", nargs="*", type=int, help="numbers of layers, ascending")
    options = parser.parse_args()
    if options.deep:
        return deep(options)
    found = sorted((ROOT / "examples").glob("*.gir"))
    chosen = [path for path in found if not options.examples or path.stem in options.examples]
    print("| example | from | hops | candidates | rejected | seconds |")
    print("| --- | --- | --: | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as folder:
        for example in chosen:
            plan = ["plan", example, "--cluster", CLUSTER, "--allow", "decouple,stale,sample"]
            known = statistics(options, example, folder)
            plan += known or []
            count = hops(options, plan)
            if count:
                plan += ["--batch", 64, "--fanouts", ",".join(["10"] * count)]
            output, seconds = timed(options, [*plan, "--format", "json"])
            report = json.loads(output)
            source = "graph" if known is None else "statistics"
            row = [example.stem, source, count or "none", len(report["candidates"]), len(report["rejected"]), f"{seconds:.2f}"]
            print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


if __name__ == "__main__":
    main()

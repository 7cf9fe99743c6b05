#!/usr/bin/env python3
"""Memory of processes that read a large graph whole, and by parts.

    cargo build --release && python3 scripts/by_part.py [--vertices 5000000] [--edges 100000000] [--parts 4] [--partitioner hash]
        [--placement graph|push-pull|minibatch] [--only parts]

Generates a graph with a power law, writes its parts, and trains GCN on all of it (with minibatch GraphSAGE on sampled batches) in one
process, in as many processes as there are parts, and in as many that read their parts only (--only parts: the last way alone). Memory is what
processes hold without pages of files, which the system takes back when it needs them: of all together (pages that they share count once), and of
the largest, looked at five times a second. Pages of files are listed beside it. Prints a markdown table, and exits 1 if losses differ.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import GNNC

MODEL = """graph big = "big.npz"

model gcn(hidden = 16) on big {
  let h = x |> gcn_conv(hidden) |> relu
  let z = h |> gcn_conv(classes)
  loss cross_entropy(z, labels, on = train)
}

train { optimizer = adam(lr = 0.01)  epochs = 3 }
"""


SAGE = """graph big = "big.npz"

model sage(hidden = 16) on big {
  let h = x |> sage_conv(hidden) |> relu
  let z = h |> sage_conv(classes)
  loss cross_entropy(z, labels, on = train)
}

train { optimizer = adam(lr = 0.01)  epochs = 1  batch = 20_000  fanouts = [5, 5]  eval_fanouts = [5, 5]  allow = [sample] }
"""


def memory():
    """Bytes of all processes of gnnc: together, and of the largest; and of the pages of files that they use."""
    each, files = [], 0
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and (folder / "comm").read_text().strip() == "gnnc":
                lines = (folder / "smaps_rollup").read_text().splitlines()
                sizes = {line.split(":")[0]: 1024 * int(line.split()[1]) for line in lines[1:]}
                each.append(sizes["Pss"] - sizes["Pss_File"])
                files += sizes["Pss_File"]
        except (OSError, IndexError):
            pass
    return sum(each), max(each, default=0), files


def run(command):
    """The output of a command, the most memory of all its processes, of one, and of pages of files, and its seconds."""
    begin = time.monotonic()
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    most = (0, 0, 0)
    while process.poll() is None:
        most = tuple(map(max, most, memory()))
        time.sleep(0.2)
    output, errors = process.communicate()
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{output}{errors}")
    return output, most, time.monotonic() - begin


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--vertices", type=int, default=5_000_000)
    arguments.add_argument("--edges", type=int, default=100_000_000)
    arguments.add_argument("--features", type=int, default=32)
    arguments.add_argument("--parts", type=int, default=4)
    arguments.add_argument("--partitioner", default="hash")
    arguments.add_argument("--placement", default="graph", choices=["graph", "push-pull", "minibatch"])
    arguments.add_argument("--only", choices=["parts"])
    options = arguments.parse_args()
    gib = lambda count: f"{count / 2**30:.2f} GiB"
    row = lambda most: " | ".join(map(gib, most))
    print("| what | all processes | the largest | pages of files | seconds | epoch |\n| --- | --: | --: | --: | --: | --: |")
    with tempfile.TemporaryDirectory(dir=os.environ.get("GNNC_SPACE")) as place:
        folder = Path(place)
        (folder / "big.gir").write_text(SAGE if options.placement == "minibatch" else MODEL)
        graph, parts = folder / "big.npz", folder / "parts"
        generate = ["graph", "generate", "rmat", "--vertices", options.vertices, "--edges", options.edges]
        generate += ["--features", options.features, "--classes", 16, "--out", graph]
        _, most, seconds = run([GNNC, *generate])
        print(f"| generating | {row(most)} | {seconds:.0f} | |", flush=True)
        divide = ["graph", "partition", graph, "--parts", options.parts, "--partitioner", options.partitioner, "--out", f"{parts}/"]
        _, most, seconds = run([GNNC, *divide])
        print(f"| partitioning | {row(most)} | {seconds:.0f} | |", flush=True)
        train = [GNNC, "train", folder / "big.gir", "--placement", options.placement, "--workers", options.parts]
        train += ["--evaluate-every", 3, "--format", "json"]
        together = ["mpirun", "-n", options.parts]
        ways = {
            "one process": [*train, "--partitioner", options.partitioner],
            f"{options.parts} processes, the whole graph": [*together, *train, "--partitioner", options.partitioner],
            f"{options.parts} processes, their parts": [*together, *train, "--graph", parts],
        }
        if options.only:
            ways = dict(list(ways.items())[-1:])
        losses = []
        for name, command in ways.items():
            output, most, seconds = run(command)
            said = json.loads(output)
            losses.append(said["train_loss"])
            print(f"| {name} | {row(most)} | {seconds:.0f} | {said['epoch_seconds']:.2f} s |", flush=True)
        sys.exit(len(set(losses)) > 1)


if __name__ == "__main__":
    main()

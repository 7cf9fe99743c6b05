#!/usr/bin/env python3
"""Sampled GraphSAGE of gnnc in processes beside DGL under PyTorch's DistributedDataParallel over gloo.

    cargo build --release
    benches/peers/setup.sh dgl          # once: DGL's own environment; gnnc needs an MPI library
    python3 benches/ddp.py [--turns 3] [--processes 2,4]

Two layers, fanouts 25,10, batches of 1000 seeds, which the processes share; one thread a process. Each process of DGL holds the whole
graph and all features, so it sends gradients only. Processes of gnnc hold the features of their own vertices and fetch the others; with
`--topology own` they also hold their own edges only. Takes turns, and prints a markdown table of the medians of epochs.
"""

import argparse
import json
import statistics
import subprocess
import sys

from distdgl import PYTHON, free_ports
from graphs import ROOT, graph_file, say
from minibatch import BENCHES
from processes import GNNC

WAYS = {"whole edges": [], "own edges": ["--topology", "own"]}


def gnnc_epoch(file, hidden, processes, more):
    """Seconds of an epoch of gnnc."""
    train = [GNNC, "train", BENCHES / "models/sage.gir", "--graph", file, "--set", f"hidden={hidden}", "--placement", "minibatch"]
    train += ["--allow", "sample", "--batch", 1000, "--fanouts", "25,10", "--roots", "dealt", "--partitioner", "metis"]
    train += ["--workers", processes, "--threads", 1, "--epochs", 3, "--evaluate-every", 3, "--format", "json", *more]
    done = subprocess.run(["mpirun", "-n", str(processes), *map(str, train)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return json.loads(done.stdout)["epoch_seconds"]


def ddp_epoch(file, hidden, processes):
    """Seconds of an epoch of DGL: the median of the slowest process's."""
    (port,) = free_ports(1)
    worker = [PYTHON, "-W", "ignore", BENCHES / "peers/minibatch.py", "--peer", "dgl", "--graph", file, "--hidden", hidden]
    started = []
    for rank in range(processes):
        command = [*worker, "--ddp", f"{rank}/{processes}/{port}"]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen([str(part) for part in command], stdin=pipe, stdout=pipe, stderr=pipe, text=True))
    # All of them wait for each other.
    for process in started:
        process.stdin.write("0\n")
        process.stdin.close()
    answers = [(process.stdout.read(), process.stderr.read()) for process in started]
    times = []
    for process, (output, errors) in zip(started, answers):
        if process.wait():
            sys.exit(errors[-2000:])
        times.append(statistics.median(json.loads(output.splitlines()[-1])))
    return max(times)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--turns", type=int, default=3)
    arguments.add_argument("--processes", default="2,4")
    arguments.add_argument("--graphs", default="arxiv-like")
    options = arguments.parse_args()
    if not PYTHON.exists():
        sys.exit(f"DGL is not installed in {PYTHON.parent.parent.relative_to(ROOT)}; run benches/peers/setup.sh dgl")
    heads = "".join(f" gnnc, {way} |" for way in WAYS)
    print(f"| graph | hidden | processes | DGL with DDP |{heads} DGL / gnnc |\n| --- | --: | --: |{' --: |' * (len(WAYS) + 2)}")
    for name in options.graphs.split(","):
        file = graph_file(name, GNNC)
        for hidden in (32, 256) if file else ():
            for processes in map(int, options.processes.split(",")):
                ddp, own = [], {way: [] for way in WAYS}
                for _ in range(options.turns):
                    ddp.append(ddp_epoch(file, hidden, processes))
                    for way, more in WAYS.items():
                        own[way].append(gnnc_epoch(file, hidden, processes, more))
                    say(f"{name}, {hidden} hidden, {processes} processes: {ddp[-1]:.3f}, {[times[-1] for times in own.values()]}")
                medians = [statistics.median(times) for times in (ddp, *own.values())]
                cells = " | ".join(f"{seconds:.3f} s" for seconds in medians)
                print(f"| {name} | {hidden} | {processes} | {cells} | {medians[0] / medians[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Epochs of sampled GraphSAGE beside DGL, its GraphBolt and PyTorch Geometric on the CPU.

    cargo build --release
    benches/peers/setup.sh              # once: the peers' own environments
    python3 benches/minibatch.py        # all rows; --quick for a look

Two layers, fanouts 25,10, batches of 1000 seeds. A peer's numbers of sampling processes are tried,
and its best one is kept. Then all take turns for some rounds. A peer that is not installed, or that
cannot sample here, is left out, and that is said. Prints a markdown table.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from pathlib import Path

from graphs import MADE, ROOT, graph_file, say

BENCHES = Path(__file__).resolve().parent
GRAPHS = {name: MADE[name][1] for name in ("arxiv-like", "reddit-like")}
PEERS = {"DGL": (".venv-dgl", "dgl"), "GraphBolt": (".venv-dgl", "graphbolt"), "PyG": (".venv-pyg", "pyg")}


class Runner:
    """A process that trains epochs when asked."""

    def __init__(self, command):
        pipe = subprocess.PIPE
        command = [str(part) for part in command]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.PIPE, text=True)

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.stderr.read().strip()[-300:])
        return json.loads(line)

    def turn(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return self.line()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def gnnc_runner(gnnc, file, hidden, threads):
    command = [gnnc, "bench-epoch", BENCHES / "models" / "sage.gir", "--graph", file, "--set", f"hidden={hidden}"]
    command += ["--placement", "minibatch", "--allow", "sample", "--batch", 1000, "--fanouts", "25,10"]
    return Runner(command + ["--threads", threads, "--interleave", "--format", "json"])


def peer_runner(name, file, hidden, threads, workers):
    environment, kind = PEERS[name]
    command = [ROOT / environment / "bin/python", "-W", "ignore", BENCHES / "peers" / "minibatch.py", "--peer", kind]
    runner = Runner(command + ["--graph", file, "--hidden", hidden, "--threads", threads, "--workers", workers])
    runner.about = runner.line()
    return runner


def best_workers(name, file, hidden, threads, options):
    """A peer with the number of sampling processes that makes its epochs shortest."""
    best = None
    for workers in options.workers:
        try:
            runner = peer_runner(name, file, hidden, threads, workers)
            seconds = min(runner.turn(0))
        except RuntimeError as error:
            say(f"{name} with {workers} workers: left out: {error}")
            continue
        if best is None or seconds < best[1]:
            if best:
                best[0].end()
            best = (runner, seconds, workers)
        else:
            runner.end()
    return best


def row(name, hidden, threads, peers, options):
    """Seconds of an epoch by library, and what was chosen."""
    file = graph_file(name, options.gnnc)
    runners, chosen, seeds = {"gnnc": gnnc_runner(options.gnnc, file, hidden, threads)}, {}, None
    for peer in peers:
        best = best_workers(peer, file, hidden, threads, options)
        if best:
            runners[peer], _, chosen[peer] = best
            seeds = runners[peer].about["seeds"]
    times = {library: [] for library in runners}
    for turn in range(options.rounds):
        order = list(runners)
        for library in order[turn % len(order) :] + order[: turn % len(order)]:
            times[library] += runners[library].turn(options.seconds)
    for runner in runners.values():
        runner.end()
    return {library: statistics.median(found) for library, found in times.items()}, chosen, seeds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--graphs", nargs="*", default=list(GRAPHS), choices=list(GRAPHS))
    parser.add_argument("--hidden", nargs="*", default=[32, 256], type=int)
    parser.add_argument("--threads", nargs="*", default=[1, 2], type=int)
    parser.add_argument("--workers", nargs="*", default=[0, 1, 2], type=int, help="sampling processes of peers to try")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn")
    parser.add_argument("--quick", action="store_true", help="one row, one round")
    options = parser.parse_args()
    if options.quick:
        options.graphs, options.hidden, options.threads, options.rounds = ["arxiv-like"], [32], [1], 1
    peers = [name for name, (environment, _) in PEERS.items() if (ROOT / environment / "bin/python").exists()]
    for name in PEERS:
        if name not in peers:
            say(f"{name}: left out, not installed; see benches/peers/setup.sh")
    print("| graph | hidden | threads | gnnc s | " + " | ".join(f"{p} s (workers)" for p in peers) + " | best peer / gnnc |")
    print("| --- | --: | --: | --: |" + " --: |" * (len(peers) + 1))
    ratios = []
    for name, hidden, threads in itertools.product(options.graphs, options.hidden, options.threads):
        medians, chosen, _ = row(name, hidden, threads, peers, options)
        cells = [f"{medians[p]:.2f} ({chosen[p]})" if p in medians else "–" for p in peers]
        best = min((medians[p] for p in peers if p in medians), default=None)
        ratio = best / medians["gnnc"] if best else None
        ratios += [ratio] if ratio else []
        ends = [f"{medians['gnnc']:.3f}", *cells, f"{ratio:.2f}" if ratio else "–"]
        print(f"| {name} | {hidden} | {threads} | " + " | ".join(ends) + " |", flush=True)
    if ratios:
        print(f"\nGeometric mean of the ratios: {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()

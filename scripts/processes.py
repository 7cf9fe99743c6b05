#!/usr/bin/env python3
"""Losses of ranks in processes beside those of ranks that are threads, bit for bit.

    cargo build --release && python3 scripts/processes.py [--mpirun mpirun] [--only NAME,..] [--processes 2,4]

Trains each case with as many workers in one process, and with the workers divided among processes that mpirun starts: one or
two a process. Everything that the logs of both runs say of each epoch must be equal, apart from times. Prints a markdown table,
and exits 1 if something differs.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GNNC = os.environ.get("GNNC") or ROOT / "target/release/gnnc"
# Open MPI refuses more processes than cores, and the system's administrator.
os.environ.update(
    OMPI_MCA_rmaps_base_oversubscribe="1",
    PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe",
    OMPI_ALLOW_RUN_AS_ROOT="1",
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
)
SAMPLED = ["--allow", "sample", "--batch", "35", "--fanouts", "5,5"]
STALE = ["--allow", "stale"]
# What is trained: the model, the options, and the most workers.
CASES = {
    "graph": ("gcn", [], 8),
    "graph: gat": ("gat", [], 8),
    "graph: gcnii": ("gcnii", ["--set", "depth=8"], 8),
    "tensor": ("gcn", ["--placement", "tensor"], 8),
    "tensor-decoupled": ("gcn", ["--placement", "tensor-decoupled", "--allow", "decouple"], 8),
    "broadcast": ("sage", ["--placement", "broadcast"], 8),
    "push-pull": ("sage", ["--placement", "push-pull"], 8),
    "graph: joint cover": ("gcn", ["--placement", "graph", "--cover", "joint"], 8),
    "graph: joint cover on nodes of 4": ("gcn", ["--placement", "graph", "--cover", "joint", "--node-ranks", "4"], 8),
    "graph: rows as int8": ("gcn", ["--placement", "graph", "--wire", "int8", "--allow", "quantise"], 8),
    "tensor: rows as bf16": ("gat", ["--placement", "tensor", "--wire", "bf16", "--allow", "quantise"], 4),
    "minibatch: rows as int8": (
        "sage",
        ["--placement", "minibatch", "--allow", "sample,quantise", "--batch", "64", "--fanouts", "5,5", "--wire", "int8"],
        8,
    ),
    "graph on nodes of 4: rows as int8": (
        "gat",
        ["--placement", "graph", "--node-ranks", "4", "--wire", "int8", "--allow", "quantise"],
        8,
    ),
    "graph on nodes of 4": ("gat", ["--placement", "graph", "--node-ranks", "4"], 8),
    "tensor in groups of 2": ("gcn", ["--placement", "tensor", "--slices", "2"], 8),
    "tensor in groups of 4: rows as int8": (
        "gat",
        ["--placement", "tensor", "--slices", "4", "--set", "hidden=128", "--wire", "int8", "--allow", "quantise"],
        8,
    ),
    "mixed on nodes of 2": ("gcn", ["--placement", "mixed", "--node-ranks", "2"], 4),
    "mixed": ("gcn", ["--placement", "mixed"], 4),
    "skip-broadcast by age": ("gcn", ["--placement", "skip-broadcast", *STALE, "--skip", "fixed:2"], 8),
    "skip-broadcast by distance": ("gcn", ["--placement", "skip-broadcast", *STALE, "--skip", "gap:0.05"], 8),
    "pipeline": ("gcnii", ["--set", "depth=8", "--placement", "pipeline", *STALE, "--chunks", "4"], 8),
    "pipeline: a ring": ("gcnii", ["--set", "depth=16", "--placement", "pipeline", *STALE, "--chunks", "4", "--virtual-stages", "2"], 4),
    "hybrid": ("gcnii", ["--set", "depth=8", "--placement", "hybrid", *STALE, "--stages", "2"], 8),
    "minibatch": ("sage", ["--placement", "minibatch", *SAMPLED], 8),
    "minibatch: a cache": ("sage", ["--placement", "minibatch", *SAMPLED, "--cache", "300"], 4),
    "minibatch: samplers": ("sage", ["--placement", "minibatch", *SAMPLED, "--samplers", "2"], 4),
    "minibatch: own roots": ("sage", ["--placement", "minibatch", *SAMPLED, "--roots", "own"], 4),
    "minibatch: own edges": ("sage", ["--placement", "minibatch", *SAMPLED, "--topology", "own", "--roots", "dealt"], 4),
    "push-pull on batches": ("sage", ["--placement", "push-pull", *SAMPLED], 8),
    "push-pull on batches late": ("sage", ["--placement", "push-pull", *SAMPLED, *STALE, "--delay", "2"], 4),
    "model-migration": ("sage", ["--placement", "model-migration", *SAMPLED], 8),
    "evaluation on batches": ("sage", ["--placement", "minibatch", *SAMPLED, "--eval-fanouts", "5,5"], 4),
    "a named metric": ("gcn", ["--metric", "macro-f1"], 4),
}


def run(command):
    found = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300)
    if found.returncode:
        sys.exit(f"{shlex.join(map(str, command))}\n{found.stdout}{found.stderr}")


def epochs(file):
    """What a log says of each epoch, without times."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    said = [line for line in lines if line["event"] == "epoch"]
    summary = [line for line in lines if line["event"] not in ("run", "epoch")]
    times = ("seconds", "evaluation_seconds")
    kept = [{key: value for key, value in line.items() if key not in times} for line in said]
    return kept + [{"bytes_sent": line.get("bytes_sent")} for line in summary]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--mpirun", default="mpirun")
    arguments.add_argument("--only", default=",".join(CASES))
    arguments.add_argument("--processes", default="1,2,3,4,8")
    options = arguments.parse_args()
    differ = False
    print("| case | processes x workers of each | result |\n| --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        for name, (model, more, most) in CASES.items():
            if name not in options.only.split(",") and options.only != arguments.get_default("only"):
                continue
            train = [GNNC, "train", ROOT / f"examples/{model}_cora.gir", *more, "--epochs", "6", "--quiet", "--log", log]
            equal, unequal = [], []
            for processes in map(int, options.processes.split(",")):
                for each in (1, 2):
                    workers = processes * each
                    if workers > most or workers < 2:
                        continue
                    if name == "hybrid" and workers < 4:
                        continue
                    sizes = [int(more[more.index(option) + 1]) for option in ("--node-ranks", "--slices") if option in more]
                    if any(workers % size for size in sizes):
                        continue
                    log.unlink(missing_ok=True)
                    run([*train, "--workers", workers])
                    expected = epochs(log)
                    log.unlink()
                    run([*shlex.split(options.mpirun), "-n", processes, *train, "--workers", workers])
                    (equal if epochs(log) == expected else unequal).append(f"{processes} x {each}")
            differ |= bool(unequal)
            told = f"differ: {', '.join(unequal)}" if unequal else "equal bit for bit"
            print(f"| {name} | {', '.join(equal + unequal)} | {told} |", flush=True)
    sys.exit(differ)


if __name__ == "__main__":
    main()

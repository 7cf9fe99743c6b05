#!/usr/bin/env python3
"""Kills and stops processes of runs at random moments.

    cargo build --release && python3 scripts/faults.py [--mpirun mpirun] [--kills 200] [--stops 10] [--seed 0]

A run on several processes writes a checkpoint every two epochs. At a random moment a random process gets SIGKILL, or SIGSTOP. All
others must end within 10 seconds, and the run goes on from its checkpoint, if it has written one, until it is done. What it then
says must be what a run says that nothing happened to, to the last digit. Prints a markdown table, and exits 1 if anything differs
or takes too long.
"""

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from processes import GNNC, ROOT, SAMPLED

CASES = {
    "graph": ("gcn", 3, ["--epochs", "60"]),
    "tensor": ("gcn", 4, ["--placement", "tensor", "--epochs", "60"]),
    "pipeline": ("gcnii", 2, ["--set", "depth=8", "--placement", "pipeline", "--allow", "stale", "--chunks", "4", "--epochs", "30"]),
    "minibatch": ("sage", 3, ["--placement", "minibatch", *SAMPLED, "--epochs", "20"]),
    "push-pull on batches": ("sage", 2, ["--placement", "push-pull", *SAMPLED, "--epochs", "20"]),
}
PATIENCE = 10
SAID = ("epochs", "train_loss", "val_accuracy", "test_accuracy", "best_epoch")


def processes(parent):
    """The processes of gnnc that a launcher has started."""
    found = subprocess.run(["ps", "-eo", "pid,ppid,comm"], capture_output=True, text=True, check=True)
    rows = [line.split(None, 2) for line in found.stdout.splitlines()[1:]]
    below, grown = {parent}, True
    while grown:
        more = {int(pid) for pid, above, _ in rows if int(above) in below}
        grown = not more <= below
        below |= more
    return [int(pid) for pid, _, name in rows if int(pid) in below and name == "gnnc"]


class Case:
    def __init__(self, name, mpirun, folder):
        model, self.ranks, self.options = CASES[name]
        self.model = ROOT / f"examples/{model}_cora.gir"
        self.mpirun, self.checkpoint = mpirun, Path(folder) / "run.ckpt"

    def start(self):
        command = [*shlex.split(self.mpirun), "-n", self.ranks, GNNC, "train", self.model, *self.options, "--quiet", "--format", "json"]
        command += ["--checkpoint", self.checkpoint, "--checkpoint-every", 2]
        if self.checkpoint.exists():
            command += ["--resume", self.checkpoint]
        return subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def trains(self, began):
        """Whether a run that began then has written a checkpoint."""
        return self.checkpoint.exists() and self.checkpoint.stat().st_mtime > began

    def said(self, output):
        summary = json.loads(output)
        return {key: summary[key] for key in SAID}

    def begin(self):
        for file in self.checkpoint.parent.iterdir():
            file.unlink()


def faults(case, expected, usual, count, kind, draw, result):
    """Kills or stops until there were so many; returns the longest time that the others took to end."""
    longest, done = 0.0, 0
    case.begin()
    while done < count:
        began = time.time()
        run, begin = case.start(), time.monotonic()
        # Whether the run had a process to hit, and when.
        while time.monotonic() - begin < 5 and not processes(run.pid) and run.poll() is None:
            time.sleep(0.01)
        # Before processes have met, nobody watches them: only kills come that early.
        while kind == signal.SIGSTOP and run.poll() is None and not case.trains(began):
            time.sleep(0.01)
        time.sleep(draw.uniform(0, usual / 2 if kind == signal.SIGSTOP else usual))
        victims = processes(run.pid)
        if victims and run.poll() is None:
            try:
                os.kill(draw.choice(victims), kind)
            except ProcessLookupError:
                pass
            else:
                done += 1
                hit = time.monotonic()
                try:
                    run.wait(PATIENCE + 5)
                except subprocess.TimeoutExpired:
                    result.append("a run did not end")
                    for pid in processes(run.pid) + [run.pid]:
                        os.kill(pid, signal.SIGKILL)
                longest = max(longest, time.monotonic() - hit)
        output, _ = run.communicate()
        if run.returncode == 0:
            found = case.said(output)
            # A run that was killed after its last checkpoint has no epoch left, and so no loss of its own.
            found["train_loss"] = found["train_loss"] or expected["train_loss"]
            if found != expected:
                result.append(f"found {case.said(output)}, expected {expected}")
            case.begin()
    return longest


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--mpirun", default="mpirun")
    arguments.add_argument("--kills", type=int, default=200)
    arguments.add_argument("--stops", type=int, default=10)
    arguments.add_argument("--seed", type=int, default=0)
    options = arguments.parse_args()
    draw, wrong = random.Random(options.seed), []
    print("| case | processes | killed | all ended within | stopped | all ended within | result |\n| --- | --: | --: | --: | --: | --: | --- |")
    for place, name in enumerate(CASES):
        share = lambda total: total // len(CASES) + (place < total % len(CASES))
        with tempfile.TemporaryDirectory() as folder:
            case, result = Case(name, options.mpirun, folder), []
            begin = time.monotonic()
            run = case.start()
            output, errors = run.communicate()
            if run.returncode:
                sys.exit(errors)
            usual, expected = time.monotonic() - begin, case.said(output)
            kills, stops = share(options.kills), share(options.stops)
            killed = faults(case, expected, usual, kills, signal.SIGKILL, draw, result)
            stopped = faults(case, expected, usual, stops, signal.SIGSTOP, draw, result)
            if max(killed, stopped) > PATIENCE:
                result.append("took too long")
            told = "; ".join(result) or "the same numbers"
            print(f"| {name} | {case.ranks} | {kills} | {killed:.2f} s | {stops} | {stopped:.2f} s | {told} |", flush=True)
            wrong += result
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Kills and stops processes of runs at random moments.

    cargo build --release && python3 scripts/faults.py [--mpirun mpirun] [--kills 200] [--stops 10] [--seed 0]

A run on several processes writes a checkpoint every two epochs. At a random moment a random process gets SIGKILL, or SIGSTOP. All
others must end within 10 seconds, and the run goes on from its checkpoint, if it has written one, until it is done. What it then
says must be what a run says that nothing happened to, to the last digit. Prints a markdown table, and exits 1 if anything differs
or takes too long.

Open MPI's launcher sometimes waits for a lock of its own forever when all processes have ended. It is then killed, and that is
counted.
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
    """The processes of gnnc that a launcher has started and that have not ended."""
    found = subprocess.run(["ps", "-eo", "pid,ppid,stat,comm"], capture_output=True, text=True, check=True)
    rows = [line.split(None, 3) for line in found.stdout.splitlines()[1:]]
    below, grown = {parent}, True
    while grown:
        more = {int(pid) for pid, above, _, _ in rows if int(above) in below}
        grown = not more <= below
        below |= more
    live = [(int(pid), name) for pid, _, state, name in rows if not state.startswith("Z")]
    return [pid for pid, name in live if pid in below and name == "gnnc"]


def wait(run, stopped):
    """Waits until all processes but a stopped one have ended, then for the launcher; the seconds, and whether that hangs."""
    begin = time.monotonic()
    while run.poll() is None and set(processes(run.pid)) - {stopped} and time.monotonic() - begin < PATIENCE + 5:
        time.sleep(0.02)
    seconds = time.monotonic() - begin
    try:
        run.wait(PATIENCE)
        return seconds, False
    except subprocess.TimeoutExpired:
        run.kill()
        return seconds, True


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
    """Kills or stops until there were so many; returns the longest time that the others took to end, and how often the
    launcher did not."""
    longest, done, hung = 0.0, 0, 0
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
            victim = draw.choice(victims)
            try:
                os.kill(victim, kind)
            except ProcessLookupError:
                pass
            else:
                done += 1
                seconds, hangs = wait(run, victim if kind == signal.SIGSTOP else None)
                longest, hung = max(longest, seconds), hung + hangs
                for pid in processes(run.pid):
                    if pid != victim:
                        result.append("a process did not end")
                    os.kill(pid, signal.SIGKILL)
        output, _ = run.communicate()
        if run.returncode == 0:
            found = case.said(output)
            # A run that was killed after its last checkpoint has no epoch left, and so no loss of its own.
            found["train_loss"] = found["train_loss"] or expected["train_loss"]
            if found != expected:
                result.append(f"found {case.said(output)}, expected {expected}")
            case.begin()
    return longest, hung


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
            killed, hung = faults(case, expected, usual, kills, signal.SIGKILL, draw, result)
            stopped, also = faults(case, expected, usual, stops, signal.SIGSTOP, draw, result)
            if max(killed, stopped) > PATIENCE:
                result.append("took too long")
            told = "; ".join(result) or "the same numbers"
            if hung + also:
                told += f" ({hung + also} times mpirun itself did not end)"
            print(f"| {name} | {case.ranks} | {kills} | {killed:.2f} s | {stops} | {stopped:.2f} s | {told} |", flush=True)
            wrong += result
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

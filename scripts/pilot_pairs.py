#!/usr/bin/env python3
"""Predicted and measured times until the validation vertices reach a score, for four models.

    cargo build --release && target/release/gnnc calibrate --out target/bench/machine.toml
    python3 scripts/pilot_pairs.py [--machine FILE] [--pairs cora barrier] [--rounds 3]

For each model: `gnnc pilot` with three seeds; a plan by it for one core of the calibrated machine; then runs of the
best candidate of each class that reached the score in the pilot, with three other seeds. The classes take turns, seed
by seed; each run is made once a round, and the fastest of its rounds counts, so that others who use the machine slow
down all classes alike or none. Prints a markdown table. Files are left in target/bench.

A prediction goes from the fewest epochs that another seed is likely to need, by those of the pilot, and the lower bound
of an epoch to the most and the upper bound. `in range` says how many of the three measured times lie in it, and `of the
epochs` how many of the three numbers of epochs are among the likely ones. `epoch` is the predicted time of an epoch with
its evaluation over the measured one. Needs Python 3.9 and nothing else.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / "target" / "bench"

# The model, the score to reach, the time of the pilot, and what is permitted.
PAIRS = {
    "cora": ("gcn_cora", 0.78, "1min", ["--allow", "stale,sample", "--batch", "70", "--fanouts", "10,10"]),
    "photo": ("sage_photo", 0.92, "8min", ["--allow", "decouple,sample", "--batch", "512", "--fanouts", "10,10"]),
    "minesweeper": (
        "sage_minesweeper",
        0.86,
        "15min",
        ["--allow", "sample", "--batch", "512", "--fanouts", "10,10,10,10,10"],
    ),
    "barrier": ("gine_barrier", 0.84, "15min", []),
}
# Seeds that no pilot has.
OTHER_SEEDS = [100, 101, 102]


def gnnc(options, *arguments):
    """The report of a command, as JSON. Exit code 4 says that a run did not reach its score."""
    command = [str(part) for part in (options.gnnc, *arguments, "--format", "json")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 4):
        sys.exit(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def seconds(number):
    return f"{number:.2f} s" if number >= 1 else f"{number * 1e3:.1f} ms"


def span(numbers, shown=str):
    low, high = shown(min(numbers)), shown(max(numbers))
    return low if low == high else f"{low} to {high}"


class Contender:
    """The best candidate of a class in a plan, and what runs of it measured."""

    def __init__(self, plan, number, file):
        self.known = plan["candidates"][number]["to_target"]
        self.candidate = plan["candidates"][number]
        self.file = file
        file.write_text(json.dumps({**plan, "chosen": number}))
        # By seed: epochs, and the time of the fastest round.
        self.epochs, self.times, self.of_epoch = {}, {}, []

    def run(self, options, goal, seed):
        summary = gnnc(options, "train", self.file, "--target", goal["target"], "--seed", seed)
        way = summary["target"]
        time = way["seconds"] + way["evaluation_seconds"]
        self.of_epoch.append(time / summary["epochs"])
        if not way["reached"]:
            print(f"{self.name()}: seed {seed} did not reach the score", file=sys.stderr)
            return
        self.epochs[seed] = way["epoch"]
        self.times[seed] = min(time, self.times.get(seed, time))

    def name(self):
        method = self.known["class"]["method"]
        if method["kind"] == "sampled":
            return f"batches of {method['batch']}"
        names = {"exact": "whole graph", "decoupled": "decoupled", "histories": "histories"}
        return names[method["kind"]]

    def row(self):
        needed, time = self.known["needed"], self.known["seconds"]
        if needed["known"] == "more-than":
            return [f"> {needed['epochs']}", "-", f"> {seconds(time['low'])}", "-", "-", "-", "-", "-"]
        fastest, slowest, likely = needed["fastest"], needed["slowest"], needed["likely"]
        pilot = [
            span([fastest, slowest]),
            span([likely["low"], likely["high"]]),
            f"{seconds(time['low'])} to {seconds(time['high'])}",
        ]
        epochs, times = list(self.epochs.values()), list(self.times.values())
        if not epochs:
            return [*pilot, "not reached", *["-"] * 4]
        inside = sum(time["low"] <= measured <= time["high"] for measured in times)
        of_epochs = sum(likely["low"] <= measured <= likely["high"] for measured in epochs)
        predicted = self.candidate["epoch_seconds"] + self.candidate["eval_seconds"]
        return [
            *pilot,
            span(epochs),
            span(times, seconds),
            f"{inside} of {len(OTHER_SEEDS)}",
            f"{of_epochs} of {len(OTHER_SEEDS)}",
            f"{predicted / min(self.of_epoch):.2f}",
        ]


def rows(options, name):
    """The rows of a pair."""
    model, target, budget, permitted = PAIRS[name]
    file = ROOT / "examples" / f"{model}.gir"
    pilot, planned = BENCH / f"pilot-{name}.toml", BENCH / f"pilot-{name}.json"
    if not (options.keep and pilot.exists()):
        threads = ["--threads", "1"]
        gnnc(options, "pilot", file, "--target", target, "--budget", budget, "--out", pilot, *permitted, *threads)
    allow = permitted[:2]
    objective = ["--objective", "time-to-accuracy", "--pilot", pilot]
    plan = gnnc(options, "plan", file, *objective, "--cluster", options.machine, "--gpus", "1", *allow, "--out", planned)
    best = [n for n, one in enumerate(plan["candidates"]) if one["to_target"].get("standing") not in (None, "unknown")]
    contenders = [Contender(plan, n, BENCH / f"pilot-{name}-{n}.json") for n in best]
    measured = [one for one in contenders if one.known["needed"]["known"] == "measured"]
    for _ in range(options.rounds):
        for seed in OTHER_SEEDS:
            for one in measured:
                one.run(options, plan["goal"], seed)
    for one in contenders:
        rate = one.known["needed"].get("learning_rate", "-")
        cells = [name, one.name(), one.known["standing"], rate, *one.row()]
        yield "| " + " | ".join(map(str, cells)) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=os.environ.get("GNNC") or ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--machine", default=BENCH / "machine.toml", type=Path)
    parser.add_argument("--pairs", nargs="*", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="take pilots that are there")
    options = parser.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    print(
        "| graph | class | the plan says | rate | epochs of the pilot | likely | predicted | epochs | measured | in range |"
        " of the epochs | epoch |"
    )
    print("| --- | --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: |")
    for name in options.pairs:
        for row in rows(options, name):
            print(row, flush=True)


if __name__ == "__main__":
    main()

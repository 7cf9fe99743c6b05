#!/usr/bin/env python3
"""Predicted epochs beside measured ones on this machine.

    cargo build --release
    python3 benches/calibration.py

For each graph, model, hidden width, number of ranks and placement: the epoch that `gnnc plan` predicts with the
calibrated machine, and those that `gnnc bench-epoch --turns` measures. The machine is calibrated by turns with the
measuring, so that both find it in the same states: after each turn of `gnnc calibrate` a row has one, row after
row until the calibration ends. With --machine a calibration of before is used. Compared is the
lower eighth of the epochs, which is the middle of the fastest quarter that a calibration keeps: the time when
nothing else disturbs the machine; the median is printed beside it. Prints a markdown table and writes
it with all epochs to --out, and what was calibrated beside it. Exit code 1: a row is off by more than --within.
Needs Python 3.9 and nothing else. docs/cost-model.md tells what is calibrated.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from epoch import GRAPHS, MODELS
from graphs import ROOT, UNSEEN, graph_file

# The partitioner of training where no plan names another.
PARTITIONER = "metis-edges"


def run(binary, *arguments):
    """The JSON answer of a command."""
    command = [str(binary), *map(str, arguments), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def arguments(row):
    """What names the model of a row to gnnc."""
    return [ROOT / f"benches/models/{row['model']}.gir", "--graph", row["file"], "--set", f"hidden={row['hidden']}"]


def parted(row):
    """Whether a row's ranks have parts of the graph that a partitioner makes."""
    return row["ranks"] > 1 and row["placement"] != "tensor"


def predict(row, binary, machine):
    """The epoch that a plan predicts."""
    pin = f"placement={row['placement']},ranks={row['ranks']}"
    if row["ranks"] > 1:
        # The parts and the kernels of bench-epoch; a plan may find better ones.
        pin += f",partitioner={PARTITIONER},interior=no" if parted(row) else ",chunks=1"
    plan = run(binary, "plan", *arguments(row), "--cluster", machine, "--pin", pin)
    best = plan["candidates"][0]
    row["predicted"], row["basis"], row["range"] = best["epoch_seconds"], best["basis"], best["range"]


def turn(row, binary, seconds):
    """Trains a row for some seconds, after an epoch that is not counted. In a process of its own each time: no two rows then
    share the machine's memory with each other or with the calibration, and every row is in many places of it."""
    command = [binary, "bench-epoch", *arguments(row), "--workers", row["ranks"], "--placement", row["placement"], "--turns"]
    command += ["--partitioner", PARTITIONER] if parted(row) else []
    command += ["--format", "json"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([str(word) for word in command], **pipes) as process:
        answers, _ = process.communicate(f"{seconds}\n")
    lines = answers.splitlines()
    if process.returncode or len(lines) != 1:
        raise RuntimeError(f"{row}: ended with {process.returncode}: {answers}")
    row["epochs"] += json.loads(lines[0])


def by_turns(rows, binary, machine, seconds):
    """Calibrates, and measures a row after every few seconds of it, until it ends."""
    samples = machine.with_suffix(".json")
    command = [binary, "calibrate", "--turns", "--out", machine, "--samples", samples, "--format", "json"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([str(word) for word in command], **pipes) as calibration:
        turns = 0
        # Before each turn stands the share that is done, at the end a report.
        while (line := calibration.stdout.readline()).strip() and not line.startswith("{"):
            if turns:
                turn(rows[(turns - 1) % len(rows)], binary, seconds)
            calibration.stdin.write(f"{seconds}\n")
            calibration.stdin.flush()
            turns += 1
        answer = line + calibration.stdout.read()
    if calibration.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {calibration.returncode}: {answer}")
    print(f"calibrated; {turns} turns, {turns / len(rows):.1f} of each row", file=sys.stderr, flush=True)


def table(rows):
    """The rows as a markdown table."""
    lines = ["| graph | model | hidden | ranks | placement | predicted ms | range ms | measured ms | median ms | predicted / measured |"]
    lines.append("| --- | --- | --: | --: | --- | --: | --- | --: | --: | --: |")
    for r in rows:
        span = f"{r['range']['low'] * 1e3:.3g} to {r['range']['high'] * 1e3:.3g}"
        times = f"{r['predicted'] * 1e3:.3g} | {span} | {r['measured'] * 1e3:.3g} | {r['median'] * 1e3:.3g}"
        quotient = f"{r['predicted'] / r['measured']:.2f}"
        lines.append(f"| {r['graph']} | {r['model']} | {r['hidden']} | {r['ranks']} | {r['placement']} | {times} | {quotient} |")
    return "\n".join(lines)


def covered(rows):
    """How many measured epochs lie in the printed range, and how wide that is."""
    inside = sum(r["range"]["low"] <= r["measured"] <= r["range"]["high"] for r in rows)
    above = sum(r["measured"] > r["range"]["high"] for r in rows)
    widths = [r["range"]["high"] / r["range"]["low"] for r in rows]
    return (
        f"{inside} of {len(rows)} in the printed range, {above} above it; "
        f"its high end is {statistics.median(widths):.2f} times its low one (median; {min(widths):.2f} to {max(widths):.2f})."
    )


def regrets(rows):
    """What is lost by the placement that a plan prefers, where several were measured: its epoch over the shortest one."""
    choices = {}
    for row in rows:
        if row["ranks"] > 1:
            choices.setdefault((row["graph"], row["model"], row["hidden"], row["ranks"]), []).append(row)
    found = []
    for choice in choices.values():
        if len(choice) > 1:
            planned = min(choice, key=lambda row: row["predicted"])
            found.append(planned["measured"] / min(row["measured"] for row in choice))
    return found


def main():
    """Measures the rows that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--placements", default="graph", help="of several ranks; the regret of several is printed")
    parser.add_argument("--machine", type=Path, help="of a gnnc calibrate of before")
    parser.add_argument("--graphs", default=",".join(GRAPHS), help="unseen: five kinds that no calibration measures")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--hidden", default="16,64,256")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--measured", type=Path, help="the --out of before, whose epochs are compared again")
    parser.add_argument("--rounds", type=int, default=3, help="of measuring all rows with --machine")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn: of calibrating, and then of a row")
    parser.add_argument("--within", type=float, default=15.0, help="percent that a row may be off")
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc")
    parser.add_argument("--out", type=Path, default=ROOT / "target/bench/calibration.json")
    options = parser.parse_args()
    names = list(UNSEEN) if options.graphs == "unseen" else options.graphs.split(",")
    files = {name: graph_file(name, Path(options.gnnc)) for name in names}
    rows = [
        {"graph": graph, "file": str(file), "model": model, "hidden": hidden, "ranks": ranks, "placement": placement, "epochs": []}
        for graph, file in files.items()
        if file is not None
        for model in options.models.split(",")
        for hidden in map(int, options.hidden.split(","))
        for ranks in map(int, options.ranks.split(","))
        for placement in (options.placements.split(",") if ranks > 1 else ["graph"])
    ]
    machine = options.machine or ROOT / "target/bench/machine.toml"
    machine.parent.mkdir(parents=True, exist_ok=True)
    if options.measured:
        rows = json.loads(options.measured.read_text())["rows"]
    elif options.machine is None:
        by_turns(rows, options.gnnc, machine, options.seconds)
    for _ in range(options.rounds if options.machine and not options.measured else 0):
        for row in rows:
            turn(row, options.gnnc, options.seconds)
    for row in rows:
        row["epochs"].sort()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"rows": rows}, indent=1))
    for row in rows:
        predict(row, options.gnnc, machine)
        row["measured"] = row["epochs"][len(row["epochs"]) // 8]
        row["median"] = statistics.median(row["epochs"])
    errors = [abs(r["predicted"] / r["measured"] - 1) * 100 for r in rows]
    bad = sum(error > options.within for error in errors)
    text = table(rows)
    coverage = covered(rows)
    verdict = (
        f"{len(rows) - bad} of {len(rows)} rows within {options.within:g} %; "
        f"median {statistics.median(errors):.1f} %, worst {max(errors):.1f} %. {coverage}"
    )
    if lost := regrets(rows):
        mean = statistics.geometric_mean(lost)
        right = sum(one == 1.0 for one in lost)
        verdict += f" The planned fastest placement is the measured one in {right} of {len(lost)}; regret {mean:.3f} (mean), {max(lost):.2f} (worst)."
    print(f"{text}\n\n{verdict}")
    options.out.write_text(json.dumps({"rows": rows, "within": options.within, "verdict": verdict}, indent=1))
    options.out.with_suffix(".md").write_text(f"{text}\n\n{verdict}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

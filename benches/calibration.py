#!/usr/bin/env python3
"""Predicted epochs beside measured ones on this machine.

    cargo build --release
    python3 benches/calibration.py

For each graph, model, hidden width and number of ranks: the epoch that `gnnc plan` predicts with the
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
from graphs import ROOT, graph_file


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


def predict(row, binary, machine):
    """The epoch that a plan predicts."""
    pin = f"placement=graph,ranks={row['ranks']}"
    if row["ranks"] > 1:
        # The parts and the kernels of bench-epoch; a plan may find better ones.
        pin += ",partitioner=metis,interior=no"
    plan = run(binary, "plan", *arguments(row), "--cluster", machine, "--pin", pin)
    row["predicted"], row["basis"] = plan["candidates"][0]["epoch_seconds"], plan["candidates"][0]["basis"]


def turn(row, binary, seconds):
    """Trains a row for some seconds, after an epoch that is not counted. In a process of its own each time: no two rows then
    share the machine's memory with each other or with the calibration, and every row is in many places of it."""
    command = [binary, "bench-epoch", *arguments(row), "--workers", row["ranks"], "--partitioner", "metis", "--turns", "--format", "json"]
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
    lines = ["| graph | model | hidden | ranks | predicted ms | measured ms | median ms | predicted / measured |"]
    lines.append("| --- | --- | --: | --: | --: | --: | --: | --: |")
    for r in rows:
        times = f"{r['predicted'] * 1e3:.3g} | {r['measured'] * 1e3:.3g} | {r['median'] * 1e3:.3g}"
        quotient = f"{r['predicted'] / r['measured']:.2f}"
        lines.append(f"| {r['graph']} | {r['model']} | {r['hidden']} | {r['ranks']} | {times} | {quotient} |")
    return "\n".join(lines)


def main():
    """Measures the rows that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--machine", type=Path, help="of a gnnc calibrate of before")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--hidden", default="16,64,256")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--rounds", type=int, default=3, help="of measuring all rows with --machine")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn: of calibrating, and then of a row")
    parser.add_argument("--within", type=float, default=15.0, help="percent that a row may be off")
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc")
    parser.add_argument("--out", type=Path, default=ROOT / "target/bench/calibration.json")
    options = parser.parse_args()
    files = {name: graph_file(name, Path(options.gnnc)) for name in options.graphs.split(",")}
    rows = [
        {"graph": graph, "file": str(file), "model": model, "hidden": hidden, "ranks": ranks, "epochs": []}
        for graph, file in files.items()
        if file is not None
        for model in options.models.split(",")
        for hidden in map(int, options.hidden.split(","))
        for ranks in map(int, options.ranks.split(","))
    ]
    machine = options.machine or ROOT / "target/bench/machine.toml"
    machine.parent.mkdir(parents=True, exist_ok=True)
    if options.machine is None:
        by_turns(rows, options.gnnc, machine, options.seconds)
    for _ in range(options.rounds if options.machine else 0):
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
    verdict = (
        f"{len(rows) - bad} of {len(rows)} rows within {options.within:g} %; "
        f"median {statistics.median(errors):.1f} %, worst {max(errors):.1f} %."
    )
    print(f"{text}\n\n{verdict}")
    options.out.write_text(json.dumps({"rows": rows, "within": options.within, "verdict": verdict}, indent=1))
    options.out.with_suffix(".md").write_text(f"{text}\n\n{verdict}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Predicted epochs beside measured ones on this machine.

    cargo build --release
    target/release/gnnc calibrate --out target/bench/machine.toml
    python3 benches/calibration.py

For each graph, model, hidden width and number of ranks: the epoch that `gnnc plan` predicts with the
calibrated machine, and those that `gnnc bench-epoch` measures, in rounds. Compared is the lower eighth
of the epochs, the time when nothing else disturbs the machine, as in the calibration; the median is
printed beside it. Prints a markdown table and writes it with all epochs to --out. Exit code 1: a row is off by more than --within.
Needs Python 3.9 and nothing else. docs/cost-model.md tells what is calibrated.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

from epoch import GRAPHS, MODELS, ROOT, graph_file


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
    plan = run(binary, "plan", *arguments(row), "--cluster", machine, "--pin", f"placement=graph,ranks={row['ranks']}")
    row["predicted"], row["basis"] = plan["candidates"][0]["epoch_seconds"], plan["candidates"][0]["basis"]


def measure(row, binary, seconds):
    """More epochs of a row, without the first, which finds nothing in the cache."""
    epochs = max(5, min(200, math.ceil(seconds / row["predicted"])))
    answer = run(binary, "bench-epoch", *arguments(row), "--workers", row["ranks"], "--epochs", epochs)
    row["epochs"] = sorted(row.get("epochs", []) + answer["epoch_seconds"][1:])
    row["measured"] = row["epochs"][len(row["epochs"]) // 8]
    row["median"] = statistics.median(row["epochs"])


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
    parser.add_argument("--machine", default=ROOT / "target/bench/machine.toml", help="of gnnc calibrate")
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--hidden", default="16,64,256")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--rounds", type=int, default=3, help="of measuring all rows")
    parser.add_argument("--seconds", type=float, default=3.0, help="measuring of a row, all rounds")
    parser.add_argument("--within", type=float, default=15.0, help="percent that a row may be off")
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc")
    parser.add_argument("--out", type=Path, default=ROOT / "target/bench/calibration.json")
    options = parser.parse_args()
    files = {name: graph_file(name, Path(options.gnnc)) for name in options.graphs.split(",")}
    rows = [
        {"graph": graph, "file": str(file), "model": model, "hidden": hidden, "ranks": ranks}
        for graph, file in files.items()
        if file is not None
        for model in options.models.split(",")
        for hidden in map(int, options.hidden.split(","))
        for ranks in map(int, options.ranks.split(","))
    ]
    for row in rows:
        predict(row, options.gnnc, options.machine)
    for turn in range(options.rounds):
        for row in rows:
            measure(row, options.gnnc, options.seconds / options.rounds)
            about = f"{row['graph']} {row['model']} {row['hidden']}, {row['ranks']} ranks"
            quotient = row["predicted"] / row["measured"]
            print(f"round {turn + 1}: {about}: {quotient:.2f}", file=sys.stderr, flush=True)
    errors = [abs(r["predicted"] / r["measured"] - 1) * 100 for r in rows]
    bad = sum(error > options.within for error in errors)
    text = table(rows)
    verdict = (
        f"{len(rows) - bad} of {len(rows)} rows within {options.within:g} %; "
        f"median {statistics.median(errors):.1f} %, worst {max(errors):.1f} %."
    )
    print(f"{text}\n\n{verdict}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"rows": rows, "within": options.within, "verdict": verdict}, indent=1))
    options.out.with_suffix(".md").write_text(f"{text}\n\n{verdict}\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Losses of 50 epochs with several workers beside one worker's.

    cargo build --release && python3 scripts/sameness.py

Prints a table of the largest |a - b| / (1e-5 + 1e-4 |b|) over the epochs: at most 1 is the same.
Exits 1 if anything is larger.
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODELS = {"gcn": [], "sage": [], "gat": [], "gin": [], "gcnii": ["--set", "depth=16"]}
GRAPHS = ["cora", "squirrel", "photo"]
WORKERS = [2, 3, 4, 8]
EPOCHS = 50


def losses(model, graph, workers):
    command = [
        ROOT / "target/release/gnnc", "bench-epoch", ROOT / f"examples/{model}_cora.gir",
        "--graph", ROOT / f"examples/data/{graph}.npz", "--workers", str(workers),
        "--epochs", str(EPOCHS), "--format", "json", *MODELS[model],
    ]
    found = subprocess.run(command, capture_output=True, text=True)
    if found.returncode:
        sys.exit(found.stdout + found.stderr)
    return json.loads(found.stdout)["losses"]


worst = 0.0
print("| graph | model | loss at epoch 50 |", " | ".join(f"{w} workers" for w in WORKERS), "|")
print("| --- " * (3 + len(WORKERS)) + "|")
for graph in GRAPHS:
    for model in MODELS:
        one = losses(model, graph, 1)
        row = []
        for workers in WORKERS:
            many = losses(model, graph, workers)
            assert len(many) == len(one) == EPOCHS
            row.append(max(abs(a - b) / (1e-5 + 1e-4 * abs(b)) for a, b in zip(many, one)))
        worst = max(worst, *row)
        cells = " | ".join(f"{value:.3f}" for value in row)
        print(f"| {graph} | {model} | {one[-1]:.6f} | {cells} |", flush=True)
print(f"\nlargest: {worst:.3f} (1 is the limit)")
sys.exit(worst > 1)

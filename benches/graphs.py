"""The graphs of the benchmarks: files that are there, and graphs that gnnc makes."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MADE = {
    "rmat": ("rmat", {"vertices": 200_000, "edges": 4_000_000, "features": 128, "classes": 16, "seed": 1}),
    "arxiv-like": ("rmat", {"vertices": 169_000, "edges": 2_300_000, "features": 128, "classes": 40, "seed": 1}),
    "reddit-like": ("rmat", {"vertices": 233_000, "edges": 11_500_000, "features": 602, "classes": 41, "seed": 1}),
    # 60 words of 8,000, as of papers of an author.
    "coauthor-like": (
        "planted",
        {"vertices": 18_333, "edges": 163_788, "features": 8_000, "nonzeros": 60, "classes": 15, "seed": 1},
    ),
}
# Graphs of kinds that no calibration measures: other skews, no skew at all, and neighbors with near numbers.
UNSEEN = {
    "rmat-mild": ("rmat", {"quadrants": "0.45,0.22,0.22,0.11", "vertices": 50_000, "edges": 600_000, "features": 64, "classes": 10, "seed": 3}),
    "rmat-500": ("rmat", {"quadrants": "0.57,0.19,0.19,0.05", "vertices": 25_000, "edges": 700_000, "features": 200, "classes": 16, "seed": 3}),
    "rmat-steep": ("rmat", {"quadrants": "0.65,0.15,0.15,0.05", "vertices": 70_000, "edges": 500_000, "features": 128, "classes": 24, "seed": 3}),
    "planted": ("planted", {"vertices": 40_000, "edges": 640_000, "features": 150, "classes": 8, "seed": 3}),
    "mesh": ("mesh", {"vertices": 60_000, "edges": 480_000, "features": 32, "classes": 6, "seed": 3}),
}
MADE |= UNSEEN


def say(text):
    """Progress and what was left out, apart from tables."""
    print(text, file=sys.stderr, flush=True)


def graph_file(name, gnnc):
    """The file of a graph; one that gnnc makes is made where it is missing. None with the reason said."""
    if name not in MADE:
        places = [ROOT / "examples" / "data", ROOT.parent / "shared" / "data"]
        if os.environ.get("GNNC_DATA"):
            places.insert(0, Path(os.environ["GNNC_DATA"]))
        for place in places:
            if (place / f"{name}.npz").exists():
                return place / f"{name}.npz"
        say(f"{name}: left out, no {name}.npz in {', '.join(map(str, places))}; set GNNC_DATA to its folder")
        return None
    file = ROOT / "target" / "bench" / f"{name}.npz"
    if file.exists():
        return file
    kind, sizes = MADE[name]
    command = [gnnc, "graph", "generate", kind, "--out", file]
    for key, value in sizes.items():
        command += [f"--{key}", value]
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        why = done.stderr.strip()[-300:]
    except OSError as error:
        done, why = None, error
    if done is not None and done.returncode == 0 and file.exists():
        return file
    say(f"{name}: left out, the graph could not be made: {why}")
    return None

#!/usr/bin/env python3
"""Bytes that processes send, counted from outside, beside those that gnnc predicts and reports.

    cargo build --release && python3 scripts/wire.py [--library libmpi.so.40] [--mpirun mpirun]

A library of ours between gnnc and MPI (scripts/wire.c) counts what MPI_Isend is called with. Training without evaluations sends
nothing else than its epochs and the setup before them, so a run of no further epochs is subtracted. Prints a markdown table, and
exits 1 if a count differs from what the run predicts.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from processes import CASES, GNNC, ROOT

LIBRARIES = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"]


def counted(options, folder, command):
    """Bytes of messages, bytes between lists, and the summary of a run."""
    for file in folder.iterdir():
        file.unlink()
    environment = {**os.environ, "GNNC_MPI_LIBRARY": str(options.wire), "GNNC_WIRE": str(folder)}
    run = [*shlex.split(options.mpirun), "-n", options.processes, *command]
    found = subprocess.run([str(part) for part in run], capture_output=True, text=True, env=environment)
    if found.returncode:
        sys.exit(found.stdout + found.stderr)
    rows = [file.read_text().split() for file in folder.iterdir()]
    assert len(rows) == options.processes, rows
    return sum(int(row[0]) for row in rows), sum(int(row[1]) for row in rows), json.loads(found.stdout)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--mpirun", default="mpirun")
    arguments.add_argument("--library", default="libmpi.so.40")
    arguments.add_argument("--processes", type=int, default=3)
    options = arguments.parse_args()
    named = Path(options.library)
    found = [path for path in (named, *(Path(folder) / named for folder in LIBRARIES)) if path.is_file()]
    if not found:
        sys.exit(f"no library {named}")
    differ = False
    print("| case | epochs | counted on the wire | predicted | between lists |\n| --- | --: | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as place:
        options.wire, folder = Path(place) / "libwire.so", Path(place) / "counts"
        folder.mkdir()
        build = ["cc", "-shared", "-fPIC", "-o", options.wire, ROOT / "scripts/wire.c", found[0], f"-Wl,-rpath,{found[0].parent}"]
        subprocess.run([str(part) for part in build], check=True)
        for name, (model, more, most) in CASES.items():
            if most < options.processes or "ring" in name or name == "hybrid":
                continue
            train = [GNNC, "train", ROOT / f"examples/{model}_cora.gir", *more, "--quiet", "--format", "json"]
            runs = [counted(options, folder, [*train, "--evaluate-every", 100, "--epochs", epochs]) for epochs in (1, 5)]
            wire = runs[1][0] - runs[0][0]
            predicted = runs[1][2]["bytes_predicted"] - runs[0][2]["bytes_predicted"]
            differ |= wire != predicted
            print(f"| {name} | 4 | {wire:,} | {predicted:,} | {runs[1][1] - runs[0][1]:,} |", flush=True)
    sys.exit(differ)


if __name__ == "__main__":
    main()

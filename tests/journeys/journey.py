"""What the journeys share: running gnnc as a user does, and saying what is wrong when something is.

A journey is a script whose `main(folder)` gets an empty folder. It ends with 0 if all held, 1 if something did not, and
77 if it was skipped, with the reason as its last line. `GNNC` names the binary, by default the release build.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = ROOT / "examples"
GNNC = Path(os.environ.get("GNNC", ROOT / "target/release/gnnc")).resolve()
SKIPPED = 77


class Failed(Exception):
    """An outcome that is not the expected one."""


class Skipped(Exception):
    """A journey that this machine cannot make, and why."""


def run(main):
    """Runs a journey in a folder of its own, with a cache of its own, and ends the process."""
    if not GNNC.is_file():
        sys.exit(f"no binary at {GNNC}; build it, or name it in GNNC")
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(HOME=folder, GNNC_CACHE=f"{folder}/cache")
        os.chdir(folder)
        try:
            main(Path(folder))
        except Failed as failed:
            print(f"FAILED: {failed}")
            sys.exit(1)
        except Skipped as skipped:
            print(skipped)
            sys.exit(SKIPPED)


def gnnc(*words, code=0):
    """Runs gnnc in the current folder; both streams as text. Any other exit code than the expected one is a failure."""
    words = [str(word) for word in words]
    result = subprocess.run([GNNC, *words], capture_output=True, text=True)
    text = result.stdout + result.stderr
    if result.returncode != code:
        raise Failed(f"`gnnc {' '.join(words)}` ended with {result.returncode}, expected {code}:\n{text}")
    return text


def facts(*words):
    """What gnnc says with `--format json`."""
    words = [str(word) for word in (*words, "--format", "json")]
    result = subprocess.run([GNNC, *words], capture_output=True, text=True)
    if result.returncode != 0:
        raise Failed(f"`gnnc {' '.join(words)}` ended with {result.returncode}:\n{result.stdout}{result.stderr}")
    return json.loads(result.stdout)


def check(holds, otherwise):
    """Fails with `otherwise` unless it holds."""
    if not holds:
        raise Failed(otherwise)


def equal(what, found, expected):
    """Fails unless both are equal."""
    check(found == expected, f"{what}: {found!r}, expected {expected!r}")


def close(what, found, expected, within):
    """Fails unless numbers, or arrays of them, are within a distance."""
    found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    equal(f"shape of {what}", found.shape, expected.shape)
    worst = float(np.abs(found - expected).max())
    check(worst <= within, f"{what}: {worst:.3g} apart, expected at most {within:g}")


def at_least(what, found, least):
    """Says what was measured, and fails if it is less."""
    print(f"{what} {found:.4f}, expected at least {least}")
    check(found >= least, f"{what}: {found}, expected at least {least}")


def at_most(what, found, most):
    """Says what was measured, and fails if it is more."""
    print(f"{what} {found:.4f}, expected at most {most}")
    check(found <= most, f"{what}: {found}, expected at most {most}")


def table(path):
    """The rows of a CSV file, by the names of its columns."""
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def write_table(path, names, rows):
    """Writes a CSV file."""
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)


def texts(array):
    """The lines of a text that an archive holds as bytes, such as ids."""
    return array.tobytes().decode().splitlines()


class Graph:
    """A graph of the examples as arrays: edges, dense features, labels and the masks of its split."""

    def __init__(self, name):
        data = np.load(EXAMPLES / f"data/{name}.npz", allow_pickle=False)
        self.vertices = len(data["indptr"]) - 1
        self.targets = np.repeat(np.arange(self.vertices), np.diff(data["indptr"]))
        self.sources = data["indices"].astype(np.int64)
        self.features = np.zeros(tuple(int(n) for n in data["feat_shape"]), dtype=np.float32)
        rows = np.repeat(np.arange(self.vertices), np.diff(data["feat_indptr"]))
        self.features[rows, data["feat_indices"]] = data["feat_data"]
        self.labels = data["labels"]
        self.masks = {part: data[f"{part}_mask"] for part in ("train", "val", "test")}


def accuracy(found, labels, mask):
    """The share of vertices under a mask whose class is the label."""
    return float((np.asarray(found)[mask] == np.asarray(labels)[mask]).mean())

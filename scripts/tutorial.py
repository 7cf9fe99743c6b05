#!/usr/bin/env python3
"""Runs the commands of docs/tutorial.md in an empty folder, and compares what they print with the page.

    scripts/tutorial.py [--gnnc target/release/gnnc]

A block behind "Save this as `FILE`:" is a file. A block that begins with a command is run, line by line, and a block
behind "prints" is what the block before it prints. Numbers and units may differ, since times and machines do; words,
and the order and number of lines, may not. A line `...` stands for any lines.
"""

import argparse
import difflib
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("gnnc", "python3", "head", "cat", "sed", "timeout")


@dataclass
class Block:
    """Indented lines of a page."""

    text: str
    # The last line of prose before it.
    before: str


def blocks(page):
    """The indented blocks of a page; blank lines inside belong to a block."""
    found, before, lines = [], "", []
    for line in [*page.splitlines(), "end"]:
        if line.startswith("    ") or not line.strip():
            lines.append(line[4:])
            continue
        text = "\n".join(lines).strip("\n")
        if text:
            found.append(Block(text, before))
        before, lines = line, []
    return found


def run(commands, folder, gnnc):
    """What commands print, both streams as they come."""
    path = f"{folder}/bin:{os.environ['PATH']}"
    words = {"PATH": path, "HOME": folder, "GNNC_CACHE": f"{folder}/bin/cache", "LC_ALL": "C"}
    result = subprocess.run(
        ["bash", "-c", commands], cwd=folder, env=words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return result.stdout.rstrip("\n")


def plain(text):
    """Lines without numbers, units and widths."""
    units = re.sub(r"[\d_.,]*\d ?(?:[um]?s|B|[KMG]iB|%)?(?!\w)", "N", text)
    return [" ".join(line.split()) for line in units.splitlines()]


def same(shown, printed):
    """Whether lines are those printed, `...` standing for any."""
    at, free = 0, False
    for line in shown:
        if line == "...":
            free = True
            continue
        while free and at < len(printed) and printed[at] != line:
            at += 1
        if at == len(printed) or printed[at] != line:
            return False
        at, free = at + 1, False
    return free or at == len(printed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    gnnc = parser.parse_args().gnnc.resolve()
    printed, compared, wrong = "", 0, 0
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(f"{folder}/bin")
        os.symlink(gnnc, f"{folder}/bin/gnnc")
        for block in blocks((ROOT / "docs/tutorial.md").read_text()):
            name = re.search(r"ave this as `([^`]+)`:$", block.before)
            if name:
                Path(folder, name[1]).write_text(block.text + "\n")
            elif block.before == "prints":
                compared += 1
                shown, found = plain(block.text), plain(printed)
                if not same(shown, found):
                    wrong += 1
                    print("\n".join(difflib.unified_diff(shown, found, "docs/tutorial.md", "printed", lineterm="")))
            elif block.text.startswith(PROGRAMS):
                printed = run(block.text, folder, gnnc)
            else:
                sys.exit(f"docs/tutorial.md: neither a command nor a file:\n{block.text}")
    if wrong or compared < 10:
        sys.exit(f"docs/tutorial.md: {wrong} of {compared} listings are not what is printed")
    print(f"tutorial: {compared} listings are what is printed")


if __name__ == "__main__":
    main()

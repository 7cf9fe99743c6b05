#!/usr/bin/env python3
"""Checks the cells of gnnc in the tables of docs/from-pyg-dgl.md with `gnnc check`.

    scripts/snippets.py [--gnnc target/release/gnnc]

A piece of code is a statement of a model or of a layer (if the cell ends with "in a layer"), a setting of the train
block, or a command, whose options must be in its help. The page's own layers can be used.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/from-pyg-dgl.md"
GRAPH = """graph g {
  vertices = 1_000 edges = 5_000 features = 32 classes = 7 train_fraction = 0.5 edge_features = 1 relations = 3
  vertex_types = 2
  edge_sets = { "graphs": 1_000, "sources": 100, "targets": 100 }
}"""
# Names that stand alone in a cell, such as arrays of a file; everything else must be checked.
NAMES = set(
    "--workers .npz batch beta by_relation edge_features edge_type features gat_conv gcn_conv identity max mean "
    "node_type normalize_features pool pos relations train_mask type".split()
)


def rows(page):
    """The heading and the last cell of every row of a table."""
    heading = ""
    for line in page.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if line.startswith("| ") and not line.startswith(("| ---", "| in PyTorch")):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            yield heading, cells[-1].strip().replace("\\|", "|")


def layers(page):
    """The layers that the page defines."""
    found = re.findall(r"^    layer .*?^    }", page, re.M | re.S)
    return "\n".join(found)


def source(code, where, own):
    """A file with a piece of code in its place."""
    inner, statement, logits, settings = "return h", "", "h", ""
    loss = "loss cross_entropy(logits, labels, on = train)"
    if where == "layer":
        inner = f"let e = {code} return linear(h, width(h))"
    elif where == "setting":
        settings = code
    elif code.startswith("loss "):
        loss = code
    elif code.startswith("let "):
        statement, logits = code, code.split()[1]
    else:
        statement, logits = f"let out = {code}", "out"
    return f"""{GRAPH}
{own}
layer piece(h) {{ {inner} }}
model m() on g {{
  let h0 = x |> linear(64) |> relu
  let h = h0 |> piece
  {statement}
  let logits = linear({logits}, classes)
  {loss}
}}
train {{ {settings} }}
"""


def check(gnnc, text):
    """What `gnnc check` says against a file, if anything. Warnings do not count: pieces leave variables unused."""
    result = subprocess.run([gnnc, "check", "-"], input=text, capture_output=True, text=True)
    return "" if result.returncode == 0 else (result.stderr or result.stdout).strip()


def command(gnnc, words):
    """What is wrong with a command: options that its help does not have."""
    path = [word for word in words[1:3] if re.fullmatch(r"[a-z]+", word)]
    result = subprocess.run([gnnc, *path, "--help"], capture_output=True, text=True)
    known = set(re.findall(r"--[a-z-]+", result.stdout))
    unknown = [word for word in words if word.startswith("--") and word not in known]
    return "" if result.returncode == 0 and not unknown else f"unknown: {unknown or path}"


def pieces(heading, cell):
    """The pieces of code of a cell, each with its place."""
    spans = re.findall(r"`([^`]+)`", cell)
    repeats = [span for span in spans if span.startswith("repeat ")]
    for span in spans:
        if span in NAMES or span.startswith(("numpy.", "scripts/", "log(theta", "on edges")) or span in repeats:
            continue
        if span.startswith("mpirun "):
            span = span[span.index("gnnc "):]
        if span.startswith("gnnc "):
            yield "command", span
        elif re.search(r"`[^`]*in a layer|in a layer `", cell):
            place = "layer" if "@" in span or "edge_features" in span else "model"
            yield place, span
        elif heading == "Training" and re.match(r"[a-z_]+ = ", span):
            yield "setting", span
        else:
            yield "model", " ".join([span, *(repeats if span.startswith("let ") else [])])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    gnnc = parser.parse_args().gnnc
    page = PAGE.read_text()
    own, seen, wrong = layers(page), 0, 0
    for heading, cell in rows(page):
        for where, code in pieces(heading, cell):
            seen += 1
            said = command(gnnc, code.split()) if where == "command" else check(gnnc, source(code, where, own))
            if said:
                wrong += 1
                print(f"`{code}` ({where}): {said}\n")
    if wrong or seen < 60:
        sys.exit(f"{PAGE.name}: {wrong} of {seen} pieces of code are refused")
    print(f"snippets: {seen} pieces of code are accepted")


if __name__ == "__main__":
    main()

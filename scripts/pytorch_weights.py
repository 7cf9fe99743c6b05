#!/usr/bin/env python3
"""Weights between gnnc's checkpoints and the layers of PyTorch Geometric or DGL, by the names of their `state_dict`.

    scripts/pytorch_weights.py run.ckpt --out weights.pt    # {"gcn_conv_1": {"lin.weight": .., "bias": ..}, ..}
    scripts/pytorch_weights.py weights.pt --into run.ckpt --out new.ckpt    # and back: all else is that of run.ckpt
    scripts/pytorch_weights.py --check                      # compares with PyTorch, both ways

`--names dgl` means DGL's names. To import, `weights.pt` holds what an export writes, or the `state_dict` of a whole
model whose attributes have the names of gnnc's layers; `--rename conv1=gcn_conv_1` says so of others. Layers of a
repeat are numbered from 0, as in a `ModuleList`: `gcnii_conv_1.0`. How many heads a `gat_conv` has, a checkpoint does
not say: `--heads gat_conv_1=8`. Parameters of your own layers keep gnnc's names and shapes.

Needs torch, and blake3 to import. `--check` also needs a release build and torch_geometric or, with `--names dgl`,
dgl (benches/peers/setup.sh makes .venv-pyg and .venv-dgl). It goes through GCN, GraphSAGE, GAT, GIN and GCNII on Cora
(scripts/weights/check.py).
"""

import argparse
import sys
from pathlib import Path

import torch

from weights.checkpoint import Checkpoint
from weights.names import LIBRARIES, Mismatch, exported, imported

ROOT = Path(__file__).resolve().parent.parent


def pair(text):
    """The two sides of `name=value`."""
    name, found, value = text.partition("=")
    if not (name and found and value):
        raise argparse.ArgumentTypeError(f"found {text!r}, expected NAME=VALUE")
    return name, value


def heads(text):
    """A layer and how many heads it has."""
    name, value = pair(text)
    if not value.isdigit() or int(value) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected LAYER=NUMBER, as in gat_conv_1=8")
    return name, int(value)


def arguments(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="a checkpoint or, with --into, a file of torch.save")
    parser.add_argument("--out", type=Path, help="the file to write: for torch.load or, with --into, a checkpoint")
    parser.add_argument("--into", type=Path, metavar="CHECKPOINT", help="import, into a copy of this checkpoint")
    parser.add_argument("--names", choices=sorted(LIBRARIES), default="pyg", help="the library with these names")
    parser.add_argument("--heads", type=heads, action="append", default=[], metavar="LAYER=N")
    parser.add_argument("--rename", type=pair, action="append", default=[], metavar="MODULE=LAYER")
    parser.add_argument("--check", action="store_true", help="compare with PyTorch, both ways")
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    options = parser.parse_args(words)
    if not options.check and not (options.file and options.out):
        parser.error("give a file and --out FILE, or --check")
    return options


def run(options):
    known = dict(options.heads)
    if not options.into:
        torch.save(exported(Checkpoint.read(options.file), options.names, known), options.out)
        return
    checkpoint = Checkpoint.read(options.into)
    state = torch.load(options.file, map_location="cpu", weights_only=True)
    imported(checkpoint, state, options.names, known, dict(options.rename))
    checkpoint.write(options.out)


def main(words=None):
    options = arguments(words)
    try:
        if options.check:
            from weights.check import check

            check(options.gnnc, options.names, main)
        else:
            run(options)
    except Mismatch as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()

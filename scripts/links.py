#!/usr/bin/env python3
"""Link prediction on batches of pairs beside training on the whole graph.

    scripts/links.py --rank                            # cora and photo, three splits each
    scripts/links.py --graphs cora --seeds 5 --rank --ways whole,10 batches,1,fresh
    scripts/links.py --graphs pubmed --seeds 5 --layer gcn_conv --hidden 32 --out 16 --lr 0.01 --ways whole,10 batches,1,fresh

Split and run number S are `gnnc graph links --seed S` and `gnnc train --seed S`. All ways train the same model on the same
links, and the parameters with the best validation score count. Prints a markdown table of means and standard deviations
over splits. --rank adds the MRR among all vertices (`gnnc eval --rank all`). PubMed is not in the repository; docs/data.md
says how to make `pubmed.npz`, in a folder that GNNC_DATA names.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benches"))

from graphs import graph_file  # noqa: E402  (found by the line before)

MODEL = """
graph pairs = "{pairs}" {{ {options} }}

model links(hidden = {hidden}, out = {out}) on pairs {{
  let h = x |> {layer}(hidden) |> relu
  let z = h |> {layer}(out)
  loss bce_with_logits({decoder}, labels, on = train, weights = [{weight}])
}}

train {{ optimizer = adam(lr = {lr}) metric = "roc_auc" }}
"""
# Options of the graph block, links of a batch, passes through the links, and epochs on the whole graph.
GRAPHS = {
    "cora": ("normalize_features = true", 256, 30, 200),
    "photo": ("normalize_features = true", 1024, 4, 100),
    "pubmed": ("", 1024, 10, 200),
}
WAYS = ["whole,1", "whole,10", "batches,1", "batches,1,fresh", "batches,1,kept"]


def ways(graph, options):
    """How a model is trained: the name of the row, pairs without a link for each link, and options of `gnnc train`."""
    _, batch, passes, epochs = GRAPHS[graph]
    sampled = ["--placement", "minibatch", "--allow", "sample", "--fanouts", options.fanouts]
    fresh = sampled + ["--batch", 2 * batch, "--epochs", passes, "--negatives", "fresh"]
    return {
        "whole,1": ("whole graph, 1 given", 1, ["--epochs", epochs]),
        "whole,10": ("whole graph, 10 given", 10, ["--epochs", epochs]),
        "batches,1": ("batches, 1 given", 1, sampled + ["--batch", 2 * batch, "--epochs", passes]),
        "batches,1,fresh": ("batches, 1 fresh", 1, fresh),
        "batches,1,kept": ("batches, 1 fresh, seed edges kept", 1, fresh + ["--exclude", "nothing"]),
    }


def call(*command):
    """The JSON that a command prints."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return json.loads(done.stdout)


def scores(folder, graph, way, seed, options):
    """Test ROC-AUC, test average precision, and MRR or None, of one run."""
    negatives, train = way
    pairs, model, run = (folder / name for name in ("pairs.npz", "model.gir", "run.ckpt"))
    split = ["--negatives", negatives, "--seed", seed, "--out", pairs, "--format", "json"]
    call(options.gnnc, "graph", "links", graph_file(graph, options.gnnc), *split)
    text = {"pairs": pairs, "options": GRAPHS[graph][0], "weight": negatives}
    text |= {key: getattr(options, key) for key in ("hidden", "out", "layer", "decoder", "lr")}
    model.write_text(MODEL.format(**text))
    for old in folder.glob("run.ckpt*"):
        old.unlink()
    how = ["--checkpoint", run, "--seed", seed, "--threads", options.threads, "--format", "json", "--quiet"]
    call(options.gnnc, "train", model, *how, *train)
    evaluate = [options.gnnc, "eval", model, "--checkpoint", run, "--threads", options.threads, "--format", "json"]
    found = call(*evaluate, "--metric", "roc-auc,average-precision")["scores"]
    ranked = call(*evaluate, "--rank", "all")["scores"]["mrr"] if options.rank else None
    return found["roc_auc"], found["average_precision"], ranked


def row(name, found):
    """A row of the table."""
    cells = []
    for place, scale in ((0, 100), (1, 100), (2, 1)):
        values = [scale * one[place] for one in found if one[place] is not None]
        if values:
            spread = statistics.stdev(values) if len(values) > 1 else 0
            cells.append(f"{statistics.mean(values):.{2 if scale > 1 else 4}f} ({spread:.{2 if scale > 1 else 4}f})")
        else:
            cells.append("-")
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    parser.add_argument("--graphs", nargs="*", default=["cora", "photo"], choices=list(GRAPHS))
    parser.add_argument("--fanouts", default="10,5")
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--out", type=int, default=32)
    parser.add_argument("--layer", default="sage_conv")
    parser.add_argument("--decoder", default="dot_decoder(z)")
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ways", nargs="*", default=WAYS, choices=WAYS)
    parser.add_argument("--rank", action="store_true")
    options = parser.parse_args()
    print("| graph, way | ROC-AUC in % | average precision in % | MRR |\n| --- | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as folder:
        for graph in options.graphs:
            if graph_file(graph, options.gnnc) is None:
                continue
            seeds = range(options.seeds)
            for name in options.ways:
                title, *way = ways(graph, options)[name]
                row(f"{graph}, {title}", [scores(Path(folder), graph, way, seed, options) for seed in seeds])


if __name__ == "__main__":
    main()

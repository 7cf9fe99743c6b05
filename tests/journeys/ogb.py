#!/usr/bin/env python3
"""A data set of the Open Graph Benchmark, from its folder of compressed tables to predictions.

The user has a folder as OGB downloads it, imports it, trains a model that `gnnc new` writes, and gets predictions as
CSV, Parquet and NumPy arrays. The data is Cora, written the way OGB writes a citation graph.
"""

import gzip

import numpy as np

from journey import EXAMPLES, Graph, accuracy, at_least, check, close, equal, facts, gnnc, run, table, texts

CLASSES = [f"cs.{letter}" for letter in "ABCDEFG"]


def write(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())


def paper(vertex):
    """The id of a paper: some large number, in no order."""
    return 9_000_000 + vertex * 7919 % 100_003


def ogb_folder(folder, cora):
    """The tables of a node-property data set: every citation once, as in ogbn-arxiv."""
    once = cora.sources < cora.targets
    write(folder / "raw/edge.csv.gz", (f"{u},{v}" for u, v in zip(cora.sources[once], cora.targets[once])))
    digits = np.where(cora.features > 0, "1.0", "0.0")
    write(folder / "raw/node-feat.csv.gz", (",".join(row) for row in digits))
    write(folder / "raw/node-label.csv.gz", cora.labels)
    write(folder / "raw/num-node-list.csv.gz", [cora.vertices])
    write(folder / "raw/num-edge-list.csv.gz", [int(once.sum())])
    for name, part in {"train": "train", "valid": "val", "test": "test"}.items():
        write(folder / f"split/time/{name}.csv.gz", np.flatnonzero(cora.masks[part]))
    ids = (f"{vertex},{paper(vertex)}" for vertex in range(cora.vertices))
    write(folder / "mapping/nodeidx2paperid.csv.gz", ["node idx,paper id", *ids])
    names = (f"{number},{name}" for number, name in enumerate(CLASSES))
    write(folder / "mapping/labelidx2arxivcategeory.csv.gz", ["label idx,arxiv category", *names])


def main(folder):
    cora = Graph("cora")
    data = folder / "dataset/ogbn_cora"
    ogb_folder(data, cora)

    # The folder itself stands where a graph does; it has each edge once.
    direct = facts("graph", "stats", data)
    equal("edges of the folder", direct["edges"], 5278)
    gnnc("graph", "import", data, "--symmetrize", "--out", "cora.npz")
    imported = facts("graph", "stats", "cora.npz")
    equal("vertices", imported["vertices"], 2708)
    equal("edges", imported["edges"], 10556)

    # The same graph as the example's, so the same model has the same losses on both.
    original = facts("train", EXAMPLES / "gcn_cora.gir", "--quiet", "--epochs", 20)
    again = facts("train", EXAMPLES / "gcn_cora.gir", "--graph", "cora.npz", "--quiet", "--epochs", 20)
    close("loss on the imported graph", again["train_loss"], original["train_loss"], 1e-5)
    equal("test accuracy on the imported graph", again["test_accuracy"], original["test_accuracy"])

    gnnc("new", "cora.npz", "--out", "model.gir")
    report = facts("train", "model.gir", "--checkpoint", "run.ckpt", "--quiet")
    # Measured: 0.821.
    at_least("test accuracy", report["test_accuracy"], 0.79)

    for form in ("csv", "npz", "parquet"):
        gnnc("predict", "model.gir", "--checkpoint", "run.ckpt", "--out", f"all.{form}", "--probabilities")
    rows = table("all.csv")
    equal("ids", [int(row["id"]) for row in rows], [paper(vertex) for vertex in range(cora.vertices)])
    numbers = np.array([CLASSES.index(row["class"]) for row in rows])
    for part in cora.masks:
        recomputed = accuracy(numbers, cora.labels, cora.masks[part])
        close(f"{part} accuracy of the predictions", recomputed, report[f"{part}_accuracy"], 1e-9)
    likely = np.array([[float(row[f"p({name})"]) for name in CLASSES] for row in rows])
    close("sums of probabilities", likely.sum(1), np.ones(cora.vertices), 1e-5)
    equal("the most probable classes", likely.argmax(1).tolist(), numbers.tolist())

    arrays = np.load("all.npz", allow_pickle=False)
    equal("classes in the archive", arrays["class"].tolist(), numbers.tolist())
    equal("class names in the archive", texts(arrays["class_names"]), CLASSES)
    close("probabilities in the archive", arrays["probabilities"], likely, 1e-7)

    # The Parquet file is a table of vertices again: its ids and classes come back.
    with open("no-edges.csv", "w") as file:
        file.write(f"source,target\n{paper(0)},{paper(1)}\n")
    gnnc("graph", "import", "no-edges.csv", "--nodes", "all.parquet", "--out", "back.npz")
    back = np.load("back.npz", allow_pickle=False)
    equal("classes in Parquet", back["labels"].ravel().tolist(), numbers.tolist())
    close("probabilities in Parquet", back["features"], likely, 1e-7)

    # Some vertices only.
    gnnc("predict", "model.gir", "--checkpoint", "run.ckpt", "--out", "test.csv", "--vertices", "test")
    of_test = [str(paper(vertex)) for vertex in np.flatnonzero(cora.masks["test"])]
    equal("ids of the test", [row["id"] for row in table("test.csv")], of_test)

    # The folder without an import, in which each citation has one direction.
    one_way = facts("train", "model.gir", "--graph", data, "--quiet")
    # Measured: 0.714.
    at_least("test accuracy on edges of one direction", one_way["test_accuracy"], 0.66)

    # A folder that lost a file: the message names it.
    (data / "raw/edge.csv.gz").unlink()
    message = gnnc("graph", "import", data, "--out", "broken.npz", code=1)
    check("edge.csv.gz" in message, f"expected the missing file in: {message}")


if __name__ == "__main__":
    run(main)

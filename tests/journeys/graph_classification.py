#!/usr/bin/env python3
"""Classes of whole graphs: a file of many molecules, a model that pools, and a prediction for each molecule.

The user has a `Batch` of PyTorch Geometric in an archive, with the label of each graph: whether a molecule dissolves
better in water than the median one of those to train on. The molecules are those of the examples.
"""

import numpy as np

from journey import EXAMPLES, accuracy, at_least, check, close, equal, facts, gnnc, run, table

MODEL = """
graph molecules = "molecules.npz"

layer gine(h, out) {
  let bond = linear(edge_features, width(h))
  return (h + gather(relu(h@src + bond), sum)) |> linear(out) |> layer_norm |> relu |> linear(out)
}

model soluble(hidden = 32) on molecules {
  let h = x |> linear(hidden)
  repeat i in 1..=2 {
    h = h + (h |> gine(hidden) |> relu)
  }
  let graph = pool(h, mean)
  let z = graph |> linear(hidden) |> relu |> linear(classes)
  loss cross_entropy(z, labels, on = train)
}

train {
  optimizer = adam(lr = 0.003)
  schedule = cosine
  epochs = 60
}
"""


def main(folder):
    data = dict(np.load(EXAMPLES / "data/solubility.npz", allow_pickle=False))
    graphs = len(data["y"])
    median = np.median(data["y"][data["train_mask"]])
    labels = (data["y"] > median).astype(np.int64)
    np.savez(folder / "molecules.npz", **{**data, "y": labels})
    (folder / "model.gir").write_text(MODEL)

    gnnc("check", "model.gir")
    report = facts("train", "model.gir", "--checkpoint", "run.ckpt", "--quiet")
    test = data["test_mask"]
    majority = max(labels[test].mean(), 1 - labels[test].mean())
    print(f"the larger class has {majority:.3f} of the test")
    # Measured: 0.795, and 0.528 of the larger class.
    at_least("test accuracy", report["test_accuracy"], 0.73)
    check(majority < 0.6, f"the classes are not balanced: {majority}")

    gnnc("predict", "model.gir", "--checkpoint", "run.ckpt", "--out", "p.csv", "--probabilities")
    rows = table("p.csv")
    equal("a row for each graph", [int(row["id"]) for row in rows], list(range(graphs)))
    classes = np.array([int(row["class"]) for row in rows])
    for part in ("train", "val", "test"):
        recomputed = accuracy(classes, labels, data[f"{part}_mask"])
        close(f"{part} accuracy of the predictions", recomputed, report[f"{part}_accuracy"], 1e-9)
    close("sums of probabilities", [float(row["p(0)"]) + float(row["p(1)"]) for row in rows], np.ones(graphs), 1e-5)

    gnnc("predict", "model.gir", "--checkpoint", "run.ckpt", "--out", "test.csv", "--vertices", "test")
    of_test = [int(row["id"]) for row in table("test.csv")]
    equal("graphs of the test", of_test, np.flatnonzero(test).tolist())

    # A row of numbers for each graph.
    gnnc("predict", "model.gir", "--checkpoint", "run.ckpt", "--out", "rows.npz", "--embeddings", "graph")
    equal("rows of graphs", np.load("rows.npz", allow_pickle=False)["embeddings"].shape, (graphs, 32))

    # Two workers compute what one computes.
    both = facts("train", "model.gir", "--workers", 2, "--quiet")
    close("loss of two workers", both["train_loss"], report["train_loss"], 1e-3)
    for part in ("val", "test"):
        # A molecule on the border may fall on the other side.
        name = f"{part}_accuracy"
        close(f"{name} of two workers", both[name], report[name], 1.5 / data[f"{part}_mask"].sum())
    gnnc("predict", "model.gir", "--checkpoint", "run.ckpt", "--out", "two.csv", "--workers", 2)
    equal("classes that two workers predict", [int(row["class"]) for row in table("two.csv")], classes.tolist())
    equal("epochs", (report["epochs"], both["epochs"]), (60, 60))

    # Half of the molecules, which are another graph to the model.
    kept = np.flatnonzero(data["batch"] >= graphs // 2)
    edges = np.isin(data["edge_index"][1], kept)
    half = {
        "edge_index": data["edge_index"][:, edges] - kept[0],
        "edge_attr": data["edge_attr"][edges],
        "x": data["x"][kept],
        "batch": data["batch"][kept] - graphs // 2,
    }
    np.savez(folder / "half.npz", **half)
    gnnc("predict", "model.gir", "--checkpoint", "run.ckpt", "--graph", "half.npz", "--out", "half.csv")
    again = [int(row["class"]) for row in table("half.csv")]
    equal("classes of half of the molecules", again, classes[graphs // 2 :].tolist())


if __name__ == "__main__":
    run(main)

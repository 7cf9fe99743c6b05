#!/usr/bin/env python3
"""Weights of a gnnc checkpoint for the layers of PyTorch Geometric, by the names of their `state_dict`.

    scripts/pytorch_weights.py run.ckpt --out weights.pt    # {"gcn_conv_1": {"lin.weight": .., "bias": ..}, ..}
    scripts/pytorch_weights.py --check                      # trains four models, and compares with PyTorch

Needs torch; `--check` also torch_geometric (benches/peers/setup.sh makes .venv-pyg) and a release build. It
trains GCN, GraphSAGE, GAT and GIN on Cora, loads their weights into PyTorch Geometric's layers, and compares
the probabilities of all vertices with those of `gnnc predict`.
"""

import argparse
import csv
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent


def tensors(file):
    """The parameters of a checkpoint by name: arrays of rows x columns."""
    with open(file, "rb") as source:
        size = struct.unpack("<Q", source.read(8))[0]
        header = json.loads(source.read(size))
        data = source.read()
    found = {}
    for name, entry in header.items():
        if name == "__metadata__" or ".state_" in name or name.startswith("history."):
            continue
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[begin:end], dtype=np.float32).reshape(entry["shape"])
        found[name] = torch.tensor(array[0])
    return found


def convolution(name, own):
    """The `state_dict` of a layer of PyTorch Geometric, from the parameters of one of gnnc's."""
    bias = {"bias": own["bias"][0]} if "bias" in own else {}
    kind = name.split("/")[-1].rsplit("_", 1)[0]
    if kind == "gcn_conv":
        return {"lin.weight": own["weight"].T, **bias}
    if kind == "linear":
        return {"weight": own["weight"].T, **bias}
    if kind == "layer_norm":
        return {"weight": own["scale"][0], "bias": own["shift"][0]}
    if kind == "sage_conv":
        # The vertex itself comes first, then the mean of its neighbors.
        rows = own["weight"].shape[0] // 2
        of_neighbors = {"lin_l.weight": own["weight"][rows:].T, "lin_r.weight": own["weight"][:rows].T}
        return {**of_neighbors, **({"lin_l.bias": own["bias"][0]} if bias else {})}
    if kind == "gat_conv":
        # How many heads there are is the model's to say; `attention` splits these.
        return {"lin.weight": own["weight"].T, "attention": own["attention"].reshape(-1), **bias}
    return dict(own)


def layers(found):
    """Parameters by layer."""
    by_layer = {}
    for name, value in found.items():
        layer, _, parameter = name.rpartition(".")
        by_layer.setdefault(layer, {})[parameter] = value
    return by_layer


def attention(state, heads):
    """Splits the attention of a GAT layer with so many heads."""
    both = state.pop("attention").reshape(heads, 2, -1)
    state["att_dst"], state["att_src"] = both[None, :, 0], both[None, :, 1]
    return state


def states(file):
    """The `state_dict` of every layer of a checkpoint."""
    return {name: convolution(name, own) for name, own in layers(tensors(file)).items()}


def peers(classes, features, file):
    """The examples as PyTorch Geometric's layers with a checkpoint's weights: functions of x and edges."""
    from torch.nn import LayerNorm, Linear, ReLU, Sequential
    from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv

    state = states(file)

    def loaded(layer, name):
        layer.load_state_dict(state[name])
        return layer

    def gin(number, inner, out):
        name = f"gin_conv_{number}"
        mlp = Sequential(Linear(inner, out), LayerNorm(out), ReLU(), Linear(out, out))
        layer = GINConv(mlp, train_eps=True)
        # The layer resets what it is given.
        for place, part in ((0, "linear_1"), (1, "layer_norm_1"), (3, "linear_2")):
            loaded(mlp[place], f"{name}/{part}")
        layer.eps.data.copy_(state[name]["eps"].reshape(1))
        return layer

    def gcn(x, edges):
        h = loaded(GCNConv(features, 16), "gcn_conv_1")(x, edges).relu()
        return loaded(GCNConv(16, classes), "gcn_conv_2")(h, edges)

    def sage(x, edges):
        h = loaded(SAGEConv(features, 64), "sage_conv_1")(x, edges).relu()
        return loaded(SAGEConv(64, classes), "sage_conv_2")(h, edges)

    def gat(x, edges):
        attention(state["gat_conv_1"], 8)
        attention(state["gat_conv_2"], 1)
        h = torch.nn.functional.elu(loaded(GATConv(features, 8, heads=8), "gat_conv_1")(x, edges))
        return loaded(GATConv(64, classes, concat=False), "gat_conv_2")(h, edges)

    def gin_model(x, edges):
        h = gin(1, features, 64)(x, edges).relu()
        h = gin(2, 64, 64)(h, edges).relu()
        return loaded(Linear(64, classes), "linear_1")(h)

    return {"gcn": gcn, "sage": sage, "gat": gat, "gin": gin_model}


def graph():
    """Cora as the examples have it: features scaled to sum 1, and edges as rows of sources and targets."""
    data = np.load(ROOT / "examples/data/cora.npz", allow_pickle=False)
    vertices = len(data["indptr"]) - 1
    targets = np.repeat(np.arange(vertices), np.diff(data["indptr"]))
    edges = torch.tensor(np.stack([data["indices"].astype(np.int64), targets]))
    shape = tuple(int(n) for n in data["feat_shape"])
    x = np.zeros(shape, dtype=np.float32)
    rows = np.repeat(np.arange(shape[0]), np.diff(data["feat_indptr"]))
    x[rows, data["feat_indices"]] = data["feat_data"]
    return x, edges


def check(gnnc):
    """Prints the largest difference of probabilities, model by model."""
    raw, edges = graph()
    print("| model | largest difference of a probability | same class |\n| --- | --: | --: |")
    worst = 0.0
    for model in ("gcn", "sage", "gat", "gin"):
        file = ROOT / "examples" / f"{model}_cora.gir"
        scaled = "normalize_features = true" in file.read_text()
        x = raw / np.maximum(raw.sum(1, keepdims=True), 1e-30) if scaled else raw
        with tempfile.TemporaryDirectory() as folder:
            run, table = Path(folder, "run"), Path(folder, "p.csv")
            train = [gnnc, "train", file, "--epochs", 30, "--checkpoint", run]
            predict = [gnnc, "predict", file, "--checkpoint", run, "--last", "--out", table, "--probabilities"]
            for command in (train, predict):
                subprocess.run([str(part) for part in command], check=True, capture_output=True)
            with open(table) as rows:
                expected = np.array([row[2:] for row in list(csv.reader(rows))[1:]], dtype=np.float64)
            net = peers(expected.shape[1], x.shape[1], run)[model]
            with torch.no_grad():
                found = torch.softmax(net(torch.tensor(x), edges), 1).numpy()
        difference = float(np.abs(found - expected).max())
        worst = max(worst, difference)
        print(f"| {model} | {difference:.1e} | {(found.argmax(1) == expected.argmax(1)).mean():.2%} |", flush=True)
    if worst > 1e-5:
        sys.exit("the difference is more than 1e-5")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", nargs="?", type=Path)
    parser.add_argument("--out", type=Path, help="a file for torch.load")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--gnnc", default=ROOT / "target/release/gnnc", type=Path)
    options = parser.parse_args()
    if options.check:
        return check(options.gnnc)
    if not options.checkpoint or not options.out:
        parser.error("give a checkpoint and --out FILE, or --check")
    torch.save(states(options.checkpoint), options.out)


if __name__ == "__main__":
    main()

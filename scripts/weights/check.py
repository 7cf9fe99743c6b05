"""Compares weights of gnnc with PyTorch Geometric or DGL, both ways."""

import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.nn import LayerNorm, Linear, Module, ModuleList, ReLU, Sequential
from torch.nn.functional import elu

ROOT = Path(__file__).resolve().parent.parent.parent
# Or DGL writes a file into the home directory.
os.environ.setdefault("DGLBACKEND", "pytorch")
MOST = 1e-5
# What the second model of a kind is called in its state_dict, to test renaming.
RENAMED = {"gcn": [("conv1", "gcn_conv_1"), ("conv2", "gcn_conv_2")]}
# A repeat of a few layers instead of 64.
DEPTH = 4
HEADS = ["--heads", "gat_conv_1=8", "--heads", "gat_conv_2=1"]


class Net(Module):
    """An example of gnnc in PyTorch: layers by gnnc's names, and how they follow each other."""

    def __init__(self, layers, forward):
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.steps = forward

    def forward(self, *inputs):
        return self.steps(self, *inputs)


def gin_mlp(inputs, outputs):
    return Sequential(Linear(inputs, outputs), LayerNorm(outputs), ReLU(), Linear(outputs, outputs))


def gcnii(features, classes, layers, apply):
    """GCNII from its convolutions, and how one is applied to h, h0 and a graph."""

    def forward(net, x, *graph):
        h0 = h = net.linear_1(x).relu()
        for layer in net.gcnii_conv_1:
            h = apply(layer, h, h0, *graph).relu()
        return net.linear_2(h)

    first, last = Linear(features, 64), Linear(64, classes)
    return Net({"linear_1": first, "gcnii_conv_1": ModuleList(layers), "linear_2": last}, forward)


def pyg(features, classes):
    """The examples in PyTorch Geometric; they take features and edges."""
    from torch_geometric.nn import GATConv, GCN2Conv, GCNConv, GINConv, SAGEConv

    def two(name, first, second, between):
        return Net(
            {f"{name}_1": first, f"{name}_2": second},
            lambda net, x, e: getattr(net, f"{name}_2")(between(getattr(net, f"{name}_1")(x, e)), e),
        )

    gin = {
        "gin_conv_1": GINConv(gin_mlp(features, 64), train_eps=True),
        "gin_conv_2": GINConv(gin_mlp(64, 64), train_eps=True),
        "linear_1": Linear(64, classes),
    }
    deep = [GCN2Conv(64, 0.1, theta=0.5, layer=i + 1) for i in range(DEPTH)]
    return {
        "gcn": two("gcn_conv", GCNConv(features, 16), GCNConv(16, classes), torch.relu),
        "sage": two("sage_conv", SAGEConv(features, 64), SAGEConv(64, classes), torch.relu),
        "gat": two("gat_conv", GATConv(features, 8, heads=8), GATConv(64, classes, concat=False), elu),
        "gin": Net(gin, lambda n, x, e: n.linear_1(n.gin_conv_2(n.gin_conv_1(x, e).relu(), e).relu())),
        "gcnii": gcnii(features, classes, deep, lambda layer, h, h0, e: layer(h, h0, e)),
    }


def dgl(features, classes):
    """The examples in DGL; they take features, the graph, and the graph with self loops."""
    from dgl.nn import GATConv, GCN2Conv, GINConv, GraphConv, SAGEConv

    gcn = {"gcn_conv_1": GraphConv(features, 16), "gcn_conv_2": GraphConv(16, classes)}
    sage = {"sage_conv_1": SAGEConv(features, 64, "mean"), "sage_conv_2": SAGEConv(64, classes, "mean")}
    gat = {"gat_conv_1": GATConv(features, 8, 8), "gat_conv_2": GATConv(64, classes, 1)}
    gin = {
        "gin_conv_1": GINConv(gin_mlp(features, 64), "sum", learn_eps=True),
        "gin_conv_2": GINConv(gin_mlp(64, 64), "sum", learn_eps=True),
        "linear_1": Linear(64, classes),
    }
    deep = [GCN2Conv(64, i + 1, alpha=0.1, lambda_=0.5, bias=False) for i in range(DEPTH)]
    return {
        "gcn": Net(gcn, lambda n, x, g, loops: n.gcn_conv_2(loops, n.gcn_conv_1(loops, x).relu())),
        "sage": Net(sage, lambda n, x, g, loops: n.sage_conv_2(g, n.sage_conv_1(g, x).relu())),
        "gat": Net(gat, lambda n, x, g, loops: n.gat_conv_2(loops, elu(n.gat_conv_1(loops, x).flatten(1))).mean(1)),
        "gin": Net(gin, lambda n, x, g, loops: n.linear_1(n.gin_conv_2(g, n.gin_conv_1(g, x).relu()).relu())),
        "gcnii": gcnii(features, classes, deep, lambda layer, h, h0, g, loops: layer(loops, h, h0)),
    }


def graph(library):
    """Cora as the examples have it, features scaled to sum 1: what a model takes."""
    data = np.load(ROOT / "examples/data/cora.npz", allow_pickle=False)
    vertices = len(data["indptr"]) - 1
    targets = np.repeat(np.arange(vertices), np.diff(data["indptr"]))
    sources = data["indices"].astype(np.int64)
    rows = np.repeat(np.arange(vertices), np.diff(data["feat_indptr"]))
    x = np.zeros(tuple(int(n) for n in data["feat_shape"]), dtype=np.float32)
    x[rows, data["feat_indices"]] = data["feat_data"]
    x = torch.tensor(x / np.maximum(x.sum(1, keepdims=True), 1e-30))
    if library == "pyg":
        return x, torch.tensor(np.stack([sources, targets]))
    import dgl as library_of_graphs

    plain = library_of_graphs.graph((torch.tensor(sources), torch.tensor(targets)), num_nodes=vertices)
    return x, plain, library_of_graphs.add_self_loop(plain)


def load(net, state):
    """Loads what an export wrote, layer by layer."""
    for name, weights in state.items():
        net.get_submodule(name).load_state_dict(weights)


def randomize(net):
    """Draws all weights anew, also those that layers begin with as 0 or 1."""
    generator = torch.Generator().manual_seed(7)
    for parameter in net.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, generator=generator) / 2)


class Example:
    """An example of gnnc with a folder for its files."""

    def __init__(self, gnnc, model, folder):
        self.gnnc, self.folder = gnnc, Path(folder)
        self.model = [ROOT / "examples" / f"{model}_cora.gir"]
        if model == "gcnii":
            self.model += ["--set", f"depth={DEPTH}"]

    def call(self, *words):
        subprocess.run([str(word) for word in (self.gnnc, *words)], check=True, capture_output=True)

    def train(self, epochs, run):
        self.call("train", *self.model, "--epochs", epochs, "--checkpoint", run)

    def probabilities(self, run):
        table = self.folder / "p.csv"
        self.call("predict", *self.model, "--checkpoint", run, "--last", "--out", table, "--probabilities")
        with open(table) as rows:
            return np.array([row[2:] for row in list(csv.reader(rows))[1:]], dtype=np.float64)


def of(net, inputs):
    with torch.no_grad():
        return torch.softmax(net.eval()(*inputs), 1).numpy()


def compared(example, model, library, inputs, convert):
    """Differences between the probabilities of gnnc and a library: of a trained model, and of random weights."""
    run, weights, new = (example.folder / name for name in ("run.ckpt", "weights.pt", "new.ckpt"))
    example.train(30, run)
    expected = example.probabilities(run)
    net = {"pyg": pyg, "dgl": dgl}[library](inputs[0].shape[1], expected.shape[1])[model]
    heads = HEADS if model == "gat" else []
    convert([str(run), "--out", str(weights), "--names", library, *heads])
    load(net, torch.load(weights, weights_only=True))
    trained = of(net, inputs), expected

    randomize(net)
    state, renames = net.state_dict(), []
    for module, layer in RENAMED.get(model, []):
        renames += ["--rename", f"{module}={layer}"]
        state = {name.replace(f"{layer}.", f"{module}."): value for name, value in state.items()}
    torch.save(state, weights)
    convert([str(weights), "--into", str(run), "--out", str(new), "--names", library, *renames])
    return trained, (of(net, inputs), example.probabilities(new))


def refusals(example, library, convert):
    """Weights that do not fit are refused, by name, and nothing is written."""
    run, weights, new = (example.folder / name for name in ("run.ckpt", "weights.pt", "refused.ckpt"))
    convert([str(run), "--out", str(weights), "--names", library])
    whole = torch.load(weights, weights_only=True)
    bias = whole["gcn_conv_1"]["bias"]
    first = {name: value for name, value in whole["gcn_conv_1"].items() if name != "bias"}
    cases = [
        ({**whole, "gcn_conv_1": first}, "gcn_conv_1.bias: missing"),
        ({**whole, "gcn_conv_1": {**first, "bias": bias[1:]}}, "gcn_conv_1.bias: shape [15], expected [16]"),
        ({**whole, "gcn_conv_1": {**first, "bias": bias, "more": bias}}, "gcn_conv_1.more: unknown"),
        ({**whole, "conv9": first}, "conv9."),
        ({"gcn_conv_1": whole["gcn_conv_1"]}, "gcn_conv_2: missing"),
    ]
    for state, words in cases:
        torch.save(state, weights)
        try:
            convert([str(weights), "--into", str(run), "--out", str(new), "--names", library])
        except SystemExit as refused:
            assert words in str(refused.code), f"expected {words!r} in {refused.code!r}"
        else:
            sys.exit(f"weights were taken in spite of {words!r}")
        assert not new.exists(), "a refused import left a file"
    return len(cases)


def check(gnnc, library, convert):
    """Prints the largest difference of probabilities, model by model; `convert` is the script."""
    inputs = graph(library)
    print("| model | trained, exported: difference | random, imported: difference | same class |")
    print("| --- | --: | --: | --: |")
    worst = 0.0
    for model in ("gcn", "sage", "gat", "gin", "gcnii"):
        with tempfile.TemporaryDirectory() as folder:
            example = Example(gnnc, model, folder)
            both = compared(example, model, library, inputs, convert)
            refused = refusals(example, library, convert) if model == "gcn" else 0
        exported, imported = (float(np.abs(found - expected).max()) for found, expected in both)
        same = np.mean([(found.argmax(1) == expected.argmax(1)).mean() for found, expected in both])
        spread = min(float(found.std(0).max()) for found, _ in both)
        assert spread > 1e-3, f"all vertices have the same probabilities ({spread}): nothing is compared"
        worst = max(worst, exported, imported)
        print(f"| {model} | {exported:.1e} | {imported:.1e} | {same:.2%} |", flush=True)
        if refused:
            print(f"{refused} wrong files refused", file=sys.stderr)
    if not worst <= MOST:
        sys.exit(f"the difference is more than {MOST}")

#!/usr/bin/env python3
"""A `Data` of PyTorch Geometric in an archive, trained by gnnc, and its weights in PyTorch.

The user saves `edge_index`, `x`, `y` and the masks with NumPy, trains GCN, GraphSAGE, GAT and GIN, exports the weights
with `scripts/pytorch_weights.py`, and loads them in PyTorch: into the layers of torch_layers.py, and into those of
PyTorch Geometric if it is there. All must give the logits that `gnnc predict` writes. `JOURNEY_PYTHON` may name a
Python that has torch; without torch the journey is skipped.
"""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np

from journey import ROOT, Failed, Graph, Skipped, accuracy, at_least, close, equal, facts, gnnc, run

# The model after `let h = x |> dropout(dropout) |> ..`; `z` are the logits.
MODELS = {
    "gcn": "gcn_conv(16) |> relu  let z = h |> dropout(dropout) |> gcn_conv(classes)",
    "sage": "sage_conv(16) |> relu  let z = h |> dropout(dropout) |> sage_conv(classes)",
    "gat": "gat_conv(8, heads = 4) |> elu  let z = h |> dropout(dropout) |> gat_conv(classes, concat = false)",
    "gin": "gin_conv(16) |> relu  let z = h |> gin_conv(16) |> relu |> linear(classes)",
}
# Measured test accuracies: 0.813, 0.807, 0.809, 0.688.
LEAST = {"gcn": 0.78, "sage": 0.77, "gat": 0.77, "gin": 0.6}
HEADS = ["--heads", "gat_conv_1=4", "--heads", "gat_conv_2=1"]


def model(name):
    return f"""
graph cora = "data.npz" {{ normalize_features = true }}

model {name}(dropout = 0.5) on cora {{
  let h = x |> dropout(dropout) |> {MODELS[name]}
  loss cross_entropy(z, labels, on = train)
}}

train {{
  optimizer = adam(lr = 0.01)
  weight_decay = 5e-4
  epochs = 100
}}
"""


def libraries():
    """Layers by name: those of this folder, and of PyTorch Geometric if it is there."""
    import torch_layers

    found = {"plain torch": torch_layers.LAYERS}
    if find_spec("torch_geometric"):
        from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv

        found["torch_geometric"] = {"gcn": GCNConv, "sage": SAGEConv, "gat": GATConv, "gin": GINConv}
    return found


def net(name, layers, features, classes):
    """The model in PyTorch, with gnnc's names of layers, and what lies between them."""
    from torch.nn import LayerNorm, Linear, ModuleDict, ReLU, Sequential
    from torch.nn.functional import elu, relu

    conv = layers[name]
    if name == "gat":
        first, second = conv(features, 8, heads=4), conv(32, classes, heads=1, concat=False)
    elif name == "gin":
        mlp = lambda d: Sequential(Linear(d, 16), LayerNorm(16), ReLU(), Linear(16, 16))  # noqa: E731
        first, second = conv(mlp(features), train_eps=True), conv(mlp(16), train_eps=True)
    else:
        first, second = conv(features, 16), conv(16, classes)
    parts = ModuleDict({f"{name}_conv_1": first, f"{name}_conv_2": second})
    if name == "gin":
        parts["linear_1"] = last = Linear(16, classes)
        return parts, lambda x, e: last(relu(second(relu(first(x, e)), e)))
    between = elu if name == "gat" else relu
    return parts, lambda x, e: second(between(first(x, e)), e)


def main(folder):
    python = os.environ.get("JOURNEY_PYTHON", sys.executable)
    if not find_spec("torch"):
        probe = subprocess.run([python, "-c", "import torch, numpy"], capture_output=True)
        if python == sys.executable or probe.returncode != 0:
            raise Skipped("torch is not importable; JOURNEY_PYTHON may name a Python that has it")
        result = subprocess.run([python, __file__])
        if result.returncode != 0:
            raise Failed(f"the journey in {python} ended with {result.returncode}")
        return
    import torch

    cora = Graph("cora")
    edges = np.stack([cora.sources, cora.targets])
    masks = {f"{part}_mask": mask for part, mask in cora.masks.items()}
    labels = cora.labels.astype(np.int64)
    np.savez(folder / "data.npz", edge_index=edges, x=cora.features, y=labels, **masks)
    equal("edges", facts("graph", "stats", "data.npz")["edges"], 10556)

    x = torch.tensor(cora.features / np.maximum(cora.features.sum(1, keepdims=True), 1e-30))
    e = torch.tensor(edges)
    for name in MODELS:
        (folder / "model.gir").write_text(model(name))
        report = facts("train", "model.gir", "--checkpoint", "run.ckpt", "--quiet")
        at_least(f"{name}: test accuracy", report["test_accuracy"], LEAST[name])
        predict = ["predict", "model.gir", "--checkpoint", "run.ckpt", "--out"]
        gnnc(*predict, "classes.npz", "--probabilities")
        gnnc(*predict, "logits.npz", "--embeddings", "z")
        classes = np.load("classes.npz", allow_pickle=False)
        logits = np.load("logits.npz", allow_pickle=False)["embeddings"]

        script = [sys.executable, ROOT / "scripts/pytorch_weights.py", "run.ckpt.best", "--out", "weights.pt"]
        exported = subprocess.run([*script, *(HEADS if name == "gat" else [])], capture_output=True, text=True)
        if exported.returncode != 0:
            raise Failed(f"the export of {name} ended with {exported.returncode}:\n{exported.stderr}")
        weights = torch.load("weights.pt", weights_only=True)
        for source, layers in libraries().items():
            parts, forward = net(name, layers, x.shape[1], 7)
            equal(f"layers of {name}", sorted(weights), sorted(parts))
            for layer, state in weights.items():
                parts[layer].load_state_dict(state)
            parts.eval()
            with torch.no_grad():
                z = forward(x, e)
            apart = np.abs(logits - z.numpy()).max()
            print(f"{name}: logits at most {apart:.1e} from {source}, of sizes up to {z.abs().max():.1f}")
            close(f"{name}: logits of gnnc and {source}", logits, z.numpy(), 1e-5)
            close(f"{name}: probabilities", classes["probabilities"], torch.softmax(z, 1).numpy(), 1e-5)
            equal(f"{name}: classes", classes["class"].tolist(), z.argmax(1).tolist())
            test = accuracy(z.argmax(1).numpy(), labels, cora.masks["test"])
            close(f"{name}: test accuracy in PyTorch", test, report["test_accuracy"], 1e-9)


if __name__ == "__main__":
    run(main)

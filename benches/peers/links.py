"""Trains GraphSAGE with inner products on links in PyTorch Geometric, on batches of LinkNeighborLoader.

    .venv/bin/python benches/peers/links.py --pairs pairs.npz --batch 256 --epochs 30

Reads a file of `gnnc graph links`: it trains on the links of the training split, each beside one drawn pair, and prints the
ROC-AUC of the test pairs by the parameters with the best validation score, over all neighbors, as one line of JSON. `--batch`
counts links. LinkNeighborLoader keeps the edges of a batch's links in its neighborhoods.
"""

import argparse
import copy
import json

import numpy as np
import torch
import torch_geometric
from torch_geometric.data import Data
from torch_geometric.loader import LinkNeighborLoader
from torch_geometric.nn import SAGEConv

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--pairs", required=True)
parser.add_argument("--hidden", type=int, default=64)
parser.add_argument("--out", type=int, default=32)
parser.add_argument("--lr", type=float, default=0.005)
parser.add_argument("--batch", type=int, default=256)
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--fanouts", default="10,5")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--normalize", action="store_true")
given = parser.parse_args()
torch.set_num_threads(given.threads)
torch_geometric.seed_everything(given.seed)


def features(data, vertices):
    """The features of the vertices at the ends of pairs."""
    if "features" in data.files:
        x = data["features"]
    else:
        x = np.zeros(tuple(data["feat_shape"]), dtype=np.float32)
        rows = np.repeat(np.arange(len(x)), np.diff(data["feat_indptr"]))
        x[rows, data["feat_indices"]] = data["feat_data"]
    x = torch.tensor(np.asarray(x, dtype=np.float32)[:vertices])
    return x / x.sum(1, keepdim=True).clamp(min=1e-12) if given.normalize else x


def auc(scores, links):
    """The share of (link, other) whose link has the larger score; equal scores count half."""
    others = np.sort(scores[~links])
    below, upto = (np.searchsorted(others, scores[links], side) for side in ("left", "right"))
    return float((below + upto).mean() / 2 / len(others))


data = np.load(given.pairs, allow_pickle=False)
pairs = int(data["subjects"][0])
vertices = len(data["indptr"]) - 1 - pairs
targets = np.repeat(np.arange(vertices + pairs), np.diff(data["indptr"]))
kinds = data["edge_type"]
plain = kinds < kinds.max() - 1
edges = torch.tensor(np.stack([data["indices"][plain], targets[plain]]).astype(np.int64))
ends = np.zeros((2, pairs), dtype=np.int64)
for place, kind in enumerate((kinds.max() - 1, kinds.max())):
    of = kinds == kind
    ends[place, targets[of] - vertices] = data["indices"][of]
links = data["labels"].ravel()[-pairs:] == 1
masks = {part: data[f"{part}_mask"][-pairs:].astype(bool) for part in ("train", "val", "test")}
graph = Data(x=features(data, vertices), edge_index=edges, num_nodes=vertices)

fanouts = [int(fanout) for fanout in given.fanouts.split(",")]
loader = LinkNeighborLoader(
    graph,
    num_neighbors=fanouts,
    edge_label_index=torch.tensor(ends[:, masks["train"] & links]),
    neg_sampling_ratio=1.0,
    batch_size=given.batch,
    shuffle=True,
)
layers = torch.nn.ModuleList([SAGEConv(graph.num_features, given.hidden), SAGEConv(given.hidden, given.out)])
optimizer = torch.optim.Adam(layers.parameters(), lr=given.lr)


def rows(x, edge_index):
    """The rows of vertices."""
    return layers[1](layers[0](x, edge_index).relu(), edge_index)


def evaluated():
    """The scores of all pairs over all neighbors."""
    with torch.no_grad():
        z = rows(graph.x, graph.edge_index)
        return (z[ends[0]] * z[ends[1]]).sum(1).numpy().astype(np.float64)


best, kept = -1.0, None
for _ in range(given.epochs):
    for batch in loader:
        optimizer.zero_grad()
        z = rows(batch.x, batch.edge_index)
        first, second = batch.edge_label_index
        score = (z[first] * z[second]).sum(1)
        torch.nn.functional.binary_cross_entropy_with_logits(score, batch.edge_label).backward()
        optimizer.step()
    score = evaluated()
    found = auc(score[masks["val"]], links[masks["val"]])
    if found > best:
        best, kept = found, copy.deepcopy(score)
print(json.dumps({"test_roc_auc": auc(kept[masks["test"]], links[masks["test"]]), "val_roc_auc": best}))

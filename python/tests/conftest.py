"""Graphs that tests share."""

from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run the tests that take minutes")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="takes minutes; run with --slow"))


class Arrays(dict):
    """Arrays of a graph, by their names in PyTorch Geometric."""

    def data(self):
        import torch
        from torch_geometric.data import Data

        return Data(**{key: torch.from_numpy(np.array(values)) for key, values in self.items()})


def random_graph(vertices=240, edges=1500, features=12, classes=4, relations=3, seed=3):
    """A directed graph without self loops and repeats, with weights and types of edges. Some vertices have no edge."""
    draw = np.random.default_rng(seed)
    ends = draw.integers(0, vertices - 10, size=(edges, 2))
    ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    draw.shuffle(ends)
    label = draw.integers(0, classes, vertices)
    x = draw.normal(size=(vertices, features)).astype(np.float32)
    x[np.arange(vertices), label] += 1
    split = draw.permutation(vertices)
    masks = [np.isin(np.arange(vertices), part) for part in (split[:120], split[120:180], split[180:])]
    return Arrays(
        edge_index=np.ascontiguousarray(ends.T),
        x=x,
        y=label,
        train_mask=masks[0],
        val_mask=masks[1],
        test_mask=masks[2],
        edge_attr=draw.uniform(0.5, 2, len(ends)).astype(np.float32),
        edge_type=draw.integers(0, relations, len(ends)),
    )


def load_cora():
    """Cora, with rows of features that sum to 1."""
    with np.load(ROOT / "examples/data/cora.npz") as file:
        arrays = {key: file[key] for key in file}
    degrees = np.diff(arrays["indptr"])
    rows = np.repeat(np.arange(len(degrees)), degrees)
    x = np.zeros(tuple(int(n) for n in arrays["feat_shape"]), dtype=np.float32)
    x[np.repeat(np.arange(len(x)), np.diff(arrays["feat_indptr"])), arrays["feat_indices"]] = arrays["feat_data"]
    x /= np.maximum(x.sum(1, keepdims=True), 1e-12)
    masks = {key: arrays[key].astype(bool) for key in ("train_mask", "val_mask", "test_mask")}
    edges = np.stack([arrays["indices"].astype(np.int64), rows.astype(np.int64)])
    return Arrays(edge_index=edges, x=x, y=arrays["labels"].astype(np.int64), **masks)


@pytest.fixture(scope="session")
def cora():
    return load_cora()


@pytest.fixture(scope="session")
def directed():
    return random_graph()

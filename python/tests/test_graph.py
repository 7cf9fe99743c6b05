"""Graphs from arrays, files and other libraries."""

import gc
import sys

import gnnc
import numpy as np
import pytest

from conftest import ROOT

CYCLE = np.array([[0, 1, 2, 3], [1, 2, 3, 0]])


def test_arrays_become_a_graph(directed):
    graph = gnnc.Graph(**directed, name="drawn")
    about = graph.statistics
    assert (graph.name, graph.num_nodes, graph.num_features, graph.num_classes) == ("drawn", 240, 12, 4)
    assert graph.num_edges == directed["edge_index"].shape[1]
    assert about["relations"] == 3 and about["edge_features"] == 1 and about["split"] == [120, 60, 60]
    assert graph.self_loops == "none" and graph.repeated_edges == 0


def test_the_same_arrays_in_a_file_are_the_same_graph(directed, tmp_path):
    np.savez(tmp_path / "graph.npz", **directed)
    assert gnnc.Graph.load(tmp_path / "graph.npz").statistics == gnnc.Graph(**directed).statistics


def test_dense_features_are_used_where_they_are():
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    before = sys.getrefcount(x)
    graph = gnnc.Graph(CYCLE, x, np.array([0, 1, 0, 1]), np.ones(4, bool))
    assert sys.getrefcount(x) > before
    model = gnnc.Model("model m() on g { let h = 2 * x loss cross_entropy(linear(h, classes), labels, on = train) }")
    weights = gnnc.train(model, graph, epochs=1).last.weights
    x[2] = 7
    assert (gnnc.embeddings(model.with_weights(weights), "h", graph) == 2 * x).all()
    del graph
    gc.collect()
    assert sys.getrefcount(x) == before


@pytest.mark.parametrize(
    "change", [lambda x: x.astype(np.float64), lambda x: np.asfortranarray(x), lambda x: np.repeat(x, 2, 0)[::2]]
)
def test_other_features_are_copied(change):
    x = np.arange(12, dtype=np.float32).reshape(4, 3) + 1
    graph = gnnc.Graph(CYCLE, change(x), np.zeros(4, int), np.ones(4, bool))
    model = gnnc.Model(
        "model m() on g { let h = 2 * x loss cross_entropy(linear(h, 2), labels, on = train) }\ngraph g { vertices = 4 edges = 4 features = 3 classes = 2 }"
    )
    weights = gnnc.train(model, graph, epochs=1).last.weights
    assert (gnnc.embeddings(model.with_weights(weights), "h", graph) == 2 * x).all()


def test_features_of_mostly_zeros_are_sparse():
    assert gnnc.Graph(CYCLE, np.eye(4, 9))._native.sparse_features
    assert not gnnc.Graph(CYCLE, np.ones((4, 9)))._native.sparse_features


@pytest.mark.parametrize(
    "more, loops, repeats",
    [
        ([], "none", 0),
        ([[1], [1]], "some", 0),
        ([[0, 1, 2, 3], [0, 1, 2, 3]], "all", 0),
        ([[0, 0], [1, 1]], "none", 2),
        ([[0, 1, 2, 2], [0, 1, 2, 2]], "some", 0),
    ],
)
def test_loops_and_repeats_are_counted(more, loops, repeats):
    edges = np.concatenate([CYCLE, np.array(more, dtype=int).reshape(2, -1)], axis=1)
    graph = gnnc.Graph(edges, num_nodes=4)
    assert (graph.self_loops, graph.repeated_edges, graph.num_edges) == (loops, repeats, 4)


def test_vertices_without_edges_are_counted():
    assert gnnc.Graph(CYCLE, num_nodes=100_000).num_nodes == 100_000


def test_graphs_have_an_item_in_the_language(directed):
    graph = gnnc.Graph(**directed, name="my graph")
    text = f"{graph.item()}model m() on my_graph {{ loss cross_entropy(linear(x, 4), labels, on = train) }}"
    assert gnnc.Model(text).check() == ""
    assert gnnc.plan(text, gpus=2).data["workload"]["vertices"] == 240


def test_scipy_rows_are_sources():
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_array(
        (np.array([0.5, 2, 3, 0, 4]), (np.array([0, 1, 2, 0, 3]), np.array([1, 2, 3, 3, 0]))), shape=(4, 4)
    )
    wanted = gnnc.Graph(CYCLE, num_nodes=4, edge_attr=np.array([0.5, 2, 3, 4])).statistics
    assert gnnc.Graph.from_scipy(matrix, np.ones((4, 2))).num_edges == 4
    weighted = gnnc.Graph.from_scipy(matrix, weights=True)
    assert weighted.num_edges == 5 and weighted.statistics["edge_features"] == wanted["edge_features"] == 1
    with pytest.raises(gnnc.InputError, match=r"found a matrix of shape \(4, 3\), expected a square one"):
        gnnc.Graph.from_scipy(matrix[:, :3])


def test_networkx():
    networkx = pytest.importorskip("networkx")
    plain = networkx.karate_club_graph()
    for vertex, about in plain.nodes(data=True):
        about.update(feature=[vertex, 1.0], degree=plain.degree[vertex], label=vertex % 2)
    graph = gnnc.Graph.from_networkx(plain, features=["feature", "degree"], label="label", weight="weight")
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (34, 156, 3, 2)
    assert graph.statistics["edge_features"] == 1
    one_way = networkx.DiGraph([("a", "b"), ("b", "c")])
    assert gnnc.Graph.from_networkx(one_way).num_edges == 2
    with pytest.raises(gnnc.InputError, match="not every vertex or edge .* 'nothing'"):
        gnnc.Graph.from_networkx(plain, features=["nothing"])


def test_pandas():
    pandas = pytest.importorskip("pandas")
    edges = pandas.DataFrame(
        {"source": ["ann", "bob", "eve"], "target": ["bob", "eve", "ann"], "weight": [1.0, 2.0, 0.5]}
    )
    nodes = pandas.DataFrame({"id": ["ann", "bob", "eve"], "age": [31, 44, 27], "label": ["red", "blue", "red"]})
    graph = gnnc.Graph.from_pandas(edges, nodes, symmetrize=True, split=(0.34, 0.33, 0.33))
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (3, 6, 1, 2)
    assert graph.statistics["split"] == [1, 1, 1]
    with pytest.raises(gnnc.InputError, match="shares"):
        gnnc.Graph.from_pandas(edges, nodes, split=(0.9, 0.9, 0.9))
    with pytest.raises(gnnc.InputError, match="dan"):
        gnnc.Graph.from_pandas(pandas.DataFrame({"source": ["dan"], "target": ["bob"]}), nodes)


def test_saved_graphs_are_read_again(directed, tmp_path):
    graph = gnnc.Graph(**directed)
    graph.save(tmp_path / "graph.npz")
    assert gnnc.Graph.load(tmp_path / "graph.npz").statistics == graph.statistics
    with pytest.warns(UserWarning, match="features, labels, split"):
        graph.save(tmp_path / "graph.csv")
    with pytest.raises(gnnc.InputError, match="without a known extension"):
        graph.save(tmp_path / "graph")
    loops = gnnc.Graph(np.array([[0, 1, 1], [1, 0, 1]]), x=np.eye(2, dtype="float32"))
    with pytest.warns(UserWarning, match="self-loops"):
        loops.save(tmp_path / "loops.npz")


def test_data_of_pytorch_geometric(directed):
    pytest.importorskip("torch_geometric")
    data = directed.data()
    assert gnnc.Graph.from_pyg(data).statistics == gnnc.Graph(**directed).statistics
    data.train_mask = data.train_mask[:, None].repeat(1, 3)
    data.train_mask[:, 1] = False
    data.train_mask[int(data.train_mask[:, 0].nonzero()[0]), 1] = True
    assert gnnc.Graph.from_pyg(data, split=1).statistics["split"][0] == 1
    assert gnnc.Graph.from_pyg(data, num_relations=5).statistics["relations"] == 5


def test_batches_of_pytorch_geometric():
    pytest.importorskip("torch_geometric")
    import torch
    from torch_geometric.data import Batch, Data

    one = Data(edge_index=torch.from_numpy(CYCLE), x=torch.rand(4, 3), y=torch.tensor([1]))
    batch = Batch.from_data_list([one, one, one])
    graph = gnnc.Graph.from_pyg(batch, train_mask=torch.ones(3, dtype=torch.bool))
    assert graph.num_nodes == 15 and graph.num_classes == 2


def test_examples_load():
    graph = gnnc.Graph.load(ROOT / "examples/data/cora.npz")
    assert repr(graph) == "<gnnc.Graph cora: 2708 vertices, 10556 edges, 1433 features, 7 classes>"


MISTAKES = [
    (lambda: gnnc.Graph(CYCLE.T), r"expected whole numbers of shape \(2, edges\)"),
    (lambda: gnnc.Graph(CYCLE * 0.5), r"expected whole numbers of shape \(2, edges\)"),
    (lambda: gnnc.Graph(CYCLE - 1), "-1"),
    (lambda: gnnc.Graph(CYCLE, np.ones((3, 2))), "3"),
    (lambda: gnnc.Graph(CYCLE, np.full((4, 2), np.nan)), "non-finite"),
    (lambda: gnnc.Graph(CYCLE, y=np.zeros(5, int), num_nodes=4), "5"),
    (lambda: gnnc.Graph(CYCLE, np.ones((4, 2)), train_mask=np.ones(3, bool)), "3"),
    (lambda: gnnc.Graph(CYCLE, edge_attr=np.ones(3)), "3"),
    (lambda: gnnc.Graph.load("nothing.npz"), "nothing.npz"),
]


@pytest.mark.parametrize("make, said", MISTAKES)
def test_mistakes_are_errors(make, said):
    with pytest.raises(gnnc.InputError, match=said):
        make()

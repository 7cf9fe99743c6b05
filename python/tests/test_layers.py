"""What imported modules compute is what PyTorch computes in double precision, within 1e-5."""

import copy
import inspect

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

import gnnc  # noqa: E402
import modules  # noqa: E402

TOLERANCE = 1e-5


def seeded(make, *sizes):
    """A module with weights of a seed, biases too, so that a forgotten one is seen."""
    torch.manual_seed(5)
    module = make(*sizes)
    with torch.no_grad():
        for name, tensor in module.named_parameters():
            if name.endswith(("bias", "eps")) and tensor.dim() == 1:
                tensor.add_(0.1 * torch.randn_like(tensor))
    return module.eval()


def arguments(module, data):
    """What `forward` takes of a graph."""
    kind = type(module)
    if isinstance(module, torch.nn.Sequential):
        return [data.x]
    if kind.__module__.startswith("torch_geometric"):
        return [data.x, data.edge_index]
    known = {
        "x": data.x,
        "edge_index": data.edge_index,
        "data": data,
        "edge_weight": data.get("edge_attr"),
        "edge_type": data.get("edge_type"),
    }
    return [known[name] for name in inspect.signature(kind.forward).parameters if name != "self"]


def exactly(module, data):
    """What a module computes in double precision."""
    data = data.clone()
    for key in ("x", "edge_attr"):
        if data.get(key) is not None:
            data[key] = data[key].double()
    with torch.no_grad():
        return copy.deepcopy(module).double()(*arguments(module, data)).numpy()


def agree(module, data, graph, **options):
    """Compares logits."""
    expected = exactly(module, data)
    model = gnnc.from_torch(module, graph, **options)
    found = gnnc.predict(model, graph).logits
    if model.source.log_softmax:
        found = torch.from_numpy(found).log_softmax(1).numpy()
    assert found.shape == expected.shape
    assert np.abs(expected).max() > 1e-2, "nothing to compare"
    assert np.abs(found - expected).max() <= TOLERANCE
    return model


@pytest.mark.parametrize("name", modules.PLAIN)
def test_layers_on_a_directed_graph(name, directed):
    data = directed.data()
    module = seeded(modules.PLAIN[name], data.num_features, 4)
    agree(module, data, gnnc.Graph.from_pyg(data))


@pytest.mark.parametrize("name", modules.PLAIN)
def test_layers_on_cora(name, cora):
    data = cora.data()
    if "BatchNorm" in name:
        # Columns of rows that sum to 1 vary so little that dividing by it leaves few digits of 32 bits.
        data.x = (data.x > 0).float()
    module = seeded(modules.PLAIN[name], data.num_features, 7)
    agree(module, data, gnnc.Graph.from_pyg(data))


@pytest.mark.parametrize("name", modules.WEIGHTED)
def test_layers_with_weights_of_edges(name, directed):
    data = directed.data()
    module = seeded(modules.WEIGHTED[name], data.num_features, 4)
    agree(module, data, gnnc.Graph.from_pyg(data))


@pytest.mark.parametrize("name", modules.TYPED)
def test_layers_with_types_of_edges(name, directed):
    data = directed.data()
    module = seeded(modules.TYPED[name], data.num_features, 4, 3)
    agree(module, data, gnnc.Graph.from_pyg(data))


@pytest.mark.parametrize("bases", [None, 2])
def test_relations_without_features(bases, directed):
    data = directed.data()
    data.x, data.num_nodes = None, len(data.y)
    make = modules.pyg.RGCNConv
    module = seeded(lambda n: modules.OfVertices(make(n, 16, 3, num_bases=bases), make(16, 4, 3)), data.num_nodes)
    agree(module, data, gnnc.Graph.from_pyg(data))


@pytest.mark.parametrize("name", [name for name in modules.PLAIN if "Conv" in name or name == "APPNP"])
def test_a_loop_at_every_vertex_is_an_edge(name, directed):
    from torch_geometric.utils import add_self_loops

    data = directed.data()
    data.edge_attr = data.edge_type = None
    data.edge_index, _ = add_self_loops(data.edge_index, num_nodes=data.num_nodes)
    graph = gnnc.Graph.from_pyg(data)
    assert graph.self_loops == "all"
    module = seeded(modules.PLAIN[name], data.num_features, 4)
    agree(module, data, graph)


@pytest.mark.parametrize("name", ["GCNConv", "GATConv heads", "GCN2Conv"])
def test_some_loops_do_not_matter_to_layers_that_add_them(name, directed):
    data = directed.data()
    data.edge_attr = data.edge_type = None
    data.edge_index = torch.cat([data.edge_index, torch.tensor([[1, 5], [1, 5]])], 1)
    graph = gnnc.Graph.from_pyg(data)
    assert graph.self_loops == "some"
    agree(seeded(modules.PLAIN[name], data.num_features, 4), data, graph)


@pytest.mark.parametrize("norm", [torch.nn.BatchNorm1d, modules.pyg.BatchNorm])
def test_batch_norm_is_that_of_training_and_goes_back_with_its_statistics(norm, directed):
    data = directed.data()
    graph = gnnc.Graph.from_pyg(data)
    module = seeded(lambda i, o: modules.Normed(i, o, norm(modules.HIDDEN)), data.num_features, 4)
    model = gnnc.from_torch(module, graph)
    trained = exactly(module.train(), data)
    model.to_torch(graph=graph)
    evaluated = exactly(module.eval(), data)
    found = gnnc.predict(model, graph).logits
    assert np.abs(found - trained).max() <= TOLERANCE
    assert np.abs(found - evaluated).max() <= TOLERANCE


def test_many_workers_and_placements_compute_the_same(directed):
    data = directed.data()
    graph = gnnc.Graph.from_pyg(data)
    module = seeded(modules.PLAIN["GATv2Conv"], data.num_features, 4)
    model = gnnc.from_torch(module, graph)
    one, four = (gnnc.predict(model, graph, workers=n).logits for n in (1, 4))
    assert np.abs(one - four).max() <= TOLERANCE

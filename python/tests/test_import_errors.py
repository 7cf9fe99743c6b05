"""Modules that cannot become models: every part is named, with what to do."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch_geometric import nn as pyg  # noqa: E402
from torch_geometric.nn import global_mean_pool  # noqa: E402
from torch_geometric.utils import add_self_loops, degree  # noqa: E402

import gnnc  # noqa: E402
import modules  # noqa: E402


def refused(module, arrays, graph=None, **options):
    """The text of the error."""
    with pytest.raises(gnnc.InputError) as error:
        gnnc.from_torch(module, graph or gnnc.Graph.from_pyg(arrays.data()), **options)
    return str(error.value)


def of(forward, **parts):
    """A module with such a forward method."""
    kind = type("Model", (nn.Module,), {"forward": forward})
    module = kind()
    for name, part in parts.items():
        setattr(module, name, part)
    return module


def test_every_part_without_an_equal_is_named(directed):
    def forward(self, x, edge_index):
        h = self.blocks[0](x, edge_index)
        return self.out(torch.cumsum(self.blocks[1](h, edge_index), 1))

    blocks = nn.ModuleList([pyg.TransformerConv(12, 8), pyg.GATConv(8, 8, edge_dim=3)])
    text = refused(of(forward, blocks=blocks, out=nn.GRU(8, 4)), directed)
    lines = text.splitlines()
    assert lines[0] == "Model cannot become a model of gnnc:"
    assert lines[1].startswith(
        "  blocks.0 (TransformerConv): there is no equal in gnnc; use one of APPNP, BatchNorm, GATConv,"
    )
    # What follows from a part that cannot be made is not reported again.
    assert len(lines) == 2


PARTS = [
    (
        lambda: pyg.GINConv(pyg.MLP([12, 4, 4], norm="GraphNorm")),
        "conv.nn.norms.0 (GraphNorm): there is no equal in gnnc; use one of APPNP, BatchNorm,",
    ),
    (
        lambda: pyg.GATConv(12, 4, edge_dim=1),
        "conv (GATConv): GATConv with edge_dim=1; leave out features of edges in attention",
    ),
    (
        lambda: pyg.SAGEConv(12, 4, aggr="median"),
        'conv (SAGEConv): SAGEConv with aggr=\'median\'; use "add", "mean" or "max"',
    ),
    (
        lambda: pyg.GCNConv(12, 4, flow="target_to_source"),
        "conv (GCNConv): GCNConv with flow='target_to_source'; reverse the edges",
    ),
    (lambda: pyg.GCNConv(-1, 4), "conv (GCNConv): its width is not known yet; run the module once"),
    (
        lambda: pyg.GINConv(nn.Sequential(nn.Linear(12, 4), nn.GELU())),
        "conv.nn.1 (GELU): the exact GELU needs the error function",
    ),
    (
        lambda: pyg.GINConv(nn.Sequential(nn.Linear(12, 4), nn.Softmax(1))),
        "conv.nn.1 (Softmax): there is no equal in gnnc",
    ),
]


@pytest.mark.parametrize("make, said", PARTS, ids=[said.split(":")[0] for _, said in PARTS])
def test_options_without_an_equal(make, said, directed):
    module = of(lambda self, x, edge_index: self.conv(x, edge_index), conv=make())
    assert said in refused(module, directed)


FORWARDS = [
    (lambda self, x, edge_index: self.lin(x[:, :3]), "getitem: the item "),
    (lambda self, x, edge_index: self.lin(x).softmax(1), "`softmax` has no equal"),
    (lambda self, x, edge_index: self.lin(x).view(-1, 2, 2), "only heads can be put beside each other"),
    (lambda self, x, edge_index: torch.cat([self.lin(x), x], 0), "a concatenation along dimension 0"),
    (lambda self, x, edge_index: self.lin(x) + x, "`+` of tensors of 4 and 12 columns"),
    (lambda self, x, edge_index: F.log_softmax(self.lin(x), 1) * 2, "`*` goes on after log_softmax"),
    (lambda self, x, edge_index: (self.lin(x), x), "forward: returns 2 values, expected the logits alone"),
    (lambda self, x, edge_index: self.lin(x) if x.sum() > 0 else x, "cannot be followed (test_import_errors.py, line"),
    (
        lambda self, x, edge_index: self.lin(x * degree(edge_index, 240)),
        "degree: `degree` works on edges inside `forward`",
    ),
    (lambda self, x, edge_index: global_mean_pool(self.lin(x), None), "`global_mean_pool`, but the graph is a single one"),
    (
        lambda self, signal, edge_index: self.lin(signal),
        'the arguments `signal` of `forward` have names that do not say what they are; say it with inputs={"signal": "x"}',
    ),
]


@pytest.mark.parametrize("forward, said", FORWARDS, ids=[said[:30] for _, said in FORWARDS])
def test_forward_methods_without_an_equal(forward, said, directed):
    assert said in refused(of(forward, lin=nn.Linear(12, 4)), directed)


def test_arguments_can_be_named(directed):
    data = directed.data()
    module = of(lambda self, signal, edge_index: self.lin(signal), lin=nn.Linear(12, 4))
    graph = gnnc.Graph.from_pyg(data)
    found = gnnc.predict(gnnc.from_torch(module, graph, inputs={"signal": "x"}), graph).logits
    assert np.abs(found - module(data.x, None).detach().numpy()).max() <= 1e-5
    assert "expected one of x, edge_index" in refused(module, directed, inputs={"signal": "y"})


def test_edges_that_forward_makes(directed):
    def forward(self, x, edge_index):
        edge_index, _ = add_self_loops(edge_index)
        return self.conv(x, edge_index)

    text = refused(of(forward, conv=pyg.SAGEConv(12, 4)), directed)
    assert (
        "add_self_loops: `add_self_loops` works on edges inside `forward`; prepare the graph before, for PyTorch too"
        in text
    )


def test_graphs_on_which_pytorch_computes_something_else(directed):
    arrays = {key: directed[key] for key in ("x", "y", "train_mask")}
    edges = directed["edge_index"]
    twice = gnnc.Graph(np.concatenate([edges, edges[:, :3]], 1), **arrays)
    sage, gcn = modules.PLAIN["SAGEConv"](12, 4), modules.PLAIN["GCNConv"](12, 4)
    assert "has 3 repeated edges, which gnnc leaves out and PyTorch would count" in refused(gcn, directed, twice)
    some = gnnc.Graph(np.concatenate([edges, [[1], [1]]], 1), **arrays)
    text = "conv1 (SAGEConv): SAGEConv takes the graph's self loops as edges, but not every vertex has one"
    assert text in refused(sage, directed, some)
    none = gnnc.Graph(edges, **arrays)
    every = gnnc.Graph(np.concatenate([edges, np.tile(np.arange(240), (2, 1))], 1), **arrays)
    model = gnnc.from_torch(sage, none)
    for call in (
        lambda: gnnc.predict(model, every),
        lambda: gnnc.train(model, every, epochs=1),
        lambda: gnnc.plan(model, graph=some),
    ):
        with pytest.raises(gnnc.InputError, match="the model was made for one on which no vertex has one"):
            call()


def test_graphs_that_do_not_fit(directed):
    text = refused(modules.PLAIN["GCNConv"](12, 3), directed)
    assert "returns 3 numbers for each label, but the graph graph has 4 classes" in text
    assert (
        "RGCNConv has 5 relations, but the graph has 3; make the graph with `edge_type` and num_relations=5"
        in refused(modules.TYPED["RGCNConv"](12, 4, 5), directed)
    )
    plain = gnnc.Graph(directed["edge_index"], directed["x"], directed["y"])
    text = refused(modules.WEIGHTED["GCNConv weighted"](12, 4), directed, plain)
    assert "conv1 (GCNConv): GCNConv gets weights of edges, but edges of the graph have 0 numbers" in text
    assert "expected a gnnc.Graph; gnnc.Graph.from_pyg makes one" in refused(
        modules.PLAIN["GCNConv"](12, 4), directed, directed.data()
    )


def test_a_model_with_more_classes_than_labels(directed):
    data = directed.data()
    graph = gnnc.Graph.from_pyg(data)
    module = modules.PLAIN["GCNConv"](12, 6).eval()
    run = gnnc.train(gnnc.from_torch(module, graph), graph, epochs=2)
    assert run.predict().logits.shape == (240, 6)


SETTINGS = [
    ({"optimizer": lambda m: torch.optim.RMSprop(m.parameters())}, "the optimizer RMSprop has no equal"),
    ({"optimizer": lambda m: torch.optim.Adam(m.parameters(), amsgrad=True)}, "Adam with amsgrad=True has no equal"),
    (
        {"optimizer": lambda m: torch.optim.SGD(m.parameters(), 0.1, momentum=0.9, nesterov=True)},
        "SGD with nesterov=True has no equal",
    ),
    ({"optimizer": lambda m: torch.optim.Adam(m.conv1.parameters())}, "the optimizer lacks 3 parameters of the module"),
    ({"loss": lambda m: nn.MultiMarginLoss()}, "the loss MultiMarginLoss has no equal"),
    ({"loss": lambda m: "hinge"}, "found the loss `hinge`, expected one of cross_entropy"),
    ({"loss": lambda m: nn.CrossEntropyLoss(reduction="sum")}, "found a loss with reduction='sum', expected the mean"),
]


@pytest.mark.parametrize("options, said", SETTINGS, ids=[said[:30] for _, said in SETTINGS])
def test_settings_without_an_equal(options, said, directed):
    module = modules.PLAIN["SAGEConv"](12, 4)
    assert said in refused(module, directed, **{key: make(module) for key, make in options.items()})


def test_frozen_parameters(directed):
    module = modules.PLAIN["SAGEConv"](12, 4)
    module.conv1.lin_l.weight.requires_grad_(False)
    assert "conv1 (SAGEConv): the parameter `conv1.lin_l.weight` does not require gradients" in refused(
        module, directed
    )


def test_labels_that_are_numbers(directed):
    data = directed.data()
    data.y = data.x[:, :4]
    text = refused(modules.PLAIN["GCNConv"](12, 4), directed, gnnc.Graph.from_pyg(data))
    assert 'say what they are: loss="mse"' in text

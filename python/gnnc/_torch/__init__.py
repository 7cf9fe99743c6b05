"""Models of PyTorch modules, and their weights back into PyTorch."""

import numpy as np
import torch

from ..errors import InputError, UnsupportedError
from ..graph import Graph
from ..model import Model, embeddings
from .settings import decays, loss_text, optimizer_text
from .trace import Broken, Converter, kinds_of
from .writer import Rows


class Source:
    """The PyTorch module that a model comes from."""

    def __init__(self, module, writer, graph, ends_in_log_softmax):
        self.module = module
        self.bindings = writer.bindings
        self.norms = writer.norms
        #: Whether `forward` returns the logarithm of the softmax of what the model calls logits.
        self.log_softmax = ends_in_log_softmax
        self._loops = graph.self_loops if writer.sees_loops else None

    def fits(self, graph):
        """Raises InputError if PyTorch would compute something else on a graph."""
        if graph.repeated_edges:
            raise InputError(
                f"the graph {graph.name} has {graph.repeated_edges} repeated edges, which gnnc leaves out and PyTorch would count; remove "
                "them with torch_geometric.utils.coalesce or dgl.to_simple, for PyTorch too"
            )
        if self._loops is not None and graph.self_loops != self._loops:
            words = {"none": "no vertex has", "all": "every vertex has", "some": "some vertices have"}
            raise InputError(
                f"on the graph {graph.name} {words[graph.self_loops]} a self loop, but the model was made for one on which "
                f"{words[self._loops]} one; make the model again for this graph"
            )

    def put_back(self, model, module, graph):
        """Writes weights into a module."""
        module = self.module if module is None else module
        if self.norms and graph is None:
            raise InputError(f"batch norm `{self.norms[0][0]}` needs the graph for its running statistics; pass graph=")
        with torch.no_grad():
            for binding in self.bindings:
                try:
                    target = module.get_parameter(binding.path)
                except AttributeError as error:
                    raise InputError(
                        f"the module has no parameter `{binding.path}`; pass one like that which the model was made of"
                    ) from error
                values = np.ascontiguousarray(binding.unpack(model.weights[binding.name][0], binding.shape))
                if tuple(target.shape) != values.shape:
                    raise InputError(
                        f"`{binding.path}` has shape {tuple(target.shape)} in the module, expected {values.shape}"
                    )
                target.copy_(torch.from_numpy(values))
            for path, name, pooled in self.norms:
                rows = embeddings(model, name, graph).astype(np.float64)
                if graph.num_graphs:
                    inside = len(rows) - graph.num_graphs
                    rows = rows[inside:] if pooled else rows[:inside]
                norm = module.get_submodule(path)
                norm.running_mean.copy_(torch.from_numpy(rows.mean(axis=0)))
                norm.running_var.copy_(torch.from_numpy(rows.var(axis=0)))
        return module


def from_torch(module, graph, *, inputs, loss, optimizer, epochs, name):
    """See `gnnc.from_torch`."""
    if not isinstance(module, torch.nn.Module):
        raise InputError(f"found a {type(module).__name__}, expected a torch.nn.Module")
    if not isinstance(graph, Graph):
        raise InputError(
            f"found a {type(graph).__name__} as the graph, expected a gnnc.Graph; gnnc.Graph.from_pyg makes one of a Data"
        )
    if graph.predicts_pairs:
        raise UnsupportedError(
            f"labels of {graph.name} are of pairs, which from_torch does not import; write the model in gnnc's language (docs/data.md)"
        )
    said = optimizer_text(module, optimizer)
    kinds, left = kinds_of(module, inputs or {}, graph)
    writer = Converter(graph, decays(module, optimizer))
    out = writer.root(module, kinds, left)
    if not writer.problems and not isinstance(out, (Rows, Broken)):
        count = f"{len(out)} values" if isinstance(out, (list, tuple)) else repr(out)
        writer.problems.append(f"forward: returns {count}, expected the logits alone; leave out the others")
    if isinstance(out, Rows) and (out.heads or out.single):
        writer.problems.append(
            "forward: returns heads, expected a row of logits for each vertex; flatten or average them"
        )
    if graph.num_graphs and isinstance(out, Rows) and out.name not in writer.pooled:
        writer.problems.append(
            f"forward: returns a row for each vertex, but labels of {graph.name} are of graphs; pool the rows, as with "
            "torch_geometric.nn.global_mean_pool"
        )
    if writer.identity and writer.uses_x and graph.num_features:
        writer.problems.append(
            f"forward: uses the features of the graph, and also those of the vertices' own ({writer.identity}); make the graph without x"
        )
    if writer.problems:
        lines = "".join(f"\n  {problem}" for problem in writer.problems)
        raise UnsupportedError(f"{type(module).__name__} cannot become a model of gnnc:{lines}")
    if graph.num_classes > out.width:
        raise InputError(
            f"`forward` of {type(module).__name__} returns {out.width} numbers for each label, but the graph {graph.name} has {graph.num_classes} "
            "classes or numbers for each"
        )
    source = Source(module, writer, graph, out.final)
    source.fits(graph)
    final = out.name if out.name != "x" else writer.let("logits", "1 * x")
    graph_name = graph.word
    item = graph.item(graph_name, identity=bool(writer.identity), classes=out.width)
    own = name or "".join(c if c.isalnum() else "_" for c in type(module).__name__).lower()
    statements = [*writer.lines, loss_text(loss, final, graph, out.final)]
    body = "".join(f"  {line}\n" for line in statements)
    layers = "".join(f"{text}\n\n" for text in writer.layers.values())
    settings = "".join(f"  {line}\n" for line in [*said, f"epochs = {epochs}"])
    text = f"{item}\n{layers}model {own}() on {graph_name} {{\n{body}}}\n\ntrain {{\n{settings}}}\n"
    model = Model(text, weights=writer.weights(module))
    model.source = source
    return model

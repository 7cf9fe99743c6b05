"""Graph layers of PyTorch Geometric.

Every function takes the writer, the module, its path and the arguments of `forward`, and follows what `forward` computes
from them.
"""

from .functions import normalized, own_features
from .writer import Given, Rows, Unsupported, flat, number


def check(module, edges, what):
    """Refuses what no layer here can follow."""
    if getattr(module, "flow", "source_to_target") != "source_to_target":
        raise Unsupported(
            f"{what} with flow={module.flow!r}", "reverse the edges of the graph, and use the default flow"
        )
    if not isinstance(edges, Given) or edges.kind != "edges":
        raise Unsupported(
            f"{what} gets edges that `forward` computes",
            "pass `edge_index` as it is, and make the graph of what it should be",
        )


def propagation(writer, module, what, weights, drop=0.0):
    """The layer that multiplies by the normalized matrix of the edges, as a function from a name to a text."""
    weighted = writer.edge_weights(weights, what)
    loops = 2.0 if getattr(module, "improved", False) else 1.0
    if drop and weighted:
        raise Unsupported(f"{what} with dropout of weighted edges", "set dropout=0")
    if not getattr(module, "normalize", True):
        if drop:
            raise Unsupported(f"{what} with dropout of edges that are not normalized", "set dropout=0")
        layer = writer.layer("weighted_sum") if weighted else writer.layer("sum_in", writer.own_edges(what))
        return lambda h: f"{layer}({h})"
    if weighted and module.add_self_loops:
        layer = writer.layer("weighted_symmetric_sum")
        return lambda h: f"{layer}({h}, {number(loops)})"
    if weighted:
        layer = writer.layer("weighted_symmetric_sum_without_loops")
        return lambda h: f"{layer}({h})"
    # Without weights, `improved` changes nothing: the loops that are added weigh as much as the edges.
    on = "edges + loops" if module.add_self_loops else writer.own_edges(what)
    layer = writer.layer("symmetric_sum", on)
    return lambda h: f"{layer}({h}, drop = {number(drop)})" if drop else f"{layer}({h})"


def gcn(writer, module, path, x, edge_index, edge_weight=None):
    check(module, edge_index, "GCNConv")
    h = flat(writer, x, "GCNConv")
    step = propagation(writer, module, "GCNConv", edge_weight)
    weight = writer.parameter(f"{path}.lin.weight", module.lin.weight, "transposed")
    text = step(f"matmul({h}, {weight})") + writer.plus(f"{path}.bias", module.bias)
    return Rows(writer.let(path, text), module.out_channels)


def aggregation(writer, module, what, weights=None):
    """The layer that reduces the rows of in-neighbors."""
    if not isinstance(module.aggr, str) or module.aggr not in ("add", "sum", "mean", "max"):
        raise Unsupported(f"{what} with aggr={module.aggr!r}", 'use "add", "mean" or "max"')
    reduce = {"add": "sum"}.get(module.aggr, module.aggr)
    if writer.edge_weights(weights, what):
        return writer.layer(f"weighted_{reduce}")
    return writer.layer(f"{reduce}_in", writer.own_edges(what))


def sage(writer, module, path, x, edge_index, size=None):
    check(module, edge_index, "SAGEConv")
    h = flat(writer, x, "SAGEConv")
    layer = aggregation(writer, module, "SAGEConv")
    source = h
    if module.project:
        source = writer.let(f"{path}_lin", f"relu({writer.linear(f'{path}.lin', module.lin, h)})")
    text = writer.linear(f"{path}.lin_l", module.lin_l, f"{layer}({source})")
    if module.root_weight:
        text += f" + {writer.linear(f'{path}.lin_r', module.lin_r, h)}"
    found = Rows(writer.let(path, text), module.out_channels)
    return normalized(writer, f"{path}_normalized", found, dim=-1) if module.normalize else found


def graph_conv(writer, module, path, x, edge_index, edge_weight=None, size=None):
    check(module, edge_index, "GraphConv")
    h = flat(writer, x, "GraphConv")
    layer = aggregation(writer, module, "GraphConv", edge_weight)
    text = writer.linear(f"{path}.lin_rel", module.lin_rel, f"{layer}({h})")
    text += f" + {writer.linear(f'{path}.lin_root', module.lin_root, h)}"
    return Rows(writer.let(path, text), module.out_channels)


def attention_edges(writer, module, what, edge_attr, returned):
    """What attention runs on."""
    if module.edge_dim is not None or (edge_attr is not None and getattr(module, "lin_edge", None) is not None):
        raise Unsupported(f"{what} with edge_dim={module.edge_dim}", "leave out features of edges in attention")
    if returned is not None:
        raise Unsupported(f"{what} with return_attention_weights", "leave it out")
    return "edges + loops" if module.add_self_loops else writer.own_edges(what)


def after_heads(writer, module, path, sums, h):
    """Heads beside each other or their mean, with residual and bias."""
    text = f"merge_heads({sums})" if module.concat else f"mean_heads({sums})"
    if module.residual:
        text += f" + {writer.linear(f'{path}.res', module.res, h)}"
    text += writer.plus(f"{path}.bias", module.bias)
    width = module.out_channels * (module.heads if module.concat else 1)
    return Rows(writer.let(path, text), width)


def gat(writer, module, path, x, edge_index, edge_attr=None, size=None, return_attention_weights=None):
    check(module, edge_index, "GATConv")
    h = flat(writer, x, "GATConv")
    layer = writer.layer("attention", attention_edges(writer, module, "GATConv", edge_attr, return_attention_weights))
    if module.lin is None:
        raise Unsupported("GATConv with two widths of input", "give one number of channels")
    heads = module.heads
    weight = writer.parameter(f"{path}.lin.weight", module.lin.weight, "transposed")
    source = writer.parameter(f"{path}.att_src", module.att_src, "row", heads=heads)
    target = writer.parameter(f"{path}.att_dst", module.att_dst, "row", heads=heads)
    rows = writer.let(f"{path}_heads", f"split_heads(matmul({h}, {weight}), {heads})")
    sums = f"{layer}({rows}, {source}, {target}, {number(module.negative_slope)}, {number(module.dropout)})"
    return after_heads(writer, module, path, sums, h)


def gatv2(writer, module, path, x, edge_index, edge_attr=None, return_attention_weights=None):
    check(module, edge_index, "GATv2Conv")
    h = flat(writer, x, "GATv2Conv")
    on = attention_edges(writer, module, "GATv2Conv", edge_attr, return_attention_weights)
    layer = writer.layer("attention_of_sums", on)
    heads = module.heads
    there = writer.let(f"{path}_there", f"split_heads({writer.linear(f'{path}.lin_l', module.lin_l, h)}, {heads})")
    here = there
    if not module.share_weights:
        here = writer.let(f"{path}_here", f"split_heads({writer.linear(f'{path}.lin_r', module.lin_r, h)}, {heads})")
    weight = writer.parameter(f"{path}.att", module.att, "row", heads=heads)
    sums = f"{layer}({there}, {here}, {weight}, {number(module.negative_slope)}, {number(module.dropout)})"
    return after_heads(writer, module, path, sums, h)


def gin(writer, module, path, x, edge_index, size=None):
    check(module, edge_index, "GINConv")
    h = flat(writer, x, "GINConv")
    layer = aggregation(writer, module, "GINConv")
    sums = writer.let(f"{path}_sums", f"{layer}({h}) + {one_plus(writer, module, path)} * {h}")
    return writer.convert(module.nn, f"{path}.nn", Rows(sums, x.width))


def one_plus(writer, module, path):
    """The weight of the vertex itself in GIN."""
    if "eps" in dict(module.named_parameters(recurse=False)):
        return f"(1 + {writer.parameter(f'{path}.eps', module.eps, 'row')})"
    return number(1 + float(module.eps))


def gcn2(writer, module, path, x, x_0, edge_index, edge_weight=None):
    check(module, edge_index, "GCN2Conv")
    h, first = flat(writer, x, "GCN2Conv"), flat(writer, x_0, "GCN2Conv")
    step = propagation(writer, module, "GCN2Conv", edge_weight)
    alpha, beta = float(module.alpha), float(module.beta)
    moved, kept = f"{number(1 - alpha)} * {step(h)}", f"{number(alpha)} * {first}"
    weight = writer.parameter(f"{path}.weight1", module.weight1, "matrix")
    if module.weight2 is None:
        s = writer.let(f"{path}_mix", f"{moved} + {kept}")
        text = f"{number(1 - beta)} * {s} + {number(beta)} * matmul({s}, {weight})"
    else:
        other = writer.parameter(f"{path}.weight2", module.weight2, "matrix")
        s, t = writer.let(f"{path}_moved", moved), writer.let(f"{path}_kept", kept)
        mixed = f"{number(1 - beta)} * ({s} + {t})"
        text = f"{mixed} + {number(beta)} * (matmul({s}, {weight}) + matmul({t}, {other}))"
    return Rows(writer.let(path, text), module.channels)


def appnp(writer, module, path, x, edge_index, edge_weight=None):
    check(module, edge_index, "APPNP")
    h = flat(writer, x, "APPNP")
    step = propagation(writer, module, "APPNP", edge_weight, module.dropout)
    return steps(writer, path, Rows(h, x.width), module.K, module.alpha, step)


def steps(writer, path, x, count, alpha, step):
    """Steps of personalized page rank."""
    z = writer.let(path, x.name)
    if count:
        again = f"{number(1 - alpha)} * {step(z)} + {number(alpha)} * {x.name}"
        writer.line(f"repeat i in 1..={count} {{ {z} = {again} }}")
    return Rows(z, x.width)


def sg(writer, module, path, x, edge_index, edge_weight=None):
    check(module, edge_index, "SGConv")
    h = flat(writer, x, "SGConv")
    step = propagation(writer, module, "SGConv", edge_weight)
    for n in range(module.K):
        h = writer.let(f"{path}_step_{n + 1}", step(h))
    return Rows(writer.let(path, writer.linear(f"{path}.lin", module.lin, h)), module.out_channels)


def rgcn(writer, module, path, x, edge_index, edge_type=None):
    check(module, edge_index, "RGCNConv")
    if module.num_blocks is not None:
        raise Unsupported(f"RGCNConv with num_blocks={module.num_blocks}", "use num_bases, or neither")
    if module.aggr not in ("mean", "add", "sum"):
        raise Unsupported(f"RGCNConv with aggr={module.aggr!r}", 'use "mean" or "add"')
    check_types(writer, edge_type, "RGCNConv", module.num_relations)
    if x is None:
        x = own_features(writer, f"{path} gets no features")
    h = flat(writer, x, "RGCNConv")
    kind = "mean" if module.aggr == "mean" else "sum"
    text = by_relation(writer, path, h, kind, module.num_relations, ("weight", module.weight), ("comp", module.comp))
    if module.root is not None:
        text += f" + matmul({h}, {writer.parameter(f'{path}.root', module.root, 'matrix')})"
    text += writer.plus(f"{path}.bias", module.bias)
    return Rows(writer.let(path, text), module.out_channels)


def check_types(writer, types, what, relations):
    """Checks that the graph has the types of edges that a layer has weights for."""
    if not isinstance(types, Given) or types.kind != "types":
        raise Unsupported(f"{what} without the types of the edges", "pass `edge_type` as it is")
    found = writer.graph.statistics.get("relations", 0)
    if found != relations:
        raise Unsupported(
            f"{what} has {relations} relations, but the graph has {found}",
            f"make the graph with `edge_type` and num_relations={relations}",
        )
    if writer.graph.self_loops != "none":
        raise Unsupported(
            f"{what} takes self loops of the graph as edges, but gnnc stores none",
            "remove them before, for PyTorch too",
        )
    writer.sees_loops = True


def by_relation(writer, path, h, kind, relations, weight, coefficients):
    """Sums or means over the edges of each relation, times its weight."""
    name, tensor = weight
    packed = writer.parameter(f"{path}.{name}", tensor, "relations")
    parts = writer.let(f"{path}_parts", f"split_heads(matmul({h}, {packed}), {tensor.shape[0]})")
    name, tensor = coefficients
    if tensor is None:
        return f"{writer.layer(f'{kind}_by_relation')}({parts})"
    packed = writer.parameter(f"{path}.{name}", tensor, "matrix", rows=relations, heads=tensor.shape[1])
    return f"{writer.layer(f'{kind}_of_bases')}({parts}, {packed})"


LAYERS = {
    ("torch_geometric", "GCNConv"): gcn,
    ("torch_geometric", "SAGEConv"): sage,
    ("torch_geometric", "GraphConv"): graph_conv,
    ("torch_geometric", "GATConv"): gat,
    ("torch_geometric", "GATv2Conv"): gatv2,
    ("torch_geometric", "GINConv"): gin,
    ("torch_geometric", "GCN2Conv"): gcn2,
    ("torch_geometric", "APPNP"): appnp,
    ("torch_geometric", "SGConv"): sg,
    ("torch_geometric", "RGCNConv"): rgcn,
}

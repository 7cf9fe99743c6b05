"""Graph layers of DGL, which run over the edges of the graph as they are: self loops are edges that it has."""

from .functions import dropped
from .pyg import by_relation, check_types, one_plus, steps
from .writer import Given, Rows, Unsupported, flat, number, rows


def check(graph, what):
    """Refuses graphs that `forward` computes."""
    if not isinstance(graph, Given) or graph.kind != "graph":
        raise Unsupported(f"{what} gets a graph that `forward` computes", "pass the graph as it is")


def activated(writer, module, path, value, name="activation"):
    """The activation that a layer was made with."""
    function = getattr(module, name, None)
    return value if function is None else writer.apply(function, f"{path}.{name}", value)


def unweighted(weights, what):
    if weights is not None:
        raise Unsupported(
            f"{what} with edge_weight", "leave it out; GraphConv(norm='none'), SAGEConv and GINConv take weights"
        )


def graph_conv(writer, module, path, graph, feat, weight=None, edge_weight=None):
    check(graph, "GraphConv")
    h = flat(writer, feat, "GraphConv")
    if weight is not None:
        raise Unsupported("GraphConv with a weight from outside", "let the layer have its own")
    product = h
    if module.weight is not None:
        product = f"matmul({h}, {writer.parameter(f'{path}.weight', module.weight, 'matrix')})"
    norm = module._norm
    if writer.edge_weights(edge_weight, "GraphConv"):
        if norm != "none":
            raise Unsupported(f"GraphConv(norm={norm!r}) with edge_weight", 'use norm="none"')
        text = f"{writer.layer('weighted_sum')}({product})"
    else:
        key = {"both": "degrees_of_both", "right": "mean_in", "left": "share_of_sources", "none": "sum_in"}[norm]
        text = f"{writer.layer(key, writer.own_edges('GraphConv'))}({product})"
    text += writer.plus(f"{path}.bias", module.bias)
    width = module._out_feats if module.weight is not None else feat.width
    return activated(writer, module, path, Rows(writer.let(path, text), width), "_activation")


def sage(writer, module, path, graph, feat, edge_weight=None):
    check(graph, "SAGEConv")
    feat = dropped(writer, f"{path}_drop", rows(feat, "SAGEConv"), module.feat_drop.p)
    h, kind = flat(writer, feat, "SAGEConv"), module._aggre_type
    weighted = writer.edge_weights(edge_weight, "SAGEConv")
    on = "edges" if weighted else writer.own_edges("SAGEConv")
    if kind == "mean":
        around = f"{writer.layer('weighted_mean' if weighted else 'mean_in', on)}({h})"
    elif kind == "pool":
        pooled = writer.let(f"{path}_pool", f"relu({writer.linear(f'{path}.fc_pool', module.fc_pool, h)})")
        around = f"{writer.layer('weighted_max' if weighted else 'max_in', on)}({pooled})"
    elif kind == "gcn" and not weighted:
        around = f"{writer.layer('sum_and_self_mean', on)}({h})"
    else:
        raise Unsupported(f'SAGEConv("{kind}"){" with edge_weight" if weighted else ""}', 'use "mean" or "pool"')
    text = writer.linear(f"{path}.fc_neigh", module.fc_neigh, around)
    if kind == "gcn":
        text += writer.plus(f"{path}.bias", module.bias)
    else:
        text += f" + {writer.linear(f'{path}.fc_self', module.fc_self, h)}"
    found = activated(writer, module, path, Rows(writer.let(path, text), module._out_feats))
    return activated(writer, module, path, found, "norm")


def residual(writer, module, path, feat, heads):
    """What is added to the heads of attention: the input, with or without a weight."""
    if module.res_fc is None:
        return ""
    if not hasattr(module.res_fc, "weight"):
        return f" + split_heads({feat.name}, {heads})"
    return f" + split_heads({writer.linear(f'{path}.res_fc', module.res_fc, feat.name)}, {heads})"


def gat(writer, module, path, graph, feat, edge_weight=None, get_attention=False):
    check(graph, "GATConv")
    unweighted(edge_weight, "GATConv")
    if get_attention or not hasattr(module, "fc"):
        raise Unsupported("GATConv with get_attention, or with two widths of input", "use neither")
    feat = dropped(writer, f"{path}_drop", rows(feat, "GATConv"), module.feat_drop.p)
    h, heads = flat(writer, feat, "GATConv"), module._num_heads
    layer = writer.layer("attention", writer.own_edges("GATConv"))
    weight = writer.parameter(f"{path}.fc.weight", module.fc.weight, "transposed")
    source = writer.parameter(f"{path}.attn_l", module.attn_l, "row", heads=heads)
    target = writer.parameter(f"{path}.attn_r", module.attn_r, "row", heads=heads)
    parts = writer.let(f"{path}_heads", f"split_heads(matmul({h}, {weight}), {heads})")
    slope, drop = number(module.leaky_relu.negative_slope), number(module.attn_drop.p)
    text = f"{layer}({parts}, {source}, {target}, {slope}, {drop})" + residual(writer, module, path, feat, heads)
    if module.bias is not None:
        text += f" + {writer.parameter(f'{path}.bias', module.bias, 'row', heads=heads)}"
    return activated(writer, module, path, Rows(writer.let(path, text), module._out_feats, heads))


def gatv2(writer, module, path, graph, feat, get_attention=False):
    check(graph, "GATv2Conv")
    if get_attention:
        raise Unsupported("GATv2Conv with get_attention", "leave it out")
    feat = dropped(writer, f"{path}_drop", rows(feat, "GATv2Conv"), module.feat_drop.p)
    h, heads = flat(writer, feat, "GATv2Conv"), module._num_heads
    layer = writer.layer("attention_of_sums", writer.own_edges("GATv2Conv"))
    there = writer.let(f"{path}_there", f"split_heads({writer.linear(f'{path}.fc_src', module.fc_src, h)}, {heads})")
    here = there
    if not module.share_weights:
        here = writer.let(f"{path}_here", f"split_heads({writer.linear(f'{path}.fc_dst', module.fc_dst, h)}, {heads})")
    weight = writer.parameter(f"{path}.attn", module.attn, "row", heads=heads)
    slope, drop = number(module.leaky_relu.negative_slope), number(module.attn_drop.p)
    text = f"{layer}({there}, {here}, {weight}, {slope}, {drop})" + residual(writer, module, path, feat, heads)
    return activated(writer, module, path, Rows(writer.let(path, text), module._out_feats, heads))


def gin(writer, module, path, graph, feat, edge_weight=None):
    check(graph, "GINConv")
    h, kind = flat(writer, feat, "GINConv"), module._aggregator_type
    weighted = writer.edge_weights(edge_weight, "GINConv")
    on = "edges" if weighted else writer.own_edges("GINConv")
    layer = writer.layer(f"weighted_{kind}" if weighted else f"{kind}_in", on)
    sums = writer.let(f"{path}_sums", f"{layer}({h}) + {one_plus(writer, module, path)} * {h}")
    found = Rows(sums, feat.width)
    if module.apply_func is not None:
        found = writer.apply(module.apply_func, f"{path}.apply_func", found)
    return activated(writer, module, path, found)


def gcn2(writer, module, path, graph, feat, feat_0, edge_weight=None):
    check(graph, "GCN2Conv")
    unweighted(edge_weight, "GCN2Conv")
    h, first = flat(writer, feat, "GCN2Conv"), flat(writer, feat_0, "GCN2Conv")
    layer = writer.layer("symmetric_sum_dgl", writer.own_edges("GCN2Conv"))
    alpha, beta = float(module.alpha), float(module.beta)
    moved = writer.let(f"{path}_moved", f"{number(1 - alpha)} * {layer}({h})")
    kept = writer.let(f"{path}_kept", f"{number(alpha)} * {first}")
    weight = writer.parameter(f"{path}.weight1", module.weight1, "matrix")
    other = weight
    if module.weight2 is not None:
        other = writer.parameter(f"{path}.weight2", module.weight2, "matrix")
    product = f"matmul({moved} + {kept}, {weight})"
    if other != weight:
        product = f"(matmul({moved}, {weight}) + matmul({kept}, {other}))"
    text = f"{number(1 - beta)} * ({moved} + {kept}) + {number(beta)} * {product}"
    text += writer.plus(f"{path}.bias", module.bias)
    return activated(writer, module, path, Rows(writer.let(path, text), feat.width), "_activation")


def appnp(writer, module, path, graph, feat, edge_weight=None):
    check(graph, "APPNPConv")
    unweighted(edge_weight, "APPNPConv")
    x = Rows(flat(writer, feat, "APPNPConv"), feat.width)
    layer, drop = writer.layer("degrees_of_both", writer.own_edges("APPNPConv")), module.edge_drop.p
    return steps(
        writer,
        path,
        x,
        module._k,
        module._alpha,
        lambda h: f"{layer}({h}, drop = {number(drop)})" if drop else f"{layer}({h})",
    )


def sg(writer, module, path, graph, feat, edge_weight=None):
    check(graph, "SGConv")
    unweighted(edge_weight, "SGConv")
    h = flat(writer, feat, "SGConv")
    layer = writer.layer("symmetric_sum_dgl", writer.own_edges("SGConv"))
    for n in range(module._k):
        h = writer.let(f"{path}_step_{n + 1}", f"{layer}({h})")
    found = activated(writer, module, path, Rows(h, feat.width), "norm")
    text = writer.linear(f"{path}.fc", module.fc, flat(writer, found, "SGConv"))
    return Rows(writer.let(path, text), module.fc.weight.shape[0])


def rgcn(writer, module, path, g, feat, etypes, norm=None, presorted=False):
    check(g, "RelGraphConv")
    h, inner = flat(writer, feat, "RelGraphConv"), module.linear_r
    if inner.regularizer == "bdd" or norm is not None:
        raise Unsupported(
            'RelGraphConv with regularizer="bdd" or with `norm`', 'use "basis" or None, and leave out `norm`'
        )
    check_types(writer, etypes, "RelGraphConv", inner.num_types)
    coefficients = ("linear_r.coeff", inner.coeff if inner.regularizer == "basis" else None)
    text = by_relation(writer, path, h, "sum", inner.num_types, ("linear_r.W", inner.W), coefficients)
    found = Rows(writer.let(f"{path}_sums", text), inner.out_size)
    if module.layer_norm:
        found = writer.apply(module.layer_norm_weight, f"{path}.layer_norm_weight", found)
    text = found.name
    if module.bias:
        text += writer.plus(f"{path}.h_bias", module.h_bias)
    if module.self_loop:
        text += f" + matmul({h}, {writer.parameter(f'{path}.loop_weight', module.loop_weight, 'matrix')})"
    found = activated(writer, module, path, Rows(writer.let(path, text), inner.out_size))
    return dropped(writer, f"{path}_drop", found, module.dropout.p)


LAYERS = {
    ("dgl", "GraphConv"): graph_conv,
    ("dgl", "SAGEConv"): sage,
    ("dgl", "GATConv"): gat,
    ("dgl", "GATv2Conv"): gatv2,
    ("dgl", "GINConv"): gin,
    ("dgl", "GCN2Conv"): gcn2,
    ("dgl", "APPNPConv"): appnp,
    ("dgl", "SGConv"): sg,
    ("dgl", "RelGraphConv"): rgcn,
}

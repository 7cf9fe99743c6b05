"""Layers in gnnc's language that the layers of other libraries are made of.

Each runs over the stored edges (`on edges`) or over these and a self loop for each vertex (`on edges + loops`); the name
of the second kind ends in `_looped`. Degrees count the edges into a vertex, at both ends of an edge, as PyTorch Geometric
does; only the layers of DGL that say so count those out of the source.
"""

TEXTS = {
    "sum_in": """layer {name}(h) on {on} {{
  return gather(h@src, sum)
}}""",
    "mean_in": """layer {name}(h) on {on} {{
  return gather(h@src, mean)
}}""",
    "max_in": """layer {name}(h) on {on} {{
  return gather(h@src, max)
}}""",
    # Vertices without an edge have no share in anything.
    "symmetric_sum": """layer {name}(h, drop = 0) on {on} {{
  let norm = sqrt(recip(in_degree@src * in_degree@dst)) |> dropout(drop)
  return gather(h@src * norm, sum)
}}""",
    # DGL counts at least one edge.
    "symmetric_sum_dgl": """layer {name}(h, drop = 0) on {on} {{
  let norm = rsqrt(max(in_degree, 1)@src * max(in_degree, 1)@dst) |> dropout(drop)
  return gather(h@src * norm, sum)
}}""",
    "degrees_of_both": """layer {name}(h, drop = 0) on {on} {{
  let norm = rsqrt(max(out_degree, 1)@src * max(in_degree, 1)@dst) |> dropout(drop)
  return gather(h@src * norm, sum)
}}""",
    "share_of_sources": """layer {name}(h) on {on} {{
  return gather((h * recip(max(out_degree, 1)))@src, sum)
}}""",
    "sum_and_self_mean": """layer {name}(h) on {on} {{
  return (gather(h@src, sum) + h) * recip(in_degree + 1)
}}""",
    "weighted_sum": """layer {name}(h) on {on} {{
  return gather(h@src * slice(edge_features, 0, 1), sum)
}}""",
    "weighted_mean": """layer {name}(h) on {on} {{
  return gather(h@src * slice(edge_features, 0, 1), mean)
}}""",
    "weighted_max": """layer {name}(h) on {on} {{
  return gather(h@src * slice(edge_features, 0, 1), max)
}}""",
    # Self loops have the weight `loop`.
    "weighted_symmetric_sum": """layer {name}(h, loop) on {on} {{
  let w = slice(edge_features, 0, 1)
  let norm = sqrt(recip(gather(w, sum) + loop))
  let s = h * norm
  return (gather(s@src * w, sum) + loop * s) * norm
}}""",
    "weighted_symmetric_sum_without_loops": """layer {name}(h) on {on} {{
  let w = slice(edge_features, 0, 1)
  let norm = sqrt(recip(gather(w, sum)))
  return gather((h * norm)@src * w, sum) * norm
}}""",
    "attention": """layer {name}(h, of_source, of_target, slope, drop) on {on} {{
  let score = leaky_relu(dot(h, of_source)@src + dot(h, of_target)@dst, slope)
  let alpha = score |> softmax |> dropout(drop)
  return gather(alpha * h@src, sum)
}}""",
    "attention_of_sums": """layer {name}(there, here, weight, slope, drop) on {on} {{
  let score = dot(leaky_relu(there@src + here@dst, slope), weight)
  let alpha = score |> softmax |> dropout(drop)
  return gather(alpha * there@src, sum)
}}""",
    "sum_by_relation": """layer {name}(h) on {on} {{
  return gather(by_relation(h@src), sum) |> sum_heads
}}""",
    "mean_by_relation": """layer {name}(h) on {on} {{
  return gather(by_relation(h@src) * recip(relation_degree), sum) |> sum_heads
}}""",
    "sum_of_bases": """layer {name}(h, coefficients) on {on} {{
  return gather(by_relation(coefficients) * h@src, sum) |> sum_heads
}}""",
    "mean_of_bases": """layer {name}(h, coefficients) on {on} {{
  return gather(by_relation(coefficients) * recip(relation_degree) * h@src, sum) |> sum_heads
}}""",
    "normalized_rows": """layer {name}(h, eps) on {on} {{
  let centered = h - mean_cols(h)
  return centered * rsqrt(mean_cols(centered * centered) + eps)
}}""",
    "normalized_columns": """layer {name}(h, eps) on {on} {{
  let centered = h - mean_rows(h)
  return centered * rsqrt(mean_rows(centered * centered) + eps)
}}""",
    # For many graphs. A vertex inside a graph has one edge of the set `graphs`; a vertex that stands for a graph has none.
    "ones_inside": """layer {name}(h) on "graphs" {{
  return h * (1 - out_degree) + out_degree
}}""",
    "ones_of_graphs": """layer {name}(h) on "graphs" {{
  return h * out_degree + (1 - out_degree)
}}""",
    "normalized_columns_inside": """layer {name}(h, eps) on "graphs" {{
  let inside = out_degree
  let count = recip(mean_rows(inside))
  let centered = (h - mean_rows(h * inside) * count) * inside
  return centered * rsqrt(mean_rows(centered * centered) * count + eps)
}}""",
    "normalized_columns_of_graphs": """layer {name}(h, eps) on "graphs" {{
  let graphs = 1 - out_degree
  let count = recip(mean_rows(graphs))
  let centered = (h - mean_rows(h * graphs) * count) * graphs
  return centered * rsqrt(mean_rows(centered * centered) * count + eps)
}}""",
    "normalized_graph": """layer {name}(h, eps) on {on} {{
  let centered = h - mean_rows(mean_cols(h))
  return centered * recip(sqrt(mean_rows(mean_cols(centered * centered))) + eps)
}}""",
}

#: What a model may not call its variables: words and functions of the language.
TAKEN = set(
    """let repeat return loss if else and or not true false graph layer model train on edges loops in x classes features
    sum mean max none sym glorot kaiming zeros ones labels balanced src dst in_degree out_degree relations vertex_types
    edge_features relation_degree relu leaky_relu elu exp log sigmoid tanh sqrt rsqrt recip min dropout linear parameter
    uniform matmul gather softmax aggregate by_relation concat slice dot sum_cols mean_cols sum_rows mean_rows split_heads
    merge_heads sum_heads mean_heads width heads cross_entropy bce_with_logits mse mae huber pool""".split()
)

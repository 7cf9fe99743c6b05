//! Building blocks of random models, shared with the fuzz targets.

/// Layers that use what the standard ones do not. Their results are not much larger than their
/// operands: with large scores, a softmax is nearly one-hot, and f32 cancels in its gradient
/// (`y (g - sum y g)`).
pub const LAYERS: &str = "
layer pool(h, reduce = max) { return gather(h@src |> dropout(0.2), reduce) }
layer total(h) { return 0.2 * gather(h@src |> dropout(0.2), sum) }
layer slope(h, reduce = max) on edges + loops { return gather(h@dst - h@src, reduce) }
layer gate(h) on edges + loops {
  return gather(sigmoid(h@src + h@dst) * h@src, sum) * recip(in_degree)
}
layer back(h) { return gather(h@src * rsqrt(out_degree@src + 1), mean) + 0.1 * out_degree }
layer attend(h, n) on edges + loops {
  let q = split_heads(h, n)
  let share = dot(q@dst, q@src) * 0.3 |> softmax |> dropout(0.2)
  return merge_heads(gather(share * q@src, sum))
}
layer pull(h) {
  let share = tanh(sum_cols(h))@src |> softmax
  return gather(share * h@src, sum)
}
layer turn(h, k) { return concat(slice(h, k, width(h) - k), slice(h, 0, k)) }
layer weigh(h) {
  let near = exp(parameter(1) - 0.1 * dot(h@src - h@dst, h@src - h@dst))
  return gather(near * (h@src + parameter(width(h))), sum) / (1 + gather(near, sum))
}
layer related(h, reduce = sum) {
  let a = parameter(1, rows = relations, heads = 2, name = \"a\")
  let weight = tanh(by_relation(a)) * recip(relation_degree)
  return merge_heads(gather(weight * split_heads(h, 2)@src, reduce))
}
layer kinds(h) {
  let near = tanh(by_relation(parameter(width(h), rows = relations)) * h@src + h@dst)
  return gather(near |> dropout(0.2), mean) / (1 + gather(recip(relation_degree), sum))
}
layer picks(h) {
  let p = split_heads(linear(h, 6 * relations) |> dropout(0.2), relations)
  return gather(by_relation(p@src) * recip(relation_degree) * sigmoid(by_relation(p@dst)), mean)
}
layer attract(h) {
  let score = sum_cols(h)@src * by_relation(parameter(1, rows = relations))
  return gather((score * 0.2 |> softmax) * h@src, sum)
}
layer twice(h) on edges + loops {
  let e = tanh(h@src * h@dst) |> dropout(0.2)
  return gather(e, sum) * rsqrt(in_degree * out_degree) + gather(relu(e), max)
}
layer heads_of(h, n) {
  let q = split_heads(h, n) * parameter(width(h) / n, heads = n, name = \"scale\")
  return concat(mean_heads(q), tanh(sum_heads(q)))
}
";

/// Calls on a 6-column `h` that return 6 columns, over edges.
pub const CONVOLUTIONS: &[&str] = &[
    "gcn_conv(6)",
    "gcn_conv(6, bias = false)",
    "sage_conv(6)",
    "gat_conv(2, heads = 3, dropout = 0.2)",
    "gat_conv(6, heads = 2, concat = false)",
    "gin_conv(6)",
    "propagate(dropout = 0.2)",
    "aggregate(max, self_loops = true)",
    "aggregate(mean)",
    "aggregate(sum, norm = sym)",
    "pool",
    "pool(reduce = mean)",
    "slope",
    "slope(reduce = mean)",
    "gate",
    "back",
    "attend(2)",
    "pull",
    "weigh",
    "twice",
    "related",
    "related(reduce = mean)",
    "kinds",
    "attract",
    "rgcn_conv(6, bases = 2)",
    "rgcn_conv(6)",
    "picks",
    "total",
    "matmul(parameter(6, rows = 6)) |> aggregate(mean, self_loops = true)",
    "gcnii_conv(h0, alpha = 0.2, beta = 0.4)",
    "res_plus(conv = sage_conv, dropout = 0.2)",
    "res_plus(dropout = 0.2)",
];

/// Calls on a 6-column `h` that return 6 columns, row by row.
pub const CHEAP: &[&str] = &[
    "elu",
    "tanh",
    "sigmoid",
    "leaky_relu(0.1)",
    "relu",
    "dropout(0.3)",
    "layer_norm",
    "linear(6) |> relu",
    "linear(9) |> elu |> linear(6)",
    "turn(2)",
    "heads_of(2)",
];

/// Calls on the features that return 6 columns.
pub const FIRST: &[&str] = &[
    "linear(6)",
    "dropout(0.3) |> linear(6) |> elu",
    "gcn_conv(6)",
    "dropout(0.3) |> sage_conv(6)",
    "gat_conv(3, heads = 2, dropout = 0.2)",
    "propagate |> linear(6)",
];

/// Calls that return one column per class.
pub const LAST: &[&str] = &[
    "linear(classes)",
    "gcn_conv(classes)",
    "dropout(0.2) |> gat_conv(classes, heads = 2, concat = false)",
];

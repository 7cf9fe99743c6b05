//! Models from the literature with dropout, on one rank and on several.

use crate::check::{Case, Way};
use crate::data::{Shape, planted, with_numbers, with_several_labels};
use gnnc::ir::plan::Placement;
use gnnc::planner::decouple::DecoupleError;
use gnnc::planner::placement::{PlacementSpec, TABLE};

const PARTITIONERS: [&str; 3] = ["metis", "hash", "range"];

pub const GCN: &str = "let h = x |> dropout(0.5) |> gcn_conv(6, decay = 5e-3) |> relu
         loss cross_entropy(h |> dropout(0.3) |> gcn_conv(classes), labels, on = train)";
pub const SAGE: &str = "let h = x |> dropout(0.5) |> sage_conv(7) |> relu
         loss cross_entropy(h |> dropout(0.3) |> sage_conv(classes), labels, on = train)";
pub const GAT: &str = "let h = x |> dropout(0.4) |> gat_conv(4, heads = 3, dropout = 0.4) |> elu
         let z = h |> dropout(0.4) |> gat_conv(classes, heads = 2, concat = false, dropout = 0.4)
         loss cross_entropy(z, labels, on = train)";
pub const GIN: &str = "let h = x |> gin_conv(8) |> relu
         let g = h |> dropout(0.5) |> gin_conv(6) |> relu
         loss cross_entropy(g |> dropout(0.5) |> linear(classes), labels, on = train)";
pub const GCNII: &str = "let h0 = x |> dropout(0.4) |> linear(6, init = kaiming) |> relu
         let h = h0
         repeat i in 1..=5 {
           let beta = log(0.5 / i + 1)
           h = h |> dropout(0.4) |> gcnii_conv(h0, alpha = 0.1, beta = beta, decay = 0.02) |> relu
         }
         loss cross_entropy(h |> dropout(0.4) |> linear(classes), labels, on = train)";
pub const APPNP: &str =
    "let u = x |> dropout(0.3) |> linear(8) |> relu |> dropout(0.3) |> linear(classes)
         let z = u
         repeat k in 1..=6 { z = z |> appnp_step(u, alpha = 0.1, dropout = 0.3) }
         loss cross_entropy(z, labels, on = train)";

pub const RGCN: &str = "let h = x |> dropout(0.3) |> rgcn_conv(6, bases = 3, decay = 5e-4) |> relu
         loss cross_entropy(h |> dropout(0.3) |> rgcn_conv(classes, bases = 2), labels, on = train)";

pub const RGCN_WEIGHTS: &str = "let h = x |> dropout(0.3) |> rgcn_conv(4) |> elu
         let h = concat(h, h |> linear(10) |> kinds)
         loss cross_entropy(h |> dropout(0.3) |> rgcn_conv(classes, bias = false), labels, on = train)";
/// Weights by the type of a vertex, inside a loop too.
pub const TYPED: &str = "let h = x |> dropout(0.3) |> rgcn_conv(4, typed = true) |> elu
         let h = typed_linear(h, 5, decay = 5e-4) + by_type(parameter(5, rows = 3))
         repeat i in 1..=2 { h = h |> sage_conv(5) |> tanh |> typed_linear(5) }
         loss cross_entropy(h |> dropout(0.3) |> rgcn_conv(classes, bases = 2, typed = true), labels, on = train)";
/// Heads of one tensor picked at both ends, and the whole tensor beside it.
pub const KINDS: &str = "layer kinds(h) {
         let p = split_heads(h, relations)
         let e = by_relation(p@src) * tanh(by_relation(p@dst))
         return gather(e * recip(relation_degree), sum) + 0.1 * mean_heads(gather(p@src, mean))
       }";

pub fn shape(sparse: bool) -> Shape {
    Shape {
        vertices: 90,
        edges: 500,
        directed: sparse,
        sparse,
        seed: 3,
    }
}

/// Checks a model on dense and sparse features, for every number of ranks and every
/// partitioner.
fn check(body: &str) {
    for sparse in [false, true] {
        check_case(Case::new("", body, planted(shape(sparse))));
    }
}

pub fn check_case(mut case: Case) {
    for ranks in [1, 2, 3, 5, 8] {
        for partitioner in PARTITIONERS.iter().take(if ranks == 1 { 1 } else { 3 }) {
            case.check(Way {
                placement: Placement::Graph,
                ranks,
                partitioner,
                threads: 1,
            });
        }
        if ranks > 1 {
            let exact = |p: &Placement| *p != Placement::Graph && *p != Placement::TensorDecoupled;
            // Pipelines are tested in `pipeline`, batches in `minibatch`.
            let whole = TABLE.iter().filter(|row| !row.staged() && !row.samples());
            for placement in whole.map(|row| row.placement).filter(exact) {
                case.check(Way {
                    placement,
                    ranks,
                    partitioner: if ranks == 3 { "hash" } else { "range" },
                    threads: 1,
                });
            }
        }
    }
    match case.decoupled() {
        Ok(mut case) => {
            for ranks in [1, 2, 3, 5, 8] {
                case.check(Way {
                    placement: Placement::TensorDecoupled,
                    ranks,
                    partitioner: if ranks == 3 { "hash" } else { "range" },
                    threads: 1,
                });
            }
        }
        // With picked parts of the source's row, a message is not a multiple of that row.
        Err(DecoupleError::Message(layer)) => {
            let layers = ["rgcn_conv", "gine", "attention", "network", "contrast"];
            assert!(layers.iter().any(|name| layer.starts_with(name)), "{layer}");
        }
        Err(why) => assert_eq!(why, DecoupleError::Already),
    }
}

#[test]
fn gcn() {
    check(GCN);
}

#[test]
fn sage() {
    check(SAGE);
}

#[test]
fn gat() {
    check(GAT);
}

/// Scores from dot products over different numbers of columns, which no single pass can sum.
#[test]
fn scores_of_two_widths() {
    check(
        "let a = x |> linear(4)
         let b = x |> linear(6)
         let score = dot(a@src, a@dst) * 0.3 + dot(b@src, b@dst) * 0.2
         let h = gather(softmax(score) * a@src, sum)
         loss cross_entropy(h |> linear(classes), labels, on = train)",
    );
}

#[test]
fn rgcn() {
    check(RGCN);
}

#[test]
fn rgcn_without_bases() {
    for sparse in [false, true] {
        check_case(Case::new(KINDS, RGCN_WEIGHTS, planted(shape(sparse))));
    }
}

#[test]
fn types_of_vertices() {
    check(TYPED);
}

#[test]
fn gin() {
    check(GIN);
}

#[test]
fn gcnii() {
    check(GCNII);
}

#[test]
fn appnp() {
    check(APPNP);
}

/// Draws are keyed by the columns of the whole tensor, wherever a slice lies: of vertices
/// between two aggregations (inside and outside a loop), of edges, and of heads.
#[test]
fn dropout_on_slices() {
    let mut case = Case::new(
        "layer spread(h) { return 0.2 * gather(h@src |> dropout(0.3), sum) }",
        "let h = x |> linear(7) |> propagate |> dropout(0.4) |> propagate |> relu
         let z = h
         repeat k in 1..=3 { z = 0.9 * propagate(z |> dropout(0.3)) + 0.1 * h }
         let g = z |> spread |> gat_conv(2, heads = 5, dropout = 0.4)
         loss cross_entropy(linear(g, classes), labels, on = train)",
        planted(shape(false)),
    );
    for ranks in [2, 3, 5, 8] {
        let uncut = gnnc::planner::layout::uncut(&case.compiled.training.backward.graph, ranks);
        assert_eq!(uncut, [], "{ranks} ranks");
        case.check(Way {
            placement: Placement::Tensor,
            ranks,
            partitioner: "hash",
            threads: 1,
        });
    }
}

/// More ranks than features, so that some ranks have none, and layers with only some parts on
/// slices.
#[test]
fn slices_of_features() {
    let bodies = [
        "let h = x |> dropout(0.5) |> gcn_conv(6) |> relu
         loss cross_entropy(h |> gcn_conv(classes), labels, on = train)",
        "let h = sage_conv(x, 5) + linear(tanh(x) |> dropout(0.2), 5) + linear(concat(x, 2 * x), 5)
         loss cross_entropy(h |> sage_conv(classes), labels, on = train)",
        "let h = x |> aggregate(max) |> gin_conv(5)
         let g = concat(h, x |> dropout(0.3)) |> linear(7) |> relu
         loss cross_entropy(linear(g, classes) + linear(x, classes), labels, on = train)",
        "let c = x - mean_cols(x)
         let h = linear(c * rsqrt(mean_cols(c * c) + 0.1), 6) |> relu
         repeat i in 1..=2 { h = tanh(gcn_conv(h, 6) + linear(x, 6)) }
         loss cross_entropy(gcn_conv(h, classes), labels, on = train)",
    ];
    for body in bodies {
        for sparse in [false, true] {
            let mut case = Case::new("", body, planted(shape(sparse)));
            // After `mean_cols`, the padding of a slice is not 0.
            let padded = if body.contains("mean_cols") { 5 } else { 14 };
            for ranks in [3, padded / 2, padded] {
                case.check(Way {
                    placement: Placement::PushPull,
                    ranks,
                    partitioner: "hash",
                    threads: 1,
                });
            }
        }
    }
}

/// The error names an operator before the first product that does not treat columns alike.
#[test]
fn features_that_nothing_contracts_are_refused() {
    let refused = |body: &str, ranks: u32| {
        let case = Case::new("", body, planted(shape(false)));
        let place = PlacementSpec::new(Placement::PushPull, ranks);
        case.compiled.program(&place).unwrap_err().to_string()
    };
    let message = refused(
        "let h = x |> layer_norm |> gcn_conv(6) |> relu
         loss cross_entropy(linear(h, classes), labels, on = train)",
        3,
    );
    assert!(
        message.contains("in layer_norm_1 reads columns"),
        "{message}"
    );
    assert!(
        message.contains("let a linear layer read the features"),
        "{message}"
    );
    let body = "loss cross_entropy(linear(sigmoid(x), classes), labels, on = train)";
    let message = refused(body, 8);
    let part = "adds 12 columns, which 8 ranks cannot share equally";
    assert!(message.contains(part), "{message}");
}

#[test]
fn sgc() {
    check(
        "let z = x |> propagate |> propagate |> dropout(0.2) |> linear(classes)
         loss cross_entropy(z, labels, on = train)",
    );
}

#[test]
fn res_plus() {
    check(
        "let h = x |> linear(6, init = kaiming) |> gcn_conv(6)
         repeat l in 2..=5 { h = res_plus(h, conv = gcn_conv, dropout = 0.3) }
         let top = h |> layer_norm |> relu |> dropout(0.3)
         loss cross_entropy(linear(top, classes), labels, on = train)",
    );
}

#[test]
fn several_labels_a_vertex() {
    let body = "let h = x |> dropout(0.5) |> sage_conv(6) |> elu
         loss bce_with_logits(h |> gcn_conv(classes), labels, on = train)";
    check_case(Case::new(
        "",
        body,
        with_several_labels(planted(shape(false))),
    ));
}

#[test]
fn numbers() {
    for (loss, number) in [
        ("mse", ""),
        ("mae", ""),
        ("huber", ""),
        ("huber", ", delta = 0.2"),
    ] {
        let body = format!(
            "let h = x |> dropout(0.5) |> sage_conv(6) |> elu
             loss {loss}(0.1 * gcn_conv(h, classes), labels, on = train{number})"
        );
        check_case(Case::new("", &body, with_numbers(planted(shape(false)))));
    }
}

#[test]
fn smoothed_labels() {
    check(
        "let h = x |> dropout(0.3) |> gcn_conv(6) |> relu
         loss cross_entropy(h |> sage_conv(classes), labels, on = train, smoothing = 0.2)",
    );
}

/// Arguments of losses with weights of classes.
pub const WEIGHTS: [&str; 3] = [
    "weights = [0.25, 1, 3]",
    "weights = balanced, smoothing = 0.1",
    "weights = [0, 2, 0.5]",
];

#[test]
fn weights_of_classes() {
    for weights in WEIGHTS {
        let body = format!(
            "let h = x |> dropout(0.3) |> gcn_conv(6) |> relu
             loss cross_entropy(h |> sage_conv(classes), labels, on = train, {weights})"
        );
        check_case(Case::new("", &body, planted(shape(false))));
    }
    let body = "let h = x |> dropout(0.5) |> sage_conv(6) |> elu
         loss bce_with_logits(h |> gcn_conv(classes), labels, on = train, weights = [4, 0.5, 0])";
    let data = with_several_labels(planted(shape(false)));
    check_case(Case::new("", body, data));
}

/// Layers whose messages read the features of edges: as weights of a symmetric aggregation, added to the
/// source's row through a product (Hu et al., 2020), and in the scores and values of attention.
pub const OF_EDGES: &str = "layer weighted(h, out) {
         let w = slice(edge_features, 0, 1)
         let d = rsqrt(gather(w, sum) + 1)
         let s = linear(h, out, bias = false) * d
         return (gather(s@src * w, sum) + s) * d
       }
       layer gine(h, out) {
         let message = h@src + linear(edge_features, width(h))
         return (h + gather(relu(message), sum)) |> linear(out)
       }
       layer attention(h, out) {
         let q = linear(h, out)
         let e = linear(edge_features, out)
         let score = dot(q@src + e, parameter(out)) + dot(q@dst, parameter(out))
         return gather(softmax(leaky_relu(score)) * (q@src + e), sum)
       }
       layer network(h, out) {
         let both = concat(h@src, h@dst, edge_features)
         return gather(both |> linear(5) |> relu |> linear(out), mean)
       }";

pub const EDGE_MODELS: [&str; 4] = [
    "let h = x |> dropout(0.3) |> weighted(6) |> relu
     loss cross_entropy(weighted(h, classes), labels, on = train)",
    "let h = x |> dropout(0.3) |> linear(5) |> gine(6) |> relu
     loss cross_entropy(gine(h, classes), labels, on = train)",
    "let h = x |> dropout(0.3) |> attention(6) |> elu
     loss cross_entropy(attention(h, classes), labels, on = train)",
    "let h = x |> linear(5) |> network(6) |> elu
     loss cross_entropy(network(h, classes), labels, on = train)",
];

#[test]
fn features_of_edges() {
    for (n, body) in EDGE_MODELS.iter().enumerate() {
        check_case(Case::new(OF_EDGES, body, planted(shape(n % 2 == 0))));
    }
}

//! The models of the literature with dropout, on one rank and on several.

use crate::check::{Case, Way};
use crate::data::{Shape, planted, with_several_labels};
use gnnc::ir::plan::Placement;
use gnnc::planner::decouple::DecoupleError;

const PARTITIONERS: [&str; 3] = ["metis", "hash", "range"];

fn shape(sparse: bool) -> Shape {
    Shape {
        vertices: 90,
        arcs: 500,
        directed: sparse,
        sparse,
        seed: 3,
    }
}

/// Checks a model on dense and sparse features, for every number of ranks and partitioner.
fn check(body: &str) {
    for sparse in [false, true] {
        check_case(Case::new("", body, planted(shape(sparse))));
    }
}

fn check_case(mut case: Case) {
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
            for placement in [Placement::Tensor, Placement::Broadcast, Placement::Mixed] {
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
        Err(why) => assert_eq!(why, DecoupleError::Already),
    }
}

#[test]
fn gcn() {
    check(
        "let h = x |> dropout(0.5) |> gcn_conv(6, decay = 5e-3) |> relu
         loss cross_entropy(h |> dropout(0.3) |> gcn_conv(classes), labels, on = train)",
    );
}

#[test]
fn sage() {
    check(
        "let h = x |> dropout(0.5) |> sage_conv(7) |> relu
         loss cross_entropy(h |> dropout(0.3) |> sage_conv(classes), labels, on = train)",
    );
}

#[test]
fn gat() {
    check(
        "let h = x |> dropout(0.4) |> gat_conv(4, heads = 3, dropout = 0.4) |> elu
         let z = h |> dropout(0.4) |> gat_conv(classes, heads = 2, concat = false, dropout = 0.4)
         loss cross_entropy(z, labels, on = train)",
    );
}

#[test]
fn gin() {
    check(
        "let h = x |> gin_conv(8) |> relu
         let g = h |> dropout(0.5) |> gin_conv(6) |> relu
         loss cross_entropy(g |> dropout(0.5) |> linear(classes), labels, on = train)",
    );
}

#[test]
fn gcnii() {
    check(
        "let h0 = x |> dropout(0.4) |> linear(6, init = kaiming) |> relu
         let h = h0
         repeat i in 1..=5 {
           let beta = log(0.5 / i + 1)
           h = h |> dropout(0.4) |> gcnii_conv(h0, alpha = 0.1, beta = beta, decay = 0.02) |> relu
         }
         loss cross_entropy(h |> dropout(0.4) |> linear(classes), labels, on = train)",
    );
}

#[test]
fn appnp() {
    check(
        "let u = x |> dropout(0.3) |> linear(8) |> relu |> dropout(0.3) |> linear(classes)
         let z = u
         repeat k in 1..=6 { z = z |> appnp_step(u, alpha = 0.1, dropout = 0.3) }
         loss cross_entropy(z, labels, on = train)",
    );
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

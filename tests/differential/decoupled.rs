//! Decoupled forms against hand-written models.

use crate::check::Case;
use crate::data::{Shape, planted};
use gnnc::planner::decouple::DecoupleError;

const LAYERS: &str = "
    layer own_mean(z) { return 0.5 * (z + gather(z@src, mean)) }
    layer gin_round(z) { return z + gather(z@src, sum) }
    layer dense_gin(s, out) { return linear(s |> linear(out) |> layer_norm |> relu, out) }
    layer dense_sage(h, out) { return linear(concat(h, h), out) }
    layer attended(g, w, rounds) on edges + loops {
      let a = parameter(2 * w, name = \"attention\")
      let alpha = softmax(leaky_relu(dot(concat(g@dst, g@src), a), 0.2))
      let b = parameter(w, init = zeros, name = \"bias\")
      let u = g + b
      let one = gather(alpha * u@src, sum)
      return gather(alpha * one@src, sum)
    }
    layer dense_gcnii(h, h0, beta) {
      let s = 0.9 * h + 0.1 * h0
      let w = parameter(width(s), rows = width(s), name = \"weight\")
      return (1 - beta) * s + beta * matmul(s, w)
    }";

fn case(body: &str) -> Case {
    let shape = Shape {
        vertices: 60,
        edges: 300,
        directed: true,
        sparse: false,
        seed: 9,
    };
    Case::new(LAYERS, body, planted(shape))
}

/// Checks that the decoupled form of `coupled` and `written` are the same function of the same
/// parameters.
fn same(coupled: &str, written: &str) {
    let end = "loss cross_entropy(z, labels, on = train)";
    let mut found = case(&format!("{coupled}\n{end}")).decoupled().unwrap();
    let mut expected = case(&format!("{written}\n{end}"));
    let floats = |case: &Case| -> Vec<_> {
        let params = case.loaded.model.graph.params.iter();
        params.map(|p| p.ty).collect()
    };
    assert_eq!(floats(&found), floats(&expected));
    let (found, expected) = (found.loss(), expected.loss());
    let error = (found - expected).abs() / expected.abs();
    assert!(error < 1e-12, "{found}, by hand {expected}\n{coupled}");
}

#[test]
fn gcn() {
    same(
        "let h = x |> gcn_conv(6) |> relu |> gcn_conv(5) |> relu
         let z = gcn_conv(h, classes)",
        "let u = x |> linear(6) |> relu |> linear(5) |> relu |> linear(classes)
         let z = u |> propagate |> propagate |> propagate",
    );
}

#[test]
fn sage() {
    same(
        "let z = x |> sage_conv(6) |> relu |> sage_conv(classes)",
        "let z = x |> dense_sage(6) |> relu |> dense_sage(classes) |> own_mean |> own_mean",
    );
}

#[test]
fn gin() {
    same(
        "let h = x |> gin_conv(6, learn_eps = false) |> relu
         let z = gin_conv(h, classes, learn_eps = false)",
        "let h = (2 * x) |> dense_gin(6) |> relu
         let z = (2 * h) |> dense_gin(classes) |> gin_round |> gin_round",
    );
}

#[test]
fn attention_is_computed_once() {
    same(
        "let z = x |> gat_conv(6, heads = 1) |> elu |> gat_conv(classes)",
        "let h = x |> linear(6) |> elu
         let z = h |> linear(classes, bias = false) |> attended(classes, 2)",
    );
}

#[test]
fn initial_residuals_stay_in_the_rounds() {
    same(
        "let h0 = x |> linear(6) |> relu
         let h = h0
         repeat i in 1..=4 { h = h |> gcnii_conv(h0, alpha = 0.1, beta = 0.5 / i) |> relu }
         let z = linear(h, classes)",
        "let h0 = x |> linear(6) |> relu
         let h = h0
         repeat i in 1..=4 { h = h |> dense_gcnii(h0, 0.5 / i) |> relu }
         let u = linear(h, classes)
         let z = u
         repeat i in 1..=4 { z = appnp_step(z, u, alpha = 0.1) }",
    );
}

#[test]
fn what_has_no_decoupled_form_says_why() {
    let why = |body: &str| {
        let end = "loss cross_entropy(z, labels, on = train)";
        case(&format!("{body}\n{end}")).decoupled().err().unwrap()
    };
    let ranked = "let u = x |> linear(classes)
                  let z = u
                  repeat k in 1..=3 { z = appnp_step(z, u) }";
    assert_eq!(why(ranked), DecoupleError::Already);
    assert_eq!(
        why("let z = linear(x, classes)"),
        DecoupleError::NoAggregation
    );
}

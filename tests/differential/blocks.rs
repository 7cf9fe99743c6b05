//! Gradients of embeddings, clipped by blocks of rows (SANCUS, section 3.2, step 1 of the
//! backward pass).

use crate::check::{Case, Way};
use crate::data::{Shape, planted};
use crate::skip::{MODELS, case, trainer};
use gnnc::Trainer;
use gnnc::graph::{Features, GraphData, example};
use gnnc::ir::Graph;
use gnnc::ir::graph::Node;
use gnnc::ir::graph::op::{Clip, Op};
use gnnc::ir::plan::Placement;
use gnnc::ir::program::Skipping;
use gnnc::planner::lower::blocks::marked;

/// A residual network in a loop: a norm reads what a layer adds to.
const RESIDUAL: &str = "let h = x |> linear(6) |> gcn_conv(6)
     repeat l in 2..=3 { h = res_plus(h, conv = gcn_conv, dropout = 0.2) }
     loss cross_entropy(linear(h |> layer_norm |> relu, classes), labels, on = train)";

#[test]
fn sessions_clip_blocks_as_the_interpreter_does() {
    for (n, body) in MODELS.into_iter().chain([RESIDUAL]).enumerate() {
        for ranks in 1..=5 {
            // The first bound is below every length, the last above.
            for most in [0.02, 0.1, 1e30] {
                let way = Way {
                    placement: Placement::SkipBroadcast,
                    ranks,
                    partitioner: "range",
                    threads: 1,
                };
                let case = case(body, (n as u32 + ranks).is_multiple_of(2));
                case.with_clipped_blocks(most, ranks).check(way);
            }
        }
    }
}

/// Number of clipped nodes, including those in loops.
fn clipped(graph: &Graph) -> usize {
    let of = |node: &Node| match &node.op {
        Op::Clip(Clip::Gradient, _) => 1,
        Op::Scan(scan) => clipped(&scan.body),
        _ => 0,
    };
    graph.nodes.iter().map(of).sum()
}

#[test]
fn what_activations_and_the_loss_read_is_clipped() {
    // GIN's layers have one more inside; the first layers of GCNII and APPNP aggregate nothing.
    let expected = [2, 2, 2, 5, 3, 2, 3];
    for (body, expected) in MODELS.into_iter().chain([RESIDUAL]).zip(expected) {
        let case = case(body, false);
        for graph in [&case.loaded.model.graph, &case.compiled.training.form] {
            let marked = marked(graph, 1.0).unwrap();
            assert_eq!(clipped(&marked), expected, "{body}\n{marked}");
            marked.verify().unwrap();
        }
    }
}

/// Losses of four epochs and logits, as bits.
fn bits(trainer: &mut Trainer) -> (Vec<u64>, Vec<u32>) {
    let losses = (0..4).map(|_| trainer.epoch().unwrap().loss.to_bits());
    let losses = losses.collect();
    let logits = trainer.session.logits().unwrap();
    (losses, logits.iter().map(|x| x.to_bits()).collect())
}

#[test]
fn a_bound_that_nothing_reaches_changes_nothing() {
    for (n, body) in MODELS.into_iter().chain([RESIDUAL]).enumerate() {
        let case = case(body, n % 2 == 1);
        for rule in [
            "fixed:0",
            "fixed:2",
            "adaptive:1/cut",
            "adaptive:2/stop",
            "gap:0.3/cut/stop",
        ] {
            let with = |ending: &str| {
                let mut trainer = trainer(&case, Some(&format!("{rule}{ending}")), 3);
                let bytes = trainer.step_bytes;
                (bits(&mut trainer), bytes)
            };
            let (exact, bytes) = with("");
            assert_eq!(with("/clip:1e30"), (exact.clone(), bytes), "{rule}: {body}");
            let (clipped, sent) = with("/clip:0.01");
            assert_eq!(clipped.0[0], exact.0[0], "{rule}: {body}");
            assert_ne!(clipped.0[1..], exact.0[1..], "{rule}: {body}");
            assert_eq!(sent, bytes, "{rule}: {body}");
        }
    }
}

/// The same data with a one-hot feature per vertex, so that gradients of the first weights
/// equal those of their products.
fn with_own_features(data: GraphData) -> GraphData {
    let vertices = data.vertices();
    let element = |n: u32| f32::from(u8::from(n % vertices == n / vertices));
    let all = (0..vertices * vertices).map(element).collect();
    GraphData {
        features: Features::dense(vertices as usize, vertices, all),
        ..data
    }
}

/// Gradients of the rows of `x |> linear(..)`, in an epoch that starts from weights of 0; other
/// parameters are up to `size`.
fn gradients(trainer: &mut Trainer, vertices: usize, size: f32) -> Vec<Vec<f64>> {
    trainer.session.set_learning_rate(1.0);
    let mut tensors = trainer.session.parameters().unwrap();
    for tensor in &mut tensors {
        let values = tensor.values.iter_mut().zip(0u8..);
        values.for_each(|(value, n)| *value = size * f32::from(n).sin());
    }
    let first = |values: &[f32]| values.len().is_multiple_of(vertices) && values.len() > vertices;
    let at = tensors.iter().position(|t| first(&t.values)).unwrap();
    tensors[at].values.fill(0.0);
    trainer.session.set_parameters(&tensors).unwrap();
    trainer.epoch().unwrap();
    let after = &trainer.session.parameters().unwrap()[at].values;
    let rows = after.chunks(after.len() / vertices);
    rows.map(|row| row.iter().map(|x| -f64::from(*x)).collect())
        .collect()
}

fn length(rows: &[Vec<f64>]) -> f64 {
    rows.iter().flatten().map(|x| x * x).sum::<f64>().sqrt()
}

/// The worked example at an eighth of its size: quarters of G8 with gradients of length 1/8 and
/// a bound of 1/8.
#[test]
fn the_worked_example_is_halved() {
    let mut data = with_own_features(example::g8());
    data.train.fill(true);
    data.val.fill(false);
    data.test.fill(false);
    let body = "loss cross_entropy(x |> linear(classes), labels, on = train)";
    let case = Case::new("", body, data);
    let of = |rule: &str| {
        let mut trainer = trainer(&case, Some(rule), 4);
        gradients(&mut trainer, 8, 0.0)
    };
    let whole = of("fixed:1");
    for quarter in whole.chunks(2) {
        assert_eq!(length(quarter), 0.125);
    }
    let halved = of("fixed:1/clip:0.125");
    let half = |row: &Vec<f64>| row.iter().map(|x| 0.5 * x).collect::<Vec<f64>>();
    assert_eq!(halved, whole.iter().map(half).collect::<Vec<_>>());
    assert_eq!(length(&halved), 0.125);
}

/// The rows of all ranks together never exceed the bound, whatever the rule, and they reach it.
#[test]
fn no_gradient_is_longer_than_its_bound() {
    let shape = Shape {
        vertices: 60,
        edges: 300,
        directed: true,
        sparse: false,
        seed: 5,
    };
    let body = "let h = x |> linear(8) |> tanh
                loss cross_entropy(h |> gcn_conv(classes), labels, on = train)";
    let case = Case::new("", body, with_own_features(planted(shape)));
    let (mut reached, mut short) = (0, 0);
    for rule in ["fixed:0", "fixed:2", "adaptive:1/cut/stop", "gap:0.1/stop"] {
        for ranks in 1..=5u32 {
            for most in [0.001f32, 0.02, 0.05, 10.0] {
                let rule = format!("{rule}/clip:{most}");
                let skipping: Skipping = rule.parse().unwrap();
                let bound = skipping.most_of_block(ranks).unwrap();
                let mut trainer = trainer(&case, Some(&rule), ranks);
                for _ in 0..4 {
                    let rows = gradients(&mut trainer, 60, 2.0);
                    // Rounding of 60 x 8 squares in 32 bits.
                    let above = |bound: f32| f64::from(bound) * (1.0 + 1e-5);
                    assert!(length(&rows) <= above(most), "{rule}, {ranks} ranks");
                    for block in rows.chunks(60usize.div_ceil(ranks as usize)) {
                        let found = length(block);
                        assert!(found <= above(bound), "{rule}, {ranks} ranks: {found}");
                        match found >= f64::from(bound) * (1.0 - 1e-5) {
                            true => reached += 1,
                            false => short += 1,
                        }
                    }
                }
            }
        }
    }
    assert!(reached > 100 && short > 100, "{reached}, {short}");
}

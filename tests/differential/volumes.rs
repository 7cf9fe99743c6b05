//! Bytes of an epoch against the closed forms of the published systems, where their assumptions
//! hold: the ranks divide widths and vertices.

use crate::check::{Case, Way};
use crate::data::{FEATURES, Shape, planted};
use gnnc::graph::LocalPart;
use gnnc::graph::partition::by_name;
use gnnc::ir::plan::Placement;
use gnnc::planner::placement::PlacementSpec;

const VERTICES: u64 = 96;
const WIDTH: u64 = 8;
const LAYERS: u64 = 2;
const CLASSES: u64 = 3;

const SHAPE: Shape = Shape {
    vertices: VERTICES as u32,
    edges: 500,
    directed: true,
    sparse: false,
    seed: 3,
};

/// Bytes that all ranks send in an epoch of a GCN whose layers all aggregate `WIDTH` columns,
/// and the number of trainable floats plus the loss.
fn measured(placement: Placement, ranks: u32) -> (u64, u64) {
    volume(
        "let h = x |> linear(8) |> relu
         let g = h |> gcn_conv(8) |> relu
         let f = g |> gcn_conv(8) |> relu
         loss cross_entropy(linear(f, classes), labels, on = train)",
        placement,
        ranks,
    )
}

fn volume(body: &str, placement: Placement, ranks: u32) -> (u64, u64) {
    let case = Case::new("", body, planted(SHAPE));
    let training = case
        .compiled
        .training(&PlacementSpec::new(placement, ranks))
        .unwrap();
    let reduced = training.backward.graph.trainable() + 1;
    (epoch(&case, placement, ranks), reduced)
}

/// Bytes that all ranks send in an epoch.
fn epoch(case: &Case, placement: Placement, ranks: u32) -> u64 {
    let mut trainer = case.start(Way {
        placement,
        ranks,
        partitioner: "range",
        threads: 1,
    });
    trainer.session.set_learning_rate(0.05);
    // Also checks that the bytes sent are the predicted ones.
    trainer.epoch().unwrap();
    trainer.step_bytes
}

#[test]
fn tensor_parallelism_sends_what_neutrontp_says() {
    for ranks in [2, 4, 8] {
        let (bytes, reduced) = measured(Placement::Tensor, ranks);
        let ranks = u64::from(ranks);
        // Coupled, section 4: four collectives per layer, and the weights.
        let collective = (ranks - 1) * VERTICES * WIDTH / ranks;
        let floats = 4 * LAYERS * collective + 2 * (ranks - 1) * reduced;
        assert_eq!(bytes, 4 * floats, "{ranks} ranks");
    }
}

/// If the first layer aggregates before its product, slices need no halo.
#[test]
fn push_pull_sends_partial_activations_and_halos() {
    for (first, more, halos) in [
        ("linear(8)", "let h = h |> gcn_conv(8) |> relu", 2),
        ("gcn_conv(8)", "", 1),
    ] {
        let body = format!(
            "let h = x |> dropout(0.5) |> {first} |> relu |> gcn_conv(8) |> relu
             {more}
             loss cross_entropy(linear(h, classes), labels, on = train)"
        );
        for (ranks, sparse) in [(2, false), (4, false), (5, false), (8, true)] {
            push_pull(&body, halos, (ranks, sparse && halos == 2));
        }
    }
}

fn push_pull(body: &str, halos: u64, (ranks, sparse): (u32, bool)) {
    let data = planted(Shape { sparse, ..SHAPE });
    let partition = by_name("range", 0).unwrap();
    let partition = partition.partition((&data.topology).into(), ranks).unwrap();
    let parts = LocalPart::build_all(&data.topology, &partition).unwrap();
    let boundary: u64 = parts.iter().map(|part| part.halo() as u64).sum();
    let case = Case::new("", body, data);
    let others = u64::from(ranks) - 1;
    // Halos in both directions, shares of the first product's result, copies of its gradient,
    // and all weights except the first, with the loss.
    let first = u64::from(FEATURES) * WIDTH;
    let reduced = case.loaded.model.graph.trainable() + 1 - first;
    let rows = 2 * halos * boundary * WIDTH + 2 * others * reduced;
    let found = epoch(&case, Placement::PushPull, ranks);
    assert_eq!(
        found,
        4 * (rows + 2 * others * VERTICES * WIDTH),
        "{ranks} ranks: {body}"
    );
    // Graph parallelism sends the first weights instead, and features after dropout.
    let features = match halos {
        1 => boundary * u64::from(FEATURES),
        _ => 0,
    };
    let rows = rows + features;
    let found = epoch(&case, Placement::Graph, ranks);
    assert_eq!(
        found,
        4 * (rows + 2 * others * first),
        "{ranks} ranks: {body}"
    );
}

#[test]
fn broadcasts_send_what_sancus_says() {
    for ranks in [2, 4, 8] {
        let (bytes, reduced) = measured(Placement::Broadcast, ranks);
        let others = u64::from(ranks) - 1;
        // Section 4: whole blocks to all others, forward and backward, and the weights.
        let floats = 2 * LAYERS * others * VERTICES * WIDTH + 2 * others * reduced;
        assert_eq!(bytes, 4 * floats, "{ranks} ranks");
    }
}

/// Four collectives with the output's width, at any number of rounds (NeutronTP, section 4).
#[test]
fn decoupled_tensor_parallelism_sends_four_collectives() {
    for layers in [2, 3, 5] {
        let convolutions = "|> gcn_conv(8) |> relu ".repeat(layers - 1);
        let body = format!(
            "let h = x {convolutions}|> dropout(0.5)
             loss cross_entropy(gcn_conv(h, classes), labels, on = train)"
        );
        for ranks in [2, 4] {
            let (bytes, reduced) = volume(&body, Placement::TensorDecoupled, ranks);
            let ranks = u64::from(ranks);
            let collective = (ranks - 1) * VERTICES * CLASSES / ranks;
            let floats = 4 * collective + 2 * (ranks - 1) * reduced;
            assert_eq!(bytes, 4 * floats, "{layers} layers, {ranks} ranks");
        }
    }
}

/// With attention, scores of both ends of every head go to all ranks, and their gradients come
/// back from all (NeutronTP, section 4, vertex form).
#[test]
fn decoupled_attention_shares_its_scores() {
    let body = "let h = x |> gat_conv(4, heads = 2) |> elu
                loss cross_entropy(gat_conv(h, classes), labels, on = train)";
    for ranks in [2, 4] {
        let (bytes, reduced) = volume(body, Placement::TensorDecoupled, ranks);
        let ranks = u64::from(ranks);
        let collective = (ranks - 1) * VERTICES * CLASSES / ranks;
        let scores = 4 * (ranks - 1) * VERTICES;
        let floats = 4 * collective + scores + 2 * (ranks - 1) * reduced;
        assert_eq!(bytes, 4 * floats, "{ranks} ranks");
    }
}

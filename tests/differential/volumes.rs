//! Bytes of an epoch against the closed forms of the published systems, where their assumptions hold:
//! widths and vertices that divide by the ranks.

use crate::check::{Case, Way};
use crate::data::{Shape, planted};
use gnnc::ir::plan::Placement;

const VERTICES: u64 = 96;
const WIDTH: u64 = 8;
const LAYERS: u64 = 2;
const CLASSES: u64 = 3;

/// Bytes that all ranks send in an epoch of a GCN whose layers all aggregate `WIDTH` columns, and
/// whose trainable floats (and the loss) are returned too.
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
    let data = planted(Shape {
        vertices: VERTICES as u32,
        arcs: 500,
        directed: true,
        sparse: false,
        seed: 3,
    });
    let case = Case::new("", body, data);
    let mut trainer = case.start(Way {
        placement,
        ranks,
        partitioner: "range",
        threads: 1,
    });
    trainer.session.set_learning_rate(0.05);
    // Checks that what is sent is what is predicted.
    trainer.epoch().unwrap();
    let training = case.compiled.training(placement).unwrap();
    let reduced = training.backward.graph.trainable() + 1;
    (trainer.step_bytes, reduced)
}

#[test]
fn tensor_parallelism_sends_what_neutrontp_says() {
    for ranks in [2, 4, 8] {
        let (bytes, reduced) = measured(Placement::Tensor, ranks);
        let ranks = u64::from(ranks);
        // Coupled, section 4: four collectives a layer, and the weights.
        let collective = (ranks - 1) * VERTICES * WIDTH / ranks;
        let floats = 4 * LAYERS * collective + 2 * (ranks - 1) * reduced;
        assert_eq!(bytes, 4 * floats, "{ranks} ranks");
    }
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

/// Four collectives of the output's width, however many rounds (NeutronTP, section 4).
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

/// With attention, scores of both ends of every head go to all ranks, and their gradients come back
/// from all (NeutronTP, section 4, vertex form).
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

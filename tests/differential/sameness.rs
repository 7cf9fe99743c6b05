//! Runs are equal to the bit, at any number of threads and in every repetition.

use crate::check::{Case, Way};
use crate::data::{Shape, planted};
use gnnc::ir::plan::Placement::{self, Graph, Tensor};

/// Losses and final parameters of some epochs with a small learning rate, as bits.
fn bits(case: &Case, placement: Placement, ranks: u32, threads: usize) -> (Vec<u64>, Vec<u32>) {
    let mut trainer = case.start(Way {
        placement,
        ranks,
        partitioner: "metis",
        threads,
    });
    trainer.session.set_learning_rate(0.05);
    let losses = (0..6).map(|_| trainer.epoch().unwrap().loss.to_bits());
    let losses: Vec<u64> = losses.collect();
    assert!(losses.windows(2).all(|pair| pair[0] != pair[1]));
    let tensors = trainer.session.parameters().unwrap();
    let values = tensors.iter().flat_map(|t| &t.values);
    (losses, values.map(|x| x.to_bits()).collect())
}

/// Uses a graph large enough for a rank to give work to its other threads.
fn check(body: &str, sparse: bool) {
    let data = planted(Shape {
        vertices: 8000,
        edges: 40_000,
        directed: true,
        sparse,
        seed: 5,
    });
    let case = Case::new("", body, data);
    for (placement, ranks) in [(Graph, 1), (Graph, 2), (Tensor, 2)] {
        let first = bits(&case, placement, ranks, 1);
        for threads in [1, 2, 3] {
            let again = bits(&case, placement, ranks, threads);
            assert_eq!(
                first, again,
                "{placement}, {ranks} ranks, {threads} threads"
            );
        }
    }
}

#[test]
fn convolutions_and_attention() {
    check(
        "let h = x |> dropout(0.2) |> gcn_conv(16) |> relu
         let g = h |> dropout(0.2) |> gat_conv(4, heads = 4, dropout = 0.2) |> elu
         loss cross_entropy(g |> sage_conv(classes), labels, on = train)",
        true,
    );
}

#[test]
fn repeated_layers() {
    check(
        "let h0 = x |> linear(16) |> relu
         let h = h0
         repeat i in 1..=3 {
           h = h |> dropout(0.2) |> gcnii_conv(h0, alpha = 0.1, beta = 0.5 / i) |> relu
           h = res_plus(h, conv = sage_conv, dropout = 0.2)
         }
         loss cross_entropy(linear(h, classes), labels, on = train)",
        false,
    );
}

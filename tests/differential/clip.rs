//! Clipped gradients: every placement scales them by the norm of all of them together.

use crate::check::{Case, Way};
use crate::data::{Shape, planted};
use crate::pipeline::{self, RES_PLUS};
use crate::staged::{self, check_case};
use gnnc::ir::plan::Placement;

/// A stack of parameters, some sharded ones, one without a gradient, and one that each rank
/// holds whole.
const MODEL: &str = "let h = x |> dropout(0.3) |> linear(6) |> relu
     repeat i in 1..=3 { h = h |> dropout(0.3) |> gcn_conv(6) |> relu }
     let z = h |> sage_conv(classes)
     loss cross_entropy(z, labels, on = train)";

fn case(clip: f64) -> Case {
    let shape = Shape {
        vertices: 40,
        edges: 160,
        directed: true,
        sparse: false,
        seed: 5,
    };
    Case::new("", MODEL, planted(shape)).with_clip(clip)
}

#[test]
fn all_placements_scale_by_the_same() {
    for placement in [
        Placement::Graph,
        Placement::Tensor,
        Placement::Broadcast,
        Placement::Mixed,
        Placement::PushPull,
    ] {
        for ranks in [1, 3] {
            for clip in [0.05, 1e6] {
                let way = Way {
                    placement,
                    ranks,
                    partitioner: "metis",
                    threads: 1,
                };
                case(clip).check(way);
            }
        }
    }
}

#[test]
fn stages_clip_by_the_length_of_all_gradients() {
    for (ranks, stages, virtual_stages, clip) in [
        (1, 1, 1, 0.05),
        (3, 3, 1, 0.05),
        (4, 2, 1, 0.05),
        (6, 3, 1, 0.05),
        (4, 2, 2, 0.05),
        (3, 3, 1, 1e6),
    ] {
        let way = staged::Way {
            ranks,
            stages,
            virtual_stages,
            chunks: 3,
            interval: 2,
        };
        check_case(pipeline::case(RES_PLUS).with_clip(clip), RES_PLUS, way);
    }
}

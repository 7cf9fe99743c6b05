//! Meshes of ranks on the whole graph: groups divide the vertices, and the ranks of a group the columns. They compute what
//! the interpreter computes, and send what is predicted.

use crate::check::{Case, Way};
use crate::data::planted;
use crate::minibatch::{models, untyped};
use crate::models::shape;
use crate::random::{LAYERS, body, passed, runner, shape as any_shape};
use gnnc::ir::plan::Placement;
use gnnc::ir::words::mesh::Mesh;
use gnnc::planner::decouple::DecoupleError;
use proptest::prelude::*;

/// Ranks, and the slices of a group.
const MESHES: [[u32; 2]; 7] = [[4, 2], [6, 2], [6, 3], [8, 2], [8, 4], [9, 3], [12, 4]];

/// Placements that cut columns. The last one does not have every model.
const PLACEMENTS: [Placement; 4] = [
    Placement::Tensor,
    Placement::Mixed,
    Placement::TensorDecoupled,
    Placement::PushPull,
];

fn in_groups(case: &mut Case, slices: u32) {
    let apart = false;
    case.knobs.slices = Some(Mesh { slices, apart });
}

#[test]
fn groups_compute_what_the_interpreter_computes() {
    for (n, (layers, body, typed)) in models().into_iter().enumerate() {
        for (placement, [ranks, slices]) in PLACEMENTS
            .into_iter()
            .zip(MESHES.into_iter().cycle().skip(n))
        {
            let data = planted(shape(typed));
            let data = if typed { data } else { untyped(data) };
            let mut case = Case::new(layers, body, data);
            if placement == Placement::TensorDecoupled {
                match case.decoupled() {
                    Ok(decoupled) => case = decoupled,
                    Err(_) => continue,
                }
            }
            // The fake device has streams for 8 ranks.
            (case.checked, case.device) = (n % 3 == 0, n % 3 == 1 && ranks <= 8);
            in_groups(&mut case, slices);
            let partitioner = ["metis", "hash", "range"][n % 3];
            case.check(Way {
                partitioner,
                ..Way::varied(placement, ranks)
            });
        }
    }
}

#[test]
fn random_models_in_groups() {
    let mesh = prop::sample::select(MESHES.to_vec());
    let placement = prop::sample::select(PLACEMENTS[..3].to_vec());
    let partitioner = prop::sample::select(vec!["metis", "hash", "range"]);
    let way = (placement, mesh, partitioner, 1..3usize);
    let result = runner(60).run(&(body(), any_shape(), way), |(body, shape, way)| {
        let (placement, [ranks, slices], partitioner, threads) = way;
        let mut case = Case::new(LAYERS, &body, planted(shape));
        if placement == Placement::TensorDecoupled {
            match case.decoupled() {
                Ok(decoupled) => case = decoupled,
                Err(why) => {
                    prop_assert!(!matches!(why, DecoupleError::Type(_)), "{why}\n{body}");
                    return Ok(());
                }
            }
        }
        (case.checked, case.device) = (shape.seed % 3 == 0, shape.seed % 3 == 1 && ranks <= 8);
        in_groups(&mut case, slices);
        let found = case.differences(Way {
            placement,
            ranks,
            partitioner,
            threads,
        });
        prop_assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    });
    passed(result);
}

//! Placements: each is a lowering from a model to a program, one file each.

mod graph;
mod one_rank;
mod tensor;

use crate::layout::Ranks;
use crate::lower::{LowerError, Training};
use gnnc_ir::plan::Placement;
use gnnc_ir::program::Program;

/// The placements that have a lowering.
pub const LOWERED: &[Placement] = &[Placement::Graph, Placement::Tensor];

/// Lowers a model on a placement, as rank 0 runs it: its slices of columns are the widest.
///
/// # Errors
/// If the model uses something that a program cannot express, or the placement has no lowering yet.
pub fn lower(training: &Training, placement: Placement, ranks: u32) -> Result<Program, LowerError> {
    on_rank(training, placement, Ranks { ranks, rank: 0 })
}

/// The programs of all ranks: one that all of them run, or one for each where slices of columns
/// differ.
///
/// # Errors
/// As [`lower`].
pub fn lower_all(
    training: &Training,
    placement: Placement,
    ranks: u32,
) -> Result<Vec<Program>, LowerError> {
    let different = match placement {
        Placement::Tensor => ranks.max(1),
        _ => 1,
    };
    (0..different)
        .map(|rank| on_rank(training, placement, Ranks { ranks, rank }))
        .collect()
}

fn on_rank(training: &Training, placement: Placement, ranks: Ranks) -> Result<Program, LowerError> {
    match placement {
        _ if ranks.ranks <= 1 => one_rank::lower(training),
        Placement::Graph => graph::lower(training, ranks.ranks),
        Placement::Tensor => tensor::lower(training, ranks),
        other => {
            let names: Vec<&str> = LOWERED.iter().map(|p| p.name()).collect();
            Err(LowerError::Unsupported(format!(
                "placement `{other}` (there are {})",
                names.join(", ")
            )))
        }
    }
}

//! Placements: each is a lowering from a model to a program, one file each.

mod graph;
mod one_rank;

use crate::lower::{LowerError, Training};
use gnnc_ir::program::Program;

/// A placement that this version can lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Everything on one rank.
    OneRank,
    /// Vertices by part, halo rows exchanged for every aggregation.
    Graph {
        /// Number of parts, one a rank.
        ranks: u32,
    },
}

/// Lowers a model on a placement.
///
/// # Errors
/// If the model uses something that a program cannot express.
pub fn lower(training: &Training, placement: Placement) -> Result<Program, LowerError> {
    match placement {
        Placement::OneRank | Placement::Graph { ranks: 0 | 1 } => one_rank::lower(training),
        Placement::Graph { ranks } => graph::lower(training, ranks),
    }
}

//! Placements: each is a lowering from a model to a program, one file each.

mod broadcast;
mod graph;
mod mixed;
mod one_rank;
mod tensor;

use crate::layout::Ranks;
use crate::lower::chunks::{MOST_CHUNKS, chunks};
use crate::lower::overlap::overlap;
use crate::lower::{LowerError, Training};
use gnnc_ir::plan::Placement;
use gnnc_ir::program::Program;

/// The placements that have a lowering.
pub const LOWERED: &[Placement] = &[
    Placement::Graph,
    Placement::Tensor,
    Placement::Broadcast,
    Placement::Mixed,
    Placement::TensorDecoupled,
];

/// A placement with what its lowering has to know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// The placement.
    pub placement: Placement,
    /// Number of ranks.
    pub ranks: u32,
    /// Replication factor of the parts, which decides what is mixed.
    pub alpha: f64,
    /// How communication and computing share the time.
    pub flow: Flow,
}

/// How communication and computing share the time; never what is computed or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// Whether messages may be under way while something is computed.
    pub overlap: bool,
    /// Chunks that work for all vertices is cut into where columns are sliced; 1 leaves it whole.
    pub chunks: u32,
}

impl Default for Flow {
    /// Messages and computing at once, work whole.
    fn default() -> Self {
        Self {
            overlap: true,
            chunks: 1,
        }
    }
}

/// Lowers a model on a placement (for a placement that needs one, the relaxed form of it), as rank 0 runs it: its slices of columns are the widest.
///
/// # Errors
/// If the model uses something that a program cannot express, or the placement has no lowering yet.
pub fn lower(training: &Training, place: &Place) -> Result<Program, LowerError> {
    on_rank(training, place, 0)
}

/// The programs of all ranks: one that all of them run, or one for each where slices of columns
/// differ.
///
/// # Errors
/// As [`lower`].
pub fn lower_all(training: &Training, place: &Place) -> Result<Vec<Program>, LowerError> {
    let different = match place.placement {
        Placement::Tensor | Placement::TensorDecoupled | Placement::Mixed => place.ranks.max(1),
        _ => 1,
    };
    (0..different)
        .map(|rank| on_rank(training, place, rank))
        .collect()
}

fn on_rank(training: &Training, place: &Place, rank: u32) -> Result<Program, LowerError> {
    let ranks = Ranks {
        ranks: place.ranks,
        rank,
    };
    let program = match place.placement {
        _ if place.ranks <= 1 => one_rank::lower(training),
        Placement::Graph => graph::lower(training, place.ranks),
        Placement::Tensor | Placement::TensorDecoupled => tensor::lower(training, ranks),
        Placement::Broadcast => broadcast::lower(training, place.ranks),
        Placement::Mixed => mixed::lower(training, ranks, place.alpha),
        other => {
            let names: Vec<&str> = LOWERED.iter().map(|p| p.name()).collect();
            Err(LowerError::Unsupported(format!(
                "placement `{other}` (there are {})",
                names.join(", ")
            )))
        }
    }?;
    Ok(arrange(program, place.flow))
}

/// Cuts a program into chunks and overlaps what can be.
fn arrange(program: Program, flow: Flow) -> Program {
    let program = match flow.chunks {
        0 | 1 => program,
        count => chunks(program, count.min(MOST_CHUNKS)),
    };
    match flow.overlap {
        true => overlap(program),
        false => program,
    }
}

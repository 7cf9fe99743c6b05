//! Graph parallelism (GNNPipe's baseline, DGL): every rank owns a part of the vertices and their
//! in-edges. Rows that an aggregation reads from other parts are exchanged before it; their
//! gradients return to the owners after its backward pass. Weights are replicated, and their
//! gradients all-reduced once per epoch.

use crate::error::LowerError;
use crate::layout::Ranks;
use crate::lower::{Training, by_rows};
use gnnc_ir::program::Program;

/// Lowers a model for as many parts as there are ranks.
pub fn lower(training: &Training, ranks: Ranks) -> Result<Program, LowerError> {
    by_rows(training, ranks)
}

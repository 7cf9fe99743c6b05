//! Graph parallelism (GNNPipe's baseline, DGL): every rank owns a part of the vertices and their
//! in-edges. Rows that an aggregation reads from other parts are exchanged before it; their
//! gradients return to the owners after its backward pass. Weights are replicated, and their
//! gradients all-reduced once per epoch.

use crate::error::LowerError;
use crate::lower::{Training, by_rows};
use gnnc_ir::program::Program;

/// Lowers a model for `ranks` parts.
pub fn lower(training: &Training, ranks: u32) -> Result<Program, LowerError> {
    by_rows(training, ranks)
}

//! One rank: no communication. Every other placement must compute the same as this one.

use crate::error::LowerError;
use crate::layout::Ranks;
use crate::lower::{Training, by_rows};
use gnnc_ir::program::Program;

/// Lowers a model for one rank.
pub fn lower(training: &Training, ranks: Ranks) -> Result<Program, LowerError> {
    by_rows(training, ranks)
}

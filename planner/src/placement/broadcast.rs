//! Broadcast (CAGNET; SANCUS without skipping, section 3): before every aggregation, block rows of
//! embeddings go to every rank, needed or not, and gradients of whole blocks come back. This trades
//! more rows for large, regular messages, which pays if nearly all rows would be sent anyway.

use crate::error::LowerError;
use crate::layout::Ranks;
use crate::lower::{Training, by_rows};
use gnnc_ir::program::{Halo, Program};

/// Lowers a model for `ranks` block rows.
pub fn lower(training: &Training, ranks: u32) -> Result<Program, LowerError> {
    let program = by_rows(training, Ranks::new(ranks, 0))?;
    Ok(Program {
        halo: Halo::Everything,
        ..program
    })
}

//! Broadcast with skipping (SANCUS, section 3): block rows of embeddings go to every rank, except
//! for blocks whose copies elsewhere are fresh enough by a rule. Gradients are always sent, unless
//! they should stop at copies. The copies make this a different function than the model (relaxation
//! *stale*). Optionally, readers receive only the rows of a block that they have edges from, under
//! the same rule; the other rows are never read. Gradients of rows that were not sent may be left
//! out too.

use crate::error::LowerError;
use crate::lower::{Training, by_embeddings};
use gnnc_ir::program::{Halo, Program, Skipping};

/// Lowers a model for `ranks` block rows.
pub fn lower(training: &Training, ranks: u32, skipping: Skipping) -> Result<Program, LowerError> {
    let program = by_embeddings(training, ranks, skipping)?;
    let halo = match skipping.cut {
        true => Halo::Boundary,
        false => Halo::Everything,
    };
    Ok(Program { halo, ..program })
}

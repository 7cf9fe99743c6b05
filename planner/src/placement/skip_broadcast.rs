//! Broadcast with skipping (SANCUS, section 3): block rows of embeddings go to everybody, but for blocks of
//! which the others have copies that are fresh enough by a rule. Gradients move, unless they are to stop at copies. The copies make it
//! another function than the model's (relaxation *stale*). Of a block every reader may be sent only the rows that it has
//! edges from, with the same rule: fewer, and none of the others is ever read. Gradients of rows that
//! were not sent may be left out too.

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

//! Broadcast with skipping (SANCUS, section 3): block rows of embeddings go to everybody, but for blocks of
//! which the others have copies that are fresh enough by a rule. Gradients always move. The copies make it
//! another function than the model's (relaxation *stale*).

use crate::lower::{LowerError, Training, by_embeddings};
use gnnc_ir::program::{Halo, Program, Rule};

/// Lowers a model for `ranks` block rows.
pub fn lower(training: &Training, ranks: u32, rule: Rule) -> Result<Program, LowerError> {
    let program = by_embeddings(training, ranks, rule)?;
    Ok(Program {
        halo: Halo::Everything,
        ..program
    })
}

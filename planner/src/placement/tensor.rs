//! Coupled tensor parallelism (NeutronTP, section 3.1): every rank has the whole topology and runs
//! aggregations for all vertices on its slice of the columns; dense layers run on its own rows.
//! This takes two redistributions per layer and direction, and no halo. For a model in decoupled
//! form ([`crate::decouple`]) this is decoupled tensor parallelism (section 3.2), with four
//! redistributions per epoch.

use crate::error::LowerError;
use crate::layout::{Pure, Ranks};
use crate::lower::{Training, by_layouts};
use gnnc_ir::program::Program;

/// Lowers a model for one of `ranks` ranks.
pub fn lower(training: &Training, ranks: Ranks) -> Result<Program, LowerError> {
    by_layouts(training, ranks, &|graphs| {
        Pure::of(graphs, ranks.slices()).tensor
    })
}

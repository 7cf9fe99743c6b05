//! Push-pull on the whole graph (P3, sections 2 and 3): the input features are in slices of their
//! columns and never move. The first layer runs on them up to its first product; owners add the
//! partial activations, and everything after is by rows with halos. The first layer's weights are
//! not replicated, and their gradient needs no all-reduce.

use crate::error::LowerError;
use crate::layout::{Pure, Ranks};
use crate::lower::{Training, by_layouts};
use gnnc_ir::program::Program;

/// Lowers a model for one of several ranks.
pub fn lower(training: &Training, ranks: Ranks) -> Result<Program, LowerError> {
    by_layouts(training, ranks, &|graphs| {
        Pure::of(graphs, ranks.ranks).push_pull
    })
}

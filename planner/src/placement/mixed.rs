//! Every aggregation in the layout in which it sends less: by rows with halos, or on column slices.
//! Propagation of many steps is cheap on slices, attention and good cuts are cheap by rows; a model
//! that has both gets both.

use crate::layout::{Ranks, cheapest};
use crate::lower::{LowerError, Training, by_columns};
use gnnc_ir::program::Program;

/// Lowers a model for one of several ranks, whose parts have a replication factor of `alpha`.
pub fn lower(training: &Training, ranks: Ranks, alpha: f64) -> Result<Program, LowerError> {
    by_columns(training, ranks, &|graph| {
        cheapest(graph, ranks.ranks, alpha)
    })
}

//! Aggregations in the requested layouts: by rows with halos, or on column slices; and the first
//! layer on feature slices or not. Propagation of many steps is cheap on slices, attention and good
//! cuts are cheap by rows, and a product with many features is cheap on their slices; a model with
//! all three gets all three. The search finds the best ones.

use crate::error::LowerError;
use crate::layout::Ranks;
use crate::lower::{Training, by_layouts};
use gnnc_ir::plan::Layouts;
use gnnc_ir::program::Program;

/// Lowers a model for one of several ranks.
pub fn lower(training: &Training, ranks: Ranks, layouts: &Layouts) -> Result<Program, LowerError> {
    by_layouts(training, ranks, &|_| layouts.clone())
}

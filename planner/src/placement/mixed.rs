//! Aggregations in the layouts that are asked for: by rows with halos, or on column slices, and the
//! first layer on slices of the features or not. Propagation of many steps is cheap on slices, attention
//! and good cuts are cheap by rows, a product with many features is cheap where slices of them are; a
//! model that has all three gets all three. Which ones are best is for the search to find.

use crate::error::LowerError;
use crate::layout::{Layouts, Ranks};
use crate::lower::{Training, by_layouts};
use gnnc_ir::program::Program;

/// Lowers a model for one of several ranks.
pub fn lower(training: &Training, ranks: Ranks, layouts: &Layouts) -> Result<Program, LowerError> {
    by_layouts(training, ranks, &|_| layouts.clone())
}

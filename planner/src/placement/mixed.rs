//! Aggregations in the layouts that are asked for: by rows with halos, or on column slices.
//! Propagation of many steps is cheap on slices, attention and good cuts are cheap by rows; a model
//! that has both gets both. Which ones are best is for the search to find.

use crate::layout::{Choice, Layouts, Ranks};
use crate::lower::{LowerError, Training, by_columns};
use gnnc_ir::program::Program;

/// Lowers a model for one of several ranks.
pub fn lower(training: &Training, ranks: Ranks, layouts: &Layouts) -> Result<Program, LowerError> {
    let [epoch, eval] = [&layouts.epoch, &layouts.eval].map(|list| Choice::new(list));
    let program = by_columns(training, ranks, [&epoch, &eval])?;
    for (what, list, choice) in [
        ("an epoch", &layouts.epoch, &epoch),
        ("an evaluation", &layouts.eval, &eval),
    ] {
        if list.len() != choice.found() {
            return Err(LowerError::Layouts {
                what,
                found: list.len(),
                expected: choice.found(),
            });
        }
    }
    Ok(program)
}

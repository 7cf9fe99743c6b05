//! Push-pull (P3, sections 2 and 3): the input features are in slices of their columns and never move.
//! The first layer runs on them up to its first product; owners add the partial activations. The first
//! layer's weights are not replicated, and their gradient needs no all-reduce.
//!
//! On the whole graph everything after that is by rows with halos. On sampled batches each rank trains
//! on its part of a batch, and computes the first layer of all ranks' parts, whose lower levels it gets.

use super::PlacementSpec;
use super::minibatch::{batches, holds_all, in_full, stays, with_rows};
use crate::error::LowerError;
use crate::layout::{Graphs, Pure, Ranks};
use crate::lower::{Training, by_batches, by_layouts};
use gnnc_ir::program::Program;
use gnnc_ir::words::mesh::Mesh;
use gnnc_ir::words::spelling::counted;

/// Lowers a model for one of several ranks.
pub fn lower(
    training: &Training,
    ranks: Ranks,
    spec: &PlacementSpec,
) -> Result<Program, LowerError> {
    if spec.half_batches() {
        batches(training, spec)?;
    }
    if !spec.samples() {
        return by_layouts(training, ranks, &|graphs| {
            Pure::of(graphs, ranks.slices()).push_pull
        });
    }
    stays(spec)?;
    if spec.knobs.sampling.cached().is_some() {
        return Err(LowerError::Illegal(
            "no row of features moves in placement push-pull, so none is cached; leave out --cache, or train with \
             placement minibatch or model-migration"
                .to_owned(),
        ));
    }
    in_full(spec)?;
    holds_all(spec)?;
    let (batches, delay) = (batches(training, spec)?, spec.delay());
    if !DELAYS.contains(&delay) {
        return Err(LowerError::Illegal(format!(
            "found a delay of {delay} batches, expected 0 (each batch reads the weights that the one before \
             it left), 2 (batches wait for sums and their gradients) or 3 (and for gradients of weights)"
        )));
    }
    if let Some(Mesh { slices, .. }) = ranks.mesh
        && !(slices > 0 && ranks.ranks.is_multiple_of(slices))
    {
        return Err(LowerError::Illegal(format!(
            "found {} of the features for {}, expected a number that divides them; with --slices, every worker \
             has one slice, and there are as many copies as workers for each",
            counted(slices, "slice"),
            counted(ranks.ranks, "worker")
        )));
    }
    let wanted = |graphs: &Graphs| Pure::of(graphs, ranks.slices()).push_pull;
    let program = match ranks.ranks {
        0 | 1 => by_batches(training, ranks, &batches, None)?,
        _ => by_batches(training, ranks, &batches, Some(&wanted))?,
    };
    Ok(with_rows(program, spec))
}

/// No delay, or one at which ranks wait for nothing that can be on its way meanwhile (P3, section 3.3).
const DELAYS: [u32; 3] = [0, 2, 3];

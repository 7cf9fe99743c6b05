//! Models that go to the features (Chen et al., HopGNN): in each time step a rank has one of as many models
//! as there are ranks, and trains it on those of the model's seeds whose features it has. Sums of gradients,
//! and as published also weights, go on with the models; rows of other ranks are fetched once a batch.
//!
//! In synchronous training a sum of gradients does not depend on where its terms are computed, so this
//! trains what `minibatch` trains.

use super::PlacementSpec;
use super::minibatch::{batches, cached, holds_all, in_full};
use crate::error::LowerError;
use crate::layout::Ranks;
use crate::lower::fetch::from_owners;
use crate::lower::sets::in_sets;
use crate::lower::{Training, by_batches};
use gnnc_ir::program::Program;
use gnnc_ir::words::sampling::Roots;
use gnnc_ir::words::spelling::counted;

/// Lowers a model that trains on sampled batches.
pub fn lower(
    training: &Training,
    ranks: Ranks,
    spec: &PlacementSpec,
) -> Result<Program, LowerError> {
    let settings = &spec.knobs.sampling;
    if spec.delay() > 0 || spec.knobs.slices.is_some() {
        return Err(LowerError::Illegal(
            "weights are the newest ones and features are by rows in placement model-migration; leave out \
             --delay and --slices, or train with placement push-pull"
                .to_owned(),
        ));
    }
    if settings.roots.is_some_and(|roots| roots != Roots::Home) {
        return Err(LowerError::Illegal(
            "models visit the ranks that own their seeds in placement model-migration; leave out --roots, or \
             train with placement minibatch"
                .to_owned(),
        ));
    }
    let merges = settings.merges.unwrap_or(0);
    if merges >= ranks.ranks {
        return Err(LowerError::Illegal(format!(
            "found {} for {}, expected fewer than workers: a model visits each of them, and at least one visit is left",
            counted(merges, "merge"),
            counted(ranks.ranks, "worker")
        )));
    }
    in_full(spec)?;
    holds_all(spec)?;
    let mut batches = batches(training, spec)?;
    if ranks.ranks > 1 {
        batches.training.merges = Some(merges);
    }
    let program = from_owners(by_batches(training, ranks, &batches, None)?);
    match ranks.ranks {
        0 | 1 => Ok(program),
        _ => in_sets(cached(program), settings.migrate.unwrap_or_default()),
    }
}

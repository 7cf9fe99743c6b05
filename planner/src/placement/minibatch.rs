//! Sampled mini-batches (DistDGL's data flow): every rank draws the neighborhoods of its seeds, fetches
//! the rows of their outermost level, and computes all layers by itself. Weights are replicated, and
//! their gradients all-reduced in every step.

use super::PlacementSpec;
use crate::error::LowerError;
use crate::layout::Ranks;
use crate::lower::fetch::from_owners;
use crate::lower::in_place::in_place;
use crate::lower::{Training, by_batches};
use gnnc_ir::program::Program;
use gnnc_ir::words::sampling::Sampling;

/// Lowers a model that trains on sampled batches.
pub fn lower(
    training: &Training,
    ranks: Ranks,
    spec: &PlacementSpec,
) -> Result<Program, LowerError> {
    if spec.delay() > 0 {
        return Err(LowerError::Illegal(
            "late weights pay where ranks wait for sums of the first layer; leave out --delay, or train with \
             placement push-pull"
                .to_owned(),
        ));
    }
    let program = by_batches(training, ranks, &sampling(training, spec)?, None)?;
    Ok(from_owners(in_place(program)))
}

/// The batches of a candidate, whose hops are those of the model.
///
/// # Errors
/// Batches that are not given, or have other hops.
pub(super) fn sampling(training: &Training, spec: &PlacementSpec) -> Result<Sampling, LowerError> {
    let Some(sampling) = spec.knobs.sampling.sampling() else {
        return Err(LowerError::Illegal(format!(
            "placement {} on batches needs the number of seeds of a batch and a fanout for each hop; give --batch \
             and --fanouts, such as --batch 1000 --fanouts 25,10, or `batch` and `fanouts` in the model's train block",
            spec.placement
        )));
    };
    let (found, expected) = (sampling.fanouts.len(), usize::from(training.hops));
    if found != expected {
        return Err(LowerError::Fanouts {
            found,
            expected,
            beforehand: spec.beforehand(),
        });
    }
    Ok(sampling)
}

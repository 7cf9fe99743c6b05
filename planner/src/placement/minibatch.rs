//! Sampled mini-batches (DistDGL's data flow): every rank draws the neighborhoods of its seeds, fetches
//! the rows of their outermost level, and computes all layers by itself. Weights are replicated, and
//! their gradients all-reduced in every step.

use super::PlacementSpec;
use crate::error::LowerError;
use crate::layout::Ranks;
use crate::lower::apart::apart;
use crate::lower::fetch::{from_owners, with_cache};
use crate::lower::in_place::in_place;
use crate::lower::prefetch::{Ahead, MOST_LATE};
use crate::lower::{Batches, Training, by_batches};
use gnnc_ir::EdgeSet;
use gnnc_ir::program::Program;
use gnnc_ir::words::sampling::{Exclude, Sampling, Topology};
use std::collections::BTreeSet;

/// Lowers a model that trains on sampled batches.
pub fn lower(
    training: &Training,
    ranks: Ranks,
    spec: &PlacementSpec,
) -> Result<Program, LowerError> {
    late_rows(spec)?;
    if spec.knobs.slices.is_some() {
        return Err(LowerError::Illegal(
            "the features of placement minibatch are by rows; leave out --slices, or train with placement \
             push-pull"
                .to_owned(),
        ));
    }
    stays(spec)?;
    copies(spec)?;
    let settings = &spec.knobs.sampling;
    let mut clash = None;
    if settings.cached().is_some() {
        clash = Some("--cache, whose rows are ranked by all edges");
    } else if settings.samplers.is_some_and(|threads| threads > 0) {
        clash = Some("--samplers, whose threads cannot ask other workers");
    }
    if let Some(clash) = clash.filter(|_| settings.topology == Some(Topology::Own)) {
        return Err(LowerError::Illegal(format!(
            "workers that hold only their own edges do not go with {clash}; leave out one of the two"
        )));
    }
    let program = by_batches(training, ranks, &batches(training, spec)?, None)?;
    apart(with_rows(program, spec))
}

/// Checks that only rows of embeddings are late, and not by more batches than are drawn ahead.
///
/// # Errors
/// Knobs of placement push-pull, or a delay and a number of periods that do not go together.
fn late_rows(spec: &PlacementSpec) -> Result<(), LowerError> {
    let late = spec.delay();
    if late == 0 {
        return Ok(());
    }
    let why = if !spec.lazy() {
        "late weights pay where ranks wait for sums of the first layer, or for rows of embeddings; leave out --delay, \
         train with placement push-pull, or step embeddings lazily with --lazy-embeddings"
            .to_owned()
    } else if late > MOST_LATE {
        format!(
            "found a delay of {late} batches, expected at most {MOST_LATE} for rows of embeddings"
        )
    } else if let Some(ahead) = spec.knobs.sampling.prefetch
        && ahead < Ahead::least(late)
    {
        format!(
            "rows that are {late} batches late are asked for at least {} batches ahead, found --prefetch {ahead}; give \
             more, or leave out --prefetch",
            Ahead::least(late)
        )
    } else {
        return Ok(());
    };
    Err(LowerError::Illegal(why))
}

/// Checks that an age is given for caches of embeddings, and for nothing else.
///
/// # Errors
/// Options that do not go together.
fn copies(spec: &PlacementSpec) -> Result<(), LowerError> {
    let settings = &spec.knobs.sampling;
    let why = match (settings.cached(), settings.cache_age) {
        (Some(_), None) if spec.lazy() => {
            "rows of embeddings change in every step that has them; give --cache-age, such as --cache-age 8 (steps that \
             copies of them may lack), or leave out --cache"
        }
        (Some(_), Some(_)) if spec.delay() > 0 => {
            "rows of embeddings are late with --delay, and copies of them with --cache-age; leave out one of the two"
        }
        (_, Some(_)) if !spec.lazy() => {
            "--cache-age is for embeddings that are stepped lazily; give --lazy-embeddings, or leave out --cache-age"
        }
        (None, Some(_)) if spec.ranks > 1 => {
            "--cache-age says how old kept rows may be, but none are kept; give --cache, such as --cache 1000 (rows), or \
             leave out --cache-age"
        }
        (None, Some(_)) | (Some(_), Some(_)) | (_, None) => return Ok(()),
    };
    Err(LowerError::Illegal(why.to_owned()))
}

/// Checks that no model is to move.
///
/// # Errors
/// Knobs of placement model-migration.
pub(super) fn stays(spec: &PlacementSpec) -> Result<(), LowerError> {
    let settings = &spec.knobs.sampling;
    match settings.merges.is_none() && settings.migrate.is_none() {
        true => Ok(()),
        false => Err(LowerError::Illegal(format!(
            "each worker keeps its model in placement {}; leave out --merges and --migrate, or train with \
             placement model-migration",
            spec.placement
        ))),
    }
}

/// Checks that all ranks hold all edges.
///
/// # Errors
/// Knobs of placement minibatch.
pub(super) fn holds_all(spec: &PlacementSpec) -> Result<(), LowerError> {
    match spec.knobs.sampling.topology {
        None | Some(Topology::All) => Ok(()),
        Some(Topology::Own) => Err(LowerError::Illegal(format!(
            "workers draw from all edges in placement {}; leave out --topology own, or train with placement minibatch",
            spec.placement
        ))),
    }
}

/// Checks that optimizers step whole parameters.
///
/// # Errors
/// Knobs of placement minibatch.
pub(super) fn in_full(spec: &PlacementSpec) -> Result<(), LowerError> {
    match spec.lazy() {
        false => copies(spec),
        true => Err(LowerError::Illegal(format!(
            "optimizers step all rows in placement {}; leave out --lazy-embeddings, or train with placement minibatch",
            spec.placement
        ))),
    }
}

/// The program that gets the rows of its batches: from their owners, or else where they are. Tensors
/// that may be offloaded to the host are copied row by row instead, and so are rows that are late.
pub(super) fn with_rows(program: Program, spec: &PlacementSpec) -> Program {
    let copied = spec.offload() || spec.lazy() && spec.delay() > 0;
    let program = from_owners(match copied {
        true => program,
        false => in_place(program),
    });
    cached(program)
}

/// The program with the cache that its batches say.
pub(super) fn cached(program: Program) -> Program {
    let cache = program.sampling.as_ref().and_then(|one| one.cache);
    match cache {
        Some(cache) if program.ranks > 1 => with_cache(program, cache),
        _ => program,
    }
}

/// The batches of a candidate, whose hops are those of the model.
///
/// # Errors
/// Batches that are not given, or have other hops.
pub(super) fn batches(training: &Training, spec: &PlacementSpec) -> Result<Batches, LowerError> {
    let hops = training.batches.as_ref();
    let Some(batches) = hops.and_then(|hops| hops.batches(&spec.knobs.sampling)) else {
        return Err(LowerError::Illegal(format!(
            "placement {} on batches needs the number of seeds of a batch and a fanout for each hop; give --batch \
             and --fanouts, such as --batch 1000 --fanouts 25,10, or `batch` and `fanouts` in the model's train block",
            spec.placement
        )));
    };
    let fits = |sampling: &Sampling, hops: &[EdgeSet], evaluates: bool| {
        let found = sampling.fanouts.len();
        let is_plain = |set: &&EdgeSet| **set == EdgeSet::Plain;
        match found == hops.len() {
            true => Ok(()),
            false => Err(LowerError::Fanouts {
                found,
                expected: hops.len(),
                plain: hops.iter().filter(is_plain).count(),
                beforehand: spec.beforehand(),
                evaluates,
            }),
        }
    };
    let none = &[][..];
    let (trained, evaluated) = hops.map_or((none, none), |one| (&one.hops, &one.evaluation.hops));
    fits(&batches.training, trained, false)?;
    if let Some(evaluation) = &batches.evaluation {
        fits(evaluation, evaluated, true)?;
    }
    let leaves_out = batches.training.exclude == Exclude::Seeds;
    if spec.beforehand() && leaves_out && of_pairs(trained) {
        return Err(LowerError::Illegal(
            "what is computed beforehand reads the links that batches of pairs ask for; leave out --static, or \
             keep these links with --exclude nothing"
                .to_owned(),
        ));
    }
    Ok(batches)
}

/// Whether hops run over several named sets, as over the two ends of pairs.
fn of_pairs(hops: &[EdgeSet]) -> bool {
    let is_named = |set: &&EdgeSet| matches!(set, EdgeSet::Named(_));
    let named: BTreeSet<&EdgeSet> = hops.iter().filter(is_named).collect();
    named.len() > 1
}

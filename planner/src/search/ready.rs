//! Candidates before they are priced.

use super::deep::{self, Choose};
use super::mixture::Changes;
use super::nodes::NO_HALO;
use super::order::cost;
use super::{
    Lower, NOT_CUT, PlacementSpec, PlanRequest, Programs, layers, least, mixture, refused,
};
use crate::error::LowerError;
use crate::parts::{Parts, parts};
use crate::placement::{Stages, row};
use gnnc_ir::plan::{Layouts, Placement, Rejected};

/// What became of a candidate before it is priced.
#[derive(Default)]
pub(super) struct Made {
    /// It and its variants.
    pub(super) waiting: Vec<Ready>,
    /// What lacks something that a pin asks for.
    pub(super) without: Vec<Rejected>,
    /// What has no program.
    pub(super) rejected: Vec<Rejected>,
}

impl Made {
    /// Lowers a candidate and its variants.
    pub(super) fn of(
        request: &PlanRequest,
        spec: &PlacementSpec,
        lower: &dyn Lower,
        seconds_of_layers: &[f64],
    ) -> Self {
        let mut made = Self::default();
        match ready(request, spec, lower, seconds_of_layers) {
            // Only cut candidates were requested.
            Ok(found) if request.pin.knobs.interior == Some(true) && !found.is_cut() => {
                made.without.push(refused(&found.spec, NOT_CUT.to_owned()));
            }
            Ok(found) if !found.exchanges_on_nodes() => {
                made.without.push(refused(&found.spec, NO_HALO.to_owned()));
            }
            Ok(found) => made.waiting = found.with_variants(request, lower),
            Err(reason) => made.rejected.push(refused(spec, reason)),
        }
        made
    }
}

/// A candidate with its programs and a lower bound of its cost.
#[derive(Clone)]
pub(super) struct Ready {
    pub(super) spec: PlacementSpec,
    pub(super) programs: Programs,
    pub(super) parts: Parts,
    /// Lower bound of the objective's measure; 0 if not needed.
    pub(super) least: f64,
    /// The pure placement that a mixture turns out to be.
    pub(super) same: Option<Placement>,
    /// Whether other layouts were left that might be better.
    pub(super) ended: bool,
}

/// Lowers a candidate, with its layouts and layers chosen.
///
/// # Errors
/// Why it has no program or no parts.
pub(super) fn ready(
    request: &PlanRequest,
    spec: &PlacementSpec,
    lower: &dyn Lower,
    seconds_of_layers: &[f64],
) -> Result<Ready, String> {
    let parts = divided(request, spec)?;
    let lowered = |spec: &PlacementSpec| lower.programs(spec).map_err(|e| e.to_string());
    let made_by = |lower: &dyn Lower, spec: PlacementSpec, programs: Programs, bounded: bool| {
        let parts = programs
            .first()
            .map_or_else(|| parts.clone(), |program| parts.clone().of(program));
        let ready = Ready {
            spec,
            programs,
            parts,
            least: 0.0,
            same: None,
            ended: false,
        };
        let ready = ready.leaner(request, lower);
        let least = if bounded {
            least(request, &ready.programs, &ready.parts)?
        } else {
            0.0
        };
        Ok::<_, String>(Ready { least, ..ready })
    };
    let made = |spec, programs, bounded| made_by(lower, spec, programs, bounded);
    let few = request.top.is_some();
    let undivided = |stages: &Stages| stages.layers.is_empty() && !seconds_of_layers.is_empty();
    if let Some(stages) = spec.stages().filter(undivided) {
        let into = [stages.count, stages.virtual_stages, stages.chunks];
        let layers = layers::divide(seconds_of_layers, into);
        let layers = layers.ok_or_else(|| layers::too_few(&stages, seconds_of_layers.len()))?;
        let mut spec = spec.clone();
        spec.knobs.layers = layers;
        let programs = lowered(&spec)?;
        return made(spec, programs, few);
    }
    let mixes = spec.ranks > 1 && row(spec.placement).is_some_and(|row| row.mixes);
    if !mixes || spec.knobs.layouts() != Layouts::default() {
        let found = made(spec.clone(), lowered(spec)?, few)?;
        let Some(smaller) = found.with_cache_that_fits(request, lower)? else {
            return Ok(found);
        };
        let programs = lowered(&smaller)?;
        return made(smaller, programs, few);
    }
    let with = |layouts: &Layouts| {
        let knobs = spec.knobs.clone().with_layouts(layouts.clone());
        PlacementSpec { knobs, ..*spec }
    };
    let pure = lower.pure(spec.slices()).map_err(|e| e.to_string())?;
    let starts = mixture::starts(&pure, request.pin.features);
    // Programs of the model or of a shorter one; `None` if there are none.
    let programs = |lower: &dyn Lower, spec: &PlacementSpec| match lower.programs(spec) {
        Err(LowerError::Illegal(_)) => Ok(None),
        programs => programs.map(Some).map_err(|e| e.to_string()),
    };
    let estimate = |lower: &dyn Lower, layouts: &Layouts| {
        let spec = with(layouts);
        let Some(programs) = programs(lower, &spec)? else {
            return Ok(None);
        };
        let ready = made_by(lower, spec, programs, false)?;
        ready.estimate(request).map(Some)
    };
    let is_deep = mixture::has_many(pure.alike.len());
    let shorter = is_deep.then(|| lower.shorter(spec)).flatten();
    let on_shorter = shorter.map(|shorter| {
        let choose = Choose {
            slices: spec.slices(),
            features: request.pin.features,
            memory: request.cluster.device.memory,
            estimate: &estimate,
            cost: &|estimate| cost(request, estimate),
        };
        deep::best(&pure, &shorter, &choose)
    });
    let price = |layouts: &Layouts, beat: Option<&mixture::Cost>| {
        let spec = with(layouts);
        let Some(programs) = programs(lower, &spec)? else {
            return Ok(None);
        };
        let ready = made(spec, programs, beat.is_some())?;
        // The first number is whether it fits.
        let hopeless = |beat: &mixture::Cost| beat[0] == 0.0 && ready.least > beat[1];
        if beat.is_some_and(hopeless) {
            return Ok(None);
        }
        let estimate = ready.estimate_to_beat(request, beat)?;
        Ok(estimate.map(|estimate| cost(request, &estimate)))
    };
    let found = match on_shorter.transpose()?.flatten() {
        Some(found) => Some(found),
        None => mixture::best(&starts, &pure.alike, Changes::Singly, &price)?,
    };
    // If no mixture has a program, the first one reports why.
    let ended = found.as_ref().is_some_and(|found| found.ended);
    let layouts = found.map(|found| found.layouts);
    let layouts = layouts.or(starts.first().cloned()).unwrap_or_default();
    let spec = with(&layouts);
    let programs = lowered(&spec)?;
    Ok(Ready {
        same: mixture::same(&pure, &layouts),
        ended,
        ..made(spec, programs, few)?
    })
}

/// The parts of a candidate.
///
/// # Errors
/// Why it has none.
pub(super) fn divided(request: &PlanRequest, spec: &PlacementSpec) -> Result<Parts, String> {
    request.check_equal_bits(spec)?;
    request.check_copies(spec)?;
    let found = parts(request.workload, spec.parts(), spec.partitioner());
    let mut found = found.map_err(|e| e.to_string())?;
    if let Some(node_ranks) = spec.node_ranks() {
        found = found.on_nodes(request.workload, node_ranks);
    }
    if let Some(ranks) = spec.group_ranks() {
        let groups = found.in_groups(request.workload, ranks);
        found = groups.map_err(|e| e.to_string())?;
    }
    let batches = request.batches.iter().filter(|_| spec.samples());
    let asked = &spec.knobs.sampling;
    let batches = batches.filter(|batches| batches.settings.same_batches(asked));
    let mut batch = batches.map(|batches| batches.on(&found, request.workload));
    let mut batch = batch.next();
    if let Some(Ok(batch)) = &mut batch {
        batch.samplers = spec.samplers(request.cluster);
    }
    Ok(Parts {
        batch: batch.transpose().map_err(|e| e.to_string())?,
        ..found
    })
}

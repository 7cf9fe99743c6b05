//! How many ranks would have enough memory for a candidate that does not fit.

use super::offload::offload_somehow;
use super::{Lower, PlanRequest, Programs, divided};
use crate::parts::Parts;
use crate::placement::PlacementSpec;
use crate::simulate::{Room, host_memory, least_memory, peak_memory};
use gnnc_ir::program::Program;

/// Most ranks considered as a remedy for a lack of memory.
const MOST_RANKS: u32 = 4096;

/// How many times what the last doubling of the ranks saved further ones may be hoped to save.
const SAVINGS: u64 = 4;

/// Numbers of ranks of which each has enough memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MoreRanks {
    /// By itself.
    pub alone: Option<u32>,
    /// With that of its host; `None` if that helps no fewer ranks.
    pub with_host: Option<u32>,
}

/// The smallest powers of two times a candidate's ranks for which every rank has enough memory. A
/// mixture keeps its layouts.
///
/// Most of what a rank holds is a share of something, so each doubling saves about half of what the
/// one before saved, and all further ones together as much as the last. The search ends where
/// several times that is not enough.
pub(super) fn more_ranks(
    request: &PlanRequest,
    spec: &PlacementSpec,
    lower: &dyn Lower,
) -> MoreRanks {
    let mut found = MoreRanks::default();
    // Stages of one rank that do not fit are left to hybrids.
    if spec.stages().is_some() && spec.parts() == 1 {
        return found;
    }
    let has = request.cluster.device.memory;
    let doubled = std::iter::successors(spec.ranks.checked_mul(2), |ranks| ranks.checked_mul(2));
    let mut before: Option<u64> = None;
    for ranks in doubled.take_while(|ranks| *ranks <= MOST_RANKS) {
        let Some((programs, parts)) = divided_among(request, spec, ranks, lower) else {
            return found;
        };
        let cluster = request.cluster;
        let least = |program: &Program| least_memory(program, cluster, &parts);
        let needed = programs.iter().map(least).max().unwrap_or_default();
        let fits = |program: &Program| peak_memory(program, cluster, &parts) <= has;
        if needed <= has && programs.iter().all(fits) {
            found.alone = Some(ranks);
            return found;
        }
        if found.with_host.is_none() && rests(request, &programs, &parts) {
            found.with_host = Some(ranks);
        }
        let saved = before.map(|before| before.saturating_sub(needed.0));
        let missing = needed.0.saturating_sub(has.0);
        if saved.is_some_and(|saved| missing > SAVINGS.saturating_mul(saved)) {
            return found;
        }
        before = Some(needed.0);
    }
    found
}

/// The programs of a candidate on another number of ranks, and their data.
fn divided_among(
    request: &PlanRequest,
    spec: &PlacementSpec,
    ranks: u32,
    lower: &dyn Lower,
) -> Option<(Programs, Parts)> {
    let partitioner = if spec.ranks == 1 {
        request.partitioners.first().copied()?
    } else {
        spec.partitioner()
    };
    let mut spec = spec.clone();
    (spec.ranks, spec.knobs.partitioner) = (ranks, Some(partitioner));
    // Nodes need not divide this number of ranks.
    (spec.knobs.node_ranks, spec.knobs.cover) = (None, request.pin.knobs.cover);
    if spec.stages().is_none() && request.pin.knobs.interior != Some(true) {
        // What arrives and what is computed meanwhile are not in memory at once.
        (spec.knobs.overlap, spec.knobs.interior) = (Some(false), None);
    }
    let programs = lower.programs(&spec).ok()?;
    let parts = divided(request, &spec).ok()?.of(programs.first()?);
    Some((programs, parts))
}

/// Whether programs fit if tensors rest on the host.
fn rests(request: &PlanRequest, programs: &[Program], parts: &Parts) -> bool {
    let allowed = request.pin.knobs.offload != Some(false);
    let Some(host) = request.cluster.host.filter(|_| allowed) else {
        return false;
    };
    let device = Room::from(&request.cluster.device);
    offload_somehow(programs, parts, device)
        .is_some_and(|programs| host_memory(&programs, request.cluster, parts) <= host.memory)
}

//! Numbers of ranks between one, a node and all devices.
//!
//! A small graph may train fastest on some of the devices: on all of them, messages cost more than they save. So
//! the search also prices the best placements on powers of two in between, and then on three quarters and one and a
//! half times the best of these. It does so for statistics only: the parts of a graph at hand are counted, and only
//! for the numbers of ranks that all candidates have.

use super::{Lower, PlanRequest, Priced, Ready, least, measures, ready, threads};
use crate::placement::PlacementSpec;
use gnnc_ir::plan::Objective;
use gnnc_ir::words::mesh::Mesh;

/// How many placements are tried on other numbers of ranks.
const PLACEMENTS: usize = 3;

/// Most that an epoch on another number of ranks may take of the best one's. Its replication factor is a guess, so a
/// small gain means nothing.
const WORTHWHILE: f64 = 0.95;

/// The best candidate on another number of ranks, if it is clearly faster than all of `priced`, which are ordered.
pub(super) fn between<'a>(
    request: &PlanRequest<'a>,
    lower: &dyn Lower,
    priced: &[Priced<'a>],
) -> Option<Priced<'a>> {
    let timed = request.objective == Objective::Time;
    let counted = !request.workload.partitions.is_empty();
    if !timed || counted || request.pin.ranks.is_some() || request.pin.knobs.offload == Some(true) {
        return None;
    }
    let first = priced.first().filter(|p| p.allowed() && p.estimate.fits)?;
    let (all, node) = (request.cluster.devices(), request.cluster.devices_per_node);
    let mut bases: Vec<&Priced> = Vec::new();
    for one in priced.iter().filter(|p| p.allowed() && p.estimate.fits) {
        let other = |base: &&Priced| base.spec.placement != one.spec.placement;
        let alike = one.samples() == first.samples();
        if one.spec.ranks > 1 && alike && is_free(&one.spec) && bases.iter().all(other) {
            bases.push(one);
        }
    }
    bases.truncate(PLACEMENTS);
    let seconds = |priced: &Priced| measures(request, &priced.estimate)[0];
    let on = |base: &Priced, ranks: u32| -> Vec<Priced<'a>> {
        let mut spec = base.spec.clone();
        spec.ranks = ranks;
        spec.knobs.node_ranks = request.pinned_nodes(&spec);
        spec.knobs.cover = request.pin.knobs.cover;
        spec.knobs.wire = request.pin.knobs.wire;
        let mut all = Vec::new();
        for slices in meshes(&base.spec, ranks, node) {
            spec.knobs.slices = slices;
            if let Ok(flat) = ready(request, &spec, lower, &[]) {
                all.extend(flat.with_variants(request, lower));
            }
        }
        let priced = |found: Ready| {
            let bound = least(request, &found.programs, &found.parts).ok()?;
            if bound > WORTHWHILE * seconds(first) {
                return None;
            }
            let found = found.priced(request, lower).ok()?;
            found.estimate.fits.then_some(found)
        };
        all.into_iter().filter_map(priced).collect()
    };
    let mut best: Option<Priced<'a>> = None;
    for base in bases {
        let powers = std::iter::successors(Some(2u32), |ranks| ranks.checked_mul(2));
        let powers = powers.take_while(|ranks| *ranks < all);
        let tried = powers.filter(|ranks| *ranks != node.min(all));
        let mut own: Option<Priced<'a>> = None;
        let keep = |own: &mut Option<Priced<'a>>, found: Priced<'a>| {
            let better =
                |found: &Priced| own.as_ref().is_none_or(|own| seconds(found) < seconds(own));
            if better(&found) {
                *own = Some(found);
            }
        };
        let found = threads::each(tried.collect(), |ranks| on(base, ranks));
        for found in found.into_iter().flatten() {
            keep(&mut own, found);
        }
        let Some(ranks) = own.as_ref().map(|own| own.spec.ranks) else {
            continue;
        };
        // Whole nodes beyond the first one.
        let step = if ranks > node { node } else { 1 };
        for ranks in [ranks / 4 * 3, ranks / 2 * 3] {
            let ranks = ranks / step * step;
            if (2..all).contains(&ranks) && !ranks.is_power_of_two() {
                on(base, ranks)
                    .into_iter()
                    .for_each(|found| keep(&mut own, found));
            }
        }
        own.into_iter().for_each(|own| keep(&mut best, own));
    }
    best.filter(|best| seconds(best) <= WORTHWHILE * seconds(first))
}

/// The meshes to try on another number of ranks: none if the candidate has none, else groups of a node, and of as many ranks
/// as it has.
fn meshes(spec: &PlacementSpec, ranks: u32, of_node: u32) -> Vec<Option<Mesh>> {
    let Some(own) = spec.group_ranks() else {
        return vec![spec.knobs.slices];
    };
    let fits = |size: &u32| (2..ranks).contains(size) && ranks.is_multiple_of(*size);
    let sizes = std::iter::once(of_node).chain((own != of_node).then_some(own));
    let mesh = |slices| Mesh {
        slices,
        apart: false,
    };
    sizes.filter(fits).map(|size| Some(mesh(size))).collect()
}

/// Whether any number of ranks can have a candidate's knobs.
fn is_free(spec: &PlacementSpec) -> bool {
    let sampling = &spec.knobs.sampling;
    spec.stages().is_none()
        && sampling.merges.is_none()
        && (spec.knobs.slices.is_none() || spec.group_ranks().is_some())
        && sampling.cached().is_none()
}

//! Orders two candidates.

use super::{PlanRequest, Priced, mixture};
use crate::simulate::Estimate;
use gnnc_ir::plan::Objective;
use gnnc_ir::words::units::significant;
use std::cmp::Ordering;

/// The measures to compare, smaller is better: the objective, then the other two.
pub(super) fn measures(request: &PlanRequest, estimate: &Estimate) -> [f64; 3] {
    let time = significant(seconds(request, estimate));
    let memory = estimate.peak_memory_bytes.0 as f64;
    let bytes = estimate.epoch.bytes.0 as f64;
    match request.objective {
        Objective::Time | Objective::TimeToAccuracy => [time, memory, bytes],
        Objective::Memory => [memory, time, bytes],
        Objective::Bytes => [bytes, time, memory],
    }
}

/// Seconds of an epoch, with its share of an evaluation if that is to count. The time to an accuracy counts evaluations
/// by itself.
pub(super) fn seconds(request: &PlanRequest, estimate: &Estimate) -> f64 {
    let counts = request.objective != Objective::TimeToAccuracy;
    let every = request.evaluate_every.filter(|_| counts);
    let evaluations = every.map_or(0.0, |every| estimate.eval.seconds.0 / f64::from(every));
    estimate.epoch.seconds.0 + evaluations
}

/// The cost by which layouts are chosen. Ties for an epoch are broken by the evaluation.
pub(super) fn cost(request: &PlanRequest, estimate: &Estimate) -> mixture::Cost {
    let [first, second, third] = measures(request, estimate);
    let seconds = significant(estimate.eval.seconds.0);
    let rest = match request.objective {
        Objective::Time | Objective::TimeToAccuracy => [seconds, second, third],
        // Among those that need the same memory, the fastest.
        Objective::Memory => [second, seconds, third],
        Objective::Bytes => [estimate.eval.bytes.0 as f64, second, third],
    };
    [f64::from(!estimate.fits), first]
        .into_iter()
        .chain(rest)
        .collect()
}

/// Better candidates first: allowed and fitting, only fitting, the others; then those that train
/// on the whole graph before those that train on batches; then by the objective,
/// the other two measures, and the candidate itself, so that there are no ties.
pub(super) fn order(request: &PlanRequest, a: &Priced, b: &Priced) -> Ordering {
    let class = |p: &Priced| match (p.estimate.fits, p.allowed()) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => 2,
    };
    let [a_measures, b_measures] = [a, b].map(|p| measures(request, &p.estimate));
    let by_measure = (a_measures.iter().zip(&b_measures)).map(|(a, b)| a.total_cmp(b));
    // Epochs on batches and on the whole graph are not comparable: a run may need more or fewer.
    class(a)
        .cmp(&class(b))
        .then(a.samples().cmp(&b.samples()))
        .then(by_measure.fold(Ordering::Equal, Ordering::then))
        .then(a.spec.cmp(&b.spec))
}

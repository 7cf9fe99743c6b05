//! Orders two candidates.

use super::{PlanRequest, Priced, Ready, mixture};
use crate::simulate::{Estimate, Timed, simulate_unless};
use gnnc_ir::plan::Objective;
use gnnc_ir::words::units::significant;
use std::cmp::Ordering;

/// The measures to compare, smaller is better: the objective, then the other two.
pub(super) fn measures(request: &PlanRequest, estimate: &Estimate) -> [f64; 3] {
    let time = significant(seconds(request, estimate.timed()));
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
pub(super) fn seconds(request: &PlanRequest, timed: Timed) -> f64 {
    let counts = request.objective != Objective::TimeToAccuracy;
    let every = request.evaluate_every.filter(|_| counts);
    let evaluations = every.map_or(0.0, |every| timed.eval.0 / f64::from(every));
    timed.epoch.0 + evaluations
}

impl Ready {
    /// The estimate; `None` if it is too slow to beat another one.
    pub(super) fn estimate_to_beat(
        &self,
        request: &PlanRequest,
        beat: Option<&mixture::Cost>,
    ) -> Result<Option<Estimate>, String> {
        let ([program], Some(beat)) = (&self.programs[..], beat) else {
            return self.estimate(request).map(Some);
        };
        if program.pipeline.is_some() {
            return self.estimate(request).map(Some);
        }
        let hopeless = |timed| too_slow(request, timed, beat);
        let found = simulate_unless(program, request.cluster, &self.parts, &hopeless);
        found.map_err(|e| e.to_string())
    }
}

/// Whether layouts cost more than those that they are to beat, whatever memory they need.
fn too_slow(request: &PlanRequest, timed: Timed, beat: &mixture::Cost) -> bool {
    let [misfit, time, eval, ..] = &beat[..] else {
        return false;
    };
    let found = significant(seconds(request, timed));
    let slower = found > *time || found >= *time && significant(timed.eval.0) > *eval;
    request.objective == Objective::Time && *misfit == 0.0 && slower
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

//! The objective `time-to-accuracy`: how long candidates take to reach a score, as far as a pilot tells.
//!
//! A candidate needs the epochs that its class needed in the pilot, or as many as another seed is likely to need. Nothing is known of a class without runs, and of one
//! that did not reach the target only how many epochs were not enough: it can lose, not win. Candidates of one class
//! need equally many epochs, so the expected time of an epoch with its evaluations orders them. The best ones of
//! different classes are compared by ranges: those that overlap are tied, and of these the one with the smallest memory
//! comes first.

mod reason;

use super::{PlanRequest, Priced};
use crate::simulate::{Doubts, range};
use gnnc_ir::plan::{
    Goal, LeftOut, Needed, Range, Relaxation, Standing, StatisticalClass, TargetTime, ToTarget,
};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::words::units::{Seconds, significant};
use std::collections::BTreeMap;

/// Which candidates come first: those that are allowed and fit, those that only fit, the others.
fn group(priced: &Priced) -> u8 {
    match (priced.estimate.fits, priced.allowed()) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => 2,
    }
}

/// Orders candidates, and says of each what is known of its time to the target. The best candidate of each class comes
/// first, then all others by class.
pub(super) fn arrange(request: &PlanRequest, priced: &mut Vec<Priced>, doubts: &Doubts) {
    for one in priced.iter_mut() {
        one.to_target = Some(one.estimated(request, doubts));
    }
    priced.sort_by(|a, b| {
        (group(a).cmp(&group(b)))
            .then_with(|| a.spec.class().cmp(&b.spec.class()))
            .then_with(|| {
                a.seconds_of_epoch(request)
                    .total_cmp(&b.seconds_of_epoch(request))
            })
            .then_with(|| a.memory().cmp(&b.memory()))
            .then_with(|| a.spec.cmp(&b.spec))
    });
    // The first of each class among those that may be chosen.
    let mut best: BTreeMap<StatisticalClass, Contender> = BTreeMap::new();
    for one in priced.iter().filter(|one| group(one) == 0) {
        let class = one.spec.class();
        let exact = class.is_exact();
        best.entry(class).or_insert_with(|| Contender {
            time: one.to_target.as_ref().and_then(|known| known.seconds),
            memory: one.memory(),
            // Without numbers: the model as written first, then by step, batches last.
            unknown: (one.samples(), !exact, one.step_seconds()),
        });
    }
    let ranking = ranking(&best);
    let whole = priced
        .iter()
        .find(|one| group(one) == 0 && one.spec.class().is_exact());
    let whole = whole.map(Priced::step_seconds);
    let mut seen: Vec<StatisticalClass> = Vec::new();
    for one in priced.iter_mut() {
        let (class, own) = (one.spec.class(), one.step_seconds());
        let first = group(one) == 0 && !seen.contains(&class);
        let Some(known) = &mut one.to_target else {
            continue;
        };
        known.standing = ranking
            .iter()
            .find(|place| first && place.class == class)
            .map(|p| p.standing);
        if first {
            seen.push(class.clone());
        }
        let times = whole
            .filter(|_| own > 0.0 && !class.is_exact())
            .map(|whole| whole / own);
        known.break_even = times.map(significant);
    }
    let place = |one: &Priced| {
        let class = one.spec.class();
        let found = ranking.iter().position(|place| place.class == class);
        found.unwrap_or(usize::MAX)
    };
    // A stable sort: within a class, the order is the one from above.
    priced.sort_by_key(|one| {
        let others = one
            .to_target
            .as_ref()
            .is_none_or(|known| known.standing.is_none());
        (group(one), others, place(one))
    });
    reason::tell(request, priced);
}

/// The best candidate of a class, as far as it is compared with those of others.
struct Contender {
    time: Option<TargetTime>,
    memory: u64,
    /// What orders candidates without a time.
    unknown: (bool, bool, f64),
}

/// A class in its place.
struct Place {
    class: StatisticalClass,
    standing: Standing,
}

/// The classes, best first: those that reached the target, those that did not, those without a pilot.
fn ranking(best: &BTreeMap<StatisticalClass, Contender>) -> Vec<Place> {
    let mut places = Vec::new();
    let measured = |contender: &Contender| {
        let time = contender.time?;
        Some((time.low.0, time.high?.0))
    };
    let mut left: Vec<_> = (best.iter())
        .filter_map(|(class, one)| Some((class, one, measured(one)?)))
        .collect();
    // The end of the range that ends first; whatever begins later is slower.
    let mut fastest = None;
    while !left.is_empty() {
        let end = left
            .iter()
            .map(|(.., (_, high))| *high)
            .fold(f64::INFINITY, f64::min);
        let (mut tied, later): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|(.., (low, _))| *low <= end);
        left = later;
        tied.sort_by(|(a_class, a, (a_low, _)), (b_class, b, (b_low, _))| {
            (a.memory.cmp(&b.memory))
                .then(a_low.total_cmp(b_low))
                .then(a_class.cmp(b_class))
        });
        let standing = match (fastest, tied.len()) {
            (Some(_), _) => Standing::Slower,
            (None, 1) => Standing::Fastest,
            (None, _) => Standing::Tied,
        };
        fastest = fastest.or(Some(end));
        places.extend(tied.into_iter().map(|(class, ..)| Place {
            class: class.clone(),
            standing,
        }));
    }
    let bound = |contender: &Contender| contender.time.filter(|time| time.high.is_none());
    let mut bounded: Vec<_> = (best.iter())
        .filter_map(|(class, one)| Some((class, bound(one)?.low.0)))
        .collect();
    bounded.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(b.0)));
    places.extend(bounded.into_iter().map(|(class, low)| Place {
        class: class.clone(),
        standing: match fastest.is_some_and(|end| low > end) {
            true => Standing::Slower,
            false => Standing::Undecided,
        },
    }));
    let mut unknown: Vec<_> = best.iter().filter(|(_, one)| one.time.is_none()).collect();
    unknown.sort_by(|(a_class, a), (b_class, b)| {
        let [
            (a_batches, a_relaxed, a_step),
            (b_batches, b_relaxed, b_step),
        ] = [a, b].map(|one| one.unknown);
        ((a_batches, a_relaxed).cmp(&(b_batches, b_relaxed)))
            .then(a_step.total_cmp(&b_step))
            .then(a_class.cmp(b_class))
    });
    places.extend(unknown.into_iter().map(|(class, _)| Place {
        class: class.clone(),
        standing: Standing::Unknown,
    }));
    places
}

/// The time of so many epochs, and of an evaluation after every `every` of them and after the last.
fn time_of(epochs: u64, every: u32, epoch: f64, evaluation: f64) -> f64 {
    let evaluations = epochs.div_ceil(u64::from(every.max(1)));
    epochs as f64 * epoch + evaluations as f64 * evaluation
}

/// The time to the target, of epochs and evaluations that take so long.
fn target_time(needed: Needed, every: u32, epoch: Range, evaluation: Range) -> TargetTime {
    let low = |epochs| time_of(epochs, every, epoch.low.0, evaluation.low.0);
    let high = |epochs| time_of(epochs, every, epoch.high.0, evaluation.high.0);
    let rounded = |seconds| Seconds(significant(seconds));
    TargetTime {
        low: rounded(low(needed.fewest())),
        high: (needed.expected()).map(|epochs| rounded(high(epochs.high))),
    }
}

impl PlanRequest<'_> {
    /// What runs are to reach, if a pilot says.
    pub(super) fn goal(&self) -> Option<Goal> {
        let pilot = self.pilot?;
        let forbidden = pilot.classes.iter().filter_map(|piloted| {
            let needed = piloted.class.relaxations().into_iter();
            let mut missing = needed
                .map(Relaxation::permission)
                .filter(|p| !self.allow.contains(p));
            let name = missing.next()?.name();
            Some(LeftOut {
                what: piloted.class.to_string(),
                reason: format!("the pilot tried it, but it needs --allow {name} here"),
            })
        });
        Some(Goal {
            metric: pilot.metric,
            target: pilot.target,
            evaluate_every: pilot.evaluate_every,
            epochs: pilot.epochs,
            seeds: pilot.seeds.clone(),
            // What the model says itself is not known here.
            name_metric: None,
            name_epochs: None,
            left_out: forbidden.chain(pilot.left_out.iter().cloned()).collect(),
        })
    }
}

impl Priced<'_> {
    /// Whether it may be the choice: not one that did not reach the target in a pilot.
    pub(super) fn may_win(&self, request: &PlanRequest) -> bool {
        let known = self.to_target.as_ref().filter(|_| request.pilot.is_some());
        known.is_none_or(|known| matches!(known.needed, Some(Needed::Measured { .. })))
    }

    fn memory(&self) -> u64 {
        self.estimate.peak_memory_bytes.0
    }

    /// Optimizer steps of an epoch.
    fn steps(&self) -> u64 {
        let batch = self.parts.batch.as_ref().filter(|_| self.samples());
        batch.map_or(1, |batch| batch.count().max(1))
    }

    fn step_seconds(&self) -> f64 {
        self.estimate.epoch.seconds.0 / self.steps() as f64
    }

    /// An epoch with its share of an evaluation.
    fn seconds_of_epoch(&self, request: &PlanRequest) -> f64 {
        let every = request.pilot.map_or(1, |pilot| pilot.evaluate_every.max(1));
        let seconds =
            self.estimate.epoch.seconds.0 + self.estimate.eval.seconds.0 / f64::from(every);
        significant(seconds)
    }

    fn estimated(&self, request: &PlanRequest, doubts: &Doubts) -> ToTarget {
        let class = self.spec.class();
        let needed = request.pilot.and_then(|pilot| pilot.needed(&class));
        let every = request.pilot.map_or(1, |pilot| pilot.evaluate_every);
        let drawn = |phase, predicted| range(predicted, &self.drawn(doubts, phase));
        let seconds = needed.map(|needed| {
            let epoch = drawn(Phase::Step, self.estimate.epoch.seconds);
            let evaluation = drawn(Phase::Eval, self.estimate.eval.seconds);
            target_time(needed, every, epoch, evaluation)
        });
        ToTarget {
            class,
            steps_per_epoch: self.steps(),
            step_seconds: Seconds(significant(self.step_seconds())),
            needed,
            seconds,
            standing: None,
            break_even: None,
        }
    }
}

#[cfg(test)]
mod tests;

//! The reasons of a plan for the time to an accuracy.

use super::{Priced, group};
use crate::search::PlanRequest;
use gnnc_ir::plan::{Needed, Pilot, Standing, ToTarget, candidate_name};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::words::units::{Bytes, Seconds, significant};

/// Gives each candidate that fits its reason. They are in their final order.
pub(super) fn tell(request: &PlanRequest, priced: &mut [Priced]) {
    let told: Vec<Option<String>> = (0..priced.len())
        .map(|n| told(request, priced, n))
        .collect();
    for (one, told) in priced.iter_mut().zip(told) {
        one.told = told;
    }
}

fn told(request: &PlanRequest, all: &[Priced], n: usize) -> Option<String> {
    let one = all.get(n).filter(|one| one.estimate.fits)?;
    let known = one.to_target.as_ref()?;
    if !one.allowed() {
        let needed = one.spec.relaxations();
        let needed: Vec<_> = needed.iter().map(|r| r.permission().name()).collect();
        let would = known
            .seconds
            .map(|time| format!("; it would take {}", time));
        let needs = needed.join(",");
        return Some(format!(
            "needs --allow {needs}{}",
            would.unwrap_or_default()
        ));
    }
    let Some(standing) = known.standing else {
        let same = |other: &&Priced| other.spec.class() == known.class && group(other) == 0;
        let first = all.iter().find(same)?;
        return Some(behind(request, one, known, first));
    };
    Some(match request.pilot {
        Some(pilot) => with_pilot(pilot, one, (known, standing), all),
        None => without_pilot(known),
    })
}

/// Another candidate of the class of a better one.
fn behind(request: &PlanRequest, one: &Priced, known: &ToTarget, first: &Priced) -> String {
    let seconds = |one: &Priced| one.seconds_of_epoch(request).max(f64::MIN_POSITIVE);
    let times = seconds(one) / seconds(first);
    let name = first.name();
    let length = match significant(times) {
        equal if equal <= 1.0 => "each as long".to_owned(),
        _ => format!("each {times:.2} times as long"),
    };
    let takes = known.seconds.map(|time| format!(": {}", time));
    format!(
        "as many epochs as {name}, {length}{}",
        takes.unwrap_or_default()
    )
}

fn with_pilot(
    pilot: &Pilot,
    one: &Priced,
    (known, standing): (&ToTarget, Standing),
    all: &[Priced],
) -> String {
    let goal = format!(
        "{} {}",
        pilot.metric.name(),
        pilot.metric.written(pilot.target)
    );
    let (Some(needed), Some(time)) = (known.needed, known.seconds) else {
        return format!(
            "the pilot did not try this class ({}), so nothing is known of its time to {goal}",
            known.class
        );
    };
    let rate = match needed {
        Needed::Measured { learning_rate, .. } => learning_rate,
        Needed::MoreThan { epochs } => {
            let ran = counted(epochs, "epoch");
            let takes = Seconds(time.low.0);
            return match standing {
                Standing::Slower => format!(
                    "slower than the first: {ran} of the pilot did not reach {goal}, and take {takes} or more"
                ),
                Standing::Fastest | Standing::Tied | Standing::Undecided | Standing::Unknown => {
                    format!(
                        "cannot be chosen: {ran} of the pilot did not reach {goal}, and take {takes} or more; whether it is \
                     faster than others, only a longer pilot tells"
                    )
                }
            };
        }
    };
    let epoch = one.estimate.epoch.seconds;
    let takes = format!(
        "{time} to {goal}, by {} of {epoch} and their evaluations, with learning rate {rate}",
        needed.expected_text()
    );
    match standing {
        Standing::Fastest => format!("fastest: {takes}; {}", one.mostly(None)),
        Standing::Tied => {
            let tied = all.iter().filter(|other| {
                let known = other.to_target.as_ref();
                known.is_some_and(|known| known.standing == Some(Standing::Tied))
            });
            let first = all.first().is_some_and(|first| std::ptr::eq(first, one));
            match first {
                true => {
                    let others = tied.filter(|other| !std::ptr::eq(*other, one));
                    let named =
                        |other: &Priced| format!("{} ({})", other.name(), other.spec.class());
                    let others: Vec<String> = others.map(named).collect();
                    format!(
                        "tied with {}, as their ranges overlap, and needs the least memory: {takes}",
                        others.join(", ")
                    )
                }
                false => {
                    let least = all.first().map_or(0, Priced::memory);
                    let more = Bytes(one.memory().saturating_sub(least));
                    format!(
                        "tied with the first, as their ranges overlap, with {more} more memory: {takes}"
                    )
                }
            }
        }
        Standing::Slower | Standing::Undecided | Standing::Unknown => {
            format!("slower than the first: {takes}")
        }
    }
}

/// What arithmetic tells without a pilot.
fn without_pilot(known: &ToTarget) -> String {
    let told = known.break_even();
    match known.class.is_exact() {
        true => format!("without a pilot, nothing is known of the steps that a run needs; {told}"),
        false => told,
    }
}

impl Priced<'_> {
    fn name(&self) -> String {
        candidate_name(self.spec.placement, &self.spec.parameters(None))
    }
}

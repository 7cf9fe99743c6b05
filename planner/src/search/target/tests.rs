//! Estimates and the order of classes, from synthetic curves.

use super::*;
use gnnc_ir::plan::{
    Curve, End, MadeFor, Method, PILOT_VERSION, Pilot, PilotRun, Piloted, SampledClass,
};
use gnnc_ir::words::metric::Metric;
use gnnc_ir::words::sampling::{Fanout, SamplingSettings};
use gnnc_ir::words::schedule::Schedule;

const TARGET: f64 = 0.9;

/// A run whose scores rise by equal steps and reach the target after so many epochs, or are stopped before.
fn run(learning_rate: f64, seed: u64, reaches_after: u64, stopped_after: u64) -> PilotRun {
    let epochs = reaches_after.min(stopped_after);
    let score = |epoch: u64| TARGET * epoch as f64 / reaches_after as f64;
    PilotRun {
        learning_rate,
        seed,
        end: match reaches_after <= stopped_after {
            true => End::Reached,
            false => End::Time,
        },
        epochs,
        steps: epochs,
        seconds: Seconds(1.0),
        evaluation_seconds: Seconds(1.0),
        curve: Curve {
            steps: (1..=epochs).collect(),
            scores: (1..=epochs).map(score).collect(),
        },
    }
}

fn batches(batch: u32) -> StatisticalClass {
    let settings = SamplingSettings {
        batch: Some(batch),
        fanouts: vec![Fanout::Each(10)],
        ..SamplingSettings::default()
    };
    StatisticalClass {
        method: Method::Sampled(SampledClass::of(&settings, None).unwrap()),
        ..StatisticalClass::EXACT
    }
}

fn decoupled() -> StatisticalClass {
    StatisticalClass {
        method: Method::Decoupled,
        ..StatisticalClass::EXACT
    }
}

fn pilot(classes: Vec<(StatisticalClass, Vec<PilotRun>)>) -> Pilot {
    let piloted = |(class, runs): (StatisticalClass, Vec<PilotRun>)| Piloted {
        name: class.to_string(),
        steps_per_epoch: 1,
        class,
        runs,
    };
    Pilot {
        version: PILOT_VERSION,
        metric: Metric::Accuracy,
        target: TARGET,
        seeds: vec![0, 1, 2],
        learning_rates: vec![0.01, 0.03],
        epochs: 1000,
        evaluate_every: 1,
        budget_seconds: Seconds(60.0),
        used_seconds: Seconds(60.0),
        interrupted: false,
        made_for: MadeFor {
            gnnc: "0".to_owned(),
            model: "m".to_owned(),
            fingerprint: "0".to_owned(),
            graph: "g".to_owned(),
            graph_key: "0".to_owned(),
            judged_by: None,
            schedule: Schedule::Constant,
            patience: None,
        },
        classes: classes.into_iter().map(piloted).collect(),
        left_out: Vec::new(),
    }
}

/// Runs of three seeds at two rates, of which the second is the better one.
fn three(seeds: [u64; 3], stopped_after: u64) -> Vec<PilotRun> {
    let at = |rate: f64, times: u64| {
        let seeds = (0..).zip(seeds);
        seeds.map(move |(seed, epochs)| run(rate, seed, times * epochs, stopped_after))
    };
    at(0.01, 3).chain(at(0.03, 1)).collect()
}

/// Bounds that are off by a factor of two.
fn around(seconds: f64) -> Range {
    Range {
        low: Seconds(seconds / 2.0),
        high: Seconds(seconds * 2.0),
    }
}

fn time(
    pilot: &Pilot,
    class: &StatisticalClass,
    epoch: f64,
    evaluation: f64,
) -> Option<TargetTime> {
    let needed = pilot.needed(class)?;
    let every = pilot.evaluate_every;
    Some(target_time(
        needed,
        every,
        around(epoch),
        around(evaluation),
    ))
}

fn seconds(low: f64, high: Option<f64>) -> Option<TargetTime> {
    let rounded = |seconds| Seconds(significant(seconds));
    Some(TargetTime {
        low: rounded(low),
        high: high.map(rounded),
    })
}

#[test]
fn a_time_goes_from_likely_epochs_of_good_luck_to_those_of_bad_luck() {
    let whole = StatisticalClass::EXACT;
    let mut pilot = pilot(vec![(whole.clone(), three([40, 60, 50], 200))]);
    let rate = match pilot.needed(&whole) {
        Some(Needed::Measured { learning_rate, .. }) => learning_rate,
        other => panic!("{other:?}"),
    };
    assert_eq!(rate, 0.03);
    // Seeds with 40 to 60 epochs let expect 24 to 98 of another one: 24 epochs and evaluations at half their time, 98 at
    // twice of it.
    let expected = seconds(24.0 * 0.05 + 24.0 * 0.005, Some(98.0 * 0.2 + 98.0 * 0.02));
    assert_eq!(time(&pilot, &whole, 0.1, 0.01), expected);
    // Every eighth epoch is evaluated, and the last one; seeds then tell less.
    pilot.evaluate_every = 8;
    let expected = seconds(24.0 * 0.05 + 3.0 * 0.005, Some(104.0 * 0.2 + 13.0 * 0.02));
    assert_eq!(time(&pilot, &whole, 0.1, 0.01), expected);
    // One seed tells nothing of others, so its own epochs are all there is.
    (pilot.evaluate_every, pilot.seeds) = (1, vec![0]);
    let expected = seconds(40.0 * 0.05 + 40.0 * 0.005, Some(40.0 * 0.2 + 40.0 * 0.02));
    assert_eq!(time(&pilot, &whole, 0.1, 0.01), expected);
}

#[test]
fn a_class_that_did_not_reach_the_target_has_a_lower_bound_and_others_have_nothing() {
    let whole = StatisticalClass::EXACT;
    let pilot = pilot(vec![
        (whole.clone(), three([40, 60, 50], 200)),
        // One seed is stopped at both rates, shortly before it would have reached it.
        (decoupled(), three([40, 101, 50], 100)),
    ]);
    assert_eq!(
        time(&pilot, &decoupled(), 0.1, 0.0),
        seconds(100.0 * 0.05, None)
    );
    assert_eq!(time(&pilot, &batches(8), 0.1, 0.0), None);
}

/// Ranks classes with these times and this memory; the first number of the key orders those without a time.
fn ranked(all: &[(StatisticalClass, Option<TargetTime>, u64)]) -> Vec<(String, Standing)> {
    let best = all.iter().map(|(class, time, memory)| {
        let contender = Contender {
            time: *time,
            memory: *memory,
            unknown: (class.sampled().is_some(), !class.is_exact(), *memory as f64),
        };
        (class.clone(), contender)
    });
    let places = ranking(&best.collect());
    let named = places
        .into_iter()
        .map(|place| (place.class.to_string(), place.standing));
    named.collect()
}

const WHOLE: &str = "whole graph";
const OF_8: &str = "batches of 8, fanouts 10";
const OF_9: &str = "batches of 9, fanouts 10";

fn expect(found: Vec<(String, Standing)>, expected: &[(&str, Standing)]) {
    let expected = expected
        .iter()
        .map(|(name, standing)| ((*name).to_owned(), *standing));
    assert_eq!(found, expected.collect::<Vec<_>>());
}

#[test]
fn ranges_that_overlap_are_tied_and_the_smaller_in_memory_comes_first() {
    let [a, b, c] = [StatisticalClass::EXACT, batches(8), batches(9)];
    let apart = [
        (a.clone(), seconds(3.0, Some(4.0)), 1),
        (b.clone(), seconds(1.0, Some(2.0)), 3),
        (c.clone(), seconds(5.0, Some(6.0)), 2),
    ];
    expect(
        ranked(&apart),
        &[
            (OF_8, Standing::Fastest),
            (WHOLE, Standing::Slower),
            (OF_9, Standing::Slower),
        ],
    );
    // The ends of two ranges touch. The third overlaps with one of them, but begins after the other has ended.
    let overlapping = [
        (a, seconds(2.0, Some(5.0)), 1),
        (b, seconds(1.0, Some(2.0)), 3),
        (c, seconds(4.0, Some(6.0)), 0),
    ];
    expect(
        ranked(&overlapping),
        &[
            (WHOLE, Standing::Tied),
            (OF_8, Standing::Tied),
            (OF_9, Standing::Slower),
        ],
    );
}

#[test]
fn a_lower_bound_can_lose_and_never_wins() {
    let [a, b, c] = [StatisticalClass::EXACT, batches(8), batches(9)];
    let mixed = [
        (a.clone(), seconds(3.0, Some(4.0)), 2),
        // Both have less memory, and one may well be faster.
        (b.clone(), seconds(0.5, None), 1),
        (c.clone(), seconds(4.5, None), 1),
    ];
    expect(
        ranked(&mixed),
        &[
            (WHOLE, Standing::Fastest),
            (OF_8, Standing::Undecided),
            (OF_9, Standing::Slower),
        ],
    );
    // Nothing reached the target, so nothing is slower than something that did.
    let none = [(b, seconds(2.0, None), 1), (c, seconds(1.0, None), 2)];
    let bounds = [(OF_9, Standing::Undecided), (OF_8, Standing::Undecided)];
    expect(ranked(&none), &bounds);
    let with_untried = [none[0].clone(), (a, None, 0)];
    expect(
        ranked(&with_untried),
        &[(OF_8, Standing::Undecided), (WHOLE, Standing::Unknown)],
    );
}

#[test]
fn without_numbers_the_model_as_written_comes_first_and_batches_last() {
    let all = [
        (batches(9), None, 1),
        (decoupled(), None, 2),
        (StatisticalClass::EXACT, None, 9),
        (batches(8), None, 3),
    ];
    let unknown = [WHOLE, "decoupled", OF_9, OF_8].map(|name| (name, Standing::Unknown));
    expect(ranked(&all), &unknown);
}

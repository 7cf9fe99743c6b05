//! Pilots: runs of a model that tell how many epochs each statistical class needs to reach a score.
//!
//! The file is a public interface. Fields are added, never renamed; [`PILOT_VERSION`] counts all other changes.

mod check;
mod likely;

pub use check::PilotError;
pub use likely::EpochRange;

use super::StatisticalClass;
use crate::words::metric::Metric;
use crate::words::schedule::Schedule;
use crate::words::spelling::counted;
use crate::words::units::Seconds;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The version of pilot files that this library reads and writes.
pub const PILOT_VERSION: u64 = 1;

/// What runs of a model on a graph, on one worker, tell about its statistical classes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pilot {
    /// [`PILOT_VERSION`].
    pub version: u64,
    /// What the scores are.
    pub metric: Metric,
    /// The score of the validation vertices to reach.
    pub target: f64,
    /// Seeds of the runs.
    pub seeds: Vec<u64>,
    /// Learning rates, in the order in which they were tried.
    pub learning_rates: Vec<f64>,
    /// Most epochs of a run.
    pub epochs: u32,
    /// Epochs between evaluations.
    pub evaluate_every: u32,
    /// The time that there was for all runs.
    pub budget_seconds: Seconds,
    /// The time that they took, with what is done before the first epoch.
    pub used_seconds: Seconds,
    /// Whether it was stopped before it was done.
    #[serde(default, skip_serializing_if = "is_false")]
    pub interrupted: bool,
    /// What it holds for.
    pub made_for: MadeFor,
    /// The classes that were tried.
    #[serde(default)]
    pub classes: Vec<Piloted>,
    /// What was permitted and could not be tried.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
}

/// What a pilot holds for; it says nothing about anything else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MadeFor {
    /// Version of gnnc.
    pub gnnc: String,
    /// Name of the model.
    pub model: String,
    /// [`crate::graph::model::Model::fingerprint`] in hexadecimal.
    pub fingerprint: String,
    /// Name of the graph.
    pub graph: String,
    /// A hash of the graph's edges, features, labels and split, in hexadecimal.
    pub graph_key: String,
    /// The metric that chooses the best epoch; `None` if the loss does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_by: Option<Metric>,
    /// How the learning rate changes.
    pub schedule: Schedule,
    /// Epochs without a better evaluation that end a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience: Option<u32>,
}

/// The runs of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Piloted {
    /// The class in words, for readers of the file.
    pub name: String,
    /// Optimizer steps of an epoch.
    pub steps_per_epoch: u64,
    /// The class.
    pub class: StatisticalClass,
    /// One run for each learning rate and seed that got a turn.
    #[serde(default)]
    pub runs: Vec<PilotRun>,
}

/// A run of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PilotRun {
    /// The learning rate at its full height.
    pub learning_rate: f64,
    /// The seed of all draws.
    pub seed: u64,
    /// Why it ended.
    pub end: End,
    /// Epochs done.
    pub epochs: u64,
    /// Optimizer steps done.
    pub steps: u64,
    /// Wall time of the epochs.
    pub seconds: Seconds,
    /// Wall time of the evaluations.
    pub evaluation_seconds: Seconds,
    /// The scores of the validation vertices.
    pub curve: Curve,
}

/// Scores by step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Optimizer steps before each evaluation, ascending.
    pub steps: Vec<u64>,
    /// The score of each evaluation.
    pub scores: Vec<f64>,
}

/// Why a run of a pilot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// It reached the target.
    Reached,
    /// Its share of the time was over.
    Time,
    /// It has done all epochs.
    Epochs,
    /// The model's patience was over.
    Patience,
    /// Its loss was no number any more.
    Diverged,
    /// It has done as many epochs as all seeds need at a better learning rate.
    Slower,
    /// The pilot was interrupted.
    Interrupted,
}

/// Something that was permitted and that one worker cannot try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// What it is.
    pub what: String,
    /// Why it was not tried.
    pub reason: String,
}

/// How many epochs a class needs to reach the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "known", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Needed {
    /// Every seed reached it.
    Measured {
        /// The learning rate at which the slowest seed needs the fewest epochs.
        learning_rate: f64,
        /// Epochs of the fastest seed at that rate.
        fastest: u64,
        /// Epochs of the slowest one.
        slowest: u64,
        /// Epochs that another seed is likely to need at that rate; `None` if there is only one seed, and in plans of
        /// earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        likely: Option<EpochRange>,
    },
    /// At no learning rate did every seed reach it.
    MoreThan {
        /// Epochs in which the seeds did not, at the rate with the fewest such epochs.
        epochs: u64,
    },
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Such as `98 to 103 epochs`, or `more than 98 epochs`.
impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Measured {
                fastest: low,
                slowest: high,
                ..
            } => write!(f, "{}", EpochRange { low, high }),
            Self::MoreThan { epochs } => write!(f, "more than {}", counted(epochs, "epoch")),
        }
    }
}

impl Pilot {
    /// What was tried of a class.
    pub fn of(&self, class: &StatisticalClass) -> Option<&Piloted> {
        self.classes.iter().find(|piloted| piloted.class == *class)
    }

    /// How many epochs a class needs; `None` if no run of it did an epoch.
    pub fn needed(&self, class: &StatisticalClass) -> Option<Needed> {
        self.of(class)?.needed(&self.seeds, self.evaluate_every)
    }
}

impl Needed {
    /// The epochs that a run is expected to need; `None` of a class that did not reach the target.
    pub fn expected(self) -> Option<EpochRange> {
        match self {
            Self::Measured {
                fastest: low,
                slowest: high,
                likely,
                ..
            } => Some(likely.unwrap_or(EpochRange { low, high })),
            Self::MoreThan { .. } => None,
        }
    }

    /// The fewest epochs that a run is expected to need.
    pub fn fewest(self) -> u64 {
        match self {
            Self::Measured {
                fastest, likely, ..
            } => likely.map_or(fastest, |epochs| epochs.low),
            Self::MoreThan { epochs } => epochs,
        }
    }

    /// What it is expected to need in words: `24 to 98 epochs`, or `more than 200 epochs`.
    pub fn expected_text(self) -> String {
        match self.expected() {
            Some(epochs) => epochs.to_string(),
            None => self.to_string(),
        }
    }
}

impl Piloted {
    /// How many epochs the class needs for all these seeds, when every so many epochs were evaluated.
    ///
    /// A learning rate counts as measured if every seed reached the target at it. Otherwise all seeds together need more
    /// epochs than any of them did in vain. Nothing is taken from the shape of a curve. A rate at which the loss was no
    /// number any more leads nowhere, unless that happened at all of them.
    pub fn needed(&self, seeds: &[u64], every: u32) -> Option<Needed> {
        let rates = self.by_rate();
        let measured = rates.iter().filter_map(|(rate, runs)| {
            let epochs: Vec<u64> = epochs_of_all(seeds, runs)?;
            Some(Needed::Measured {
                learning_rate: *rate,
                fastest: epochs.iter().copied().min()?,
                slowest: epochs.iter().copied().max()?,
                likely: EpochRange::of_another_seed(&epochs, every),
            })
        });
        // The first of equal ones, so the rate that is closest to the model's.
        let best = measured.min_by_key(|needed| match needed {
            Needed::Measured {
                fastest, slowest, ..
            } => (*slowest, *fastest),
            Needed::MoreThan { epochs } => (*epochs, *epochs),
        });
        if best.is_some() {
            return best;
        }
        let in_vain = |runs: &[&PilotRun]| {
            let vain = runs.iter().filter(|run| run.end != End::Reached);
            vain.map(|run| run.epochs).max().filter(|most| *most > 0)
        };
        let diverged = |runs: &[&PilotRun]| runs.iter().any(|run| run.end == End::Diverged);
        let going = rates.iter().filter(|(_, runs)| !diverged(runs));
        let least = going.filter_map(|(_, runs)| in_vain(runs)).min();
        let anywhere = || rates.iter().filter_map(|(_, runs)| in_vain(runs)).max();
        let epochs = least.or_else(anywhere)?;
        Some(Needed::MoreThan { epochs })
    }

    /// The runs at each learning rate, in the order of the first run of each.
    pub fn by_rate(&self) -> Vec<(f64, Vec<&PilotRun>)> {
        let mut order: Vec<f64> = Vec::new();
        let mut runs: BTreeMap<u64, Vec<&PilotRun>> = BTreeMap::new();
        for run in &self.runs {
            let of_rate = runs.entry(run.learning_rate.to_bits()).or_default();
            if of_rate.is_empty() {
                order.push(run.learning_rate);
            }
            of_rate.push(run);
        }
        let of = |rate: f64| (rate, runs.remove(&rate.to_bits()).unwrap_or_default());
        order.into_iter().map(of).collect()
    }
}

/// The epochs in which each of the seeds reached the target; `None` if one did not.
fn epochs_of_all(seeds: &[u64], runs: &[&PilotRun]) -> Option<Vec<u64>> {
    let reached = |seed: &u64| {
        let mut own = runs.iter().filter(|run| run.seed == *seed);
        let run = own.next().filter(|run| run.end == End::Reached)?;
        Some(run.epochs)
    };
    seeds.iter().map(reached).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run that ended after so many epochs of one step.
    fn run(learning_rate: f64, seed: u64, end: End, epochs: u64) -> PilotRun {
        PilotRun {
            learning_rate,
            seed,
            end,
            epochs,
            steps: epochs,
            seconds: Seconds(0.5),
            evaluation_seconds: Seconds(0.25),
            curve: Curve::default(),
        }
    }

    fn piloted(runs: Vec<PilotRun>) -> Piloted {
        Piloted {
            name: "whole graph".to_owned(),
            steps_per_epoch: 1,
            class: StatisticalClass::EXACT,
            runs,
        }
    }

    fn needed(runs: &[(f64, u64, End, u64)]) -> Option<Needed> {
        let all = runs
            .iter()
            .map(|(rate, seed, end, epochs)| run(*rate, *seed, *end, *epochs));
        piloted(all.collect()).needed(&[0, 1], 1)
    }

    #[test]
    fn the_rate_with_the_fastest_worst_seed_counts() {
        use End::{Reached, Slower};
        let found = needed(&[
            (0.01, 0, Reached, 40),
            (0.01, 1, Reached, 60),
            (0.03, 0, Reached, 10),
            (0.03, 1, Reached, 70),
            (0.003, 0, Slower, 60),
            (0.003, 1, Slower, 60),
        ]);
        let expected = Needed::Measured {
            learning_rate: 0.01,
            fastest: 40,
            slowest: 60,
            likely: EpochRange::of_another_seed(&[40, 60], 1),
        };
        assert_eq!(found, Some(expected));
        // Of two rates with the same worst seed, the one with the better other seed; of equal ones, the first.
        let both = |fastest: u64| {
            needed(&[
                (0.01, 0, Reached, 40),
                (0.01, 1, Reached, 60),
                (0.03, 0, Reached, fastest),
                (0.03, 1, Reached, 60),
            ])
        };
        let rate = |found: Option<Needed>| match found {
            Some(Needed::Measured { learning_rate, .. }) => learning_rate,
            other => panic!("{other:?}"),
        };
        assert_eq!([39, 40, 41].map(|n| rate(both(n))), [0.03, 0.01, 0.01]);
    }

    #[test]
    fn a_seed_that_did_not_reach_leaves_a_lower_bound() {
        use End::{Diverged, Interrupted, Patience, Reached, Time};
        let more = |epochs| Some(Needed::MoreThan { epochs });
        // The slowest seed needs more than 50, the fastest need not.
        let one = [(0.01, 0, Reached, 10), (0.01, 1, Time, 50)];
        assert_eq!(needed(&one), more(50));
        // Another rate may be the better one.
        let two = [one[0], one[1], (0.03, 0, Patience, 30), (0.03, 1, Time, 20)];
        assert_eq!(needed(&two), more(30));
        // A rate at which a loss is no number is no way to the target.
        let diverged = [one[0], one[1], (0.09, 0, Diverged, 2), (0.09, 1, Time, 4)];
        assert_eq!(needed(&diverged), more(50));
        let all = [(0.01, 0, Diverged, 3), (0.03, 0, Diverged, 2)];
        assert_eq!(needed(&all), more(3));
        // A seed without a run is no seed that reached.
        assert_eq!(needed(&[one[0], (0.03, 0, Interrupted, 7)]), more(7));
        assert_eq!(needed(&[one[0]]), None);
        assert_eq!(needed(&[(0.01, 0, Time, 0)]), None);
        assert_eq!(needed(&[]), None);
    }

    /// Scores that rise towards the target, and would reach it soon, count for nothing.
    #[test]
    fn nothing_is_taken_from_the_shape_of_a_curve() {
        let with = |scores: &[f64]| {
            let mut one = run(0.01, 0, End::Time, 3);
            one.curve = Curve {
                steps: vec![1, 2, 3],
                scores: scores.to_vec(),
            };
            piloted(vec![one]).needed(&[0], 1)
        };
        assert_eq!(with(&[0.1, 0.2, 0.1]), with(&[0.1, 0.5, 0.8999]));
    }
}

//! What a plan for the time to an accuracy says.

use super::{LeftOut, Needed, StatisticalClass};
use crate::words::metric::Metric;
use crate::words::units::Seconds;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What runs of a plan are to reach, and the pilot that it goes by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Goal {
    /// What the score is.
    pub metric: Metric,
    /// The score of the validation vertices.
    pub target: f64,
    /// Epochs between evaluations.
    pub evaluate_every: u32,
    /// Most epochs that a run of the pilot could do.
    pub epochs: u32,
    /// Seeds of the pilot.
    pub seeds: Vec<u64>,
    /// The metric that runs must be told to be judged by, if the model does not name it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_metric: Option<Metric>,
    /// The number of epochs that runs must be told, if the model's is smaller than the pilot's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_epochs: Option<u32>,
    /// Classes that the pilot knows nothing about, or knows and the plan does not permit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// What is known of a candidate's time to the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToTarget {
    /// What decides how many steps it needs.
    pub class: StatisticalClass,
    /// Optimizer steps of an epoch.
    pub steps_per_epoch: u64,
    /// Time of a step.
    pub step_seconds: Seconds,
    /// How many epochs it needs; `None` if no pilot tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<Needed>,
    /// Its time to the target; `None` if no pilot tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<TargetTime>,
    /// How it compares, if it is the best candidate of its class that is allowed and fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<Standing>,
    /// Times the steps that the whole graph needs, below which it is faster than the best candidate on the whole graph;
    /// `None` for candidates of that class, and if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_even: Option<f64>,
}

/// Epochs and evaluations up to the target, without what is done before the first epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetTime {
    /// The fewest epochs of another seed, if everything goes well; or the epochs that were not enough.
    pub low: Seconds,
    /// The most epochs of another seed, if everything goes badly; `None` if some seed did not reach the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<Seconds>,
}

impl Goal {
    /// Such as `accuracy 93.00 %`.
    pub fn score(&self) -> String {
        format!(
            "{} {}",
            self.metric.name(),
            self.metric.written(self.target)
        )
    }

    /// The options of a run that goes for it at a learning rate.
    pub fn options(&self, learning_rate: f64) -> String {
        let mut options = format!("--lr {learning_rate} --target {}", self.target);
        if self.evaluate_every != 1 {
            options += &format!(" --evaluate-every {}", self.evaluate_every);
        }
        if let Some(metric) = self.name_metric {
            options += &format!(" --metric {}", metric.key());
        }
        if let Some(epochs) = self.name_epochs {
            options += &format!(" --epochs {epochs}");
        }
        options
    }
}

impl ToTarget {
    /// What arithmetic tells without a pilot, beside the best candidate on the whole graph.
    pub fn break_even(&self) -> String {
        let (step, exact) = (self.step_seconds, self.class.is_exact());
        let times = match self.break_even {
            Some(times) => times,
            None if exact => return format!("a full-graph step takes {step}"),
            None => {
                return format!(
                    "a step takes {step}, and no candidate on the whole graph fits and is allowed"
                );
            }
        };
        let whole = Seconds(step.0 * times);
        let (what, win, proposed) = match self.class.sampled() {
            Some(_) => (
                "a mini-batch step",
                "mini-batches win if they need",
                "mini-batches are",
            ),
            None => ("a step of this class", "it wins if it needs", "it is"),
        };
        if times <= 1.0 {
            return format!(
                "{what} takes {step}, no less than an epoch of the whole graph ({whole}): {proposed} not proposed without \
                 a pilot"
            );
        }
        let times = match times {
            few if few < 9.995 => format!("{few:.2}"),
            many => format!("{many:.0}"),
        };
        format!(
            "a full-graph step takes {whole}, {what} {step}: {win} fewer than {times} times the steps"
        )
    }

    /// The learning rate at which the class reached the target.
    pub fn learning_rate(&self) -> Option<f64> {
        match self.needed? {
            Needed::Measured { learning_rate, .. } => Some(learning_rate),
            Needed::MoreThan { .. } => None,
        }
    }
}

/// Such as `8.10 s to 14.20 s`, or `more than 8.10 s`.
impl fmt::Display for TargetTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.high {
            Some(high) => write!(f, "{} to {high}", self.low),
            None => write!(f, "more than {}", self.low),
        }
    }
}

/// How the best candidate of a class compares with those of other classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It is faster than all others.
    Fastest,
    /// Its range overlaps with that of the fastest.
    Tied,
    /// It is slower than the fastest.
    Slower,
    /// It did not reach the target in the pilot, and may be faster or slower than those that did.
    Undecided,
    /// No pilot tells.
    Unknown,
}

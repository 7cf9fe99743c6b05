//! Training progress: the metadata of a checkpoint.

use crate::report::{Best, Plateau};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the metadata and of the checksums.
pub(super) const VERSION: u32 = 2;
/// Most epochs of a run.
const MOST_EPOCHS: u64 = u32::MAX as u64;
/// Most optimizer steps of a run.
const MOST_STEPS: u64 = 1 << 53;

/// The progress of training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Progress {
    pub(crate) version: u32,
    /// Finished epochs.
    pub(crate) epoch: u64,
    /// Optimizer steps taken.
    pub(crate) step: u64,
    pub(crate) seed: u64,
    pub(crate) learning_rate: f64,
    /// The caller's name for the model.
    pub(crate) model: String,
    /// Hash of the program.
    pub(crate) program: u64,
    /// Hash of the partition of the vertices; absent if no copies are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) division: Option<u64>,
    /// The epoch that began without copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) began: Option<u64>,
    pub(crate) best: Option<Best>,
    /// How it has waited for better evaluations; absent if it has not.
    #[serde(default, skip_serializing_if = "Plateau::is_new")]
    pub(crate) plateau: Plateau,
    /// For each history of a stage, by name, the epoch in which it was last kept.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) kept: BTreeMap<String, u64>,
}

impl Progress {
    pub(crate) fn version() -> u32 {
        VERSION
    }

    /// The progress of a run that has not started.
    pub(super) fn first(model: &str) -> Self {
        Self {
            version: VERSION,
            epoch: 0,
            step: 0,
            seed: 0,
            learning_rate: 0.1,
            model: model.to_owned(),
            program: 0,
            division: None,
            began: None,
            best: None,
            plateau: Plateau::default(),
            kept: BTreeMap::new(),
        }
    }

    /// Rejects values no run can have: a valid checksum does not make numbers sensible.
    pub(super) fn check(&self) -> Result<(), String> {
        let wrong = |field: &str, found: String, expected: &str| {
            Err(format!("its {field} is {found}, expected {expected}"))
        };
        let rate = self.learning_rate;
        if !(rate.is_finite() && rate > 0.0) {
            return wrong("learning rate", rate.to_string(), "a positive number");
        }
        if self.epoch > MOST_EPOCHS {
            let expected = format!("at most {MOST_EPOCHS}");
            return wrong("epoch", self.epoch.to_string(), &expected);
        }
        if self.step > MOST_STEPS {
            let expected = format!("at most {MOST_STEPS}");
            return wrong("number of steps", self.step.to_string(), &expected);
        }
        let not_later = format!("at most {}, the epoch of the checkpoint", self.epoch);
        if let Some(began) = self.began.filter(|began| *began > self.epoch) {
            return wrong("epoch without copies", began.to_string(), &not_later);
        }
        if let Some((_, kept)) = self.kept.iter().find(|(_, kept)| **kept > self.epoch) {
            return wrong("epoch of a history", kept.to_string(), &not_later);
        }
        let Plateau {
            evaluations,
            reductions,
        } = self.plateau;
        if u64::from(evaluations.max(reductions)) > self.epoch {
            let found = evaluations.max(reductions).to_string();
            return wrong("number of evaluations on a plateau", found, &not_later);
        }
        let Some(best) = &self.best else {
            return Ok(());
        };
        if best.epoch > self.epoch {
            return wrong("best epoch", best.epoch.to_string(), &not_later);
        }
        let metrics = &best.metrics;
        for score in [&metrics.train, &metrics.val, &metrics.test] {
            // Numbers that are not finite are read as NaN.
            if score.correct < 0.0 || score.total < 0.0 {
                let found = format!("{} of {}", score.correct, score.total);
                return wrong("best score", found, "numbers from 0 on");
            }
        }
        match metrics.val_loss {
            Some(loss) if loss.is_nan() => {
                wrong("best validation loss", loss.to_string(), "a number")
            }
            Some(_) | None => Ok(()),
        }
    }
}

//! What a session reports.

use serde::{Deserialize, Serialize};

/// What an epoch did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// Its number, from 1.
    pub epoch: u64,
    /// Mean loss of the training vertices before the optimizer's step; 0 if the program has none.
    pub loss: f64,
    /// Wall time of the epoch without the one-time setup.
    pub seconds: f64,
    /// Payload bytes that all ranks sent in `step`.
    pub bytes_sent: u64,
}

/// Correct and all vertices of a set. With several labels a vertex: twice the true positives,
/// and that with false positives and false negatives, so that [`Score::share`] is micro-F1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Correct ones.
    pub correct: f64,
    /// All.
    pub total: f64,
}

/// How good the model is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// On the training vertices.
    pub train: Score,
    /// On the validation vertices.
    pub val: Score,
    /// On the test vertices.
    pub test: Score,
    /// Mean loss of the validation vertices; none without any.
    pub val_loss: Option<f64>,
    /// Payload bytes that all ranks sent in `eval`.
    pub bytes_sent: u64,
}

/// The evaluation with the lowest validation loss, the first of equal ones. Without validation
/// vertices nothing is chosen: it is the last evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Epochs that were done.
    pub epoch: u64,
    /// What was found then.
    pub metrics: Metrics,
}

impl Best {
    /// The epoch that the validation loss chose; none without validation vertices.
    pub fn chosen_epoch(&self) -> Option<u64> {
        self.metrics.val_loss.map(|_| self.epoch)
    }
}

/// What was resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// Epochs done.
    pub epoch: u64,
    /// Whether the checkpoint was written by this very program: then all numbers that follow
    /// are those of a run that never stopped, bit for bit.
    pub same_program: bool,
    /// Whether rows of earlier epochs are those of the checkpoint too; true where none are kept.
    pub copies: bool,
}

impl Score {
    /// Share of correct ones; none if there is nothing to count.
    pub fn share(&self) -> Option<f64> {
        (self.total != 0.0).then(|| self.correct / self.total)
    }
}

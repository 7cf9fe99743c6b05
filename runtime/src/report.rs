//! Reports of a session.

use serde::{Deserialize, Serialize};

/// The result of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochReport {
    /// Its number, from 1.
    pub epoch: u64,
    /// Mean loss of the training vertices before the optimizer's step; 0 if the program has none.
    pub loss: f64,
    /// Wall time of the epoch, without the one-time setup.
    pub seconds: f64,
    /// Payload bytes all ranks sent in `step`.
    pub bytes_sent: u64,
}

/// Correct and all vertices of a set. With multi-labels: twice the true positives, and that plus
/// false positives and false negatives, so [`Score::share`] is micro-F1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Number of correct vertices.
    pub correct: f64,
    /// Number of vertices.
    pub total: f64,
}

/// Quality of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// On the training vertices.
    pub train: Score,
    /// On the validation vertices.
    pub val: Score,
    /// On the test vertices.
    pub test: Score,
    /// Mean loss of the validation vertices; `None` if there are none.
    pub val_loss: Option<f64>,
    /// Payload bytes all ranks sent in `eval`.
    pub bytes_sent: u64,
}

/// The evaluation with the lowest validation loss, the first of equal ones. Without validation
/// vertices, the last evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Finished epochs.
    pub epoch: u64,
    /// The metrics of that evaluation.
    pub metrics: Metrics,
}

impl Best {
    /// The epoch chosen by validation loss; `None` without validation vertices.
    pub fn chosen_epoch(&self) -> Option<u64> {
        self.metrics.val_loss.map(|_| self.epoch)
    }
}

/// The result of resuming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// Finished epochs.
    pub epoch: u64,
    /// Whether this very program wrote the checkpoint. If so, all later numbers match an
    /// uninterrupted run bit for bit.
    pub same_program: bool,
    /// Whether rows of earlier epochs were restored too; true if none are kept.
    pub copies: bool,
}

impl Score {
    /// Fraction of correct vertices; `None` if there are none to count.
    pub fn share(&self) -> Option<f64> {
        (self.total != 0.0).then(|| self.correct / self.total)
    }
}

//! Reports of a session.

use gnnc_ir::words::metric::Metric;
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

/// Scores by a metric that a run is judged by, on the training, validation and test vertices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The metric.
    pub metric: Metric,
    /// The scores; absent where nothing can be scored.
    pub scores: [Option<f64>; 3],
}

/// The evaluation with the lowest validation loss, or with the best validation score of a metric; the first
/// of equal ones. Without validation vertices, the last evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// Finished epochs.
    pub epoch: u64,
    /// The metrics of that evaluation.
    pub metrics: Metrics,
    /// The scores that it was chosen by; `None` if that was the loss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Judged>,
}

impl Best {
    /// Whether this evaluation is better than an earlier one. A run that is judged anew begins anew.
    pub(crate) fn beats(&self, earlier: &Self) -> bool {
        let val = |judged: Judged| judged.scores[1];
        match (self.judged, earlier.judged) {
            _ if self.metrics.val_loss.is_none() => true,
            (None, None) => match (self.metrics.val_loss, earlier.metrics.val_loss) {
                (Some(loss), Some(lowest)) => loss < lowest,
                _ => true,
            },
            (Some(own), Some(other)) if own.metric == other.metric => {
                match (val(own), val(other)) {
                    (Some(score), Some(best)) => own.metric.is_better(score, best),
                    (score, _) => score.is_some(),
                }
            }
            _ => true,
        }
    }

    /// The epoch chosen by validation loss or score; `None` without validation vertices.
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

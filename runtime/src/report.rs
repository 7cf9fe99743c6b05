//! Reports of a session.

use gnnc_ir::words::metric::Metric;
use serde::{Deserialize, Deserializer, Serialize};

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

/// Sums over the vertices of a set, whose quotient is [`Score::share`]. With one class a vertex: correct and all
/// vertices. With several labels: twice the true positives, and that plus false positives and false negatives, for
/// micro-F1. With numbers: absolute errors and how many there are, for the mean absolute error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Number of correct vertices, or sum of absolute errors; at least 0. A sum that is not finite is read from a
    /// checkpoint as NaN.
    #[serde(deserialize_with = "or_nan")]
    pub correct: f64,
    /// Number of vertices, or of errors; at least 0.
    pub total: f64,
}

/// Reads a number, or NaN for what JSON has in place of numbers that are not finite.
fn or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
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
    /// The first sum over the second; `None` if there is nothing to count.
    pub fn share(&self) -> Option<f64> {
        (self.total != 0.0).then(|| self.correct / self.total)
    }
}

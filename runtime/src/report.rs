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
    /// Those of halo rows between nodes, if rows cross to a node once.
    #[serde(default)]
    pub bytes_crossed: u64,
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
/// of equal ones. If the metric cannot score the validation vertices, their loss decides. Without validation vertices,
/// the last evaluation.
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
        let val = |judged: Judged| judged.scores[1].filter(|score| !score.is_nan());
        match (self.judged, earlier.judged) {
            _ if self.metrics.val_loss.is_none() => true,
            (None, None) => self.has_less_loss(earlier),
            (Some(own), Some(other)) if own.metric == other.metric => {
                match (val(own), val(other)) {
                    (Some(score), Some(best)) => own.metric.is_better(score, best),
                    (None, None) => self.has_less_loss(earlier),
                    (score, _) => score.is_some(),
                }
            }
            _ => true,
        }
    }

    fn has_less_loss(&self, earlier: &Self) -> bool {
        let loss = |best: &Self| best.metrics.val_loss.filter(|loss| !loss.is_nan());
        match (loss(self), loss(earlier)) {
            (Some(loss), Some(lowest)) => loss < lowest,
            (loss, _) => loss.is_some(),
        }
    }

    /// The epoch chosen by validation loss or score; `None` without validation vertices.
    pub fn chosen_epoch(&self) -> Option<u64> {
        self.metrics.val_loss.map(|_| self.epoch)
    }
}

/// How a run has waited for better evaluations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plateau {
    /// Evaluations in a row that were not better, since the best one or the last reduction.
    pub evaluations: u32,
    /// How often the learning rate has been reduced.
    pub reductions: u32,
}

/// The least change of a learning rate; PyTorch's `eps`.
const LEAST_CHANGE: f64 = 1e-8;

impl Plateau {
    /// Counts an evaluation. Reduces the learning rate `rate` to its product with `factor`, if more than `patience`
    /// evaluations in a row were not better; a rate that would hardly change stays.
    pub fn count(&mut self, is_better: bool, patience: u32, rate: f64, factor: f64) {
        self.evaluations = self.evaluations.saturating_add(1);
        if is_better {
            self.evaluations = 0;
        }
        if self.evaluations > patience {
            self.evaluations = 0;
            self.reductions += u32::from(rate - rate * factor > LEAST_CHANGE);
        }
    }

    pub(crate) fn is_new(&self) -> bool {
        *self == Self::default()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn best(score: Option<f64>, loss: f64) -> Best {
        Best {
            epoch: 1,
            metrics: Metrics {
                val_loss: Some(loss),
                ..Metrics::default()
            },
            judged: Some(Judged {
                metric: Metric::RocAuc,
                scores: [None, score, None],
            }),
        }
    }

    /// `ReduceLROnPlateau(factor = 0.5, patience = 2, threshold = 0)`: the third evaluation in a row without a better
    /// one reduces, then counting begins anew.
    #[test]
    fn plateaus_are_counted_as_in_pytorch() {
        let mut plateau = Plateau::default();
        let losses = [5.0, 4.0, 4.0, 4.5, 4.0, 4.0, 4.0, 4.0, 3.0, 4.0, 4.0, 2.0];
        let (mut best, mut rates) = (f64::INFINITY, Vec::new());
        for loss in losses {
            let rate = 0.5f64.powi(plateau.reductions as i32);
            plateau.count(loss < best, 2, rate, 0.5);
            best = best.min(loss);
            rates.push(0.5f64.powi(plateau.reductions as i32));
        }
        let expected = [
            1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.25,
        ];
        assert_eq!(rates, expected);
        for _ in 0..3 {
            plateau.count(false, 0, 1.5e-8, 0.5);
        }
        assert_eq!((plateau.evaluations, plateau.reductions), (0, 2));
    }

    #[test]
    fn the_loss_chooses_among_evaluations_without_a_score() {
        for none in [None, Some(f64::NAN)] {
            assert!(best(none, 1.0).beats(&best(none, 2.0)));
            assert!(!best(none, 2.0).beats(&best(none, 1.0)));
            assert!(!best(none, 1.0).beats(&best(none, 1.0)), "the first stays");
            assert!(best(none, 1.0).beats(&best(none, f64::NAN)));
            assert!(!best(none, f64::NAN).beats(&best(none, 1.0)));
            assert!(best(Some(0.5), 2.0).beats(&best(none, 1.0)));
            assert!(!best(none, 1.0).beats(&best(Some(0.5), 2.0)));
        }
        assert!(best(Some(0.6), 2.0).beats(&best(Some(0.5), 1.0)));
        assert!(!best(Some(0.5), 1.0).beats(&best(Some(0.5), 2.0)));
    }
}

//! What predictions are scored by.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// A score for predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The fraction of vertices with the right class, for one class per vertex.
    Accuracy,
    /// The F1 score over all classes of all vertices together.
    MicroF1,
    /// The mean of the F1 scores of the classes.
    MacroF1,
    /// The area under the receiver operating characteristic, the mean over classes if there are several.
    RocAuc,
    /// The mean precision over the steps of the recall, the mean over classes if there are several.
    AveragePrecision,
    /// The mean of one over the rank of each link among the pairs of the same source that have none.
    Mrr,
    /// The share of the links that score above all but the 9 best pairs without one.
    Hits10,
    /// The share of the links that score above all but the 19 best pairs without one.
    Hits20,
    /// The share of the links that score above all but the 49 best pairs without one.
    Hits50,
    /// The share of the links that score above all but the 99 best pairs without one.
    Hits100,
    /// The mean absolute error, for numbers.
    Mae,
    /// The root of the mean squared error, for numbers; the mean over columns if there are several.
    Rmse,
    /// The coefficient of determination, for numbers; the mean over columns if there are several.
    R2,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Accuracy,
        Self::MicroF1,
        Self::MacroF1,
        Self::RocAuc,
        Self::AveragePrecision,
        Self::Mrr,
        Self::Hits10,
        Self::Hits20,
        Self::Hits50,
        Self::Hits100,
        Self::Mae,
        Self::Rmse,
        Self::R2,
    ];

    /// Whether scores are shares of 1, which reports print in percent.
    pub fn is_share(self) -> bool {
        match self {
            Self::Accuracy
            | Self::MicroF1
            | Self::MacroF1
            | Self::RocAuc
            | Self::AveragePrecision => true,
            Self::Mrr | Self::Hits10 | Self::Hits20 | Self::Hits50 | Self::Hits100 => true,
            Self::Mae | Self::Rmse | Self::R2 => false,
        }
    }

    /// Whether predictions with one score are better than with another.
    pub fn is_better(self, one: f64, other: f64) -> bool {
        match self {
            Self::Mae | Self::Rmse => one < other,
            Self::Accuracy
            | Self::MicroF1
            | Self::MacroF1
            | Self::RocAuc
            | Self::AveragePrecision
            | Self::R2 => one > other,
            Self::Mrr | Self::Hits10 | Self::Hits20 | Self::Hits50 | Self::Hits100 => one > other,
        }
    }

    /// Whether a score is as good as a target, or better.
    pub fn reaches(self, score: f64, target: f64) -> bool {
        score == target || self.is_better(score, target)
    }

    /// Checks that a score can be reached.
    ///
    /// # Errors
    /// What was expected.
    pub fn check_target(self, target: f64) -> Result<(), String> {
        let name = self.name();
        let lower_is_better = self.is_better(0.0, 1.0);
        match (self.is_share(), lower_is_better) {
            (true, _) if target > 0.0 && target <= 1.0 => Ok(()),
            (true, _) => Err(format!(
                "expected a share for {name}: a number above 0 and up to 1, such as 0.9"
            )),
            (false, true) if target >= 0.0 && target.is_finite() => Ok(()),
            (false, true) => Err(format!(
                "expected an error for {name}: a number from 0 on, lower is better"
            )),
            (false, false) if target <= 1.0 && target.is_finite() => Ok(()),
            (false, false) => Err(format!("expected a number up to 1 for {name}")),
        }
    }

    /// A score as reports print it: shares in percent, others as numbers.
    pub fn written(self, score: f64) -> String {
        match self.is_share() {
            true => format!("{:.2} %", score * 100.0),
            false => format!("{score:.4}"),
        }
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::MicroF1 => "micro-F1",
            Self::MacroF1 => "macro-F1",
            Self::RocAuc => "ROC-AUC",
            Self::AveragePrecision => "average precision",
            Self::Mrr => "MRR",
            Self::Hits10 => "Hits@10",
            Self::Hits20 => "Hits@20",
            Self::Hits50 => "Hits@50",
            Self::Hits100 => "Hits@100",
            Self::Mae => "MAE",
            Self::Rmse => "RMSE",
            Self::R2 => "R2",
        }
    }

    /// The name in models, JSON keys and CSV columns.
    pub fn key(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::MicroF1 => "micro_f1",
            Self::MacroF1 => "macro_f1",
            Self::RocAuc => "roc_auc",
            Self::AveragePrecision => "average_precision",
            Self::Mrr => "mrr",
            Self::Hits10 => "hits10",
            Self::Hits20 => "hits20",
            Self::Hits50 => "hits50",
            Self::Hits100 => "hits100",
            Self::Mae => "mae",
            Self::Rmse => "rmse",
            Self::R2 => "r2",
        }
    }
}

impl FromStr for Metric {
    type Err = String;

    /// Reads a key, in upper or lower case, with hyphens or underscores.
    fn from_str(text: &str) -> Result<Self, String> {
        let key = text.to_lowercase().replace('-', "_").replace('@', "");
        let found = Self::ALL.into_iter().find(|metric| metric.key() == key);
        found.ok_or_else(|| {
            let keys = Self::ALL.map(|metric| metric.key().replace('_', "-"));
            format!("found `{text}`, expected one of {}", keys.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_scores_that_can_be_reached() {
        for (metric, fine, wrong) in [
            (Metric::Accuracy, [0.5, 1.0], [0.0, 93.0]),
            (Metric::Hits10, [1e-3, 1.0], [-0.5, f64::NAN]),
            (Metric::Mae, [0.0, 12.0], [-1.0, f64::INFINITY]),
            (Metric::Rmse, [0.0, 12.0], [-1.0, f64::NAN]),
            (Metric::R2, [-3.0, 1.0], [1.5, f64::NEG_INFINITY]),
        ] {
            assert!(fine.iter().all(|x| metric.check_target(*x).is_ok()));
            for target in wrong {
                let said = metric.check_target(target).unwrap_err();
                assert!(said.contains(metric.name()), "{said}");
            }
        }
        assert!(Metric::Mae.reaches(0.5, 0.5) && Metric::Mae.reaches(0.4, 0.5));
        assert!(!Metric::Mae.reaches(0.6, 0.5) && !Metric::Accuracy.reaches(0.4, 0.5));
        assert!(Metric::Accuracy.reaches(0.6, 0.5) && !Metric::R2.reaches(f64::NAN, 0.5));
    }
}

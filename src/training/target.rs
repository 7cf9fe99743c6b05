//! How far a run is from the score at which it ends.

use super::Progress;
use crate::summary::TargetRun;
use gnnc_ir::words::metric::Metric;

/// The way of a run to its target.
pub(super) struct Toward {
    metric: Metric,
    /// What was seen so far.
    pub(super) seen: TargetRun,
}

impl Toward {
    /// A run that has seen nothing yet.
    pub(super) fn new(target: f64, metric: Metric) -> Self {
        Self {
            metric,
            seen: TargetRun {
                target,
                reached: false,
                score: None,
                epoch: 0,
                steps: 0,
                seconds: 0.0,
                evaluation_seconds: 0.0,
            },
        }
    }

    /// Adds an epoch; says whether its evaluation reaches the target.
    pub(super) fn sees(&mut self, progress: &Progress) -> bool {
        let seen = &mut self.seen;
        seen.seconds += progress.epoch.seconds;
        seen.evaluation_seconds += progress.evaluation_seconds;
        let score = progress.scores.and_then(|scores| scores.val);
        let better =
            |score: &f64| (seen.score).is_none_or(|best| self.metric.is_better(*score, best));
        if let Some(score) = score.filter(|score| !score.is_nan()).filter(better) {
            seen.score = Some(score);
            seen.epoch = progress.epoch.epoch;
            seen.steps = progress.steps;
        }
        seen.reached = score.is_some_and(|score| self.metric.reaches(score, seen.target));
        seen.reached
    }
}

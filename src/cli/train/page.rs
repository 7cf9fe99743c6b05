//! `gnnc train --html`: a page of a run, with its plan beside what became of it.

use crate::cli::html::Page;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{Candidate, Plan};
use gnnc::ir::program::trace::{Trace, diff};
use gnnc::pictures::{Pictured, Timeline, median_epoch, pictured};
use gnnc::planner::search::{Pin, PlacementSpec};
use gnnc::{
    Choice, Compiled, Error, Loaded, PlanOptions, Planner, Progress, TrainOptions, machines,
};
use serde_json::{Value, json};
use std::path::Path;

/// Last epochs of which the page may show the timeline: the one that takes the median time.
pub(super) const TRACED: u64 = 5;
/// Most points of a curve.
const MOST_POINTS: usize = 2000;
/// Most instructions whose predicted and measured times are compared.
const MOST_ROWS: usize = 200;

/// The page of a run that goes on.
pub(super) struct RunPage {
    page: Page,
    facts: Value,
    /// The predicted timeline, if there is one.
    predicted: Option<Trace>,
    losses: Curve,
    scores: Curve,
}

impl RunPage {
    /// Predicts a run before it begins.
    pub(super) fn begin(
        loaded: &Loaded,
        compiled: &Compiled,
        options: &TrainOptions,
        (choice, cluster): (Option<&Choice>, Option<&str>),
        facts: Value,
    ) -> Self {
        let mut page = Page::new("train", loaded);
        let mut predicted = None;
        match predict(loaded, compiled, options, choice, cluster) {
            Ok((plan, candidate, found)) => {
                let name = candidate.name();
                let plan = choice.map_or(&plan, |choice| &choice.plan);
                let mut all = plan.candidates.iter();
                let number = all.position(|one| one.name() == name).unwrap_or(0);
                page.plan(plan, compiled);
                page.pictured(&found, number);
                predicted = found.trace;
            }
            Err(error) => page.leave_out(format!("Predictions are left out: {error}.")),
        }
        Self {
            page,
            facts,
            predicted,
            losses: Curve::default(),
            scores: Curve::default(),
        }
    }

    /// Takes note of an epoch.
    pub(super) fn see(&mut self, progress: &Progress) {
        let epoch = progress.epoch.epoch;
        self.losses.add(json!([
            epoch,
            progress.epoch.loss,
            progress.epoch.seconds,
            progress.learning_rate,
            progress.epoch.bytes_sent,
        ]));
        if let Some(scores) = progress.scores {
            let [train, val, test] = scores.each();
            let took = progress.evaluation_seconds;
            self.scores.add(json!([epoch, train, val, test, took]));
        }
    }

    /// Writes the page of a run with this summary and timeline.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn finish(
        mut self,
        path: &Path,
        summary: &Value,
        mut trace: Trace,
    ) -> Result<(), Error> {
        let all = summary["epochs"].as_u64().unwrap_or(u64::MAX);
        trace.events.retain(|event| event.epoch <= all);
        let compared = self.predicted.as_ref().map(|predicted| {
            let mut found = diff(predicted, &trace);
            found.rows.truncate(MOST_ROWS);
            found
        });
        trace.events = median_epoch(&trace.events);
        let (timeline, lacks) = Timeline::of(&trace);
        for lack in lacks {
            self.page.leave_out(format!("Measured: {lack}"));
        }
        for (curve, what) in [(&self.losses, "losses"), (&self.scores, "scores")] {
            if curve.every > 1 {
                self.page.leave_out(format!(
                    "The curve of {what} has every {}th value and the last one.",
                    curve.every
                ));
            }
        }
        let run = json!({
            "facts": self.facts,
            "summary": summary,
            "losses": self.losses.points(),
            "scores": self.scores.points(),
            "timeline": timeline,
            "compared": compared,
        });
        self.page.set("run", run);
        self.page.write(path)
    }
}

/// Prices the placement of a run, and nothing else.
fn predict(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &TrainOptions,
    choice: Option<&Choice>,
    cluster: Option<&str>,
) -> Result<(Plan, Candidate, Pictured), Error> {
    let (spec, cluster) = match choice {
        Some(choice) => (
            PlacementSpec::of(&choice.candidate),
            choice.plan.cluster.clone(),
        ),
        None => {
            let mut spec = gnnc::place(loaded, compiled, options)?;
            if spec.parts() > 1 {
                spec.knobs.partitioner = Some(options.partitioner());
            }
            let found = machines(cluster, &options.device, options.workers);
            let found = found.map_err(|failure| Error::Input(failure.to_string()))?;
            (spec, found)
        }
    };
    let options = PlanOptions {
        partitioners: spec.knobs.partitioner.into_iter().collect(),
        pin: Pin::only(&spec),
        // The run is permitted already.
        allow: Relaxation::ALL.to_vec(),
        cache: options.cache.clone(),
        ..PlanOptions::new(cluster)
    };
    let planner = Planner::new(loaded, compiled, &options)?;
    let plan = planner.plan();
    let Some(candidate) = plan.candidates.first().cloned() else {
        let rejected = plan.rejected.first().map(|one| one.reason.clone());
        return Err(Error::Input(rejected.unwrap_or_else(|| planner.why_none())));
    };
    let found = pictured(&planner, &candidate)?;
    Ok((plan, candidate, found))
}

/// A curve with a bounded number of points: when there are too many, every second one is dropped.
#[derive(Default)]
struct Curve {
    kept: Vec<Value>,
    last: Option<Value>,
    seen: usize,
    /// Every how manyth point is kept.
    every: usize,
}

impl Curve {
    fn add(&mut self, point: Value) {
        self.every = self.every.max(1);
        if self.seen.is_multiple_of(self.every) {
            if self.kept.len() == MOST_POINTS {
                let mut number = 0;
                self.kept.retain(|_| {
                    number += 1;
                    number % 2 == 1
                });
                self.every *= 2;
            }
            if self.seen.is_multiple_of(self.every) {
                self.kept.push(point.clone());
            }
        }
        self.seen += 1;
        self.last = Some(point);
    }

    /// The points, the last one included.
    fn points(&self) -> Vec<&Value> {
        let last = self.last.as_ref();
        let last = last.filter(|last| self.kept.last() != Some(*last));
        self.kept.iter().chain(last).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_few_points_with_the_first_and_the_last() {
        let mut curve = Curve::default();
        for n in 0..5 * MOST_POINTS + 1 {
            curve.add(json!([n]));
        }
        let points = curve.points();
        assert!((MOST_POINTS / 2..=MOST_POINTS + 1).contains(&points.len()));
        assert_eq!(points.first(), Some(&&json!([0])));
        assert_eq!(points.last(), Some(&&json!([5 * MOST_POINTS])));
        let steps: Vec<u64> = points.iter().filter_map(|p| p[0].as_u64()).collect();
        let gaps: Vec<u64> = steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let even = gaps
            .iter()
            .rev()
            .skip(1)
            .all(|gap| *gap == curve.every as u64);
        assert!(even, "{gaps:?}");
    }
}

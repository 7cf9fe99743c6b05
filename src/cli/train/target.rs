//! `gnnc train --target`: what a plan said of the way to the target, and what became of it.

use crate::cli::output::{Answer, Failure};
use crate::cli::text::count;
use gnnc::Choice;
use gnnc::ir::plan::{Needed, TargetTime};
use gnnc::ir::words::units::Seconds;
use gnnc::{Metric, Summary, TargetRun};
use serde_json::{Value, json};
use std::fmt;

/// Exit code of a run that ended before its target.
const MISSED: u8 = 4;

/// What a plan says of the way to a target.
pub(super) struct Predicted {
    needed: Needed,
    time: TargetTime,
}

/// Such as `8.10 s to 14.20 s, by 98 to 103 epochs`.
impl fmt::Display for Predicted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, by {}", self.time, self.needed.expected_text())
    }
}

/// What the headline of a run says of its plan's target.
pub(super) fn of_plan(choice: &Choice) -> String {
    let known = choice.candidate.to_target.as_ref();
    let time = known.and_then(|known| known.seconds);
    match (choice.goal(), time, choice.learning_rate()) {
        (Some(goal), Some(time), Some(rate)) => format!(
            "; {} in {time}, with learning rate {rate} (--target {} ends the run there)",
            goal.score(),
            goal.target
        ),
        _ => String::new(),
    }
}

/// What a plan says of the target of some runs, if it is for that target.
pub(super) fn predicted(choice: Option<&Choice>, runs: &[&Summary]) -> Option<Predicted> {
    let choice = choice?;
    let goal = choice.goal()?;
    let asked = runs.iter().find_map(|run| run.target)?;
    let metric = runs.first()?.scores.metric;
    if asked.target != goal.target || metric != goal.metric {
        return None;
    }
    let known = choice.candidate.to_target.as_ref()?;
    Some(Predicted {
        needed: known.needed?,
        time: known.seconds?,
    })
}

/// A summary for programs, with what the plan said beside what became of the target.
pub(super) fn json(summary: &Summary, predicted: Option<&Predicted>) -> Value {
    let mut value = serde_json::to_value(summary).unwrap_or_default();
    if let (Some(predicted), Some(_)) = (predicted, summary.target) {
        value["target"]["predicted"] = json!({
            "epochs": predicted.needed,
            "seconds": predicted.time,
        });
    }
    value
}

/// What became of the targets of several seeds.
pub(super) fn lines_of_seeds(
    metric: Metric,
    runs: &[&Summary],
    predicted: Option<&Predicted>,
) -> Vec<(&'static str, String)> {
    let all: Vec<TargetRun> = runs.iter().filter_map(|run| run.target).collect();
    let Some(target) = all.first().map(|first| first.target) else {
        return Vec::new();
    };
    let reached: Vec<&TargetRun> = all.iter().filter(|way| way.reached).collect();
    let mut text = format!(
        "val {} {} reached by {} of {}",
        metric.name(),
        metric.written(target),
        reached.len(),
        count(all.len() as u64, "seed")
    );
    let seconds = reached
        .iter()
        .map(|way| way.seconds + way.evaluation_seconds);
    let seconds: Vec<f64> = seconds.collect();
    let epochs: Vec<u64> = reached.iter().map(|way| way.epoch).collect();
    if let (Some(fastest), Some(slowest)) = (epochs.iter().min(), epochs.iter().max()) {
        let low = Seconds(seconds.iter().copied().fold(f64::INFINITY, f64::min));
        let high = Seconds(seconds.iter().copied().fold(0.0, f64::max));
        text += &format!(
            ", in {fastest} to {} and {low} to {high} with evaluations",
            count(*slowest, "epoch")
        );
    }
    let mut lines = vec![("target", text)];
    lines.extend(predicted.map(|predicted| ("predicted", predicted.to_string())));
    lines
}

/// Fails if a run ended before its target; its report has said so.
pub(super) fn answer(runs: &[&Summary]) -> Answer {
    let missed = |run: &&Summary| run.target.is_some_and(|way| !way.reached) && !run.interrupted;
    match runs.iter().any(missed) {
        true => Err(Failure::Reported(MISSED)),
        false => Ok(()),
    }
}

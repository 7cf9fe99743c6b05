//! How a run is placed if nobody says it: by a plan, or as is usual for the model.

use crate::{Compiled, Error, Loaded, PlanOptions, plan};
use gnnc_ir::graph::model::{Relaxation, TrainSettings};
use gnnc_ir::plan::{Candidate, Goal, Knobs, Placement, Plan};
use gnnc_ir::words::spelling::counted;
use gnnc_planner::search::Pin;

/// What a plan chooses.
pub struct Choice {
    /// The candidate.
    pub candidate: Candidate,
    /// The plan.
    pub plan: Plan,
}

impl Choice {
    /// What a run is to reach, if the plan goes by a pilot.
    pub fn goal(&self) -> Option<&Goal> {
        self.plan.goal.as_ref()
    }

    /// The learning rate that the plan is for, if it goes by a pilot.
    pub fn learning_rate(&self) -> Option<f64> {
        self.goal()?;
        self.candidate.to_target.as_ref()?.learning_rate()
    }
}

/// The choice of a plan that uses all devices of its cluster.
///
/// # Errors
/// No candidate fits or can run; the message says why.
pub fn choose(loaded: &Loaded, compiled: &Compiled, options: PlanOptions) -> Result<Choice, Error> {
    let workers = options.cluster.devices();
    let options = PlanOptions {
        pin: Pin {
            ranks: Some(workers),
            ..options.pin
        },
        ..options
    };
    let plan = plan(loaded, compiled, &options)?;
    if let Some(candidate) = plan.choice().cloned() {
        return Ok(Choice { candidate, plan });
    }
    let first = plan.candidates.first().map(|c| &c.reason);
    let reason = first.or(plan.rejected.first().map(|r| &r.reason));
    let reason = reason.map_or("these options leave no candidate", String::as_str);
    Err(Error::Input(format!(
        "no placement to choose for {}: {reason}; change the options, or name a placement",
        counted(workers, "worker")
    )))
}

/// The placement of a run that names none: models that say how their batches are and permit sampling are trained on these,
/// others on the whole graph.
pub fn usual_placement(train: &TrainSettings, knobs: &Knobs, allow: &[Relaxation]) -> Placement {
    let sample = &Relaxation::Sample;
    let permitted = allow.contains(sample) || train.allow.contains(sample);
    let batches = knobs.clone().with_batches(&train.sampling);
    let late = batches.sampling.delay.is_some_and(|delay| delay > 0);
    // Rows of embeddings may be late where weights are not.
    let late = late && batches.sampling.lazy != Some(true);
    let of_rows = !late && batches.slices.is_none();
    let moves = batches.sampling.merges.is_some() || batches.sampling.migrate.is_some();
    let known = permitted && batches.sampling.sampling().is_some();
    match (known && of_rows, moves) {
        (true, true) => Placement::ModelMigration,
        (true, false) => Placement::Minibatch,
        (false, _) => Placement::Graph,
    }
}

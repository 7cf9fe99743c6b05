//! `--placement best`: plans a run and takes the plan's choice.

use super::machine::cluster;
use super::output::{Failure, input};
use gnnc::device::Device;
use gnnc::ir::cluster::Cluster;
use gnnc::ir::plan::{Candidate, Goal, Plan};
use gnnc::ir::words::spelling::counted;
use gnnc::planner::search::Pin;
use gnnc::{Compiled, Loaded, PlanOptions};

/// A cluster with a device per worker. Without a name: this CPU, or h100x8 nodes for a GPU.
///
/// # Errors
/// An unknown or invalid cluster.
pub fn machines(name: Option<&str>, device: &Device, workers: u32) -> Result<Cluster, Failure> {
    let default = match device {
        Device::Cpu => "cpu",
        Device::Cuda(_) => "h100x8",
    };
    let resized = cluster(name.unwrap_or(default))?.resized(Some(workers), None);
    Ok(resized.map_err(gnnc::Error::from)?)
}

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
pub fn best(loaded: &Loaded, compiled: &Compiled, options: PlanOptions) -> Result<Choice, Failure> {
    let workers = options.cluster.devices();
    let options = PlanOptions {
        pin: Pin {
            ranks: Some(workers),
            ..options.pin
        },
        ..options
    };
    let plan = gnnc::plan(loaded, compiled, &options)?;
    if let Some(candidate) = plan.choice().cloned() {
        return Ok(Choice { candidate, plan });
    }
    let first = plan.candidates.first().map(|c| &c.reason);
    let reason = first.or(plan.rejected.first().map(|r| &r.reason));
    let reason = reason.map_or("these options leave no candidate", String::as_str);
    Err(input(format!(
        "no placement to choose for {}: {reason}; change the options, or name a placement",
        counted(workers, "worker")
    )))
}

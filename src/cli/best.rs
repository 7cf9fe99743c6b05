//! `--placement best`: plans a run and takes the plan's choice.

use super::machine::cluster;
use super::output::{Failure, input};
use gnnc::device::Device;
use gnnc::ir::cluster::Cluster;
use gnnc::ir::plan::{Candidate, Goal};
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

/// What a plan chooses, and what runs of it are to reach.
pub struct Choice {
    /// The candidate.
    pub candidate: Candidate,
    /// What a run is to reach, if the plan goes by a pilot.
    pub goal: Option<Goal>,
}

impl Choice {
    /// The learning rate that the plan is for, if it goes by a pilot.
    pub fn learning_rate(&self) -> Option<f64> {
        self.goal.as_ref()?;
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
        top: Some(1),
        ..options
    };
    let plan = gnnc::plan(loaded, compiled, &options)?;
    let found = plan.choice().map(|candidate| Choice {
        candidate: candidate.clone(),
        goal: plan.goal.clone(),
    });
    found.ok_or_else(|| {
        let first = plan.candidates.first().map(|c| &c.reason);
        let reason = first.or(plan.rejected.first().map(|r| &r.reason));
        let reason = reason.map_or("these options leave no candidate", String::as_str);
        input(format!(
            "no placement to choose for {}: {reason}; change the options, or name a placement",
            counted(workers, "worker")
        ))
    })
}

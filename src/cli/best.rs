//! The placement of a run that asks for the best one.

use super::machine::cluster;
use super::output::{Failure, input};
use gnnc::device::Device;
use gnnc::ir::cluster::Cluster;
use gnnc::ir::plan::{Candidate, Partitioner};
use gnnc::planner::search::Pin;
use gnnc::{Compiled, Loaded, PlanOptions};

/// As many machines of a cluster as there are workers; of the processor, or of h100x8 nodes, if none is named.
///
/// # Errors
/// A cluster that is not there or broken.
pub fn machines(name: Option<&str>, device: &Device, workers: u32) -> Result<Cluster, Failure> {
    let default = match device {
        Device::Cpu => "cpu",
        Device::Cuda(_) => "h100x8",
    };
    let resized = cluster(name.unwrap_or(default))?.resized(Some(workers), None);
    Ok(resized.map_err(gnnc::Error::from)?)
}

/// A partitioner by its name.
///
/// # Errors
/// A name that is none.
pub fn partitioner(name: &str) -> Result<Partitioner, Failure> {
    let found = Partitioner::ALL.iter().find(|p| p.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = Partitioner::ALL.iter().map(|p| p.name()).collect();
        let names = names.join(", ");
        input(format!(
            "found --partitioner {name}, expected one of {names}"
        ))
    })
}

/// What a plan chooses that uses all devices of its cluster.
///
/// # Errors
/// That nothing fits or can run, and why.
pub fn best(
    loaded: &Loaded,
    compiled: &Compiled,
    options: PlanOptions,
) -> Result<Candidate, Failure> {
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
    plan.choice().cloned().ok_or_else(|| {
        let first = plan.candidates.first().map(|c| &c.reason);
        let reason = first.or(plan.rejected.first().map(|r| &r.reason));
        let reason = reason.map_or("none is left by these options", String::as_str);
        input(format!(
            "no placement can be chosen for {workers} workers: {reason}; take other options, or name a placement"
        ))
    })
}

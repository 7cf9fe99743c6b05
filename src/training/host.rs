//! Offload to the host, for runs that do not fit on a device.

use super::TrainOptions;
use crate::plan::batch_plan;
use crate::{Compiled, Device, Error, Loaded};
use gnnc_graph::{Partition, summary};
use gnnc_ir::cluster::DeviceKind;
use gnnc_ir::program::Program;
use gnnc_ir::words::units::Bytes;
use gnnc_planner::parts::parts;
use gnnc_planner::placement::PlacementSpec;
use gnnc_planner::search::offload_to_fit;
use gnnc_planner::simulate::Room;
use gnnc_runtime::device::cuda::Live;
use gnnc_runtime::device::gpu::driver::Driver;
use std::sync::Arc;

/// Fraction of a GPU's free memory to plan with. The rest is for code, lists of long rows and partial sums of
/// kernels.
const PLANNED: f64 = 0.95;

/// Bytes that a rank may use on its device; `None` without a limit.
///
/// # Errors
/// A GPU that does not report its free memory.
pub(super) fn budget(
    options: &TrainOptions,
    place: &PlacementSpec,
    device: Option<&mut Live>,
) -> Result<Option<u64>, Error> {
    let ranks = match options.device.rank() {
        Some(_) => 1,
        None => u64::from(place.ranks.max(1)),
    };
    let free = match device {
        Some(live) => Some((live.free_bytes()? as f64 * PLANNED) as u64 / ranks),
        None => None,
    };
    Ok(match (options.device_memory, free) {
        (Some(asked), Some(free)) => Some(asked.min(free)),
        (asked, free) => asked.or(free),
    })
}

/// The programs of a placement, with tensors offloaded to the host so that each rank fits into its budget.
///
/// # Errors
/// How many bytes are missing when everything that can move is on the host; a placement without programs.
pub(super) fn resting(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &TrainOptions,
    spec: &PlacementSpec,
    partition: &Arc<Partition>,
    bytes: u64,
) -> Result<Vec<Program>, Error> {
    let data = loaded.trainable()?;
    let programs = compiled.programs(spec)?;
    let partitioner = options.partitioner();
    let count = partition.parts();
    let mut workload = loaded.workload.clone();
    if count > 1 {
        // With the partition of this run.
        let (name, of_nodes) = (partitioner.name(), Vec::from_iter(spec.node_ranks()));
        let mut found = summary::summarise_partition(data, partition, name, &of_nodes)?;
        if spec.sends_sums() {
            found.cover = summary::cover_loads(data, partition);
        }
        if spec.equal_bits() {
            found.both_ends = summary::both_ends_loads(data, partition);
        }
        workload.add_partition(count, found);
    }
    let mut parts =
        parts(&workload, count, partitioner).map_err(|e| Error::Input(e.to_string()))?;
    if let Some(ranks) = spec.group_ranks() {
        let groups = parts.in_groups(&workload, ranks);
        parts = groups.map_err(|e| Error::Input(e.to_string()))?;
    }
    let Some(first) = programs.first() else {
        return Ok(programs);
    };
    if let Some(training) = &first.sampling {
        let seed = options.seed.unwrap_or(loaded.model.train.seed);
        let batches = (training, first.evaluation.as_ref());
        parts.batch = Some(batch_plan(data, partition, batches, seed)?);
    }
    let parts = parts.of(first);
    // On processors the budget is that of a GPU of a plan, except that batches are drawn from a graph in it.
    let room = Room {
        kind: match options.device {
            Device::Cpu if spec.samples() => DeviceKind::Cpu,
            Device::Cpu | Device::Cuda(_) => DeviceKind::Gpu,
        },
        bytes: Bytes(bytes),
    };
    let offloaded = |programs: &[Program]| offload_to_fit(programs, &parts, room);
    let mut found = offloaded(&programs);
    let moved = |programs: &[Program]| programs.iter().any(|one| !one.hosted.is_empty());
    if spec.samples() && found.as_deref().map_or(true, moved) {
        // Batches that read rows in place need all of them; those that copy rows leave them on the host.
        let mut spec = spec.clone();
        spec.knobs.offload = Some(true);
        found = offloaded(&compiled.programs(&spec)?);
    }
    found.map_err(|short| {
        Error::Input(format!(
            "a worker does not fit into {} of device memory: with everything possible offloaded to the host, {} \
             are still missing; use more workers, a smaller model, or a larger --device-memory",
            Bytes(bytes),
            Bytes(short.bytes)
        ))
    })
}

//! Offload to the host, for runs that do not fit on a device.

use super::TrainOptions;
use crate::{Error, Loaded};
use gnnc_graph::{GraphData, Partition, summary};
use gnnc_ir::program::Program;
use gnnc_ir::words::units::Bytes;
use gnnc_planner::parts::parts;
use gnnc_planner::placement::PlacementSpec;
use gnnc_planner::search::offload_to_fit;
use gnnc_runtime::device::cuda::Live;
use gnnc_runtime::device::gpu::driver::Driver;

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

/// The programs, with tensors offloaded to the host so that each rank fits into its budget.
///
/// # Errors
/// How many bytes are missing when everything that can move is on the host.
pub(super) fn resting(
    loaded: &Loaded,
    data: &GraphData,
    partition: &Partition,
    options: &TrainOptions,
    programs: Vec<Program>,
    bytes: u64,
) -> Result<Vec<Program>, Error> {
    let partitioner = options.partitioner();
    let count = partition.parts();
    let mut workload = loaded.workload.clone();
    if count > 1 {
        // With the partition of this run.
        let found = summary::summarise_partition(data, partition, partitioner.name())?;
        workload.add_partition(count, found);
    }
    let parts = parts(&workload, count, partitioner).map_err(|e| Error::Input(e.to_string()))?;
    let Some(first) = programs.first() else {
        return Ok(programs);
    };
    let parts = parts.of(first);
    offload_to_fit(&programs, &parts, Bytes(bytes)).map_err(|short| {
        Error::Input(format!(
            "a worker does not fit into {} of device memory: with everything possible offloaded to the host, {} \
             are still missing; use more workers, a smaller model, or a larger --device-memory",
            Bytes(bytes),
            Bytes(short.bytes)
        ))
    })
}

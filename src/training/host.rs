//! What of a run rests on the host, where a device is too small for it.

use super::TrainOptions;
use crate::{Error, Loaded};
use gnnc_graph::{GraphData, Partition, summary};
use gnnc_ir::plan::Partitioner;
use gnnc_ir::program::Program;
use gnnc_ir::words::units::Bytes;
use gnnc_planner::parts::parts;
use gnnc_planner::placement::Place;
use gnnc_planner::search::offload_to_fit;
use gnnc_runtime::device::cuda::Live;
use gnnc_runtime::device::gpu::driver::Driver;

/// The share of what a GPU has free that is planned with: code, lists of long rows and partial sums of kernels
/// take memory too.
const PLANNED: f64 = 0.95;

/// Bytes that a rank may take on its device; none without a limit.
///
/// # Errors
/// A GPU that does not say what it has free.
pub(super) fn budget(
    options: &TrainOptions,
    place: &Place,
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

/// Programs of which what does not fit into so many bytes of a rank rests on the host.
///
/// # Errors
/// What is lacking when there is nothing left to move.
pub(super) fn resting(
    loaded: &Loaded,
    data: &GraphData,
    partition: &Partition,
    options: &TrainOptions,
    programs: Vec<Program>,
    bytes: u64,
) -> Result<Vec<Program>, Error> {
    let all = Partitioner::ALL.iter().copied();
    let named = all.into_iter().find(|p| p.name() == options.partitioner);
    let partitioner = named.unwrap_or(Partitioner::Range);
    let count = partition.parts();
    let mut workload = loaded.workload.clone();
    if count > 1 {
        // As it was divided.
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
            "a worker does not fit into {} of memory of its device: with all that can rest on the host, {} are \
             still lacking; use more workers, a smaller model, or a larger --device-memory",
            Bytes(bytes),
            Bytes(short.bytes)
        ))
    })
}

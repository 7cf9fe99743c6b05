//! Prices a program on a cluster: runs every rank's instructions against clocks.
//!
//! Each rank has a compute stream, which runs the program in order, and a network. A communication
//! instruction starts when all ranks it exchanges with have arrived, and uses links that ranks of a
//! node may have to share. If it is cut into halves, the compute stream runs the instructions in
//! between. Identical ranks are simulated once, and loop iterations that repeat the previous one
//! are added up instead of run, so that simulation time depends on the program's text, not on the
//! number of its layers or ranks. Formulas and constants: `docs/cost-model.md`.

mod alike;
mod batch;
mod bound;
mod compile;
mod condense;
mod doubt;
mod fabric;
mod likeness;
mod memory;
mod network;
mod run;
mod sent;
mod stages;

pub use bound::{Bound, bound};
pub use doubt::{Doubts, Draws, range};
use stages::check as check_all;
pub use stages::{bound_all, busy_seconds, simulate_all, timeline_all};

use crate::lower::offload::MemoryBudget;
use crate::parts::Parts;
use compile::{Compiler, Listing};
use condense::condensed;
use fabric::Fabric;
use gnnc_ir::cluster::{Basis, Cluster, Device, DeviceKind};
use gnnc_ir::plan::{AlphaBasis, KindCost};
use gnnc_ir::program::memory::host_bytes;
use gnnc_ir::program::trace::{Event, Phase};
use gnnc_ir::program::traffic::{Reads, Traffic, traffic};
use gnnc_ir::program::{Capacity, Program};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::words::units::{Bytes, Seconds};
use run::Run;
use std::collections::BTreeMap;
use thiserror::Error;

/// Cost of one run of an instruction list. Times are means over the ranks and add up to `seconds`,
/// when the last rank finishes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseCost {
    /// From the start to the end of the last rank.
    pub seconds: Seconds,
    /// Computation.
    pub compute_seconds: Seconds,
    /// What of that are kernels that take no longer than to start them.
    pub floor_seconds: Seconds,
    /// Communication while nothing is computed, including packing.
    pub exposed_communication_seconds: Seconds,
    /// Waiting for other ranks.
    pub bubble_seconds: Seconds,
    /// Bytes sent by all ranks.
    pub bytes: Bytes,
    /// The same by kind of instruction.
    pub traffic: Traffic,
    /// By instruction name, the longest first.
    pub breakdown: Vec<KindCost>,
}

/// Cost of a program on a cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// One training epoch.
    pub epoch: PhaseCost,
    /// One evaluation.
    pub eval: PhaseCost,
    /// One run of `setup`, before the first epoch.
    pub setup: PhaseCost,
    /// Memory of the rank that needs the most: buffers, messages, topology, labels.
    pub peak_memory_bytes: Bytes,
    /// Whether the device has that much memory.
    pub fits: bool,
    /// The least certain basis among the numbers used.
    pub basis: Basis,
}

impl Estimate {
    /// Its times.
    pub fn timed(&self) -> Timed {
        Timed {
            epoch: self.epoch.seconds,
            eval: self.eval.seconds,
        }
    }
}

/// Why a program cannot be priced.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SimulateError {
    /// The parts are for another number of ranks.
    #[error(
        "the program is for {}, the parts for {parts}",
        counted(program, "rank")
    )]
    OtherRanks {
        /// Ranks of the program.
        program: u32,
        /// Ranks of the parts.
        parts: usize,
    },
    /// Stages wait for rows that nobody sends, which is a bug in a lowering.
    #[error("the stages of the program wait for each other")]
    Waiting,
    /// More ranks than devices.
    #[error(
        "{} need {ranks} devices, but the cluster has {devices}",
        counted(ranks, "rank")
    )]
    TooFewDevices {
        /// Ranks of the program.
        ranks: u32,
        /// Devices of the cluster.
        devices: u32,
    },
}

/// Prices a program on a cluster.
///
/// # Errors
/// If the parts are for another number of ranks than the program, or there are fewer devices than
/// ranks.
pub fn simulate(
    program: &Program,
    cluster: &Cluster,
    parts: &Parts,
) -> Result<Estimate, SimulateError> {
    check(program, cluster, parts)?;
    let phases = phases(program, cluster, parts);
    let peak = peak_memory(program, cluster, parts);
    Ok(estimate(phases, peak, cluster, parts))
}

/// The costs of all lists of a program.
fn phases(program: &Program, cluster: &Cluster, parts: &Parts) -> [PhaseCost; 3] {
    Phase::ALL.map(|phase| {
        let parts = parts.in_phase(phase);
        let fabric = Fabric::new(cluster, &parts, 0);
        price(phase, program, cluster, &parts, &fabric)
    })
}

/// The time of a program, without its memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    /// Of an epoch.
    pub epoch: Seconds,
    /// Of an evaluation.
    pub eval: Seconds,
}

/// As [`simulate`], but `None` if its time is `hopeless`. Laying out buffers takes most of the time, and is left out then.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_unless(
    program: &Program,
    cluster: &Cluster,
    parts: &Parts,
    hopeless: &dyn Fn(Timed) -> bool,
) -> Result<Option<Estimate>, SimulateError> {
    check(program, cluster, parts)?;
    let phases = phases(program, cluster, parts);
    let [_, epoch, eval] = &phases;
    let timed = Timed {
        epoch: epoch.seconds,
        eval: eval.seconds,
    };
    if hopeless(timed) {
        return Ok(None);
    }
    let peak = peak_memory(program, cluster, parts);
    Ok(Some(estimate(phases, peak, cluster, parts)))
}

/// Assembles an estimate from the phases and the memory of a program.
fn estimate(
    [setup, epoch, eval]: [PhaseCost; 3],
    peak: Bytes,
    cluster: &Cluster,
    parts: &Parts,
) -> Estimate {
    Estimate {
        basis: basis(cluster, parts),
        fits: peak <= cluster.device.memory,
        peak_memory_bytes: peak,
        epoch,
        eval,
        setup,
    }
}

/// Predicted events of one run of a list on the first `ranks` ranks, starting at time 0. As in the
/// executor's events, a communication includes its wait for other ranks.
///
/// # Errors
/// As [`simulate`].
pub fn timeline(
    program: &Program,
    cluster: &Cluster,
    parts: &Parts,
    phase: Phase,
    ranks: u32,
) -> Result<Vec<Event>, SimulateError> {
    check(program, cluster, parts)?;
    let parts = parts.in_phase(phase);
    let fabric = Fabric::new(cluster, &parts, 0);
    let compiler = Compiler::new(program, cluster, &fabric, &parts);
    let (steps, names) = compiler.compile(phase);
    let mut run = Run::tracing(&fabric, names, phase, ranks, 0);
    run.all(&steps);
    Ok(run.into_events())
}

/// A lower bound of [`peak_memory`], computed much faster.
pub fn least_memory(program: &Program, cluster: &Cluster, parts: &Parts) -> Bytes {
    memory::least(program, cluster, parts)
}

/// Bytes of memory on the rank that needs the most. Data that CPUs of a node keep once for all
/// ranks is divided among them.
pub fn peak_memory(program: &Program, cluster: &Cluster, parts: &Parts) -> Bytes {
    memory::peak(program, cluster, parts)
}

/// The memory of a device that programs have to fit into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What the device is: a GPU leaves to its host what only draws batches, but keeps more lists.
    pub kind: DeviceKind,
    /// Bytes of each rank.
    pub bytes: Bytes,
}

impl From<&Device> for Room {
    fn from(device: &Device) -> Self {
        Self {
            kind: device.kind,
            bytes: device.memory,
        }
    }
}

/// The memory for buffers of each distinct rank, on a device of its own.
pub fn budgets(program: &Program, parts: &Parts, device: Room) -> Vec<MemoryBudget> {
    memory::budgets(program, parts, device)
}

/// Bytes of host memory in the node that needs the most, for one program or one per stage.
pub fn host_memory(programs: &[Program], cluster: &Cluster, parts: &Parts) -> Bytes {
    let mut nodes: BTreeMap<u32, u64> = BTreeMap::new();
    let mut first = 0;
    for program in programs {
        for (rank, sizes) in (first..).zip(&parts.sizes) {
            let bytes = host_bytes(program, &Capacity::of(*sizes));
            let all = nodes.entry(cluster.node_of(rank)).or_default();
            *all = all.saturating_add(bytes);
        }
        first += parts.sizes.len() as u32;
    }
    Bytes(nodes.into_values().max().unwrap_or(0))
}

fn check(program: &Program, cluster: &Cluster, parts: &Parts) -> Result<(), SimulateError> {
    if program.ranks as usize != parts.sizes.len() {
        return Err(SimulateError::OtherRanks {
            program: program.ranks,
            parts: parts.sizes.len(),
        });
    }
    if program.ranks > cluster.devices() {
        return Err(SimulateError::TooFewDevices {
            ranks: program.ranks,
            devices: cluster.devices(),
        });
    }
    Ok(())
}

/// What ranks read of each other, and how much of it crosses between nodes. Only the sum of messages matters, so one number
/// represents all of them.
fn reads_of(parts: &Parts, fabric: &Fabric) -> Reads {
    let [crossing, crossing_sums, of_groups] = fabric.crossing_rows();
    let slices = parts.groups.as_ref().map_or(1, |groups| groups.ranks);
    Reads {
        crossing_groups: of_groups / u64::from(slices.max(1)),
        crossing,
        crossing_sums,
        ..parts.reads()
    }
}

/// The same for the ranks of a program on a cluster.
pub fn reads_of_all(cluster: &Cluster, parts: &Parts) -> Reads {
    reads_of(parts, &Fabric::new(cluster, parts, 0))
}

fn price(
    phase: Phase,
    program: &Program,
    cluster: &Cluster,
    parts: &Parts,
    fabric: &Fabric,
) -> PhaseCost {
    let compiler = Compiler::new(program, cluster, fabric, parts);
    let around = compiler.around();
    let (steps, names) = compiler.compile(phase);
    let mut run = Run::new(fabric, names);
    run.wait(around);
    run.all(&steps);
    let reads = reads_of(parts, fabric);
    let traffic = traffic(program.list(phase), program, &reads, &parts.sizes);
    PhaseCost {
        bytes: Bytes(traffic.total_bytes),
        traffic,
        ..run.cost()
    }
}

/// Seconds of a run of a list, without anything else.
fn seconds(program: &Program, list: &Listing, cluster: &Cluster, parts: &Parts) -> f64 {
    let parts = parts.in_phase(list.phase);
    let fabric = Fabric::new(cluster, &parts, 0);
    let compiler = Compiler::new(program, cluster, &fabric, &parts);
    let around = compiler.around();
    let (steps, names) = compiler.compile_list(list);
    let mut run = Run::new(&fabric, names);
    run.wait(around);
    run.all(&condensed(steps, u32::MAX));
    run.seconds()
}

fn basis(cluster: &Cluster, parts: &Parts) -> Basis {
    let alpha = match parts.alpha_basis {
        AlphaBasis::Measured => Basis::Measured,
        AlphaBasis::Declared | AlphaBasis::Interpolated | AlphaBasis::Estimated => Basis::Declared,
    };
    cluster.calibration.basis.max(parts.basis).max(alpha)
}

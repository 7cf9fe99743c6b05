//! Lower bounds of a program's cost, found without running its instructions against each other.

use super::compile::{Compiler, ExchangeCost, Half, Step, TransferCost};
use super::fabric::Fabric;
use super::{SimulateError, check, reads_of};
use crate::parts::Parts;
use gnnc_ir::cluster::Cluster;
use gnnc_ir::program::Program;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::traffic::traffic;
use gnnc_ir::words::units::{Bytes, Seconds};

/// The simulator's other order of sums and its extrapolated loops make less difference than this.
const ROUNDING: f64 = 1e-6;

/// Lower bounds of an estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Busy time of the busiest rank, or of its links, in an epoch. Ignores waiting for others.
    pub seconds: Seconds,
    /// Bytes sent in an epoch; exact.
    pub bytes: Bytes,
}

/// Lower bounds of an estimate, computed faster than by [`super::simulate`]; see also
/// [`super::least_memory`].
///
/// # Errors
/// As [`super::simulate`].
pub fn bound(program: &Program, cluster: &Cluster, parts: &Parts) -> Result<Bound, SimulateError> {
    check(program, cluster, parts)?;
    let fabric = Fabric::new(cluster, parts, 0);
    Ok(bound_of(program, cluster, parts, &fabric))
}

/// The same for ranks on a given fabric.
pub(super) fn bound_of(
    program: &Program,
    cluster: &Cluster,
    parts: &Parts,
    fabric: &Fabric,
) -> Bound {
    let compiler = Compiler::new(program, cluster, fabric, parts);
    let around = compiler.around();
    let (steps, _) = compiler.compile(Phase::Step);
    let busiest = (0..fabric.classes.len())
        .flat_map(|class| busy(&steps, class))
        .fold(0.0, f64::max);
    let sent = traffic(
        &program.step,
        program,
        &reads_of(parts, fabric),
        &parts.sizes,
    );
    Bound {
        seconds: Seconds((around + busiest) * (1.0 - ROUNDING)),
        bytes: Bytes(sent.total_bytes),
    }
}

/// Busy seconds of a rank of a class, of its links to other ranks, and of its links from and to the
/// host. Transfers during computation occupy the links, not the rank.
fn busy(steps: &[Step], class: usize) -> [f64; 4] {
    let mut sum = [0.0; 4];
    for step in steps {
        let one = match step {
            Step::Compute { seconds, .. } => [seconds[class], 0.0, 0.0, 0.0],
            // Threads that draw do not occupy those that train.
            Step::Draw { .. } => [0.0; 4],
            Step::Transfer { half, cost, .. } => {
                let [rank, links] = transfer(*half, cost, class);
                [rank, links, 0.0, 0.0]
            }
            Step::Move {
                half, out, seconds, ..
            } => {
                let (mut one, seconds) = ([0.0; 4], seconds[class]);
                if *half == Half::Whole {
                    one[0] = seconds;
                }
                if !matches!(half, Half::Finish(_)) {
                    one[2 + usize::from(*out)] = seconds;
                }
                one
            }
            Step::Loop { count, body, .. } => {
                busy(body, class).map(|seconds| f64::from(*count) * seconds)
            }
            Step::Batches { count, phases } => {
                let phases = phases.iter().map(|(_, steps)| busy(steps, class));
                let batch = phases.fold([0.0; 4], plus);
                batch.map(|seconds| f64::from(*count) * seconds)
            }
            Step::Chunks { count, bodies } => {
                let times = f64::from(*count) / bodies.len().max(1) as f64;
                let bodies = bodies.iter().map(|body| busy(body, class));
                let all = bodies.fold([0.0; 4], plus);
                all.map(|seconds| times * seconds)
            }
            // Messages between stages occupy only the links.
            Step::StageMessage { .. } => [0.0; 4],
        };
        sum = plus(sum, one);
    }
    sum
}

fn plus(mut a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}

/// Busy seconds of the rank (packing and adding up) and of its links.
fn transfer(half: Half, cost: &TransferCost, class: usize) -> [f64; 2] {
    let (before, after) = (cost.before(class), cost.after(class));
    let links = match cost {
        TransferCost::Halo { costs, .. } if costs[class].active => {
            let ExchangeCost {
                inside, between, ..
            } = costs[class];
            let busy = inside.into_iter().chain(between);
            costs[class].latency + busy.fold(0.0, f64::max)
        }
        TransferCost::Halo { .. } => 0.0,
        TransferCost::Everyone(cost) => cost.messages,
    };
    match half {
        // Interior rows may be computed while halo rows are in flight, once the program is cut for that.
        Half::Whole if matches!(cost, TransferCost::Halo { .. }) => [before + after, links],
        Half::Whole => [before + links + after, links],
        Half::Begin(_) => [before + cost.handling(class), links],
        Half::Finish(_) => [after, 0.0],
    }
}

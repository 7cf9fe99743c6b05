//! What a program takes at least, found without running its instructions against each other.

use super::compile::{Compiler, ExchangeCost, Step};
use super::fabric::Fabric;
use super::{SimulateError, check};
use crate::parts::Parts;
use gnnc_ir::cluster::Cluster;
use gnnc_ir::program::Program;
use gnnc_ir::traffic::traffic;
use gnnc_ir::units::{Bytes, Seconds};

/// Sums in another order than the simulator's, and its extrapolated loops, differ by less.
const ROUNDING: f64 = 1e-6;

/// Bounds from below of an estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// An epoch takes as long as the rank that is busy for longest: computing, packing and its own
    /// links. What it waits for others is left out.
    pub seconds: Seconds,
    /// Bytes sent in an epoch; exact.
    pub bytes: Bytes,
}

/// Bounds an estimate from below, faster than [`super::simulate`] makes it; see also
/// [`super::least_memory`].
///
/// # Errors
/// As [`super::simulate`].
pub fn bound(program: &Program, cluster: &Cluster, parts: &Parts) -> Result<Bound, SimulateError> {
    check(program, cluster, parts)?;
    let fabric = Fabric::new(cluster, parts);
    let compiler = Compiler::new(program, cluster, &fabric, &parts.sizes);
    let around = compiler.around();
    let (steps, _) = compiler.compile(&program.step);
    let busiest = (0..fabric.classes.len())
        .map(|class| busy(&steps, class))
        .fold(0.0, f64::max);
    let sent = traffic(&program.step, program, parts.halo_rows(), &parts.sizes);
    Ok(Bound {
        seconds: Seconds((around + busiest) * (1.0 - ROUNDING)),
        bytes: Bytes(sent.total_bytes),
    })
}

/// Seconds that a rank of a class is busy.
fn busy(steps: &[Step], class: usize) -> f64 {
    let one = |step: &Step| match step {
        Step::Compute { seconds, .. } => seconds[class],
        Step::Exchange { costs, .. } => exchange(&costs[class]),
        Step::Collective { seconds, .. } => *seconds,
        Step::Loop { count, body, .. } => f64::from(*count) * busy(body, class),
    };
    steps.iter().map(one).sum()
}

/// Packing, the own links and adding up.
fn exchange(cost: &ExchangeCost) -> f64 {
    let links = cost.inside.into_iter().chain(cost.between);
    let sending = match cost.active {
        true => cost.latency + links.fold(0.0, f64::max),
        false => 0.0,
    };
    cost.before + sending + cost.after
}

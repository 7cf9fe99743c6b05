//! How far predicted times may be off. What a prediction is made of has stated uncertainties, and a program is simulated
//! again and again with all of them drawn anew.

use super::alike::Alike;
use super::compile::Listing;
use super::{SimulateError, check, check_all, seconds, stages};
use crate::parts::Parts;
use gnnc_ir::cluster::{Calibration, Cluster, Efficiency, Link};
use gnnc_ir::kernel::mix32;
use gnnc_ir::plan::Range;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::work::KernelClass;
use gnnc_ir::program::{Halo, Program};
use gnnc_ir::words::units::Seconds;
use std::borrow::Cow;

/// Simulations of a program.
const DRAWS: u32 = 20;
/// Of so many draws, one at each end is left out of a range: nine tenths lie in it.
const ONE_OUTSIDE: usize = 20;

/// Where the orders of draws begin. Of the first 4,000, this one makes those of classes, links and partitioners go together
/// least: with as few draws, some of them do by chance.
const SALT: u32 = 2331;

/// Which draws to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Draws {
    /// All of them, so that candidates can be compared.
    All,
    /// Every second one.
    Half,
}

/// What is uncertain about a cluster, drawn some times.
#[derive(Clone, Debug)]
pub struct Doubts {
    certain: Cluster,
    draws: Vec<Cluster>,
}

impl Doubts {
    /// Draws what is uncertain about a cluster. All candidates of a plan meet the same draws, so what they have in common
    /// does not make one of them better than another.
    pub fn of(cluster: &Cluster) -> Self {
        Self {
            certain: cluster.clone(),
            draws: (0..DRAWS).map(|draw| drawn(cluster, draw)).collect(),
        }
    }

    /// Seconds of a run of a list in these draws, for one program that represents all ranks, or one per stage, of which the
    /// run takes `predicted` seconds. How much longer it takes in a draw is simulated with ranks and chunks that are
    /// nearly alike, which is much faster.
    ///
    /// # Errors
    /// As [`super::simulate_all`].
    pub fn seconds(
        &self,
        programs: &[Program],
        parts: &Parts,
        phase: Phase,
        predicted: Seconds,
        draws: Draws,
    ) -> Result<Vec<f64>, SimulateError> {
        let even = parts.evened();
        let run = Rerun::of(programs, &self.certain, &even, phase)?;
        let certain = run.seconds(&self.certain, &even)?;
        let step = match draws {
            Draws::All => 1,
            Draws::Half => 2,
        };
        let drawn = (0..).zip(&self.draws).step_by(step);
        let scaled = drawn.map(|(draw, cluster)| {
            let parts = replicated(programs, &even, draw);
            let seconds = run.seconds(cluster, &parts)?;
            let longer = if certain == 0.0 {
                1.0
            } else {
                seconds / certain
            };
            Ok(predicted.0 * longer)
        });
        scaled.collect()
    }
}

/// Programs of which a list is simulated again and again.
enum Rerun<'a> {
    /// One for all ranks.
    Whole(&'a Program, Listing<'a>),
    /// Stages, with what is alike among them, and the list of each kind.
    Staged(Alike<'a>, Vec<Listing<'a>>),
}

impl<'a> Rerun<'a> {
    /// Checks that the parts and the cluster are for these programs.
    fn of(
        programs: &'a [Program],
        cluster: &Cluster,
        parts: &Parts,
        phase: Phase,
    ) -> Result<Self, SimulateError> {
        if let [program] = programs
            && program.pipeline.is_none()
        {
            check(program, cluster, parts)?;
            return Ok(Self::Whole(program, Listing::of(program, phase)));
        }
        check_all(programs, cluster, parts)?;
        let alike = Alike::of(programs, cluster, parts);
        let lists = stages::listings(&alike, phase);
        Ok(Self::Staged(alike, lists))
    }

    fn seconds(&self, cluster: &Cluster, parts: &Parts) -> Result<f64, SimulateError> {
        match self {
            Self::Whole(program, list) => Ok(seconds(program, list, cluster, parts)),
            Self::Staged(alike, lists) => {
                stages::seconds(&alike.on(cluster, parts), lists, cluster, parts)
            }
        }
    }
}

/// The range of nine tenths of the draws, and of the prediction.
pub fn range(predicted: Seconds, draws: &[f64]) -> Range {
    let mut sorted = draws.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |place: usize| sorted.get(place).copied().unwrap_or(predicted.0);
    let (last, outside) = (sorted.len().saturating_sub(1), sorted.len() / ONE_OUTSIDE);
    Range {
        low: Seconds(predicted.0.min(at(outside))),
        high: Seconds(predicted.0.max(at(last.saturating_sub(outside)))),
    }
}

/// A factor between `1 / spread` and `spread` for what has this name, all orders of magnitude alike. Over the draws, each
/// of as many equal parts of that interval occurs once, in an order of its own.
fn factor(name: &str, spread: f64, draw: u32) -> f64 {
    let key = name
        .bytes()
        .fold(SALT, |key, byte| mix32(key ^ u32::from(byte)));
    let rank = |draw: u32| (mix32(key.wrapping_add(draw)), draw);
    let place = (0..DRAWS).filter(|other| rank(*other) < rank(draw)).count();
    let middle = (place as f64 + 0.5) / f64::from(DRAWS);
    spread.powf(2.0 * middle - 1.0)
}

/// A cluster as it may be.
fn drawn(cluster: &Cluster, draw: u32) -> Cluster {
    let Calibration {
        spread,
        class_spread,
        link_spread,
        ..
    } = cluster.calibration;
    let mut cluster = cluster.clone();
    let machine = factor("machine", spread, draw);
    let of = |name: &str, spread: f64| machine * factor(name, spread, draw);
    let launch = of("launch", class_spread);
    for seconds in [
        &mut cluster.device.launch_floor,
        &mut cluster.software.launch,
        &mut cluster.software.message,
        &mut cluster.calibration.message_gap,
    ] {
        seconds.0 *= launch;
    }
    cluster.calibration.edge_latency.0 *= of("edge latency", class_spread);
    for class in KernelClass::ALL {
        let slower = of(class.name(), class_spread);
        let Efficiency {
            compute,
            memory,
            cached,
        } = cluster.calibration.of(class);
        let found = Efficiency {
            compute: compute / slower,
            memory: memory / slower,
            cached: cached / slower,
        };
        cluster.calibration.efficiency.insert(class, found);
    }
    let link = |name: &str| factor(name, link_spread, draw);
    for (
        Link {
            bandwidth,
            latency,
            processor,
            ..
        },
        slower,
    ) in [
        (&mut cluster.inside, link("inside")),
        (&mut cluster.between, link("between")),
    ] {
        *bandwidth /= slower;
        latency.0 *= slower;
        processor.0 *= slower;
    }
    if let Some(host) = &mut cluster.host {
        let slower = link("host");
        (host.bandwidth, host.latency.0) = (host.bandwidth / slower, host.latency.0 * slower);
    }
    let measured = cluster.calibration.measured.as_mut();
    for costs in measured
        .into_iter()
        .flat_map(|measured| &mut measured.costs)
    {
        costs.around.0 *= machine;
        for (name, group) in &mut costs.groups {
            let slower = of(name, group.spread.unwrap_or(class_spread));
            group.terms.values_mut().for_each(|cost| *cost *= slower);
        }
    }
    cluster
}

/// Parts with a replication factor as it may be. One that was counted is certain, and does not matter where ranks have
/// the rows of all vertices.
fn replicated<'a>(programs: &[Program], parts: &'a Parts, draw: u32) -> Cow<'a, Parts> {
    let everything = programs.iter().any(|p| p.halo == Halo::Everything);
    if everything || parts.alpha_spread <= 1.0 {
        return Cow::Borrowed(parts);
    }
    let more = factor(parts.partitioner.name(), parts.alpha_spread, draw);
    Cow::Owned(parts.with_replication(parts.alpha * more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_are_spread_evenly_and_apart() {
        let all = |name| {
            (0..DRAWS)
                .map(|draw| factor(name, 2.0, draw))
                .collect::<Vec<f64>>()
        };
        let mut gemm = all("gemm");
        assert_ne!(gemm, all("spmm"));
        gemm.sort_by(f64::total_cmp);
        for (place, found) in gemm.iter().enumerate() {
            let expected = 2.0f64.powf((place as f64 + 0.5) / 10.0 - 1.0);
            assert!((found / expected - 1.0).abs() < 1e-12, "{found} {expected}");
        }
        assert!((0..DRAWS).all(|draw| factor("gemm", 1.0, draw) == 1.0));
    }

    #[test]
    fn names_do_not_go_together() {
        let logs = |name: &str| {
            (0..DRAWS)
                .map(|draw| factor(name, std::f64::consts::E, draw).ln())
                .collect::<Vec<f64>>()
        };
        let names = [
            "machine", "gemm", "spmm", "spmm-t", "map", "inside", "between", "metis",
        ];
        for (n, one) in names.iter().enumerate() {
            for other in &names[n + 1..] {
                let products = logs(one)
                    .iter()
                    .zip(logs(other))
                    .map(|(a, b)| a * b)
                    .sum::<f64>();
                let correlation = 3.0 * products / f64::from(DRAWS);
                assert!(correlation.abs() < 0.5, "{one}, {other}: {correlation}");
            }
        }
    }

    #[test]
    fn a_range_has_nine_tenths_of_the_draws_and_the_prediction() {
        let draws: Vec<f64> = (0..DRAWS).rev().map(f64::from).collect();
        let found = range(Seconds(10.0), &draws);
        assert_eq!((found.low.0, found.high.0), (1.0, 18.0));
        assert_eq!(range(Seconds(0.5), &draws).low.0, 0.5);
        assert_eq!(range(Seconds(7.0), &[]).high.0, 7.0);
    }
}

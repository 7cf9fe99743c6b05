//! Sampled neighborhoods against values worked out by hand, a naive sampler and statistics.

#![allow(clippy::unwrap_used)] // a test that cannot continue fails

mod all;
mod batches;
mod estimates;
mod golden;
mod naive;
mod oracle;
mod pairs;
mod refused;
mod statistics;

use gnnc_graph::Topology;
use gnnc_graph::sample::{Blocks, Fanout, Kind, Rule, Sampler};

/// A rule with a number a hop.
fn rule(kind: Kind, fanouts: &[u32], seed: u64) -> Rule {
    let fanouts = fanouts.iter().map(|f| Fanout::Each(*f)).collect();
    Rule::new(kind, fanouts, seed).unwrap()
}

/// The blocks of one batch, by one thread.
fn sampled(topology: &Topology, rule: &Rule, seeds: &[u32], step: u32) -> Blocks {
    let mut blocks = Blocks::default();
    let mut sampler = Sampler::new(topology, rule, 1).unwrap();
    sampler.sample(seeds, step, &mut blocks).unwrap();
    blocks
}

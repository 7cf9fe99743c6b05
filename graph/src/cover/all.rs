//! The smallest covers of all edges between the parts of a partition.

use super::{Cover, Crossing};
use crate::Topology;
use crate::partition::Partition;
use gnnc_ir::workload::TargetLoads;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// The edges into a part's vertices from each other part.
pub(super) fn incoming(
    topology: &Topology,
    partition: &Partition,
    members: &[u32],
) -> Vec<Vec<Crossing>> {
    let owner = partition.owner();
    let mut edges = vec![Vec::new(); partition.parts() as usize];
    for &target in members {
        for &source in topology.in_neighbours(target) {
            let from = owner[source as usize];
            if from != owner[target as usize] {
                edges[from as usize].push(Crossing { source, target });
            }
        }
    }
    edges
}

/// The smallest covers of the edges between all parts.
pub(crate) struct Covers {
    /// `[to][from]`.
    pub(crate) of: Vec<Vec<Cover>>,
}

impl Covers {
    /// Those of a partition. Consecutive parts share a node of so many; the edges between two nodes are covered together.
    pub(crate) fn of(topology: &Topology, partition: &Partition, node_ranks: u32) -> Self {
        let parts = partition.parts() as usize;
        let into = |members: &Vec<u32>| incoming(topology, partition, members);
        let of_node = node_ranks.max(1) as usize;
        let mut of = Vec::with_capacity(parts);
        for (node, ranks) in partition.members().chunks(of_node).enumerate() {
            // By part of the node, then by the part that edges come from.
            let edges: Vec<Vec<Vec<Crossing>>> = ranks.iter().map(into).collect();
            let far: Vec<usize> = (0..parts.div_ceil(of_node))
                .filter(|n| *n != node)
                .collect();
            let between = far.par_iter().map(|other| {
                let from = other * of_node..((other + 1) * of_node).min(parts);
                let all = edges.iter().flat_map(|edges| &edges[from.clone()]);
                (
                    *other,
                    Cover::smallest(&all.flatten().copied().collect::<Vec<_>>()),
                )
            });
            let between: BTreeMap<usize, Cover> = between.collect();
            let covers = edges.par_iter().map(|edges| {
                let pairs = edges.iter().enumerate();
                let pair =
                    |(from, edges): (usize, &Vec<Crossing>)| match between.get(&(from / of_node)) {
                        Some(cover) => cover.among(edges),
                        None => Cover::smallest(edges),
                    };
                pairs.map(pair).collect()
            });
            of.extend(covers.collect::<Vec<Vec<Cover>>>());
        }
        Self { of }
    }

    /// The vertices whose rows a part reads, by owner, then ascending.
    pub(crate) fn sources(&self, rank: u32) -> Vec<u32> {
        let covers = self.of[rank as usize].iter();
        covers
            .flat_map(|cover| cover.rows.iter().copied())
            .collect()
    }

    /// What the parts send and add up.
    pub(crate) fn loads(&self, topology: &Topology, partition: &Partition) -> TargetLoads {
        let owner = partition.owner();
        let parts = partition.parts() as usize;
        let mut loads = TargetLoads::none(parts);
        for (v, part) in (0u32..).zip(owner) {
            let sources = topology.in_neighbours(v);
            let far = sources.iter().filter(|u| owner[**u as usize] != *part);
            loads.edges[*part as usize] += sources.len() as u64;
            loads.halo_edges[*part as usize] += far.count() as u64;
        }
        for (to, covers) in self.of.iter().enumerate() {
            for (from, cover) in covers.iter().enumerate() {
                loads.messages[from][to] = cover.rows.len() as u64;
                loads.targets[to][from] = cover.sums.len() as u64;
                for &v in &cover.sums {
                    let sources = topology.in_neighbours(v).iter();
                    let here = sources.filter(|u| owner[**u as usize] as usize == from);
                    let edges = here.count() as u64;
                    loads.edges[to] -= edges;
                    loads.halo_edges[to] -= edges;
                    loads.edges[from] += edges;
                }
            }
        }
        loads
    }
}

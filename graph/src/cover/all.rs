//! The smallest covers of all edges between the parts of a partition.

use super::{Cover, Crossing};
use crate::Topology;
use crate::partition::Partition;
use gnnc_ir::workload::CoverLoads;
use rayon::prelude::*;

/// The smallest covers of the edges between all parts.
pub(crate) struct Covers {
    /// `[to][from]`.
    pub(crate) of: Vec<Vec<Cover>>,
}

impl Covers {
    /// Those of a partition.
    pub(crate) fn of(topology: &Topology, partition: &Partition) -> Self {
        let owner = partition.owner();
        let parts = partition.parts() as usize;
        let covers = |members: &Vec<u32>| {
            let mut edges = vec![Vec::new(); parts];
            for &target in members {
                for &source in topology.in_neighbours(target) {
                    let from = owner[source as usize];
                    if from != owner[target as usize] {
                        edges[from as usize].push(Crossing { source, target });
                    }
                }
            }
            edges
                .par_iter()
                .map(|edges| Cover::smallest(edges))
                .collect()
        };
        Self {
            of: partition.members().iter().map(covers).collect(),
        }
    }

    /// The vertices whose rows a part reads, by owner, then ascending.
    pub(crate) fn sources(&self, rank: u32) -> Vec<u32> {
        let covers = self.of[rank as usize].iter();
        covers
            .flat_map(|cover| cover.rows.iter().copied())
            .collect()
    }

    /// What the parts send and add up.
    pub(crate) fn loads(&self, topology: &Topology, partition: &Partition) -> CoverLoads {
        let owner = partition.owner();
        let parts = partition.parts() as usize;
        let mut loads = CoverLoads {
            messages: vec![vec![0; parts]; parts],
            targets: vec![vec![0; parts]; parts],
            edges: vec![0; parts],
        };
        for (v, part) in (0u32..).zip(owner) {
            loads.edges[*part as usize] += topology.in_neighbours(v).len() as u64;
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
                    loads.edges[from] += edges;
                }
            }
        }
        loads
    }
}

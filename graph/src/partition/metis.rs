//! METIS: recursive bisection that keeps most edges within parts.

use super::bisection::{MetisGraph, Weights};
use super::{Partition, PartitionInput, Partitioner, check_parts};
use crate::{GraphError, Topology};

/// METIS's multilevel bisection (Karypis and Kumar, 1998), applied recursively to the symmetrized,
/// unweighted graph. Published replication factors come from recursive bisection; METIS's k-way
/// method is 4 to 10 % worse on the graphs of those publications.
///
/// METIS 5.2 handles graphs of many components badly: it merges a component that has shrunk to a
/// single vertex with any other vertex, which ties small components to a large one for no reason. A
/// bisection of several components is therefore tried a second time with light edges that string
/// the small ones together, and the smaller cut wins. On CiteSeer in four parts this lowers the
/// replication factor from 0.044 to 0.032, the value of METIS 5.1.
#[derive(Clone, Copy, Debug)]
pub struct Metis {
    /// Random seed; METIS uses the low 31 bits.
    pub seed: u64,
    /// Balance the in-neighbors of the parts as well as their vertices. Without it, the parts of
    /// skewed graphs differ several-fold in work; with it, more edges are cut.
    pub balance_edges: bool,
}

impl Default for Metis {
    fn default() -> Self {
        Self {
            seed: 1,
            balance_edges: false,
        }
    }
}

/// Raised when the same graph, seed and number of parts or chunks give another result than before.
const REVISION: u32 = 1;

impl Partitioner for Metis {
    fn name(&self) -> &'static str {
        if self.balance_edges {
            "metis-edges"
        } else {
            "metis"
        }
    }

    fn partition(&self, graph: PartitionInput, parts: u32) -> Result<Partition, GraphError> {
        check_parts(graph, parts)?;
        let all = (0..graph.vertices()).collect();
        Partition::new(parts, self.divide(graph.topology(), vec![all], parts)?)
    }

    /// The same results as one by one, but several divisions share a bisection of the same vertices
    /// with the same shares. A division into half as many parts as another one is free.
    fn partitions(
        &self,
        graph: PartitionInput,
        parts: &[u32],
    ) -> Result<Vec<Partition>, GraphError> {
        for parts in parts {
            check_parts(graph, *parts)?;
        }
        let all = (0..graph.vertices()).collect();
        let owners = self.graph(graph.topology())?.bisected(vec![all], parts)?;
        let made = parts.iter().zip(owners);
        made.map(|(parts, owner)| Partition::new(*parts, owner))
            .collect()
    }

    fn key(&self, graph: PartitionInput) -> Option<String> {
        let (name, digest) = (self.name(), graph.topology().digest());
        let seed = self.seed;
        Some(format!(
            "{name} revision {REVISION} seed {seed}\ngraph {digest}"
        ))
    }

    /// Bisection of a number of parts that `parts`, a power of two, divides begins with the cuts of a division into
    /// `parts`: both halve. Not so if a set has so few vertices that the finer division deals them out.
    fn merged(&self, finer: &Partition, parts: u32) -> Option<Partition> {
        if !parts.is_power_of_two() || !finer.parts().is_multiple_of(parts) {
            return None;
        }
        let each = finer.parts() / parts;
        let owner: Vec<u32> = finer.owner().iter().map(|&part| part / each).collect();
        // The sets before the last cut; those before earlier cuts are as large as several of them.
        let mut sizes = vec![0u64; parts.div_ceil(2) as usize];
        for part in &owner {
            sizes[*part as usize / 2] += 1;
        }
        if sizes.iter().any(|size| *size <= 2 * u64::from(each)) {
            return None;
        }
        Partition::new(parts, owner).ok()
    }
}

impl Metis {
    /// Divides each of several disjoint sets of vertices into `parts` parts, using the edges within
    /// the set. Returns the part of each vertex.
    pub(super) fn divide(
        &self,
        topology: &Topology,
        sets: Vec<Vec<u32>>,
        parts: u32,
    ) -> Result<Vec<u32>, GraphError> {
        let mut owners = self.graph(topology)?.bisected(sets, &[parts])?;
        Ok(owners.pop().unwrap_or_default())
    }

    fn graph(&self, topology: &Topology) -> Result<MetisGraph, GraphError> {
        let weights = match self.balance_edges {
            false => Weights::default(),
            true => {
                let degrees = topology.in_degrees().into_iter();
                Weights {
                    components: 2,
                    of: degrees.flat_map(|degree| [1, degree as i32]).collect(),
                    most: None,
                }
            }
        };
        MetisGraph::new(self.name(), self.seed, topology, weights)
    }
}

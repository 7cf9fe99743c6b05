//! The graph that ranks sample, as all ranks of a process share it.

use super::Needs;
use super::asked::Owners;
use crate::RuntimeError;
use crate::options::RunOptions;
use gnnc_graph::partition::Partition;
use gnnc_graph::sample::{At, PILOT, Replay, Rule, SampleError, Sampler};
use gnnc_graph::{GraphData, Labels, LocalPart, Topology};
use gnnc_ir::kernel::End;
use gnnc_ir::program::{BatchSizes, Program};
use gnnc_ir::words::sampling::Sampling;
use std::sync::Arc;

/// What all ranks of a process need of a graph that they sample.
pub(crate) struct Sampled {
    pub(super) topology: Arc<Topology>,
    /// For each edge of the graph, the edges of its type into its destination; empty if nothing
    /// reads that.
    pub(super) type_degrees: Vec<u32>,
    /// Edges out of each vertex; empty if nothing reads that.
    out_degrees: Vec<u32>,
    /// Training vertices.
    pub(super) trained: Vec<u32>,
    /// Labels of all vertices, as seeds need not be a rank's own. A single rank has them anyway.
    pub(super) labels: Labels,
    pub(crate) owners: Owners,
}

impl Sampled {
    /// What ranks need to sample a graph.
    pub(crate) fn new(
        data: &GraphData,
        partition: &Partition,
        parts: &[LocalPart],
        needs: &Needs,
    ) -> Self {
        let trains = |v: &u32| data.train.get(*v as usize) == Some(&true);
        Self {
            type_degrees: match needs.type_degrees {
                true => data.topology.relation_degrees(),
                false => Vec::new(),
            },
            out_degrees: match needs.out_degrees {
                true => data.topology.out_degrees(),
                false => Vec::new(),
            },
            topology: Arc::new(data.topology.clone()),
            trained: (0..data.vertices()).filter(trains).collect(),
            labels: match parts.len() {
                1 => Labels::None,
                _ => data.labels.clone(),
            },
            owners: Owners::new(partition, parts),
        }
    }

    /// Edges at an end of a vertex.
    pub(super) fn degree(&self, vertex: u32, end: End) -> u32 {
        match end {
            End::Dst => self.topology.in_neighbours(vertex).len() as u32,
            End::Src => (self.out_degrees.get(vertex as usize))
                .copied()
                .unwrap_or(0),
        }
    }

    /// The sizes of the first batches of a run, each rank by rank.
    ///
    /// # Errors
    /// Settings that do not fit the graph; numbers that 32 bits do not hold.
    pub(crate) fn pilots(
        &self,
        programs: &[Arc<Program>],
        options: &RunOptions,
    ) -> Result<Vec<Vec<BatchSizes>>, RuntimeError> {
        let of_program = programs.iter().find_map(|one| one.sampling.as_ref());
        let Some(sampling) = of_program else {
            return Ok(Vec::new());
        };
        let (seed, threads) = (options.seed, options.threads_per_rank);
        let sampler = sampler(&self.topology, sampling, seed, threads)?;
        let partition = &self.owners.partition;
        let mut replay = Replay::new(sampler, &self.trained, sampling, partition, seed)?;
        let mut all = Vec::new();
        for batch in 0..replay.count().min(PILOT) {
            all.push(replay.sizes(At::first_epoch(batch))?);
        }
        Ok(all)
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let graph = 8 * u64::from(self.topology.vertices()) + 4 * self.topology.edges();
        let labels = match &self.labels {
            Labels::None => 0,
            Labels::Single(labels) => 4 * labels.len(),
            Labels::Multi { values, .. } => 4 * values.len(),
        };
        let lists = self.owners.bytes() + 4 * (self.type_degrees.len() + self.out_degrees.len());
        graph + (labels + lists) as u64
    }
}

/// Draws from a graph as a program says.
///
/// # Errors
/// Settings that do not fit the graph.
pub(super) fn sampler(
    topology: &Arc<Topology>,
    sampling: &Sampling,
    seed: u64,
    threads: usize,
) -> Result<Sampler<Arc<Topology>>, SampleError> {
    let rule = Rule::new(sampling.kind, sampling.fanouts.clone(), seed)?;
    Sampler::new(Arc::clone(topology), &rule, threads)
}

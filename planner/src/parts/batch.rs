//! The sampled batches of an epoch, as far as a plan depends on them.

use super::Parts;
use gnnc_graph::sample::{Batches, Rule, SampleError, by_degrees, degree_classes, room};
use gnnc_ir::plan::AlphaBasis;
use gnnc_ir::program::{BatchSizes, Capacity, RankSizes};
use gnnc_ir::words::sampling::Sampling;
use gnnc_ir::workload::Workload;

/// The batches of an epoch and their sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchPlan {
    /// Batches of an epoch.
    pub count: u32,
    /// Rows that a batch has in the mean.
    pub expected: BatchSizes,
    /// Rows that memory has room for.
    pub room: BatchSizes,
    /// Whether batches were drawn, or their sizes follow from a formula over the degrees.
    pub basis: AlphaBasis,
}

impl BatchPlan {
    /// The batches of a graph of which only statistics are known.
    ///
    /// # Errors
    /// Settings that do not fit the graph, such as no training vertices.
    pub fn estimated(workload: &Workload, sampling: &Sampling) -> Result<Self, SampleError> {
        let rule = Rule::new(sampling.kind, sampling.fanouts.clone(), 0)?;
        let trained = workload.split[0].min(u64::from(u32::MAX)) as u32;
        let batches = Batches::new((0..trained).collect(), sampling.batch, sampling.cut, 0)?;
        let seeds = f64::from(trained) / f64::from(batches.count());
        let classes = degree_classes(workload);
        let found = by_degrees(&classes, workload.relations, seeds, &rule);
        let mut expected = BatchSizes::NONE;
        let hops = rule.hops();
        for (hop, vertices) in found.vertices.iter().enumerate() {
            expected.levels[hops - hop] = vertices.ceil() as u64;
        }
        for (hop, edges) in found.edges.iter().enumerate() {
            expected.edges[hops - hop] = edges.ceil() as u64;
        }
        Ok(Self {
            count: batches.count(),
            expected,
            room: room(expected, workload.vertices, workload.edges),
            basis: AlphaBasis::Estimated,
        })
    }
}

impl Parts {
    /// The rows that a rank of these sizes has room for.
    pub fn capacity(&self, sizes: &RankSizes) -> Capacity {
        let room = self.batch.filter(|_| sizes.batch != BatchSizes::NONE);
        Capacity::of(RankSizes {
            batch: room.map_or(BatchSizes::NONE, |batch| batch.room),
            ..*sizes
        })
    }
}

//! Shares of a pipeline's chunks.

use gnnc_ir::plan::Partitioner;
use gnnc_ir::program::RankSizes;
use gnnc_ir::workload::{PartLoad, Workload};
use std::collections::BTreeMap;

/// A chunk's share of a rank's rows and edges; all chunks together have 1 of each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChunkShare {
    /// Of the vertices.
    pub rows: f64,
    /// Of the edges into them.
    pub edges: f64,
    /// Of the features' nonzeros.
    pub nonzeros: f64,
}

impl ChunkShare {
    /// One of `count` equal chunks.
    pub fn even(count: u32) -> Self {
        let share = 1.0 / f64::from(count.max(1));
        Self {
            rows: share,
            edges: share,
            nonzeros: share,
        }
    }

    /// This share of the sizes.
    pub fn of(&self, sizes: &RankSizes) -> RankSizes {
        let share = |total: u64, share: f64| (total as f64 * share).ceil() as u64;
        RankSizes {
            inner: share(sizes.inner, self.rows),
            train: share(sizes.train, self.rows),
            halo: share(sizes.halo, self.rows),
            edges: share(sizes.edges, self.edges),
            named_edges: sizes.named_edges.map(|edges| share(edges, self.edges)),
            feature_nonzeros: share(sizes.feature_nonzeros, self.nonzeros),
            ..*sizes
        }
    }
}

/// The shares of chunks that were counted.
pub fn chunk_shares(workload: &Workload) -> BTreeMap<u32, Vec<ChunkShare>> {
    let name = Partitioner::Metis.name();
    let counted = workload.partitions.keys().filter_map(|&count| {
        let summary = workload.partition(count, name)?;
        let of = |part: u64, all: u64| part as f64 / all.max(1) as f64;
        let share = |load: &PartLoad| ChunkShare {
            rows: of(load.inner, workload.vertices),
            edges: of(load.edges, workload.edges),
            nonzeros: of(load.feature_nonzeros, workload.feature_nonzeros),
        };
        Some((count, summary.parts.iter().map(share).collect()))
    });
    counted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_all_chunks_are_the_whole() {
        let whole = RankSizes {
            inner: 100,
            halo: 30,
            edges: 1000,
            feature_nonzeros: 77,
            vertices: 100,
            all_edges: 1000,
            ..RankSizes::default()
        };
        assert_eq!(ChunkShare::even(1).of(&whole), whole);
        let fourth = ChunkShare::even(4).of(&whole);
        assert_eq!([fourth.inner, fourth.halo, fourth.edges], [25, 8, 250]);
        // Rows of all vertices are unaffected.
        assert_eq!(fourth.vertices, 100);
    }
}

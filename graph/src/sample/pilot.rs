//! How large batches are, by drawing the first ones of an epoch.

use super::Blocks;
use gnnc_ir::program::BatchSizes;

/// Most batches that are drawn to find out how large they are.
pub const PILOT: u32 = 4;

/// Room that is left beyond the largest batch so far.
const ROOM: f64 = 1.25;

/// Sizes of the first batches of an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pilot {
    /// Their mean, rounded.
    pub mean: BatchSizes,
    /// The largest of each number.
    pub most: BatchSizes,
}

impl Pilot {
    /// The mean and the largest of some batches.
    pub fn of(batches: &[BatchSizes]) -> Self {
        let count = (batches.len() as u64).max(1);
        let mut mean = BatchSizes::sum(batches);
        mean.combine(&BatchSizes::NONE, |sum, _| sum.div_ceil(count));
        let mut most = BatchSizes::NONE;
        for batch in batches {
            most.combine(batch, u64::max);
        }
        Self { mean, most }
    }
}

/// Room for a little more than the sizes of a batch, but no more than a graph has.
pub fn room(sizes: BatchSizes, vertices: u64, edges: u64) -> BatchSizes {
    let more = |n: u64, most: u64| ((n as f64 * ROOM).ceil() as u64).min(most);
    BatchSizes {
        levels: sizes.levels.map(|n| more(n, vertices)),
        edges: sizes.edges.map(|n| more(n, edges)),
        remote: sizes.remote.map(|n| more(n, vertices)),
        remote_edges: sizes.remote_edges.map(|n| more(n, edges)),
        cached: sizes.cached.map(|n| more(n, vertices)),
        all_levels: sizes.all_levels.map(|n| more(n, u64::MAX)),
        all_edges: sizes.all_edges.map(|n| more(n, u64::MAX)),
        of_sets: sizes.of_sets.map(|n| more(n, vertices)),
        owned: more(sizes.owned, vertices),
        sets: sizes.sets,
        count: sizes.count,
    }
}

impl Blocks {
    /// Rows of the levels, and edges of the layers.
    pub fn batch_sizes(&self) -> BatchSizes {
        let mut sizes = BatchSizes::NONE;
        for number in 0..=self.layers() {
            sizes.levels[number] = self.level(number).len() as u64;
            if number > 0 {
                sizes.edges[number] = self.layer(number).edges.indices.len() as u64;
            }
        }
        sizes
    }
}

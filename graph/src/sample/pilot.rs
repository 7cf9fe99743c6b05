//! How large batches are, by drawing the first ones of an epoch.

use super::{Batches, Blocks, SampleError, Sampler};
use crate::Topology;
use gnnc_ir::program::BatchSizes;
use std::borrow::Borrow;

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
    /// Draws the first batches of an epoch (counted from 0), at most `PILOT`.
    ///
    /// # Errors
    /// As [`Batches::epoch`] and [`Sampler::sample`].
    pub fn draw<T: Borrow<Topology> + Send + Sync>(
        sampler: &mut Sampler<T>,
        batches: &Batches,
        epoch: u32,
    ) -> Result<Self, SampleError> {
        let (order, count) = (batches.epoch(epoch)?, batches.count().min(PILOT));
        let (mut most, mut sum) = (BatchSizes::NONE, BatchSizes::NONE);
        let mut blocks = Blocks::default();
        for batch in 0..count {
            sampler.sample(order.seeds(batch), order.step(batch), &mut blocks)?;
            let sizes = blocks.batch_sizes();
            most = most.max(sizes);
            sum = sum.each(sizes, |a, b| a + b);
        }
        let times = BatchSizes {
            levels: [count.into(); _],
            edges: [count.into(); _],
        };
        let mean = sum.each(times, |sum, count| sum.div_ceil(count.max(1)));
        Ok(Self { mean, most })
    }
}

/// Room for a little more than the sizes of a batch, but no more than a graph has.
pub fn room(sizes: BatchSizes, vertices: u64, edges: u64) -> BatchSizes {
    let more = |n: u64, most: u64| ((n as f64 * ROOM).ceil() as u64).min(most);
    BatchSizes {
        levels: sizes.levels.map(|n| more(n, vertices)),
        edges: sizes.edges.map(|n| more(n, edges)),
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

//! Draws batches as all ranks do, to count their rows.

use super::{At, BatchSource, Cached, Copies, RankBatch, RankSeeds, SampleError, Sampler};
use crate::Topology;
use crate::partition::Partition;
use gnnc_ir::program::BatchSizes;
use gnnc_ir::words::sampling::Sampling;
use std::borrow::Borrow;
use std::sync::Arc;

/// Draws batches as all ranks do, to count their rows.
pub struct Replay<T> {
    sampler: Sampler<T>,
    ranks: Vec<RankSeeds>,
    batch: RankBatch,
    /// The copies of each rank, if they age.
    copies: Vec<Copies>,
    /// The level of which rows are read.
    level: usize,
}

impl<T: Borrow<Topology> + Clone + Send + Sync> Replay<T> {
    /// The batches that a sampler draws for the ranks of a partition, which keep rows of each other in `caches`, if
    /// there are any. `seed` is that of the run.
    ///
    /// # Errors
    /// As [`RankSeeds::new`].
    pub fn new(
        sampler: Sampler<T>,
        seeds: &[u32],
        sampling: &Sampling,
        partition: &Arc<Partition>,
        seed: u64,
        caches: &[Arc<Cached>],
    ) -> Result<Self, SampleError> {
        let of_rank = |rank: u32| {
            let own = RankSeeds::new(seeds.to_vec(), sampling, partition, rank, seed)?;
            Ok(own.with_cache(caches.get(rank as usize)))
        };
        let ranks: Result<_, SampleError> = (0..partition.parts()).map(of_rank).collect();
        Ok(Self {
            sampler,
            ranks: ranks?,
            batch: RankBatch::default(),
            copies: Vec::new(),
            level: 0,
        })
    }

    /// For each rank, the share of the reads of kept rows that fetches them again, in the mean over the batches of an
    /// epoch; empty if copies do not age.
    ///
    /// # Errors
    /// As [`BatchSource::caches`].
    pub fn fetched_shares(
        &self,
        seeds: &[u32],
        sampling: &Sampling,
    ) -> Result<Vec<f64>, SampleError> {
        let Some(partition) = self.ranks.first().map(RankSeeds::partition) else {
            return Ok(Vec::new());
        };
        let source = BatchSource {
            edges: self.sampler.edges(),
            seeds,
            sampling,
            partition,
            // Means do not depend on it.
            seed: 0,
        };
        let caches = self.ranks.iter().filter_map(RankSeeds::cached);
        source.fetched_shares(&caches.collect::<Vec<_>>(), self.count())
    }

    /// Counts rows of caches that are too old as fetched. Rows of a level are read. All batches of an epoch have to be
    /// counted, in their order.
    pub fn with_copies(mut self, age: u32, level: u8) -> Self {
        let rows = |rank: &RankSeeds| rank.cached().map_or(0, |cached| cached.ids().len());
        self.copies = self
            .ranks
            .iter()
            .map(|rank| Copies::new(age, rows(rank)))
            .collect();
        self.level = level.into();
        self
    }

    /// Batches of an epoch.
    pub fn count(&self) -> u32 {
        self.ranks.first().map_or(0, RankSeeds::count)
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// Goes on with the batches of another run.
    pub fn reseed(&mut self, seed: u64) {
        self.sampler.reseed(seed);
        self.ranks.iter_mut().for_each(|rank| rank.reseed(seed));
    }

    /// The rows of a batch, rank by rank, without those that ranks share.
    ///
    /// # Errors
    /// As [`RankSeeds::draw`].
    pub fn sizes(&mut self, at: At) -> Result<Vec<BatchSizes>, SampleError> {
        let Self {
            sampler,
            ranks,
            batch,
            copies,
            level,
        } = self;
        let mut all = Vec::with_capacity(ranks.len());
        for (number, rank) in ranks.iter_mut().enumerate() {
            let mut sizes = rank.draw(sampler, at, batch)?;
            if let (Some(copies), Some(cached), Some(set)) =
                (copies.get_mut(number), rank.cached(), batch.sets.first())
            {
                copies.count(set.blocks.level(*level), cached, at.batch, &mut sizes);
            }
            all.push(sizes);
        }
        Ok(all)
    }

    /// The rows of the sets of a batch, rank by rank and set by set.
    ///
    /// # Errors
    /// As [`RankSeeds::draw`].
    pub fn sets(&mut self, at: At) -> Result<Vec<Vec<BatchSizes>>, SampleError> {
        let Self {
            sampler,
            ranks,
            batch,
            ..
        } = self;
        let of_rank = |rank: &mut RankSeeds| {
            rank.draw(sampler, at, batch)?;
            Ok(batch.sets.iter().map(|set| set.sizes).collect())
        };
        ranks.iter_mut().map(of_rank).collect()
    }
}

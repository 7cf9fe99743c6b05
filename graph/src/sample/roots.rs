//! The seeds that one rank works on, and how large its part of a batch is.

use super::cache::count_remote;
use super::{
    Batches, Blocks, Cached, Cut, Epoch, Gathered, LeftOut, SampleError, Sampler, SetSeeds, home,
    shares,
};
use crate::partition::Partition;
use crate::{GraphData, Topology};
use gnnc_ir::program::BatchSizes;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::words::sampling::{Roots, Sampling};
use std::borrow::Borrow;
use std::sync::Arc;

/// Checks that the cut goes with the roots.
///
/// # Errors
/// Another cut than [`Cut::Even`] of shares of the seeds.
pub fn check_roots(sampling: &Sampling) -> Result<(), SampleError> {
    match sampling.roots == Roots::Own && sampling.cut != Cut::Even {
        true => Err(SampleError::CutOfShares { cut: sampling.cut }),
        false => Ok(()),
    }
}

/// A batch of a run; all numbers count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The epoch.
    pub epoch: u32,
    /// The batch of the epoch.
    pub batch: u32,
    /// The optimizer step of the run.
    pub step: u32,
}

/// The optimizer step that the draws of evaluations have in place of a real one, which is smaller. So
/// every evaluation of a run draws the same neighbors.
const EVALUATION: u32 = u32::MAX;

impl At {
    /// A batch of an evaluation.
    pub fn evaluation(batch: u32) -> Self {
        Self {
            epoch: 0,
            batch,
            step: EVALUATION,
        }
    }

    /// A batch of the first run of a list.
    pub fn first_of(phase: Phase, batch: u32) -> Self {
        match phase {
            Phase::Setup | Phase::Step => Self::first_epoch(batch),
            Phase::Eval => Self::evaluation(batch),
        }
    }

    /// The batch `n` after this one, if an epoch or evaluation of `count` batches has it.
    pub fn ahead(self, n: u32, count: u32) -> Option<Self> {
        let batch = self.batch.checked_add(n).filter(|batch| *batch < count)?;
        let step = match self.step {
            EVALUATION => EVALUATION,
            step => step.checked_add(n)?,
        };
        Some(Self {
            batch,
            step,
            ..self
        })
    }

    /// A batch of the first epoch of a run.
    pub fn first_epoch(batch: u32) -> Self {
        Self {
            epoch: 0,
            batch,
            step: batch,
        }
    }
}

/// The vertices from which the batches of a list are drawn, ascending: in training those that are
/// trained on, in evaluations those of any split.
pub fn seeds(data: &GraphData, phase: Phase) -> Vec<u32> {
    let is_in = |split: &[bool], v: u32| split.get(v as usize) == Some(&true);
    let is_seed = |v: &u32| {
        let evaluated = is_in(&data.val, *v) || is_in(&data.test, *v);
        is_in(&data.train, *v) || phase == Phase::Eval && evaluated
    };
    (0..data.vertices()).filter(is_seed).collect()
}

/// A rank's part of a batch: one set of seeds with its levels, or several.
#[derive(Clone, Debug, Default)]
pub struct RankBatch {
    /// The sets, one after the other.
    pub sets: Vec<RankSet>,
    /// The vertices of all sets, if seeds are in sets.
    pub gathered: Gathered,
}

impl RankBatch {
    /// The plain edges that no hop of any set drew.
    pub fn left_out(&self) -> &LeftOut {
        static NONE: LeftOut = LeftOut::NONE;
        self.sets.first().map_or(&NONE, |set| set.blocks.left_out())
    }
}

/// The levels of a set of seeds.
#[derive(Clone, Debug, Default)]
pub struct RankSet {
    /// The levels, and the edges between them.
    pub blocks: Blocks,
    /// Their rows.
    pub sizes: BatchSizes,
}

/// The seeds of one rank, batch by batch.
#[derive(Clone, Debug)]
pub struct RankSeeds {
    partition: Arc<Partition>,
    rank: u32,
    roots: Roots,
    /// Batches of all ranks together; with [`Roots::Own`], those of each rank.
    batches: Vec<Batches>,
    /// The epoch at hand.
    epoch: Option<u32>,
    /// Its order, for each entry of `batches`.
    orders: Vec<Epoch>,
    /// How many sets are merged with others, if seeds are in sets.
    merges: Option<u32>,
    /// Rows of other ranks that the rank keeps.
    cached: Option<Arc<Cached>>,
    /// Whether ranks hold the edges into their own vertices only.
    apart: bool,
    /// Own seeds of the batch at hand.
    seeds: Vec<u32>,
    /// The same in sets.
    sets: SetSeeds,
}

impl RankSeeds {
    /// The seeds of a rank among the `seeds` of all. `seed` is that of the run.
    ///
    /// # Errors
    /// No training vertices; a batch size of 0; a cut that leaves no batch, or that does not go with
    /// [`Roots::Own`].
    pub fn new(
        seeds: Vec<u32>,
        sampling: &Sampling,
        partition: &Arc<Partition>,
        rank: u32,
        seed: u64,
    ) -> Result<Self, SampleError> {
        check_roots(sampling)?;
        let own = sampling.roots == Roots::Own && partition.parts() > 1;
        let batches = match own {
            true => Batches::own(&shares(&seeds, partition), sampling.batch, seed)?,
            false => vec![Batches::new(seeds, sampling.batch, sampling.cut, seed)?],
        };
        Ok(Self {
            partition: Arc::clone(partition),
            rank,
            roots: sampling.roots,
            batches,
            epoch: None,
            orders: Vec::new(),
            merges: sampling.merges.filter(|_| partition.parts() > 1),
            cached: None,
            apart: sampling.draws_apart(),
            seeds: Vec::new(),
            sets: SetSeeds::default(),
        })
    }

    /// The same with rows of other ranks that the rank keeps, if it keeps any.
    pub fn with_cache(self, cached: Option<&Arc<Cached>>) -> Self {
        Self {
            cached: cached.map(Arc::clone),
            ..self
        }
    }

    /// The rows of other ranks that the rank keeps, if it keeps any.
    pub(super) fn cached(&self) -> Option<&Cached> {
        self.cached.as_deref()
    }

    /// Which rank owns which vertex.
    pub(super) fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    /// Goes on with the order of another run.
    pub fn reseed(&mut self, seed: u64) {
        self.batches
            .iter_mut()
            .for_each(|batches| batches.reseed(seed));
        self.epoch = None;
    }

    /// Batches of an epoch, the same on all ranks.
    pub fn count(&self) -> u32 {
        self.batches.first().map_or(0, Batches::count)
    }

    /// Goes to a batch of an epoch, both counted from 0.
    ///
    /// # Errors
    /// An epoch with steps that 32 bits cannot count.
    pub fn go_to(&mut self, epoch: u32, batch: u32) -> Result<(), SampleError> {
        if self.epoch != Some(epoch) {
            let orders = self.batches.iter().map(|batches| batches.epoch(epoch));
            self.orders = orders.collect::<Result<_, _>>()?;
            self.epoch = Some(epoch);
        }
        let ranks = self.partition.parts();
        let of_rank = self.orders.get(self.rank as usize);
        if let (Some(merges), [order]) = (self.merges, &self.orders[..]) {
            self.sets = SetSeeds::of(order.seeds(batch), &self.partition, self.rank, merges);
            self.seeds = self.sets.sets().concat();
            return Ok(());
        }
        match (&self.orders[..], of_rank) {
            ([order], _) if self.roots == Roots::Dealt => {
                self.seeds.clear();
                let dealt = order.dealt(batch, ranks, self.rank);
                self.seeds.extend_from_slice(dealt);
            }
            ([order], _) => {
                let seeds = order.seeds(batch);
                home(seeds, &self.partition, self.rank, &mut self.seeds);
            }
            (_, Some(order)) => {
                self.seeds.clear();
                self.seeds.extend_from_slice(order.seeds(batch));
            }
            (_, None) => self.seeds.clear(),
        }
        Ok(())
    }

    /// This rank's seeds of the batch at hand; there may be none.
    pub fn seeds(&self) -> &[u32] {
        &self.seeds
    }

    /// Seeds of a batch of the epoch at hand, on all ranks.
    pub fn of_all(&self, batch: u32) -> u32 {
        let seeds = self.orders.iter().map(|order| order.seeds(batch).len());
        seeds.sum::<usize>() as u32
    }

    /// These seeds, in the same order on all ranks.
    pub fn seeds_of_all(&self, batch: u32) -> impl Iterator<Item = u32> {
        let seeds = self.orders.iter().map(move |order| order.seeds(batch));
        seeds.flatten().copied()
    }

    /// Seeds of all batches of the epoch at hand, on all ranks.
    pub fn used(&self) -> u32 {
        self.orders.iter().map(Epoch::used).sum()
    }

    /// Whether seeds are in sets.
    fn in_sets(&self) -> bool {
        self.merges.is_some() && self.batches.len() == 1
    }

    /// The sets of the batch at hand, if seeds are in sets.
    pub fn sets(&self) -> &SetSeeds {
        &self.sets
    }

    /// Draws a batch, and counts its rows; with several sets, the most that any of them has.
    ///
    /// # Errors
    /// As [`Self::go_to`] and [`Sampler::sample`].
    pub fn draw<T: Borrow<Topology> + Send + Sync>(
        &mut self,
        sampler: &mut Sampler<T>,
        at: At,
        batch: &mut RankBatch,
    ) -> Result<BatchSizes, SampleError> {
        self.go_to(at.epoch, at.batch)?;
        let by_set = self.seeds_by_set();
        batch.sets.resize_with(by_set.len(), RankSet::default);
        for (set, seeds) in batch.sets.iter_mut().zip(by_set) {
            let all = self.seeds_of_all(at.batch);
            sampler.sample_of(seeds, all, at.step, &mut set.blocks)?;
        }
        Ok(self.count_rows(batch))
    }

    /// This rank's seeds of the batch at hand, by set.
    pub fn seeds_by_set(&self) -> &[Vec<u32>] {
        match self.in_sets() {
            true => self.sets.sets(),
            false => std::slice::from_ref(&self.seeds),
        }
    }

    /// Begins a batch that is drawn hop by hop. When it is drawn, [`Self::count_rows`] counts its rows.
    ///
    /// # Errors
    /// As [`Self::go_to`] and [`Sampler::begin`].
    pub fn begin<T: Borrow<Topology> + Send + Sync>(
        &mut self,
        sampler: &mut Sampler<T>,
        at: At,
        batch: &mut RankBatch,
    ) -> Result<(), SampleError> {
        self.go_to(at.epoch, at.batch)?;
        batch.sets.resize_with(1, RankSet::default);
        sampler.begin(&self.seeds, &mut batch.sets[0].blocks)
    }

    /// Counts the rows of a batch that was drawn; with several sets, the most that any of them has. Gathers the vertices of
    /// all sets.
    pub fn count_rows(&self, batch: &mut RankBatch) -> BatchSizes {
        if self.in_sets() {
            return self.count_sets(batch);
        }
        let Some(RankSet { blocks, sizes }) = batch.sets.first_mut() else {
            return BatchSizes::NONE;
        };
        *sizes = blocks.batch_sizes();
        sizes.count = self.count().into();
        if self.partition.parts() == 1 {
            return *sizes;
        }
        let (owner, hops) = (self.partition.owner(), blocks.layers());
        let mut known = 0;
        let levels = (0..=hops).rev().map(|level| {
            let ids = blocks.level(level);
            &ids[std::mem::replace(&mut known, ids.len())..]
        });
        let elsewhere = |v: u32| owner[v as usize] != self.rank;
        count_remote(levels, elsewhere, self.cached.as_deref(), sizes, hops);
        for level in (1..=hops).filter(|_| self.apart) {
            let rows = blocks.layer(level).edges.indptr.windows(2);
            let rows = blocks.level(level).iter().zip(rows);
            let remote = rows.filter(|(v, _)| elsewhere(**v));
            sizes.remote_edges[level] = remote.map(|(_, row)| row[1] - row[0]).sum();
        }
        *sizes
    }

    fn count_sets(&self, batch: &mut RankBatch) -> BatchSizes {
        let RankBatch { sets, gathered } = batch;
        let owner = self.partition.owner();
        gathered.gather(sets.iter().map(|set| &set.blocks), owner.len());
        let mut shared = BatchSizes::NONE;
        let elsewhere = |v: u32| owner[v as usize] != self.rank;
        gathered.count(elsewhere, self.cached.as_deref(), &mut shared);
        shared.sets = sets.len() as u64;
        shared.count = self.count().into();
        let mut most = shared;
        for set in sets {
            let own = set.blocks.batch_sizes();
            set.sizes = BatchSizes {
                levels: own.levels,
                edges: own.edges,
                ..shared
            };
            most = most.max(&set.sizes);
        }
        most
    }
}

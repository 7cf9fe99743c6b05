//! The batches of an epoch: which seeds, in which order, and which rank works on them.

use super::{Cut, SampleError};
use crate::partition::Partition;
use crate::rng::Stream;
use gnnc_ir::words::types::share;
use std::ops::Range;

/// The purpose of the streams that shuffle seeds, to which the epoch is added.
const SHUFFLE: u64 = 0x73_6565_6473;

/// The batches of every epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batches {
    /// Ascending.
    seeds: Vec<u32>,
    division: Division,
    seed: u64,
    /// Purpose of the shuffling stream, without the epoch.
    purpose: u64,
}

/// How an epoch's seeds are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    size: u32,
    count: u32,
    cut: Cut,
}

/// One epoch's seeds in their order.
#[derive(Clone, Debug)]
pub struct Epoch {
    division: Division,
    order: Vec<u32>,
    first_step: u32,
}

impl Division {
    /// Of `all` seeds into batches of `size`.
    ///
    /// # Errors
    /// No seeds; a size of 0; a cut that leaves no batch.
    pub fn new(all: u32, size: u32, cut: Cut) -> Result<Self, SampleError> {
        if all == 0 {
            return Err(SampleError::NoSeeds);
        }
        if size == 0 {
            return Err(SampleError::EmptyBatch);
        }
        let count = match cut {
            Cut::Even | Cut::Short => all.div_ceil(size),
            Cut::Drop => all / size,
        };
        match count {
            0 => Err(SampleError::NothingLeft {
                size,
                seeds: all as usize,
            }),
            count => Ok(Self { size, count, cut }),
        }
    }

    /// Batches of an epoch.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Where a batch lies in the order of `all` seeds; empty if there is no such batch.
    fn range(&self, all: u32, batch: u32) -> Range<usize> {
        let range = match self.cut {
            _ if batch >= self.count => 0..0,
            Cut::Even => share(all, self.count, batch),
            Cut::Short | Cut::Drop => {
                let begin = batch * self.size;
                begin..all.min(begin.saturating_add(self.size))
            }
        };
        range.start as usize..range.end as usize
    }
}

impl Batches {
    /// Batches of `size` seeds, which all ranks work on together. `seed` is that of the run.
    ///
    /// # Errors
    /// No seeds; a size of 0; a cut that leaves no batch.
    pub fn new(mut seeds: Vec<u32>, size: u32, cut: Cut, seed: u64) -> Result<Self, SampleError> {
        let division = Division::new(seeds.len() as u32, size, cut)?;
        seeds.sort_unstable();
        Ok(Self {
            seeds,
            division,
            seed,
            purpose: SHUFFLE,
        })
    }

    /// For each rank, batches of its own share of the seeds (see [`shares`]): as many on every rank
    /// as [`Batches::new`] with [`Cut::Even`] makes of all seeds. Those of a rank with a small share
    /// may be empty.
    ///
    /// Unlike [`Epoch::dealt`] and [`home`], the seeds of a step depend on the shares.
    ///
    /// # Errors
    /// No seeds at all; a size of 0.
    pub fn own(shares: &[Vec<u32>], size: u32, seed: u64) -> Result<Vec<Self>, SampleError> {
        let all = Self::new(shares.concat(), size, Cut::Even, seed)?;
        let of_rank = |(rank, share): (u64, &Vec<u32>)| {
            let mut seeds = share.clone();
            seeds.sort_unstable();
            Self {
                seeds,
                purpose: SHUFFLE.wrapping_add((1 + rank) << 40),
                ..all
            }
        };
        Ok((0..).zip(shares).map(of_rank).collect())
    }

    /// Goes on with the order of another run.
    pub(super) fn reseed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Batches of an epoch.
    pub fn count(&self) -> u32 {
        self.division.count
    }

    /// All seeds, ascending.
    pub fn seeds(&self) -> &[u32] {
        &self.seeds
    }

    /// An epoch, counted from 0.
    ///
    /// # Errors
    /// An epoch with steps that 32 bits cannot count.
    pub fn epoch(&self, epoch: u32) -> Result<Epoch, SampleError> {
        let count = self.division.count;
        let steps = u64::from(epoch) * u64::from(count);
        let too_many = SampleError::TooManySteps {
            epoch,
            batches: count,
        };
        let last = u32::try_from(steps + u64::from(count)).map_err(|_| too_many)?;
        let purpose = self.purpose.wrapping_add(u64::from(epoch));
        let mut order = Stream::new(self.seed, purpose).permutation(self.seeds.len() as u32);
        for place in &mut order {
            *place = self.seeds[*place as usize];
        }
        Ok(Epoch {
            division: self.division,
            order,
            first_step: last - count,
        })
    }
}

impl Epoch {
    /// The seeds of a batch, in order; none if there is no such batch.
    pub fn seeds(&self, batch: u32) -> &[u32] {
        let all = self.order.len() as u32;
        &self.order[self.division.range(all, batch)]
    }

    /// Seeds of all batches.
    pub fn used(&self) -> u32 {
        let batches = 0..self.division.count;
        batches.map(|batch| self.seeds(batch).len() as u32).sum()
    }

    /// The optimizer step of a batch, counted over the run.
    pub fn step(&self, batch: u32) -> u32 {
        self.first_step.wrapping_add(batch)
    }

    /// The seeds of a batch that a rank works on if they are dealt out: runs in rank order whose
    /// lengths differ by at most one.
    pub fn dealt(&self, batch: u32, ranks: u32, rank: u32) -> &[u32] {
        let seeds = self.seeds(batch);
        let run = share(seeds.len() as u32, ranks, rank);
        &seeds[run.start as usize..run.end as usize]
    }
}

/// Fills `out` with the seeds that a rank owns, in their order.
pub fn home(seeds: &[u32], partition: &Partition, rank: u32, out: &mut Vec<u32>) {
    let owner = partition.owner();
    out.clear();
    out.extend(seeds.iter().filter(|v| owner[**v as usize] == rank));
}

/// Divides seeds among ranks so that shares differ by at most one in size and most seeds are their
/// rank's own (Zheng et al., DistDGL, IA3 2020): the seeds by owner are cut into
/// runs, and each run goes to the rank that owns most of it, as far as ranks are free.
pub fn shares(seeds: &[u32], partition: &Partition) -> Vec<Vec<u32>> {
    let (owner, ranks) = (partition.owner(), partition.parts());
    let mut ordered = seeds.to_vec();
    ordered.sort_unstable_by_key(|v| (owner[*v as usize], *v));
    let mut overlaps = Vec::new();
    for run in 0..ranks {
        let range = share(ordered.len() as u32, ranks, run);
        let run_seeds = &ordered[range.start as usize..range.end as usize];
        for owned in run_seeds.chunk_by(|a, b| owner[*a as usize] == owner[*b as usize]) {
            overlaps.push((
                std::cmp::Reverse(owned.len()),
                run,
                owner[owned[0] as usize],
            ));
        }
    }
    overlaps.sort_unstable();
    let mut rank_of = vec![None; ranks as usize];
    let mut run_of = vec![None; ranks as usize];
    for (_, run, rank) in overlaps {
        if rank_of[run as usize].is_none() && run_of[rank as usize].is_none() {
            rank_of[run as usize] = Some(rank);
            run_of[rank as usize] = Some(run);
        }
    }
    let mut free = (0..ranks).filter(|run| rank_of[*run as usize].is_none());
    let run_of = run_of.into_iter().map(|run| run.or_else(|| free.next()));
    let share_of = |run: Option<u32>| {
        let range = share(ordered.len() as u32, ranks, run.unwrap_or(0));
        ordered[range.start as usize..range.end as usize].to_vec()
    };
    run_of.map(share_of).collect()
}

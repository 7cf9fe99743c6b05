//! What a session knows of the sampled batches of its epochs.

use super::Session;
use super::checkpoints::trained;
use crate::RuntimeError;
use crate::error::Failure;
use crate::part::batch::Batch;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{BatchSizes, BufferId};

/// Floats of some buffers of a rank.
pub(super) type Kept = Vec<(BufferId, Vec<f32>)>;

impl Session {
    /// How often a batch was larger than the memory laid out for it, over all ranks.
    ///
    /// # Errors
    /// A process that failed.
    pub fn grown(&self) -> Result<u64, RuntimeError> {
        let of_lists = [Phase::Step, Phase::Eval].map(|phase| {
            let of_ranks = self.of_batches(phase, |batch| batch.grown);
            of_ranks.into_iter().map(u64::from).sum::<u64>()
        });
        self.sum(of_lists.into_iter().sum())
    }

    /// For each rank that samples, how large its part of each batch of a list's last run was.
    ///
    /// # Errors
    /// A process that failed.
    pub fn drawn(&self, phase: Phase) -> Result<Vec<Vec<BatchSizes>>, RuntimeError> {
        let here = self.of_batches(phase, |batch| batch.drawn.clone());
        Ok(self.rank_set.gather(here)?.concat())
    }

    /// Goes on with the draws of another run.
    pub(super) fn reseed(&mut self, seed: u64) {
        self.options.seed = seed;
        (self.rank_set).each(&mut |rank| rank.rank().part.batches.reseed(seed));
    }

    /// Optimizer steps so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// What checkpoints hold of each rank, if an epoch changes it in every batch.
    pub(super) fn before_batches(&self) -> Result<Vec<Kept>, RuntimeError> {
        let mut all = Vec::new();
        self.rank_set.try_each(|at_rest| {
            let program = &at_rest.rank().program;
            let held = (0..).zip(&program.buffers);
            let held =
                held.filter(|(_, buffer)| program.sampling.is_some() && trained(buffer.role));
            let ids: Vec<BufferId> = held.map(|(n, _)| BufferId(n)).collect();
            let read = ids.into_iter().map(|id| Ok((id, at_rest.read(id)?)));
            all.push(read.collect::<Result<Kept, Failure>>()?);
            Ok(())
        })?;
        Ok(all)
    }

    /// Puts back what an abandoned epoch changed.
    pub(super) fn put_back(&self, kept: &[Kept]) -> Result<(), RuntimeError> {
        let mut kept = kept.iter();
        Ok(self.rank_set.try_each(|at_rest| {
            let of_rank = kept.next().into_iter().flatten();
            of_rank
                .into_iter()
                .try_for_each(|(id, floats)| at_rest.write(*id, floats))
        })?)
    }

    fn of_batches<T>(&self, phase: Phase, of: impl Fn(&Batch) -> T) -> Vec<T> {
        let ranks = self
            .rank_set
            .map(|rank| rank.rank().part.batches.of(phase).map(&of));
        ranks.into_iter().flatten().collect()
    }
}

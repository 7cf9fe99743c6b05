//! A session's record of rows of earlier epochs.

use super::Session;
use crate::Failure;
use crate::checkpoint::{Progress, Tensor};
use crate::clocks::Clock;
use crate::staleness::Staleness;
use crate::{RuntimeError, histories};
use gnnc_ir::program::{Program, Skip};

/// For each rank, history and iteration, whether the rank sent its block.
pub struct Decisions(Vec<Vec<Vec<bool>>>);

impl Decisions {
    /// Whether a rank sent its block in an exchange that may be left out, in programs like this one.
    pub fn sent(&self, program: &Program, skip: &Skip, iteration: u32, block: u32) -> bool {
        let of_rank = self.0.get(block as usize);
        let of_history = of_rank.and_then(|all| all.get(program.history(skip)?));
        let sent = of_history.and_then(|all| all.get(iteration as usize));
        sent.copied().unwrap_or(false)
    }
}

impl Session {
    /// Ages of the data training epochs read, over all ranks, since the session began.
    ///
    /// # Errors
    /// A process that failed.
    pub fn staleness(&self) -> Result<Staleness, RuntimeError> {
        let here = self.rank_set.map(|rank| rank.rank().staleness.clone());
        let mut all = Staleness::default();
        for of_rank in self.rank_set.gather(here)?.concat() {
            all.add(&of_rank);
        }
        Ok(all)
    }

    /// The epoch, counted from 0, that began without copies of other ranks' rows: 0, or that of a
    /// checkpoint without copies.
    pub fn copies_since(&self) -> u64 {
        let began = self.rank_set.map(|rank| rank.rank().clocks.began);
        began.first().copied().unwrap_or(0)
    }

    /// Which ranks sent their blocks in the latest epoch, in exchanges that may be left out.
    ///
    /// # Errors
    /// A process that failed.
    pub fn decisions(&self) -> Result<Decisions, RuntimeError> {
        let active = |clock: &Clock| clock.active;
        let of_history = |clocks: &Vec<Clock>| clocks.iter().map(active).collect();
        let here = self.rank_set.map(|rank| {
            let clocks = &rank.rank().clocks.of;
            clocks.iter().map(of_history).collect()
        });
        Ok(Decisions(self.rank_set.gather(here)?.concat()))
    }

    /// Copies of other ranks' rows with their ages, as checkpoints hold them.
    pub(super) fn copies(&self) -> Result<Vec<Tensor>, Failure> {
        histories::join(&*self.rank_set, self.vertices, self.epoch)
    }

    /// Restores copies and their ages from a checkpoint, or drops all copies.
    pub(super) fn restore(
        &mut self,
        progress: &Progress,
        tensors: Option<&Vec<Tensor>>,
    ) -> Result<(), Failure> {
        let vertices = self.vertices;
        self.rank_set.try_each(|rank| {
            let clocks = &mut rank.rank().clocks;
            clocks.forget(progress.epoch);
            if let Some(tensors) = tensors {
                clocks.began = progress.began.unwrap_or(progress.epoch);
                histories::cut(rank, tensors, vertices, progress.epoch)?;
            }
            Ok(())
        })
    }
}

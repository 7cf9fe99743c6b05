//! A session's record of rows of earlier epochs.

use super::Session;
use crate::Failure;
use crate::checkpoint::{Progress, Tensor};
use crate::rank::Rank;
use crate::staleness::Staleness;
use crate::{histories, init};
use gnnc_ir::program::Skip;

impl Session {
    /// Ages of the data training epochs read, over all ranks, since the session began.
    pub fn staleness(&self) -> Staleness {
        let mut all = Staleness::default();
        self.rank_set
            .each(&mut |rank| all.add(&rank.rank().staleness));
        all
    }

    /// The epoch, counted from 0, that began without copies of other ranks' rows: 0, or that of a
    /// checkpoint without copies.
    pub fn copies_since(&self) -> u64 {
        let began = self.rank_set.map(|rank| rank.rank().clocks.began);
        began.first().copied().unwrap_or(0)
    }

    /// Whether a rank sent its block in the latest epoch, in an exchange that may be left out.
    pub fn sent(&self, skip: &Skip, iteration: u32, block: u32) -> bool {
        let mut active = false;
        self.rank_set.each(&mut |rank| {
            let rank = rank.rank();
            let clocks = rank
                .program
                .history(skip)
                .and_then(|n| rank.clocks.of.get(n));
            let clock = clocks.and_then(|clocks| clocks.get(iteration as usize));
            active |= rank.number == block && clock.is_some_and(|clock| clock.active);
        });
        active
    }

    /// Copies of other ranks' rows with their ages, as checkpoints hold them.
    pub(super) fn copies(&self) -> Result<Vec<Tensor>, Failure> {
        histories::join(&*self.rank_set, self.vertices, self.epoch)
    }

    /// A hash of the partition of the vertices.
    pub(super) fn division_hash(&self) -> u64 {
        let own = |rank: &Rank| format!("{:?}", &rank.part.global[..rank.part.inner]);
        let text = self.rank_set.map(|rank| own(rank.rank())).concat();
        init::name_hash(&text)
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

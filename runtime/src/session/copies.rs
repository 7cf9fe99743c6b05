//! What sessions know of rows of earlier epochs.

use super::Session;
use crate::Failure;
use crate::checkpoint::{Progress, Tensor};
use crate::rank::Rank;
use crate::staleness::Staleness;
use crate::{histories, init};
use gnnc_ir::program::Skip;

impl Session {
    /// How old what training epochs read was, all ranks together, since the session began.
    pub fn staleness(&self) -> Staleness {
        let mut all = Staleness::default();
        self.rank_set
            .each(&mut |rank| all.add(&rank.rank().staleness));
        all
    }

    /// The epoch, counted from 0, in which there were no copies of rows of other ranks: 0, or that of the
    /// checkpoint that had none.
    pub fn copies_since(&self) -> u64 {
        let began = self.rank_set.map(|rank| rank.rank().clocks.began);
        began.first().copied().unwrap_or(0)
    }

    /// Whether a rank sent its block in the latest epoch, of an exchange that may be left out.
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

    /// Copies of rows of other ranks with their ages, as checkpoints hold them.
    pub(super) fn copies(&self) -> Result<Vec<Tensor>, Failure> {
        histories::join(&*self.rank_set, self.vertices, self.epoch)
    }

    /// Tells one division of the vertices from another.
    pub(super) fn division_hash(&self) -> u64 {
        let own = |rank: &Rank| format!("{:?}", &rank.part.global[..rank.part.inner]);
        let text = self.rank_set.map(|rank| own(rank.rank())).concat();
        init::name_hash(&text)
    }

    /// Takes copies and their ages from a checkpoint, or forgets all that there are.
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

//! What sessions know of rows of earlier epochs.

use super::Session;
use crate::checkpoint::{Progress, Tensor};
use crate::exchange::skip::history;
use crate::staleness::Staleness;
use crate::{histories, init};
use gnnc_ir::program::Skip;

impl Session {
    /// How old what training epochs read was, all ranks together, since the session began.
    pub fn staleness(&self) -> Staleness {
        let mut all = Staleness::default();
        self.crew.ranks().for_each(|rank| all.add(&rank.staleness));
        all
    }

    /// The epoch, counted from 0, in which there were no copies of rows of other ranks: 0, or that of the
    /// checkpoint that had none.
    pub fn copies_since(&self) -> u64 {
        self.crew.ranks().next().map_or(0, |rank| rank.clocks.began)
    }

    /// Whether a rank sent its block in the latest epoch, of an exchange that may be left out.
    pub fn sent(&self, skip: &Skip, iteration: u32, block: u32) -> bool {
        let Some(rank) = self.crew.ranks().nth(block as usize) else {
            return false;
        };
        let clocks = history(&rank.program, skip).and_then(|n| rank.clocks.of.get(n));
        let clock = clocks.and_then(|clocks| clocks.get(iteration as usize));
        clock.is_some_and(|clock| clock.active)
    }

    /// Copies of rows of other ranks with their ages, as checkpoints hold them.
    pub(super) fn copies(&self) -> Vec<Tensor> {
        let ranks: Vec<_> = self.crew.ranks().collect();
        histories::join(ranks.iter().map(|rank| &**rank), self.vertices, self.epoch)
    }

    /// Tells one division of the vertices from another.
    pub(super) fn division_hash(&self) -> u64 {
        let mut text = String::new();
        for rank in self.crew.ranks() {
            text += &format!("{:?}", &rank.part.global[..rank.part.inner]);
        }
        init::name_hash(&text)
    }

    /// Takes copies and their ages from a checkpoint, or forgets all that there are.
    pub(super) fn restore(&mut self, progress: &Progress, tensors: Option<&Vec<Tensor>>) {
        for mut rank in self.crew.ranks() {
            rank.clocks.forget(progress.epoch);
            if let Some(tensors) = tensors {
                rank.clocks.began = progress.began.unwrap_or(progress.epoch);
                histories::cut(&mut rank, tensors, self.vertices, progress.epoch);
            }
        }
    }
}

//! What a session knows of the sampled batches of its epochs.

use super::Session;
use crate::part::batch::Batch;

impl Session {
    /// How often a batch was larger than the memory laid out for it, over all ranks.
    pub fn grown(&self) -> u32 {
        self.of_batches(|batch| batch.grown).into_iter().sum()
    }

    /// For each rank, the rows that it fetched from others in each batch of the last epoch. Empty if
    /// the program does not sample, or ranks own all rows.
    pub fn fetched(&self) -> Vec<Vec<u64>> {
        self.of_batches(|batch| batch.fetched.clone())
    }

    /// Optimizer steps so far.
    pub fn steps(&self) -> u64 {
        self.step
    }

    fn of_batches<T>(&self, of: impl Fn(&Batch) -> T) -> Vec<T> {
        let ranks = self
            .rank_set
            .map(|rank| rank.rank().part.batch.as_deref().map(&of));
        ranks.into_iter().flatten().collect()
    }
}

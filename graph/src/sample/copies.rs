//! Copies of other ranks' rows that training changes, and how old they may be (bounded staleness: Miao et al., HET,
//! PVLDB 2022, section 4).
//!
//! A batch that reads a row for the first time in an epoch fetches it, and the rank keeps a copy. Later batches read the
//! copy, until it lacks more steps than it may; the next batch that reads the row fetches it again. So no row is sent
//! that no batch reads. The owner of a row counts as the rank with the copy does, so nobody says how old copies are.

use super::{BatchSource, Cached, PILOT, SampleError};
use crate::Topology;
use gnnc_ir::program::BatchSizes;
use gnnc_ir::words::sampling::Cache;
use std::borrow::Borrow;
use std::collections::BTreeMap;

/// Batches of an epoch for which [`fetched_share`] is computed; longer epochs are computed as if they had so many.
const MOST_BATCHES: u32 = 4096;

/// Buckets of probabilities for each factor of e.
const BUCKETS: f64 = 16.0;

/// The age of a rank's copies. A rank numbers the rows of its own copies by its cache, and those of another rank's
/// copies of its rows as its own rows are numbered.
#[derive(Clone, Debug)]
pub struct Copies {
    /// Steps that a copy may lack.
    age: u32,
    /// For each row, one more than the number of the batch that fetched it; 0 if none did.
    fetched: Vec<u32>,
}

impl Copies {
    /// No copies of so many rows.
    pub fn new(age: u32, rows: usize) -> Self {
        Self {
            age,
            fetched: vec![0; rows],
        }
    }

    /// Forgets all copies if a batch is the first one of an epoch.
    pub fn begin(&mut self, batch: u32) {
        if batch == 0 {
            self.fetched.fill(0);
        }
    }

    /// Whether a batch that reads a row has to fetch it.
    pub fn is_old(&self, row: u32, batch: u32) -> bool {
        let fetched = self.fetched[row as usize];
        fetched == 0 || batch + 1 - fetched > self.age
    }

    /// Keeps the row that a batch fetched.
    pub fn keep(&mut self, row: u32, batch: u32) {
        self.fetched[row as usize] = batch + 1;
    }

    /// Counts the rows of a level that a batch fetches again, and keeps copies of them. `sizes` counted all rows of
    /// the cache as cached.
    pub fn count(&mut self, level: &[u32], cached: &Cached, batch: u32, sizes: &mut BatchSizes) {
        self.begin(batch);
        for (place, vertex) in level.iter().enumerate() {
            if let Some(row) = cached.row(*vertex)
                && self.is_old(row, batch)
            {
                self.keep(row, batch);
                fetched_again(place, sizes);
            }
        }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        4 * self.fetched.len() as u64
    }
}

/// Counts the row at a place of a batch, which was counted as cached, as one that is fetched.
pub fn fetched_again(place: usize, sizes: &mut BatchSizes) {
    let has = |rows: &u64| place < *rows as usize;
    let levels = sizes.levels.iter().take_while(|rows| has(rows)).count();
    for level in 0..levels {
        sizes.remote[level] += 1;
        sizes.cached[level] -= 1;
    }
}

/// Of the batches that read a row, the share that fetches it: a batch of an epoch reads it with this probability, and
/// copies may lack `age` steps.
fn fetched_share(probability: f64, age: u32, batches: u32) -> f64 {
    let (batches, age) = (batches.clamp(1, MOST_BATCHES) as usize, age as usize);
    let probability = probability.clamp(f64::MIN_POSITIVE, 1.0);
    // The probability that each batch fetches it: it reads it, and none of the last `age` batches has fetched it.
    let mut fetches: Vec<f64> = Vec::with_capacity(batches);
    let mut recent = 0.0f64;
    for batch in 0..batches {
        if let Some(past) = batch.checked_sub(age.saturating_add(1)) {
            recent -= fetches[past];
        }
        let one = probability * (1.0 - recent).max(0.0);
        fetches.push(one);
        recent += one;
    }
    fetches.iter().sum::<f64>() / (batches as f64 * probability)
}

/// Counts a share of the cached rows of a batch as fetched.
pub fn fetch_share(share: f64, sizes: &mut BatchSizes) {
    for (remote, cached) in sizes.remote.iter_mut().zip(&mut sizes.cached) {
        let again = (share * *cached as f64).round() as u64;
        (*remote, *cached) = (*remote + again, *cached - again);
    }
}

/// Of the batches that read a row of a cache, the share that fetches it: none, if rows do not change.
pub fn fetched_of(cache: Cache, batches: u32) -> impl Fn(f64) -> f64 {
    move |probability| {
        let share = |age| fetched_share(probability, age, batches);
        cache.age.map_or(0.0, share)
    }
}

impl<T: Borrow<Topology> + Clone + Send + Sync> BatchSource<'_, T> {
    /// For each rank, the share of the reads of rows in its cache that fetches them; empty if copies do not age.
    ///
    /// # Errors
    /// As [`BatchSource::caches`].
    pub(super) fn fetched_shares(
        &self,
        caches: &[&Cached],
        batches: u32,
    ) -> Result<Vec<f64>, SampleError> {
        let Some(age) = self.sampling.cache.and_then(|cache| cache.age) else {
            return Ok(Vec::new());
        };
        let of_rank = |(rank, cached): (u32, &&Cached)| {
            let probabilities = match self.probabilities(rank) {
                // Of hops over named sets, only draws are known.
                Err(SampleError::Probabilities) => {
                    let drawn = f64::from(batches.clamp(1, PILOT));
                    let counts = self.counts(rank)?.into_iter();
                    counts.map(|count| f64::from(count) / drawn).collect()
                }
                known => known?,
            };
            let mut buckets: BTreeMap<i64, f64> = BTreeMap::new();
            let kept = cached.ids().iter().map(|v| probabilities[*v as usize]);
            for probability in kept.filter(|p| *p > 0.0) {
                let bucket = (probability.ln() * BUCKETS).round() as i64;
                *buckets.entry(bucket).or_default() += probability;
            }
            let (mut reads, mut fetches) = (0.0, 0.0);
            for (bucket, read) in buckets {
                let probability = (bucket as f64 / BUCKETS).exp();
                reads += read;
                fetches += read * fetched_share(probability, age, batches);
            }
            Ok(if reads > 0.0 { fetches / reads } else { 0.0 })
        };
        (0..).zip(caches).map(of_rank).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_fetched_again_when_they_are_old() {
        let mut copies = Copies::new(2, 1);
        let fetches = |copies: &mut Copies, batch| {
            copies.begin(batch);
            let old = copies.is_old(0, batch);
            if old {
                copies.keep(0, batch);
            }
            old
        };
        let found: Vec<bool> = (0..8).map(|batch| fetches(&mut copies, batch)).collect();
        let [t, f] = [true, false];
        assert_eq!(found, [t, f, f, t, f, f, t, f]);
        assert!(fetches(&mut copies, 0), "an epoch begins with no copies");
        assert!(!fetches(&mut copies, 1));
        assert!(fetches(&mut copies, 7));
    }

    #[test]
    fn shares_are_those_of_many_draws() {
        for (probability, age, batches) in
            [(1.0, 3, 40), (0.3, 0, 50), (0.2, 4, 30), (0.05, 1000, 60)]
        {
            let mut state = 7u64;
            let mut drawn = || {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (state >> 11) as f64 / (1u64 << 53) as f64
            };
            let (mut reads, mut fetched) = (0u32, 0u32);
            for _ in 0..20_000 {
                let mut copies = Copies::new(age, 1);
                for batch in 0..batches {
                    if drawn() < probability {
                        reads += 1;
                        if copies.is_old(0, batch) {
                            copies.keep(0, batch);
                            fetched += 1;
                        }
                    }
                }
            }
            let (found, expected) = (
                f64::from(fetched) / f64::from(reads),
                fetched_share(probability, age, batches),
            );
            assert!(
                (found - expected).abs() < 0.01,
                "{probability} {age}: {found}, {expected}"
            );
        }
    }

    #[test]
    fn rows_that_are_fetched_again_are_counted_in_their_levels() {
        let mut sizes = BatchSizes::NONE;
        sizes.levels[..3].copy_from_slice(&[9, 5, 2]);
        sizes.cached[..3].copy_from_slice(&[4, 2, 1]);
        fetched_again(3, &mut sizes);
        assert_eq!(
            (&sizes.remote[..3], &sizes.cached[..3]),
            (&[1, 1, 0][..], &[3, 1, 1][..])
        );
    }
}

//! How many visits of a model to merge with others, found by timing epochs (Chen et al., HopGNN): each epoch
//! merges one visit more than the one before, until that takes longer.

use super::{TrainOptions, Trainer};
use crate::{Compiled, Error, Loaded, MeasuredMerges};
use gnnc_ir::plan::Placement;

/// By how much an epoch has to be shorter than the one before to count as faster; clocks are noisy.
const FASTER_BY: f64 = 0.02;

/// The search for the number of merges.
#[derive(Clone, Debug)]
pub(super) struct Search {
    workers: u32,
    settled: bool,
    found: MeasuredMerges,
}

impl Search {
    /// The search that a run asks for.
    ///
    /// # Errors
    /// Another placement, or a number of merges beside it.
    pub(super) fn new(options: &TrainOptions) -> Result<Option<Self>, Error> {
        if !options.measure_merges {
            return Ok(None);
        }
        if options.placement != Placement::ModelMigration {
            return Err(Error::Input(format!(
                "found --measure-merges with placement {}, where no model moves; add --placement model-migration",
                options.placement
            )));
        }
        if let Some(merges) = options.knobs.sampling.merges {
            return Err(Error::Input(format!(
                "found --measure-merges with {merges} merges, which leaves nothing to measure; leave out one of them"
            )));
        }
        Ok(Some(Self {
            workers: options.workers,
            settled: options.workers < 2,
            found: MeasuredMerges::default(),
        }))
    }

    /// Takes the time of an epoch. Returns the number of merges to go on with, if it is another one.
    pub(super) fn sees(&mut self, seconds: f64) -> Option<u32> {
        if self.settled {
            return None;
        }
        let before = self.found.epoch_seconds.last().copied();
        self.found.epoch_seconds.push(seconds);
        let slower = before.is_some_and(|before| seconds >= before * (1.0 - FASTER_BY));
        if slower {
            self.settled = true;
            self.found.merges -= 1;
            return Some(self.found.merges);
        }
        // A model makes at least one visit.
        if self.found.merges + 1 >= self.workers {
            self.settled = true;
            return None;
        }
        self.found.merges += 1;
        Some(self.found.merges)
    }

    /// What was measured, and the number that the run trains with.
    pub(super) fn found(self) -> MeasuredMerges {
        self.found
    }
}

/// The same run, with another number of merges.
///
/// # Errors
/// As [`Trainer::new`].
pub(super) fn with_merges(
    merges: u32,
    trainer: &Trainer,
    loaded: &Loaded,
    compiled: &Compiled,
    options: &TrainOptions,
) -> Result<Trainer, Error> {
    let mut options = options.clone();
    options.knobs.sampling.merges = Some(merges);
    let mut other = Trainer::new(loaded, compiled, &options)?;
    other.session.take_over(trainer.session.snapshot()?)?;
    Ok(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the search trains with, epoch by epoch, if an epoch with so many merges takes so long.
    fn tried(seconds: &[f64]) -> Vec<u32> {
        let mut search = Search {
            workers: seconds.len() as u32,
            settled: false,
            found: MeasuredMerges::default(),
        };
        let (mut merges, mut tried) = (0, vec![0]);
        for _ in 0..8 {
            merges = search.sees(seconds[merges as usize]).unwrap_or(merges);
            tried.push(merges);
        }
        assert_eq!(search.found().merges, merges);
        tried
    }

    #[test]
    fn the_search_ends_where_an_epoch_is_not_faster() {
        assert_eq!(tried(&[3.0, 2.0, 1.0, 2.0]), [0, 1, 2, 3, 2, 2, 2, 2, 2]);
        assert_eq!(tried(&[1.0, 2.0, 0.5, 0.1]), [0, 1, 0, 0, 0, 0, 0, 0, 0]);
        // Faster all the way.
        assert_eq!(tried(&[3.0, 2.0, 1.0]), [0, 1, 2, 2, 2, 2, 2, 2, 2]);
        // Less than clocks tell apart.
        assert_eq!(tried(&[1.0, 0.99, 0.5]), [0, 1, 0, 0, 0, 0, 0, 0, 0]);
    }
}

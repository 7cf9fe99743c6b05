//! Checks of how ranks exchange halo rows and add sums.

use super::{Check, ProgramError};
use crate::program::leaves::unequal;
use crate::program::trace::Phase;
use crate::program::traffic::for_each_skip;
use crate::words::spelling::counted;

impl Check<'_> {
    /// Checks that a program computes the same bits on any number of ranks, if it says so.
    pub(super) fn equal_bits(&self) -> Result<(), ProgramError> {
        let found = self
            .program
            .equal_bits
            .then(|| unequal(self.program))
            .flatten();
        match found {
            None => Ok(()),
            Some(what) => Err(ProgramError::new(format!("equal bits with {what}"))),
        }
    }

    /// Checks that halo rows may cross to nodes once, and be targets: exchanges are of all rows, never of chunks or with some
    /// left out.
    pub(super) fn nodes(&self) -> Result<(), ProgramError> {
        let (ranks, node_ranks) = (self.program.ranks, self.program.node_ranks);
        let has_targets = self.program.halo.has_targets();
        if node_ranks.is_none() && !has_targets {
            return Ok(());
        }
        let mut skips = false;
        for phase in Phase::ALL {
            for_each_skip(self.program.list(phase), &mut |_, _, _| skips = true);
        }
        let divides = node_ranks.is_none_or(|of| of > 0 && ranks.is_multiple_of(of));
        match divides && self.program.pipeline.is_none() && !skips {
            true => Ok(()),
            false => Err(ProgramError::new(match node_ranks {
                Some(of) => format!(
                    "nodes of {} for {}, expected a number that divides the ranks, no stages, and no exchanges left out",
                    counted(of, "rank"),
                    counted(ranks, "rank")
                ),
                None => {
                    "targets in halos, expected no stages, and no exchanges left out".to_owned()
                }
            })),
        }
    }
}

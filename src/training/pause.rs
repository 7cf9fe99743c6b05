//! When a run pauses.

use std::time::Instant;

/// When a run pauses: after the first epoch that fulfills one of these. By default it does not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pause {
    /// It ends at this time or later.
    pub at: Option<Instant>,
    /// It has this number, from 1, or a higher one.
    pub after: Option<u64>,
}

impl Pause {
    /// Whether a run pauses after so many epochs.
    pub(super) fn is_due(&self, epochs: u64) -> bool {
        let late = self.at.is_some_and(|at| Instant::now() >= at);
        late || self.after.is_some_and(|after| epochs >= after)
    }
}

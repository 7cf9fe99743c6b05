//! What rests on the hosts, and what is copied from and to them.

use super::Session;
use crate::RuntimeError;

impl Session {
    /// Bytes of the buffers on the host, of the rank that has most.
    pub fn host_bytes(&self) -> u64 {
        let bytes = self.crew.map(|rank| rank.rank().layout.host_bytes);
        bytes.into_iter().max().unwrap_or(0)
    }

    /// Bytes that all ranks have copied from and to their hosts so far.
    pub fn bytes_moved(&self) -> u64 {
        self.crew.map(|rank| rank.rank().moved).into_iter().sum()
    }

    /// Runs what comes before the first epoch, unless that is done.
    ///
    /// # Errors
    /// As [`Session::epoch`].
    pub fn prepare(&mut self) -> Result<(), RuntimeError> {
        self.setup()
    }
}

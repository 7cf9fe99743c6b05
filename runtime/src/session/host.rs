//! What ranks run, the memory that a session takes, what of it rests on the hosts, and what is copied from and to them.

use super::Session;
use crate::RuntimeError;
use gnnc_ir::program::Program;
use std::sync::Arc;

impl Session {
    /// What each rank runs.
    pub fn programs(&self) -> Vec<Arc<Program>> {
        self.rank_set
            .map(|rank| rank.rank().program.shared().clone())
    }

    /// Bytes of memory of the rank that uses most: buffers, its share of the graph (of all edges,
    /// which ranks of one process keep once, an equal share), and the messages kept so far;
    /// neither code nor the graph that the session was built from.
    pub fn peak_memory_bytes(&self) -> u64 {
        let bytes = self.rank_set.map(|rank| rank.memory_bytes());
        bytes.into_iter().max().unwrap_or(0)
    }

    /// Bytes of the buffers of the rank that has most: what [`gnnc_ir::program::memory::layout`] says.
    pub fn buffer_bytes(&self) -> u64 {
        let bytes = self.rank_set.map(|rank| rank.rank().layout.total_bytes);
        bytes.into_iter().max().unwrap_or(0)
    }

    /// Bytes of the buffers on the host, of the rank that has most.
    pub fn host_bytes(&self) -> u64 {
        let bytes = self.rank_set.map(|rank| rank.rank().layout.host_bytes);
        bytes.into_iter().max().unwrap_or(0)
    }

    /// Bytes that all ranks have copied from and to their hosts so far.
    pub fn bytes_moved(&self) -> u64 {
        self.rank_set
            .map(|rank| rank.rank().moved)
            .into_iter()
            .sum()
    }

    /// Runs what comes before the first epoch, unless that is done.
    ///
    /// # Errors
    /// As [`Session::epoch`].
    pub fn prepare(&mut self) -> Result<(), RuntimeError> {
        self.setup()
    }
}

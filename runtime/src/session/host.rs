//! A session's programs, its memory on ranks and hosts, and the bytes copied between them.

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

    /// Memory, in bytes, of the rank that uses most: buffers, its part of the graph (plus an equal
    /// share of what the ranks of a process keep once), and the messages kept so far. Excludes code
    /// and the graph the session was built from.
    ///
    /// # Errors
    /// A process that failed.
    pub fn peak_memory_bytes(&self) -> Result<u64, RuntimeError> {
        let bytes = self.rank_set.map(|rank| rank.memory_bytes());
        self.most(bytes.into_iter().max().unwrap_or(0))
    }

    /// Bytes of the buffers of the rank that has most: what [`gnnc_ir::program::memory::layout`] says.
    pub fn buffer_bytes(&self) -> u64 {
        let bytes = self.rank_set.map(|rank| rank.rank().layout.total_bytes);
        bytes.into_iter().max().unwrap_or(0)
    }

    /// Bytes of buffers on the host, of the rank with the most.
    pub fn host_bytes(&self) -> u64 {
        let bytes = self.rank_set.map(|rank| rank.rank().layout.host_bytes);
        bytes.into_iter().max().unwrap_or(0)
    }

    /// Bytes all ranks have copied from and to their hosts so far.
    pub fn bytes_moved(&self) -> u64 {
        self.rank_set
            .map(|rank| rank.rank().moved)
            .into_iter()
            .sum()
    }

    /// Bytes of halo rows that the ranks of this process have sent to other nodes so far, if rows cross to a node once.
    pub fn bytes_crossed(&self) -> u64 {
        let crossed = self.rank_set.map(|rank| rank.rank().crossed);
        crossed.into_iter().sum()
    }

    /// Runs `setup`, unless that has been done.
    ///
    /// # Errors
    /// As [`Session::epoch`].
    pub fn prepare(&mut self) -> Result<(), RuntimeError> {
        self.setup()
    }
}

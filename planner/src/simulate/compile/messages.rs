//! Measured costs of messages between the ranks of a node.

use gnnc_ir::cluster::Costs;
use gnnc_ir::program::work::Demand;

/// The messages of an instruction.
pub(super) struct Messages<'a> {
    pub costs: &'a Costs,
    /// The name of the instruction.
    pub group: &'static str,
}

impl Messages<'_> {
    /// Busy seconds of a rank for sending or receiving `bytes` bytes, with `strips` rows picked or
    /// added up: ranks copy messages themselves. `lay` is the number of bytes among which they were
    /// waiting, if they arrived earlier.
    pub fn copying(&self, bytes: u64, strips: f64, lay: Option<u64>) -> f64 {
        let demand = Demand::message(self.group, bytes, strips, false, lay);
        self.costs.seconds(&demand).unwrap_or(0.0)
    }

    /// Half of that: packing or unpacking, for a rank that does both.
    pub fn half(&self, bytes: u64, strips: f64) -> f64 {
        self.copying(bytes, strips, None) / 2.0
    }

    /// Time from the end of packing until a waiting rank resumes.
    pub fn latency(&self) -> f64 {
        self.costs.launch(self.group).unwrap_or(0.0)
    }
}

//! What messages were measured to take between the ranks of a node.

use gnnc_ir::cluster::Costs;
use gnnc_ir::program::work::Demand;

/// The messages of an instruction.
pub(super) struct Messages<'a> {
    pub costs: &'a Costs,
    /// The name of the instruction.
    pub group: &'static str,
}

impl Messages<'_> {
    /// What sending or receiving so many bytes keeps a rank busy, of which `strips` rows are picked or added up, and which
    /// `lay` among so many if they were there before: ranks copy messages themselves.
    pub fn copying(&self, bytes: u64, strips: f64, lay: Option<u64>) -> f64 {
        let demand = Demand::message(self.group, bytes, strips, false, lay);
        self.costs.seconds(&demand).unwrap_or(0.0)
    }

    /// Half of it: what a rank packs, or what it unpacks, where it does both.
    pub fn half(&self, bytes: u64, strips: f64) -> f64 {
        self.copying(bytes, strips, None) / 2.0
    }

    /// From the end of packing until a rank that waits goes on.
    pub fn latency(&self) -> f64 {
        self.costs.launch(self.group).unwrap_or(0.0)
    }
}

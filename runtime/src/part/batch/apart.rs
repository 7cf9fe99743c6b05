//! Drawing the batch at hand where ranks hold the edges into their own vertices.

use super::Batch;
use crate::fault::Fault;
use gnnc_graph::sample::At;
use gnnc_ir::program::BatchSizes;

impl Batch {
    /// Sorts the vertices of the level at hand by the ranks that hold the edges into them.
    pub(crate) fn ask_for_edges(&mut self) {
        let owner = self.shared.owners.partition.owner();
        let level = self.under_way[self.at_hand].blocks(0).ids();
        self.hops.ask(level, owner);
    }

    /// The vertices into which another rank draws edges for this one.
    pub(crate) fn question(&self, other: u32) -> &[u32] {
        self.hops.question(other)
    }

    /// Draws edges into own vertices of the rank for another one.
    ///
    /// # Errors
    /// Vertices of other ranks; numbers that 32 bits do not hold.
    pub(crate) fn answer(&mut self, rank: u32, at: At, vertices: &[u32]) -> Result<(), Fault> {
        let owners = &self.shared.owners;
        if vertices.iter().any(|v| owners.row_on(rank, *v).is_none()) {
            return Err(Fault::Missing("the edges that another rank asks for"));
        }
        let hop = self.under_way[self.at_hand].blocks(0).layers() + 1;
        let answer = self.hops.answer_memory();
        self.drawing.answer(vertices, (hop, at.step), answer)
    }

    /// The edges that the rank drew last for another one, as they are sent.
    pub(crate) fn own_answer(&self) -> &[u32] {
        self.hops.own_answer()
    }

    /// Keeps the edges that another rank drew.
    pub(crate) fn answered(&mut self, other: u32, answer: &[u32]) {
        self.hops.answered(other, answer);
    }

    /// Adds the hop whose answers are here, and returns the sizes of the batch if that was the last one.
    ///
    /// # Errors
    /// Answers that do not fit their questions; numbers that 32 bits do not hold.
    pub(crate) fn add_hop(&mut self, rank: u32, at: At) -> Result<Option<BatchSizes>, Fault> {
        self.change();
        let batch = &mut self.under_way[self.at_hand];
        let answers = self
            .hops
            .answers(rank, self.shared.owners.partition.owner());
        let whole = self.drawing.add_hop(at, &answers, batch)?;
        Ok(whole.then(|| self.counted()))
    }
}

//! Rows that go to another stage of a pipeline, or come from one.

use super::CommStep;
use super::Rows;
use super::moves::Write;
use super::plan::Plan;
use crate::fault::Fault;
use gnnc_ir::program::{Extent, Ref, StageMessage};

impl Plan<'_> {
    /// Rows go to another stage.
    pub(super) fn send(&mut self, stage_message: &StageMessage) -> Result<(), Fault> {
        let peer = self.own.beside(stage_message)?;
        for piece in self.own.pieces(stage_message) {
            let rows = self.passed(stage_message, piece);
            self.steps.send(peer, rows);
        }
        self.steps.round();
        self.steps.add(CommStep::Packed);
        Ok(())
    }

    /// Rows come from another stage.
    pub(super) fn receive(&mut self, stage_message: &StageMessage) -> Result<(), Fault> {
        let peer = self.own.beside(stage_message)?;
        for piece in self.own.pieces(stage_message) {
            let floats = self.own.floats(stage_message, piece);
            self.steps.expect(peer, floats);
        }
        self.steps.round();
        for piece in self.own.pieces(stage_message) {
            let rows = self.passed(stage_message, piece);
            self.steps.receive(peer, rows, Write::Replace);
        }
        Ok(())
    }

    /// The rows that a stage message passes, of a chunk or all.
    fn passed(&self, stage_message: &StageMessage, chunk: Option<u32>) -> Vec<Rows> {
        let of = |at: &Ref| {
            let matrix = self.matrix(*at);
            let extent = self.own.program.buffer(at.buffer).extent;
            let sent = match matches!(extent, Extent::Fixed(_)) {
                true => matrix,
                false => self.encoded(matrix, &stage_message.encoded, false),
            };
            sent.run(self.own.passed(*at, chunk))
        };
        stage_message.tensors.iter().map(of).collect()
    }
}

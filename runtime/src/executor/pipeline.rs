//! Data passed from stage to stage, and kept from epoch to epoch.

use super::Worker;
use crate::arena::Span;
use crate::fault::Fault;
use crate::step_context::StepContext;
use gnnc_ir::program::instr;
use gnnc_ir::program::{Instr, Ref};
use std::collections::BTreeMap;

impl Worker {
    /// Announces how many messages to other stages may be in flight at once: those of one run of a
    /// list or of its loops over chunks, which are received before the next run.
    pub(crate) fn expect_messages(&mut self) -> Result<(), Fault> {
        let program = self.own.program.clone();
        // By rank: number of messages, and floats of the longest.
        let mut expected: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        for instr in [&program.setup, &program.step, &program.eval]
            .into_iter()
            .flatten()
        {
            let body = if let Instr::Chunks(instr::Chunks { body, .. }) = instr {
                &body[..]
            } else {
                std::slice::from_ref(instr)
            };
            let mut sent: BTreeMap<u32, usize> = BTreeMap::new();
            for instr in body {
                let Instr::Send(stage_message) = instr else {
                    continue;
                };
                let peer = self.own.beside(stage_message)?;
                let sent = sent.entry(peer).or_default();
                let (most, longest) = expected.entry(peer).or_default();
                for piece in self.own.pieces(stage_message) {
                    *sent += 1;
                    *most = (*most).max(*sent);
                    *longest = (*longest).max(self.own.floats(stage_message, piece));
                }
            }
        }
        for (peer, (messages, floats)) in expected {
            self.transport.expect(peer, messages, floats)?;
        }
        Ok(())
    }

    /// Keeps the current rows, in the epochs in which histories are kept.
    ///
    /// # Safety
    /// Both tensors have rows of vertices and the same number of columns.
    pub(super) unsafe fn remember(
        &mut self,
        from: Ref,
        history: Ref,
        iteration: u32,
        step_context: &StepContext,
    ) -> Result<(), Fault> {
        let Some(epoch) = self.own.keeps(step_context) else {
            return Ok(());
        };
        let target = self.own.program.buffer(history.buffer);
        let (columns, storage) = (target.row_words() as usize, target.storage);
        let mut ranges = std::mem::take(&mut self.memory.ranges);
        self.own.remembered(from, history, &mut ranges)?;
        for range in &ranges {
            let (begin, floats) = (
                range.start as usize * columns,
                (range.end - range.start) as usize * columns,
            );
            let rows = |at: Ref| -> Span { self.slot(at, iteration).part(begin, floats) };
            // SAFETY: as the caller promised; nothing else uses either meanwhile.
            let (new, kept) = unsafe { (rows(from).read(), rows(history).write()) };
            if !storage.all_finite(new) {
                return Err(self.own.not_finite(history, epoch, self.own.place.chunk));
            }
            kept.copy_from_slice(new);
        }
        self.memory.ranges = ranges;
        self.own.kept.insert(history.buffer, epoch);
        Ok(())
    }
}

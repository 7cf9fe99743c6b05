//! Data passed from stage to stage, and kept from epoch to epoch.

use super::Worker;
use crate::arena::Span;
use crate::fault::Fault;
use crate::step_context::StepContext;
use crate::transport::{Transport, TransportError};
use gnnc_ir::program::instr;
use gnnc_ir::program::{Instr, Ref, StageMessage, Transfer};
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
                for piece in self.pieces(stage_message) {
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

    /// Sends the current rows to another stage.
    ///
    /// # Safety
    /// The tensors have rows for the own vertices.
    pub(super) unsafe fn send(
        &mut self,
        stage_message: &StageMessage,
        iteration: u32,
    ) -> Result<(), Fault> {
        self.pass(
            stage_message,
            iteration,
            |transport, peer, floats, spans| {
                transport.send(peer, Transfer::WHOLE, floats, &mut |message| {
                    let mut rest = message;
                    for span in spans {
                        let (own, behind) = rest.split_at_mut(span.len);
                        // SAFETY: as the caller promised; nothing writes the rows meanwhile.
                        own.copy_from_slice(unsafe { span.read() });
                        rest = behind;
                    }
                })
            },
        )
    }

    /// Receives the current rows from another stage.
    ///
    /// # Safety
    /// As [`Self::send`].
    pub(super) unsafe fn receive(
        &mut self,
        stage_message: &StageMessage,
        iteration: u32,
    ) -> Result<(), Fault> {
        self.pass(
            stage_message,
            iteration,
            |transport, peer, floats, spans| {
                transport.recv(peer, Transfer::WHOLE, floats, &mut |message| {
                    let mut rest = message;
                    for span in spans {
                        let (own, behind) = rest.split_at(span.len);
                        // SAFETY: as the caller promised; nothing else uses the rows meanwhile.
                        unsafe { span.write() }.copy_from_slice(own);
                        rest = behind;
                    }
                })
            },
        )
    }

    /// Calls `message` for each message, with the rank at the other end, the number of floats and
    /// their location. Rows of all chunks are sent as one message per chunk, so that none is longer
    /// than a chunk's.
    fn pass(
        &mut self,
        stage_message: &StageMessage,
        iteration: u32,
        message: impl Fn(&mut dyn Transport, u32, usize, &[Span]) -> Result<(), TransportError>,
    ) -> Result<(), Fault> {
        let peer = self.own.beside(stage_message)?;
        for piece in self.pieces(stage_message) {
            let floats = self.spans(stage_message, piece, iteration);
            if floats > 0 {
                message(&mut *self.transport, peer, floats, &self.memory.spans)?;
            }
        }
        Ok(())
    }

    /// The messages of an instruction: one for the current chunk, one per chunk if all rows are
    /// passed, or a single one without chunks.
    fn pieces(&self, stage_message: &StageMessage) -> impl Iterator<Item = Option<u32>> + use<> {
        let program = &self.own.program;
        let chunks = program
            .pipeline
            .as_ref()
            .map_or(0, |pipeline| pipeline.chunks);
        let (_, fixed) = stage_message.words(program);
        let (first, count) = match self.own.place.chunk {
            Some(chunk) => (Some(chunk), 1),
            None if fixed > 0 || chunks == 0 => (None, 1),
            None => (Some(0), chunks),
        };
        (0..count).map(move |n| first.map(|first| first + n))
    }

    /// Finds the rows to pass, of a chunk or all; returns their number of floats.
    fn spans(&mut self, stage_message: &StageMessage, chunk: Option<u32>, iteration: u32) -> usize {
        let mut spans = std::mem::take(&mut self.memory.spans);
        spans.clear();
        spans.extend(stage_message.tensors.iter().map(|&at| {
            let rows = self.own.passed(at, chunk);
            let columns = self.own.program.buffer(at.buffer).row_words() as usize;
            self.slot(at, iteration)
                .part(rows.start * columns, rows.len() * columns)
        }));
        let floats = spans.iter().map(|span| span.len).sum();
        self.memory.spans = spans;
        floats
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

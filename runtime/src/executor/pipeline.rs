//! What goes from stage to stage and from epoch to epoch.

use super::{Fault, Worker};
use crate::device::cpu::Span;
use crate::moment::Moment;
use gnnc_ir::program::{Passage, Ref, Transfer};

impl Worker {
    /// Sends the rows at hand to another stage.
    ///
    /// # Safety
    /// The tensors have rows of own vertices.
    pub(super) unsafe fn send(&mut self, passage: &Passage, iteration: u32) -> Result<(), Fault> {
        let (peer, floats) = self.passage(passage, iteration)?;
        if floats == 0 {
            return Ok(());
        }
        let spans = &self.memory.spans;
        self.transport
            .send(peer, Transfer::WHOLE, floats, &mut |message| {
                let mut rest = message;
                for span in spans {
                    let (own, behind) = rest.split_at_mut(span.len);
                    // SAFETY: as the caller promised; nothing writes the rows meanwhile.
                    own.copy_from_slice(unsafe { span.read() });
                    rest = behind;
                }
            })?;
        Ok(())
    }

    /// Waits for the rows at hand of another stage.
    ///
    /// # Safety
    /// As [`Self::send`].
    pub(super) unsafe fn receive(
        &mut self,
        passage: &Passage,
        iteration: u32,
    ) -> Result<(), Fault> {
        let (peer, floats) = self.passage(passage, iteration)?;
        if floats == 0 {
            return Ok(());
        }
        let spans = &self.memory.spans;
        self.transport
            .recv(peer, Transfer::WHOLE, floats, &mut |message| {
                let mut rest = message;
                for span in spans {
                    let (own, behind) = rest.split_at(span.len);
                    // SAFETY: as the caller promised; nothing else uses the rows meanwhile.
                    unsafe { span.write() }.copy_from_slice(own);
                    rest = behind;
                }
            })?;
        Ok(())
    }

    /// The rank at the other end and the floats of a message; its pieces are in the memory of spans.
    fn passage(&mut self, passage: &Passage, iteration: u32) -> Result<(u32, usize), Fault> {
        let mut spans = std::mem::take(&mut self.memory.spans);
        spans.clear();
        spans.extend(passage.tensors.iter().map(|&at| {
            let rows = self.own.passed(at);
            let columns = self.own.program.buffer(at.buffer).columns as usize;
            self.slot(at, iteration)
                .part(rows.start * columns, rows.len() * columns)
        }));
        let floats = spans.iter().map(|span| span.len).sum();
        self.memory.spans = spans;
        Ok((self.own.beside(passage)?, floats))
    }

    /// Keeps the rows at hand, in the epochs in which histories are kept.
    ///
    /// # Safety
    /// Both tensors have rows of vertices, of as many columns.
    pub(super) unsafe fn remember(
        &mut self,
        from: Ref,
        history: Ref,
        iteration: u32,
        moment: &Moment,
    ) -> Result<(), Fault> {
        let Some(epoch) = self.own.keeps(moment) else {
            return Ok(());
        };
        let target = self.own.program.buffer(history.buffer);
        let columns = target.columns as usize;
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
            if !new.iter().all(|x| x.is_finite()) {
                return Err(self.own.not_finite(history, epoch, self.own.place.chunk));
            }
            kept.copy_from_slice(new);
        }
        self.memory.ranges = ranges;
        self.own.kept.insert(history.buffer, epoch);
        Ok(())
    }
}

//! Exchanges in which a rank may leave out its block of rows as long as the others' copies are
//! fresh enough.
//!
//! Every rank knows when each block was last sent, so rules by age tell it who sends now. If values
//! decide, a rank first tells the others in one float: the distance of the omitted rows from those
//! it last sent, or [`SENT`].

use super::moves::Write;
use super::plan::Plan;
use super::{CommStep, Words};
use crate::clocks::{Clock, SENT, Squares, Timing};
use crate::fault::Fault;
use crate::part::Part;
use crate::part::rows::Sent;
use crate::rank::Rank;
use crate::staleness::LayerStaleness;
use gnnc_ir::kernel::End;
use gnnc_ir::program::{BufferId, Instr, Ref, Returned, Skip};
use gnnc_ir::words::storage::Storage;

const MISSING: Fault = Fault::Missing("clocks of copies");

/// Own rows to compare with those sent last.
#[derive(Clone, Copy)]
pub(crate) struct Compared {
    pub(crate) now: Words,
    pub(crate) then: Words,
    pub(crate) storage: Storage,
}

/// One exchange, in one iteration of a loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    /// Number of the copies' history.
    number: usize,
    slot: usize,
    timing: Timing,
    buffer: BufferId,
}

/// A block for which a rank learns whether it is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hear {
    /// The rank that tells it.
    pub(crate) from: u32,
    /// The same rank, numbered within the group.
    block: u32,
    rows: usize,
    exchange: Exchange,
}

/// What changes as a rank reads blocks or copies of them.
struct Reading<'a> {
    clock: &'a mut Clock,
    layer: &'a mut LayerStaleness,
    name: &'a str,
    timing: Timing,
}

impl Rank {
    /// The rows whose distance decides whether an instruction sends the own block, if values decide.
    /// It is measured before the instruction is planned.
    pub(crate) fn compared(&self, instr: &Instr, iteration: u32) -> Option<Compared> {
        if let Instr::Finish(_) = instr {
            return None;
        }
        let Instr::HaloExchange(one) = instr.whole() else {
            return None;
        };
        let skip = one.skip.filter(|skip| skip.rule.limit().is_some())?;
        let buffer = self.program.buffer(one.buffer.buffer);
        let own = self.part.inner * buffer.row_words() as usize;
        Some(Compared {
            now: self.words(one.buffer, iteration).part(0, own),
            then: self.words(skip.copies, iteration).part(0, own),
            storage: buffer.storage,
        })
    }

    /// Records what a rank was told about a block: that it is sent, or how far the copies are. Returns
    /// whether it is sent.
    ///
    /// # Errors
    /// If the rule does not allow to read the copies.
    pub(crate) fn heard(&mut self, hear: &Hear, told: f32) -> Result<bool, Fault> {
        let (mut reading, _) = self.reading(&hear.exchange)?;
        reading.block(hear.block, hear.rows, told)
    }

    /// The exchange that an instruction is.
    pub(super) fn skippable(
        &self,
        at: Ref,
        skip: &Skip,
        iteration: u32,
        epoch: u64,
    ) -> Result<Exchange, Fault> {
        let [number, slot] = self.clock(skip, iteration).ok_or(MISSING)?;
        Ok(Exchange {
            number,
            slot,
            timing: Timing {
                rule: skip.rule,
                epoch,
                began: self.clocks.began,
            },
            buffer: at.buffer,
        })
    }

    /// Decides whether the own block is sent, given its distance from the rows sent last if values
    /// decide.
    pub(super) fn decide(
        &mut self,
        exchange: &Exchange,
        squares: Option<Squares>,
    ) -> Result<(), Fault> {
        let own = self.in_stage();
        let (Reading { clock, name, .. }, timing) = (self.reading(exchange)?.0, exchange.timing);
        let known = clock.sent[own as usize].is_some();
        let gap = match squares {
            Some(squares) => Some(timing.gap(name, squares, known)?),
            None => None,
        };
        clock.active = timing.sends(clock, own, gap);
        clock.gap = gap;
        Ok(())
    }

    /// Records which blocks are sent, as far as the rank is not told in messages.
    pub(super) fn learn(&mut self, exchange: &Exchange) -> Result<(), Fault> {
        let own = self.in_stage();
        let timing = exchange.timing;
        let (mut reading, part) = self.reading(exchange)?;
        if timing.rule.limit().is_none() {
            for (block, rows) in part.halo(End::Src.into(), None, own) {
                let due = timing.too_old(reading.clock, block);
                reading.block(block, rows.len(), if due { SENT } else { 0.0 })?;
            }
        }
        if reading.clock.active {
            reading.clock.sent[own as usize] = Some(timing.epoch);
        }
        Ok(())
    }

    fn reading(&mut self, exchange: &Exchange) -> Result<(Reading<'_>, &Part), Fault> {
        let clocks = self.clocks.of.get_mut(exchange.number);
        let clock = clocks.and_then(|of| of.get_mut(exchange.slot));
        let layer = self.staleness.layers.get_mut(exchange.number);
        let reading = Reading {
            clock: clock.ok_or(MISSING)?,
            layer: layer.ok_or(MISSING)?,
            name: &self.program.buffer(exchange.buffer).name,
            timing: exchange.timing,
        };
        Ok((reading, &self.part))
    }
}

impl Reading<'_> {
    /// Reads a block or copies of it; returns whether the block is sent.
    fn block(&mut self, block: u32, rows: usize, told: f32) -> Result<bool, Fault> {
        let (timing, sent) = (self.timing, told == SENT);
        if sent {
            self.clock.sent[block as usize] = Some(timing.epoch);
        }
        let age = timing.age(self.clock, block);
        timing.fresh(self.name, block, age, told)?;
        self.layer.read(age.unwrap_or(0), rows as u64);
        if timing.rule.limit().is_some() {
            self.layer.reach(told.max(0.0));
        }
        Ok(sent)
    }
}

impl Plan<'_> {
    /// Sends the own block if that was decided, and tells the others if they cannot know.
    pub(super) fn leave_out(
        &mut self,
        at: Ref,
        skip: &Skip,
        exchange: &Exchange,
    ) -> Result<(), Fault> {
        let clock = self.clock(exchange)?;
        let (own, matrix) = (self.own.in_stage(), self.matrix(at));
        if let Some(gap) = clock.gap {
            let told = if clock.active { SENT } else { gap };
            for Sent { to, .. } in self.own.part.sent(End::Src.into(), None, own) {
                let to = self.own.stage().rank(to);
                self.steps.add(CommStep::Tell(to, told));
            }
        }
        if clock.active {
            self.send_own(matrix, End::Src.into());
        }
        // If values decide, others tell whether their rows come.
        let values = exchange.timing.rule.limit().is_some();
        let due = |other| !values && exchange.timing.too_old(clock, other);
        self.expect_halo(matrix, End::Src.into(), due);
        self.steps.round();
        if clock.active && clock.gap.is_some() {
            let rows = 0..self.own.part.inner;
            let copies = self.matrix(skip.copies).run(rows.clone());
            let kept = CommStep::Put(matrix.run(rows), copies, Write::Replace);
            self.steps.add(kept);
        }
        Ok(())
    }

    /// Receives the blocks that are sent, and fills the halo rows with the newest copies.
    pub(super) fn fill_in(
        &mut self,
        at: Ref,
        skip: &Skip,
        exchange: &Exchange,
    ) -> Result<(), Fault> {
        let clock = self.clock(exchange)?;
        let values = exchange.timing.rule.limit().is_some();
        let before = if values { 0 } else { self.own.part.inner };
        let (matrix, copies) = (self.matrix(at), self.matrix(skip.copies));
        self.steps.add(CommStep::Packed);
        self.steps.add(CommStep::Await);
        for (block, rows) in self
            .own
            .part
            .halo(End::Src.into(), None, self.own.in_stage())
        {
            let from = self.own.stage().rank(block);
            let copies = copies.run(rows.start - before..rows.end - before);
            if values {
                self.steps.add(CommStep::Hear(Hear {
                    from,
                    block,
                    rows: rows.len(),
                    exchange: *exchange,
                }));
            }
            if values || clock.fresh(block, exchange.timing.epoch) {
                self.steps.receive(from, [copies], Write::Replace);
            }
            let newest = CommStep::Put(copies, matrix.run(rows), Write::Replace);
            self.steps.add(newest);
        }
        Ok(())
    }

    /// Sends gradients of halo rows to the owners whose rows were sent, and keeps the others where
    /// they are needed.
    pub(super) fn returning(
        &mut self,
        at: Ref,
        skip: &Returned,
        exchange: &Exchange,
    ) -> Result<(), Fault> {
        let clock = self.clock(exchange)?;
        let fresh = |block: u32| clock.fresh(block, exchange.timing.epoch);
        self.reduce(self.matrix(at), End::Src.into(), fresh, clock.active);
        let Some(left) = skip.left.filter(|_| self.what.finishes) else {
            return Ok(());
        };
        let (matrix, left) = (self.matrix(at), self.matrix(left));
        let own = left.run(0..self.own.part.inner);
        self.steps.add(CommStep::Clear(own));
        for (block, rows) in self.own.part.halo(End::Src.into(), None, 0) {
            let to = left.run(rows.clone());
            self.steps.add(if fresh(block) {
                CommStep::Clear(to)
            } else {
                CommStep::Put(matrix.run(rows), to, Write::Replace)
            });
        }
        Ok(())
    }
}

impl<'a> Plan<'a> {
    fn clock(&self, exchange: &Exchange) -> Result<&'a Clock, Fault> {
        let clocks = self.own.clocks.of.get(exchange.number);
        let clock = clocks.and_then(|of| of.get(exchange.slot));
        clock.ok_or(MISSING)
    }
}

//! Runs communication instructions in halves.

use super::Worker;
use crate::arena::Span;
use crate::exchange::redistribute::{self, Move, Owned};
use crate::exchange::skip::{Exchange, Return, Timing};
use crate::exchange::{
    Exchanged, add_own, fill_halo, send_chunks, send_halo, send_own, sum_chunks,
};
use crate::fault::Fault;
use crate::part::Part;
use crate::step_context::StepContext;
use crate::transport::Wire;
use gnnc_ir::program::instr;
use gnnc_ir::program::{BufferId, Instr, Moved, Ref, Rule};
use gnnc_ir::words::storage::Storage;

/// One half of a communication.
#[derive(Clone, Copy)]
pub(super) enum Half {
    /// Packing and sending.
    Begin,
    /// Receiving and unpacking.
    Finish,
}

/// Operands of a communication instruction.
enum Operands {
    /// Exchanged rows.
    Halo(Exchanged),
    /// The buffers in the rank's scratch list of spans.
    Sums,
    /// A tensor and which of its rows move.
    Tensor(Move, Moved),
    /// Rows that may be left out: rows and copies, words per row and storage, the tensor's buffer,
    /// the copies' history and slot, and the rule.
    Skip([Span; 2], (usize, Storage), BufferId, [usize; 2], Rule),
    /// Gradients of such rows, where to keep those of rows left out, and the copies' history and
    /// slot.
    Return(Exchanged, Option<Span>, [usize; 2]),
}

impl Worker {
    /// Packs and sends what other ranks wait for, or receives what they sent and unpacks it.
    ///
    /// # Safety
    /// The instruction fits the buffers. [`Half::Finish`] follows [`Half::Begin`] of the same
    /// instruction, and nothing it reads was written in between.
    pub(super) unsafe fn communicate(
        &mut self,
        half: Half,
        instr: &Instr,
        tag: u32,
        iteration: u32,
        step_context: &StepContext,
    ) -> Result<(), Fault> {
        let Some(operands) = self.operands(instr, iteration) else {
            return Ok(());
        };
        let (team, part) = (&*self.team, &self.own.part);
        let wire = &mut Wire {
            transport: &mut *self.transport,
            tag,
            group: self.own.group,
        };
        let rank = wire.rank() as usize;
        let reduce = matches!(instr, Instr::HaloReduce(_));
        // SAFETY: as the caller promised; instructions run one after the other.
        unsafe {
            match (operands, half) {
                (Operands::Halo(rows), Half::Begin) => match reduce {
                    true => send_halo(wire, part, rows, &|_| true),
                    false => send_own(team, wire, part, rows),
                },
                (Operands::Halo(rows), Half::Finish) => match reduce {
                    true => add_own(team, wire, part, rows),
                    false => fill_halo(wire, part, rows),
                },
                (Operands::Sums, Half::Begin) => send_chunks(wire, &self.memory.spans),
                (Operands::Sums, Half::Finish) => {
                    sum_chunks(wire, &self.memory.spans, &mut self.memory.reduction)
                }
                (Operands::Tensor(tensor, moved), Half::Begin) => {
                    redistribute::send(team, wire, owned(part, moved, rank), &tensor)
                }
                (Operands::Tensor(tensor, moved), Half::Finish) => {
                    redistribute::receive(team, wire, owned(part, moved, rank), &tensor)
                }
                (Operands::Skip([rows, copies], shape, buffer, [number, slot], rule), half) => {
                    let (columns, storage) = shape;
                    let exchange = Exchange {
                        team,
                        part,
                        timing: Timing {
                            rule,
                            epoch: step_context.epoch,
                            began: self.own.clocks.began,
                        },
                        rows,
                        copies,
                        columns,
                        storage,
                        name: &self.own.program.buffer(buffer).name,
                    };
                    let clock = self
                        .own
                        .clocks
                        .of
                        .get_mut(number)
                        .and_then(|of| of.get_mut(slot));
                    let layer = self.own.staleness.layers.get_mut(number);
                    let (Some(clock), Some(layer)) = (clock, layer) else {
                        return Err(Fault::Missing("clocks of copies"));
                    };
                    return match half {
                        Half::Begin => exchange.begin(wire, clock),
                        Half::Finish => exchange.finish(wire, clock, layer),
                    };
                }
                (Operands::Return(rows, left, [number, slot]), half) => {
                    let clocks = self.own.clocks.of.get(number);
                    let clock = clocks.and_then(|of| of.get(slot));
                    let back = Return {
                        part,
                        clock: clock.ok_or(Fault::Missing("clocks of copies"))?,
                        epoch: step_context.epoch,
                        rows,
                        left,
                    };
                    match half {
                        Half::Begin => back.begin(wire),
                        Half::Finish => back.finish(team, wire),
                    }
                }
            }
        }?;
        Ok(())
    }

    /// The exchanged rows of the current chunk.
    fn exchanged(&self, at: Ref, iteration: u32) -> Exchanged {
        let buffer = self.own.program.buffer(at.buffer);
        Exchanged {
            matrix: self.slot(at, iteration),
            columns: buffer.row_words() as usize,
            storage: buffer.storage,
            chunk: self.own.place.chunk,
        }
    }

    /// The operands; `None` if the instruction does not communicate.
    fn operands(&mut self, instr: &Instr, iteration: u32) -> Option<Operands> {
        match instr {
            Instr::HaloExchange(instr::HaloExchange {
                buffer,
                skip: Some(skip),
            }) => {
                let program = &self.own.program;
                let exchanged = program.buffer(buffer.buffer);
                let columns = exchanged.row_words() as usize;
                let storage = exchanged.storage;
                let spans = [buffer, &skip.copies].map(|at| self.slot(*at, iteration));
                Some(Operands::Skip(
                    spans,
                    (columns, storage),
                    buffer.buffer,
                    self.own.clock(skip, iteration)?,
                    skip.rule,
                ))
            }
            Instr::HaloReduce(instr::HaloReduce {
                buffer,
                skip: Some(skip),
            }) => {
                let rows = self.exchanged(*buffer, iteration);
                let left = skip.left.map(|left| self.slot(left, iteration));
                Some(Operands::Return(
                    rows,
                    left,
                    self.own.clock(&skip.of, iteration)?,
                ))
            }
            Instr::HaloExchange(instr::HaloExchange { buffer, skip: None })
            | Instr::HaloReduce(instr::HaloReduce { buffer, skip: None }) => {
                let rows = self.exchanged(*buffer, iteration);
                (rows.columns > 0).then_some(Operands::Halo(rows))
            }
            Instr::AllReduce(instr::AllReduce { buffers }) => {
                let mut spans = std::mem::take(&mut self.memory.spans);
                spans.clear();
                spans.extend(buffers.iter().map(|&id| self.buffer(id)));
                self.memory.spans = spans;
                Some(Operands::Sums)
            }
            Instr::Redistribute(instr::Redistribute {
                how,
                from,
                to,
                heads,
                width,
                moved,
            }) => {
                let matrix = self.dense(from, iteration);
                let tensor = Move {
                    how: *how,
                    from: matrix.words(),
                    stride: matrix.stride,
                    storage: matrix.storage,
                    to: self.slot(*to, iteration),
                    heads: *heads as usize,
                    width: *width as usize,
                };
                Some(Operands::Tensor(tensor, *moved))
            }
            _ => None,
        }
    }
}

/// The rows that a redistribution moves.
fn owned(part: &Part, moved: Moved, rank: usize) -> Owned<'_> {
    let (ids, rows) = part.moved(moved, rank);
    Owned { ids, rows }
}

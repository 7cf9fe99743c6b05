//! Runs the instructions that communicate, in halves.

use super::{Fault, Rank};
use crate::device::cpu::Span;
use crate::exchange::redistribute::{self, Move, Owned};
use crate::exchange::{add_own, fill_halo, send_chunks, send_halo, send_own, sum_chunks};
use crate::part::Part;
use crate::transport::Wire;
use gnnc_ir::program::{Instr, Moved, Ref};

/// What an instruction that communicates works on.
enum Operands {
    /// Rows, and how many columns they have.
    Halo(Span, usize),
    /// The buffers in the rank's memory of spans.
    Sums,
    /// A tensor.
    Tensor(Move, Moved),
}

impl Rank {
    /// Packs and sends what other ranks wait for.
    ///
    /// # Safety
    /// The instruction fits the buffers.
    pub(super) unsafe fn begin(
        &mut self,
        instr: &Instr,
        tag: u32,
        iteration: u32,
    ) -> Result<(), Fault> {
        let Some(operands) = self.operands(instr, iteration) else {
            return Ok(());
        };
        let (team, part) = (&*self.team, &self.part);
        let rank = self.transport.rank() as usize;
        let wire = &mut Wire {
            transport: &mut *self.transport,
            tag,
        };
        // SAFETY: as the caller promised; instructions run one after the other.
        unsafe {
            match operands {
                Operands::Halo(rows, columns) if matches!(instr, Instr::HaloReduce { .. }) => {
                    send_halo(wire, part, rows, columns)
                }
                Operands::Halo(rows, columns) => send_own(team, wire, part, rows, columns),
                Operands::Sums => send_chunks(wire, &self.memory.spans),
                Operands::Tensor(tensor, moved) => {
                    redistribute::send(team, wire, owned(part, moved, rank), &tensor)
                }
            }
        }?;
        Ok(())
    }

    /// Waits for what other ranks sent, and unpacks it.
    ///
    /// # Safety
    /// As [`Rank::begin`], which was called with the same; nothing that the instruction reads was
    /// written since.
    pub(super) unsafe fn finish(
        &mut self,
        instr: &Instr,
        tag: u32,
        iteration: u32,
    ) -> Result<(), Fault> {
        let Some(operands) = self.operands(instr, iteration) else {
            return Ok(());
        };
        let (team, part) = (&*self.team, &self.part);
        let rank = self.transport.rank() as usize;
        let wire = &mut Wire {
            transport: &mut *self.transport,
            tag,
        };
        // SAFETY: as the caller promised; instructions run one after the other.
        unsafe {
            match operands {
                Operands::Halo(rows, columns) if matches!(instr, Instr::HaloReduce { .. }) => {
                    add_own(team, wire, part, rows, columns)
                }
                Operands::Halo(rows, columns) => fill_halo(wire, part, rows, columns),
                Operands::Sums => sum_chunks(wire, &self.memory.spans, &mut self.memory.reduction),
                Operands::Tensor(tensor, moved) => {
                    redistribute::receive(team, wire, owned(part, moved, rank), &tensor)
                }
            }
        }?;
        Ok(())
    }

    /// None for instructions that do not communicate.
    fn operands(&mut self, instr: &Instr, iteration: u32) -> Option<Operands> {
        match instr {
            Instr::HaloExchange { buffer } | Instr::HaloReduce { buffer } => {
                let Ref { buffer: id, .. } = *buffer;
                let columns = self.program.buffer(id).columns as usize;
                Some(Operands::Halo(self.slot(*buffer, iteration), columns))
            }
            Instr::AllReduce { buffers } => {
                let mut spans = std::mem::take(&mut self.memory.spans);
                spans.clear();
                spans.extend(buffers.iter().map(|&id| self.buffer(id)));
                self.memory.spans = spans;
                Some(Operands::Sums)
            }
            Instr::Redistribute {
                how,
                from,
                to,
                heads,
                width,
                moved,
            } => {
                let tensor = Move {
                    how: *how,
                    from: self.dense(from, iteration),
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
    match part.whole.chunks.moved(moved) {
        None => Owned {
            ids: &part.whole.owned,
            rows: None,
        },
        Some(set) => Owned {
            ids: &set.ids,
            rows: set.rows.get(rank).map(|rows| &rows[..]),
        },
    }
}

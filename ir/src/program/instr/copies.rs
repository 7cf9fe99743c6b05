//! Copies of rows: to and from the host, and into histories.

use super::{Instruction, Operand, Use};
use crate::program::access::Touched;
use crate::program::text::line::{after, arrow, optional};
use crate::program::text::{Reader, Text, TextError};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, Terms, Work, copy};
use crate::program::{Chunk, Program, RankSizes, Ref};
use serde::{Deserialize, Serialize};

/// Copies a slot between the memory of the rank and that of its host, of which one buffer lies in
/// each: the rows that both have, own vertices first, or those of a chunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// Where the rows are.
    pub from: Ref,
    /// Where they go.
    pub to: Ref,
    /// The chunk of rows that is copied; all if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Chunk>,
}

/// Keeps rows for later epochs, in every epoch that is a multiple of [`Pipeline::interval`](crate::program::Pipeline::interval): copies
/// those of the chunk at hand (all outside of [`Chunks`](super::Chunks)), halo rows included where both have them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remember {
    /// The rows.
    pub from: Ref,
    /// A buffer with [`Role::History`](crate::program::Role::History).
    pub history: Ref,
}

impl Instruction for Move {
    fn name(&self, program: &Program) -> &'static str {
        if program.is_hosted(self.from.buffer) {
            "fetch"
        } else {
            "store"
        }
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        let rows = |other: Ref| match self.chunk {
            Some(chunk) => Use::Rows(Touched::Rows(chunk)),
            None => Use::Shared(other),
        };
        visit(Operand::read(self.from, rows(self.to)));
        visit(Operand::write(self.to, rows(self.from)));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.from);
        visit(&mut self.to);
    }

    fn check(&self, check: &Check) -> Checked {
        check.host_move(self.from, self.to, self.chunk)
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    unpriced!();

    fn print(&self, program: &Program) -> String {
        let chunk = after(", ", self.chunk.as_ref());
        let (from, to) = (self.from.text(), self.to.text());
        format!("{} {from} -> {to}{chunk}", self.name(program))
    }

    fn chunk(&self) -> Option<Chunk> {
        self.chunk
    }

    fn set_chunk(&mut self, to: Chunk) {
        self.chunk = Some(to);
    }
}

impl Move {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            from: Ref::parse(from)?,
            to: arrow(from)?,
            chunk: optional(from, Chunk::parse)?,
        })
    }
}

impl Instruction for Remember {
    fn name(&self, _: &Program) -> &'static str {
        "remember"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        visit(Operand::read(self.from, Use::Rows(Touched::All)));
        visit(Operand::write(self.history, Use::Rows(Touched::All)));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.from);
        visit(&mut self.history);
    }

    fn check(&self, check: &Check) -> Checked {
        check.remember(self.from, self.history)
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        true
    }

    fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work> {
        let of = |at: Ref| counts.program.buffer(at.buffer).slot_bytes(sizes);
        let bytes = of(self.from).min(of(self.history));
        Some(copy(bytes, bytes))
    }

    /// Calibrations do not measure it.
    fn demand(&self, _: &mut Terms, _: &Program, _: &RankSizes) -> Option<&'static str> {
        None
    }

    fn print(&self, _: &Program) -> String {
        format!("remember {} -> {}", self.from.text(), self.history.text())
    }
}

impl Remember {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            from: Ref::parse(from)?,
            history: arrow(from)?,
        })
    }
}

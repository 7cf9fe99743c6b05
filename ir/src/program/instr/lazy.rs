//! Rows of a parameter that an optimizer steps only where a batch has them: their gradients go to the ranks
//! that own the rows, and what a step computes is put back.

use super::encoded::{as_encoded, encoded, message_bytes};
use super::{Collective, Encoded, Instruction, Operand, Use};
use crate::program::access::Touched;
use crate::program::text::line::arrow;
use crate::program::text::{Reader, Text, TextError};
use crate::program::trace::Phase;
use crate::program::traffic::{Reads, Traffic, row_bytes};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, FLOAT, INDEX, LINE, Terms, Work, copy};
use crate::program::{Extent, Instr, Program, RankSizes, Ref};
use crate::words::types::{Level, Of};
use serde::{Deserialize, Serialize};

/// Adds the rows of a level to those of their owners, in rank order: the way back of
/// [`ServeRows`](super::ServeRows), over the rows that ranks asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushRows {
    /// Rows of the level that was asked for.
    pub from: Ref,
    /// Own rows that any rank has in that level.
    pub to: Ref,
    /// How rows travel, if not as they are in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<Encoded>,
}

/// Copies the rows of a level to those of its vertices, and leaves the others as they are: the way back of
/// [`FetchRows`](super::FetchRows).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutRows {
    /// Rows of a level, of the rank's own part of the batch or own rows of all ranks.
    pub from: Ref,
    /// Rows of own vertices, or of all vertices.
    pub to: Ref,
}

const ALL: Use<'static> = Use::Rows(Touched::All);

impl Instruction for PushRows {
    fn name(&self, _: &Program) -> &'static str {
        "push-rows"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        visit(Operand::read(self.from, ALL));
        visit(Operand::read(self.to, ALL));
        visit(Operand::write(self.to, ALL));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.from);
        visit(&mut self.to);
    }

    fn check(&self, check: &Check) -> Checked {
        let [from, to] = [self.from, self.to].map(|at| check.program.buffer(at.buffer));
        let level = from.extent.level().filter(|level| level.of == Of::One);
        let owned = level.map(|level| Extent::Level(Level::owned(level.number)));
        if owned != Some(to.extent) {
            return Err(format!(
                "pushes {} rows to {} rows, expected those of a level, and own ones of the same level",
                from.extent, to.extent
            ));
        }
        if from.columns != to.columns {
            return Err(format!(
                "pushes rows of {} columns to rows of {}",
                from.columns, to.columns
            ));
        }
        check.floats("from", self.from)?;
        check.floats("to", self.to)
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    unpriced!();

    fn strip_bytes(&self, program: &Program) -> Option<u64> {
        Some(row_bytes(program, self.from))
    }

    fn traffic(&self, program: &Program, _: &Reads, sizes: &[RankSizes], sum: &mut Traffic) {
        let level = program.buffer(self.from.buffer).extent.level();
        let rows = level.map_or(0, |level| program.asked_for(sizes, level.number));
        sum.fetch += message_bytes(program, self.from, &self.encoded) * rows;
    }

    fn print(&self, _: &Program) -> String {
        format!(
            "push-rows {} -> {}{}",
            self.from.text(),
            self.to.text(),
            as_encoded(&self.encoded)
        )
    }

    fn encoded(&self) -> Option<Encoded> {
        self.encoded
    }

    fn encode(&mut self, so: Encoded) {
        self.encoded = Some(so);
    }

    fn collective(&self) -> Option<Collective<'_>> {
        Some(Collective::PushRows(self))
    }
}

impl PushRows {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            from: Ref::parse(from)?,
            to: arrow(from)?,
            encoded: encoded(from)?,
        })
    }
}

impl Instruction for PutRows {
    fn name(&self, _: &Program) -> &'static str {
        "put-rows"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        visit(Operand::read(self.from, ALL));
        visit(Operand::read(self.to, ALL));
        visit(Operand::write(self.to, ALL));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.from);
        visit(&mut self.to);
    }

    fn check(&self, check: &Check) -> Checked {
        let [from, to] = [self.from, self.to].map(|at| check.program.buffer(at.buffer));
        let fits = from.extent.level().is_some_and(|level| match level.of {
            Of::One => check.program.ranks <= 1 && check.has_all_vertices(to.extent),
            Of::Owned => to.extent == Extent::Inner,
            Of::All | Of::Sets => false,
        });
        if !fits || from.columns != to.columns {
            return Err(format!(
                "puts {} x {} rows into {} x {} rows, expected own rows of a level, and those of the vertices",
                from.extent, from.columns, to.extent, to.columns
            ));
        }
        check.floats("from", self.from)?;
        check.floats("to", self.to)
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    fn work(&self, counts: &Counts, sizes: &RankSizes) -> Option<Work> {
        let from = counts.program.buffer(self.from.buffer);
        // Rows are at random places.
        let row = (u64::from(from.row_words()) * FLOAT).next_multiple_of(LINE);
        let rows = sizes.rows(from.extent);
        Some(copy(from.slot_bytes(sizes) + rows * INDEX, rows * row))
    }

    fn demand(
        &self,
        terms: &mut Terms,
        program: &Program,
        sizes: &RankSizes,
    ) -> Option<&'static str> {
        Some(terms.fetch_rows(program, self.from, self.to, sizes))
    }

    fn print(&self, _: &Program) -> String {
        format!("put-rows {} -> {}", self.from.text(), self.to.text())
    }
}

impl PutRows {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            from: Ref::parse(from)?,
            to: arrow(from)?,
        })
    }
}

impl Program {
    /// The level whose rows are pushed to their owners, if they are.
    pub fn pushes(&self) -> Option<Level> {
        self.batch_of(Phase::Step).find_map(|instr| {
            if let Instr::PushRows(push) = instr.whole() {
                self.buffer(push.from.buffer).extent.level()
            } else {
                None
            }
        })
    }
}

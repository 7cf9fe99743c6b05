//! Sets of the seeds of a batch: a loop over them, and what moves on with the model of each (Chen et
//! al., HopGNN, section 3.1).

use super::loops::block;
use super::{Collective, Instr, Instruction, Operand, Use};
use crate::program::memory::scratch_floats;
use crate::program::text::line::words;
use crate::program::text::{Reader, Text, TextError};
use crate::program::traffic::{Reads, Traffic, traffic};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, Terms, Work};
use crate::program::{Capacity, Extent, Program, RankSizes, Ref};
use serde::{Deserialize, Serialize};

/// Runs the body for each set of the rank's seeds in the batch at hand. Rows of levels are then those
/// of the set; a set may have none. Only in [`Batches`](super::Batches).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sets {
    /// What is done for a set.
    pub body: Vec<Instr>,
}

/// Sends buffers to the rank that has the model's next set, and gets those of the model that comes here:
/// each rank sends to one other and hears from one other. After the last set nothing moves. Only in
/// [`Sets`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// Buffers with fixed rows.
    pub buffers: Vec<Ref>,
}

impl Instruction for Sets {
    a_loop!("sets");

    /// Nothing but a shift is sent, which the last set does not do.
    fn traffic(&self, program: &Program, reads: &Reads, sizes: &[RankSizes], sum: &mut Traffic) {
        let sets = sizes.first().map_or(0, |sizes| sizes.batch.sets);
        sum.add(
            traffic(&self.body, program, reads, sizes),
            sets.saturating_sub(1),
        );
    }

    fn print(&self, _: &Program) -> String {
        "sets".to_owned()
    }
}

impl Sets {
    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self { body: block(from)? })
    }
}

impl Instruction for Shift {
    fn name(&self, _: &Program) -> &'static str {
        "shift"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        let slots = || self.buffers.iter();
        slots().for_each(|at| visit(Operand::read(*at, Use::Slots)));
        slots().for_each(|at| visit(Operand::write(*at, Use::Slots)));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        self.buffers.iter_mut().for_each(visit);
    }

    fn check(&self, check: &Check) -> Checked {
        for at in &self.buffers {
            check.at_least("buffer", *at, 0)?;
            check.floats("buffer", *at)?;
            let buffer = check.program.buffer(at.buffer);
            if !matches!(buffer.extent, Extent::Fixed(_)) {
                return Err(format!(
                    "shifts `{}` with {} rows, expected fixed ones",
                    buffer.name, buffer.extent
                ));
            }
        }
        Ok(())
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    unpriced!();

    fn traffic(&self, program: &Program, _: &Reads, sizes: &[RankSizes], sum: &mut Traffic) {
        sum.shift += 4 * self.floats(program) * sizes.len() as u64;
    }

    fn print(&self, _: &Program) -> String {
        format!("shift {}", words(&self.buffers))
    }

    fn collective(&self) -> Option<Collective<'_>> {
        Some(Collective::Shift(self))
    }
}

impl Shift {
    /// Floats that a rank sends.
    pub fn floats(&self, program: &Program) -> u64 {
        let none = RankSizes::default();
        let words = |at: &Ref| program.buffer(at.buffer).slot_bytes(&none) / 4;
        self.buffers.iter().map(words).sum()
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let mut buffers = vec![Ref::parse(from)?];
        while from.at_numbered("b") {
            buffers.push(Ref::parse(from)?);
        }
        Ok(Self { buffers })
    }
}

//! Messages between the stages of a pipeline.

use super::encoded::{as_encoded, encoded};
use super::{Encoded, Operand, Use};
use crate::program::access::Touched;
use crate::program::text::line::{refs, words};
use crate::program::text::{Reader, Text, TextError};
use crate::program::traffic::Traffic;
use crate::program::verify::{Check, Checked};
use crate::program::{Extent, Neighbour, Program, RankSizes, Ref};
use serde::{Deserialize, Serialize};

/// Rows that go to or come from another stage, of several tensors as one message: own rows of the chunk
/// at hand, all own rows outside of [`Instr::Chunks`](super::Instr::Chunks), tensor after tensor. Of a tensor
/// with fixed rows all of them go, which only happens outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageMessage {
    /// The other stage.
    pub with: Neighbour,
    /// The tensors, by own rows, or with fixed ones.
    pub tensors: Vec<Ref>,
    /// How own rows travel, if not as they are in memory; fixed ones always do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<Encoded>,
}

/// One end of a message between stages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageEnd<'a> {
    /// The message.
    pub message: &'a StageMessage,
    /// Whether this end sends it.
    pub sends: bool,
}

impl StageMessage {
    /// Tensors to another stage or from it, as they are in memory.
    pub fn of(with: Neighbour, tensors: Vec<Ref>) -> Self {
        Self {
            with,
            tensors,
            encoded: None,
        }
    }

    /// Words of 4 bytes of a vertex, and such that are no vertex's, of all tensors together.
    pub fn words(&self, program: &Program) -> (u64, u64) {
        let (mut row, mut fixed) = (0, 0);
        for at in &self.tensors {
            let buffer = program.buffer(at.buffer);
            if let Extent::Fixed(rows) = buffer.extent {
                fixed += u64::from(rows) * u64::from(buffer.row_words())
            } else {
                row += u64::from(Encoded::row_words(&self.encoded, buffer))
            }
        }
        (row, fixed)
    }
}

impl StageMessage {
    pub(super) fn operands<'a>(&'a self, sends: bool, visit: &mut impl FnMut(Operand<'a>)) {
        for at in &self.tensors {
            let rows = Use::Rows(Touched::Own);
            visit(match sends {
                true => Operand::read(*at, rows),
                false => Operand::write(*at, rows),
            });
        }
    }

    pub(super) fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        self.tensors.iter_mut().for_each(visit);
    }

    pub(super) fn check(&self, check: &Check) -> Checked {
        check.stage_message(self)
    }

    pub(super) fn fits_chunks(&self, program: &Program) -> bool {
        self.tensors.iter().all(|at| {
            let buffer = program.buffers.get(at.buffer.0 as usize);
            !buffer.is_some_and(|b| matches!(b.extent, Extent::Fixed(_)))
        })
    }

    pub(super) fn traffic(&self, program: &Program, sizes: &[RankSizes], sum: &mut Traffic) {
        let (row, fixed) = self.words(program);
        let own: u64 = sizes.iter().map(|s| s.inner).sum();
        sum.stage_message += (own * row + fixed * sizes.len() as u64) * 4;
    }

    pub(super) fn print(&self, sends: bool) -> String {
        let name = if sends { "send" } else { "receive" };
        format!(
            "{name} {} {}{}",
            self.with.text(),
            words(&self.tensors),
            as_encoded(&self.encoded)
        )
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            with: Neighbour::parse(from)?,
            tensors: refs(from)?,
            encoded: encoded(from)?,
        })
    }
}

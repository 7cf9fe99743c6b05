//! Communications that others run in between.

use super::Instr;
use crate::program::Program;
use crate::program::text::{Reader, TextError};
use serde::{Deserialize, Serialize};

/// A communication in two halves, [`Instr::Begin`] and [`Instr::Finish`]. Both stand in the same
/// list, in this order, and between them nothing writes what the communication reads, and nothing
/// touches what it writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// Which messages are its own: every transfer of a program has another tag, the same on all
    /// ranks and never [`Transfer::WHOLE`].
    pub tag: u32,
    /// What has halves: a communication, or a move between a rank and its host.
    pub what: Box<Instr>,
}

impl Transfer {
    /// The tag of the messages of communications that are one instruction.
    pub const WHOLE: u32 = 0;
}

impl Transfer {
    pub(super) fn print(&self, begins: bool, program: &Program) -> String {
        let half = if begins { "begin" } else { "finish" };
        format!("{half} {} {}", self.tag, self.what.print(program))
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let tag = from.number()?;
        let what = Box::new(from.deeper(Instr::parse)?);
        Ok(Self { tag, what })
    }
}

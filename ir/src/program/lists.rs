//! The instruction lists of a program.

use super::{Instr, Program};
use crate::program::trace::Phase;

impl Program {
    /// The instructions of a phase.
    pub fn list(&self, phase: Phase) -> &[Instr] {
        match phase {
            Phase::Setup => &self.setup,
            Phase::Step => &self.step,
            Phase::Eval => &self.eval,
        }
    }

    /// The instructions of a phase, mutable.
    pub fn list_mut(&mut self, phase: Phase) -> &mut Vec<Instr> {
        match phase {
            Phase::Setup => &mut self.setup,
            Phase::Step => &mut self.step,
            Phase::Eval => &mut self.eval,
        }
    }
}

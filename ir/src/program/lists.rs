//! The instruction lists of a program.

use super::{Instr, Program};
use crate::program::trace::Phase;
use crate::words::sampling::Sampling;

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

    /// The batches that a list runs over, if it samples.
    pub fn batches_of(&self, phase: Phase) -> Option<&Sampling> {
        match phase {
            Phase::Setup => None,
            Phase::Step => self.sampling.as_ref(),
            Phase::Eval => self.evaluation.as_ref(),
        }
    }

    /// Where the loops over batches are.
    pub fn batch_loops(&self) -> Vec<(Phase, usize)> {
        let mut found = Vec::new();
        for phase in Phase::ALL {
            for (index, instr) in self.list(phase).iter().enumerate() {
                if matches!(instr, Instr::Batches(_)) {
                    found.push((phase, index));
                }
            }
        }
        found
    }

    /// The instructions of all loops over batches, with those of the loops inside of them.
    pub fn of_batches(&self) -> impl Iterator<Item = &Instr> {
        Phase::ALL
            .into_iter()
            .flat_map(|phase| self.batch_of(phase))
    }

    /// The instructions of a list's batches, with those of the loops inside of them.
    pub fn batch_of(&self, phase: Phase) -> impl Iterator<Item = &Instr> {
        let loops = (self.list(phase).iter()).filter(|instr| matches!(instr, Instr::Batches(_)));
        let bodies = loops.flat_map(|instr| instr.body().unwrap_or_default());
        bodies.flat_map(|instr| instr.body().unwrap_or(std::slice::from_ref(instr)))
    }

    /// The most hops of a batch, which is also the highest level of the program.
    pub fn hops(&self) -> u8 {
        let batches = Phase::ALL.map(|phase| self.batches_of(phase).map_or(0, Sampling::hops));
        batches.into_iter().max().unwrap_or(0)
    }
}

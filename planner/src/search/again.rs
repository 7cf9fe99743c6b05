//! Candidates that are another one again.

use super::Ready;
use gnnc_ir::program::{Instr, Program};

impl Ready {
    /// Whether it is to keep rows of other ranks, and finds none of those that batches read.
    fn keeps_nothing(&self) -> bool {
        let fills = |program: &Program| {
            let mut setup = program.setup.iter();
            program.renews() || setup.any(|instr| matches!(instr, Instr::CacheRows(_)))
        };
        let batches = self.parts.batch.iter().flat_map(|batch| &batch.expected);
        let found: u64 = batches.flat_map(|sizes| &sizes.cached).sum();
        let of_batches = self.spec.samples() && self.spec.knobs.sampling.cached().is_some();
        of_batches && (found == 0 || !self.programs.iter().any(fills))
    }

    /// Whether it duplicates another candidate: a mixture that is a pure placement, more chunks that
    /// change nothing, or a cache that keeps nothing.
    pub(super) fn is_another(&self, all: &[Ready]) -> bool {
        let (own, chunks) = (&self.spec, self.spec.chunks());
        let keeps_nothing = self.keeps_nothing();
        all.iter().filter(|a| a.spec.ranks == own.ranks).any(|a| {
            let uncut = a.spec.placement == own.placement && a.spec.chunks() < chunks;
            let uncached =
                a.spec.placement == own.placement && a.spec.knobs.sampling.cached().is_none();
            self.same == Some(a.spec.placement)
                || uncut && a.programs == self.programs
                || uncached && keeps_nothing
        })
    }
}

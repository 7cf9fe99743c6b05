//! Candidates without overlap, if that takes less memory.

use super::{Lower, PlanRequest, Ready};
use crate::simulate::peak_memory;
use gnnc_ir::plan::Objective;

impl Ready {
    /// If memory is the objective, the candidate without overlap if that needs less: received rows
    /// and values computed meanwhile are then not live at once. Ties go to the candidate with
    /// overlap, which is faster.
    pub(super) fn leaner(self, request: &PlanRequest, lower: &dyn Lower) -> Self {
        let several = self.spec.ranks > 1 && self.spec.stages().is_none();
        let free = self.spec.overlap() && !self.spec.interior();
        if request.objective != Objective::Memory || !several || !free {
            return self;
        }
        let mut spec = self.spec.clone();
        spec.knobs.overlap = Some(false);
        // Overlap is applied to a program without it, so that program exists; if not, nothing is
        // lost.
        let Ok(programs) = lower.programs(&spec) else {
            return self;
        };
        let alone = Self {
            programs,
            parts: self.parts.clone(),
            spec,
            ..self
        };
        if alone.memory(request) < self.memory(request) {
            alone
        } else {
            self
        }
    }

    /// Bytes on the rank that needs the most.
    pub(super) fn memory(&self, request: &PlanRequest) -> u64 {
        let programs = self.programs.iter();
        let peaks = programs.map(|program| peak_memory(program, request.cluster, &self.parts).0);
        peaks.max().unwrap_or(0)
    }
}

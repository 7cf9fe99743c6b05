//! Candidates without overlap, which take less memory.

use super::{Lower, PlanRequest, Ready};
use crate::simulate::peak_memory;
use gnnc_ir::plan::Objective;

impl Ready {
    /// If memory is the objective, the candidate without overlap if that needs less. Ties go to the candidate with
    /// overlap, which is faster.
    pub(super) fn leaner(self, request: &PlanRequest, lower: &dyn Lower) -> Self {
        if request.objective != Objective::Memory {
            return self;
        }
        match self.without_overlap(request, lower) {
            Some(alone) if alone.memory(request) < self.memory(request) => alone,
            _ => self,
        }
    }

    /// The candidate without overlap: received rows and values computed meanwhile are then not live at once. `None` if
    /// nothing overlaps, or if interior rows are asked for.
    pub(super) fn without_overlap(&self, request: &PlanRequest, lower: &dyn Lower) -> Option<Self> {
        let several = self.spec.ranks > 1 && self.spec.stages().is_none();
        let asked = request.pin.knobs.interior == Some(true);
        if !several || !self.spec.overlap() || asked {
            return None;
        }
        let mut spec = self.spec.clone();
        (spec.knobs.overlap, spec.knobs.interior) = (Some(false), None);
        Some(Self {
            // Overlap is applied to a program without it, so that program exists.
            programs: lower.programs(&spec).ok()?,
            spec,
            ..self.clone()
        })
    }

    /// Bytes on the rank that needs the most.
    pub(super) fn memory(&self, request: &PlanRequest) -> u64 {
        let programs = self.programs.iter();
        let peaks = programs.map(|program| peak_memory(program, request.cluster, &self.parts).0);
        peaks.max().unwrap_or(0)
    }
}

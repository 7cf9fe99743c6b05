//! Candidates that compute nothing while messages are under way, where that takes less memory.

use super::{Lower, PlanRequest, Ready};
use crate::placement::Flow;
use crate::simulate::peak_memory;
use gnnc_ir::plan::Objective;

impl Ready {
    /// Where memory is the objective, the candidate without overlap if that needs less: what messages bring and what is
    /// computed meanwhile are then not there at once. Of two that need as much, the one with overlap, which is
    /// faster.
    pub(super) fn leaner(self, request: &PlanRequest, lower: &dyn Lower) -> Self {
        let flow = self.spec.flow;
        let several = self.spec.ranks > 1 && self.spec.stages.is_none();
        let free = flow.overlap && !flow.interior;
        if request.objective != Objective::Memory || !several || !free {
            return self;
        }
        let spec = self.spec.with_flow(Flow {
            overlap: false,
            ..flow
        });
        // What overlaps is made from what does not, so there is a program; without one nothing is lost.
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

    /// Bytes of the rank that needs most.
    fn memory(&self, request: &PlanRequest) -> u64 {
        let programs = self.programs.iter();
        let peaks = programs.map(|program| peak_memory(program, request.cluster, &self.parts).0);
        peaks.max().unwrap_or(0)
    }
}

//! Candidates that compute interior rows while halo rows are in flight, if that pays.

use super::{Lower, PlanRequest, Ready};
use crate::lower::interior::is_cut;
use crate::simulate::Estimate;
use gnnc_ir::plan::Objective;

/// Largest ratio of new to old epoch time that is worth it: predictions are no more precise.
const WORTH: f64 = 0.99;

impl Ready {
    /// Whether some instructions of an epoch run over part of the rows.
    pub(super) fn is_cut(&self) -> bool {
        self.programs.iter().any(|program| is_cut(&program.step))
    }

    /// The candidate with cut kernels and its estimate, if faster. It computes as much and launches
    /// more, so a lower bound without the cut also holds with it. If memory is the objective, a cut
    /// must not take more memory.
    pub(super) fn cut(
        &self,
        request: &PlanRequest,
        lower: &dyn Lower,
        whole: &Estimate,
    ) -> Option<(Self, Estimate)> {
        let free = request.pin.knobs.interior.is_none();
        let waits =
            whole.epoch.exposed_communication_seconds.0 + whole.epoch.bubble_seconds.0 > 0.0;
        if !free
            || !waits
            || !whole.fits
            || !self.spec.overlap()
            || self.spec.interior()
            || self.spec.stages().is_some()
        {
            return None;
        }
        let mut spec = self.spec.clone();
        spec.knobs.interior = Some(true);
        let cut = Self {
            programs: lower.programs(&spec).ok()?,
            parts: self.parts.clone(),
            spec,
            ..*self
        };
        let estimate = cut.is_cut().then(|| cut.estimate(request))?.ok()?;
        let shorter = estimate.epoch.seconds.0 < WORTH * whole.epoch.seconds.0;
        let more = estimate.peak_memory_bytes > whole.peak_memory_bytes;
        let dearer = request.objective == Objective::Memory && more;
        (estimate.fits && shorter && !dearer).then_some((cut, estimate))
    }
}

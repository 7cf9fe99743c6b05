//! Caches of other ranks' rows that are as large as memory permits.

use super::{Lower, PlacementSpec, PlanRequest, Ready};

impl Ready {
    /// The candidate that keeps as many rows as fit, or none, if it keeps more than that and nobody asked
    /// for this number. `None` if it may stay as it is.
    ///
    /// # Errors
    /// A candidate without a cache that cannot be lowered.
    pub(super) fn with_cache_that_fits(
        &self,
        request: &PlanRequest,
        lower: &dyn Lower,
    ) -> Result<Option<PlacementSpec>, String> {
        let asked_for = request.pin.knobs.sampling.cache.is_some();
        let cache = self.spec.knobs.sampling.cached();
        let Some(cache) = cache.filter(|_| !asked_for && self.spec.samples()) else {
            return Ok(None);
        };
        let (has, with) = (request.cluster.device.memory.0, self.memory(request));
        if with <= has {
            return Ok(None);
        }
        let mut spec = self.spec.clone();
        let settings = &mut spec.knobs.sampling;
        settings.cache = None;
        let age = settings.cache_age.take();
        let programs = lower.programs(&spec).map_err(|e| e.to_string())?;
        let without = Self {
            parts: self.parts.clone(),
            programs,
            spec,
            ..*self
        };
        // Memory grows with the rows, at first perhaps less than later.
        let needed = without.memory(request);
        let rows = match (has.checked_sub(needed), with.saturating_sub(needed)) {
            (None, _) | (_, 0) => 0,
            (Some(left), grows) => u128::from(cache.rows) * u128::from(left) / u128::from(grows),
        };
        let mut spec = without.spec;
        let settings = &mut spec.knobs.sampling;
        settings.cache = u32::try_from(rows).ok().filter(|rows| *rows > 0);
        settings.cache_age = age.filter(|_| settings.cache.is_some());
        Ok(Some(spec))
    }
}

//! Candidates whose rows travel in fewer bits.

use super::{Lower, PlanRequest, Ready, least};
use gnnc_ir::graph::model::Relaxation;
use gnnc_ir::words::wire::Wire;

impl Ready {
    /// The candidate's variants that are to be tried and may be better: with fewer rows, with fewer bits, and with both.
    /// The candidate itself is last.
    pub(super) fn with_variants(self, request: &PlanRequest, lower: &dyn Lower) -> Vec<Self> {
        let mut found = self.with_fewer_rows(request, lower);
        let all = std::iter::once(&self).chain(&found);
        let encoded = all.flat_map(|one| one.with_fewer_bits(request, lower));
        let encoded: Vec<Self> = encoded.collect();
        found.extend(encoded);
        found.push(self);
        found
    }

    /// The candidate whose rows travel in each format of fewer bits, if that is permitted and open.
    fn with_fewer_bits(&self, request: &PlanRequest, lower: &dyn Lower) -> Vec<Self> {
        let open = request.pin.knobs.wire.is_none() && self.spec.may_encode();
        if !open || !request.allow.contains(&Relaxation::Quantise) {
            return Vec::new();
        }
        let formats = Wire::ALL.iter().filter(|wire| !wire.is_f32());
        formats
            .filter_map(|wire| self.encoded(*wire, request, lower))
            .collect()
    }

    fn encoded(&self, wire: Wire, request: &PlanRequest, lower: &dyn Lower) -> Option<Self> {
        let mut spec = self.spec.clone();
        spec.knobs.wire = Some(wire);
        // Programs that send no rows have no such variant.
        let programs = lower.programs(&spec).ok()?;
        let least = match request.top.is_some() {
            true => least(request, &programs, &self.parts).ok()?,
            false => 0.0,
        };
        Some(Self {
            spec,
            programs,
            parts: self.parts.clone(),
            least,
            ..*self
        })
    }
}

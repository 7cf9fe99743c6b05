//! Candidates that send partial sums where they are fewer than rows.

use super::nodes::seconds_a_byte;
use super::{Lower, PlanRequest, Ready, least};
use crate::lower::cover;
use gnnc_ir::plan::Cover;
use gnnc_ir::program::Halo;

impl Ready {
    /// The candidate with the fewest rows and partial sums, if that is to be tried.
    pub(super) fn with_sums(&self, request: &PlanRequest, lower: &dyn Lower) -> Option<Self> {
        let free = request.pin.knobs.cover.is_none() && self.spec.has_tiers();
        let fits = || self.programs.iter().all(cover::fits);
        if !free || !fits() || !self.may_gain_by_sums(request) {
            return None;
        }
        let mut spec = self.spec.clone();
        spec.knobs.cover = Some(Cover::Joint);
        let programs = lower.programs(&spec).ok()?;
        if programs.iter().any(|program| program.halo != Halo::Cover) {
            return None;
        }
        let parts = self.parts.clone().of(programs.first()?);
        let least = match request.top.is_some() {
            true => least(request, &programs, &parts).ok()?,
            false => 0.0,
        };
        Some(Self {
            spec,
            programs,
            parts,
            least,
            ..*self
        })
    }

    /// Whether fewer rows save more time than the latency of the further message of each exchange.
    fn may_gain_by_sums(&self, request: &PlanRequest) -> bool {
        let (cluster, ranks) = (request.cluster, self.parts.sizes.len());
        let rows = self.parts.rows_saved_by_sums() / ranks.max(1) as f64;
        let link = match ranks as u32 > cluster.devices_per_node {
            true => &cluster.between,
            false => &cluster.inside,
        };
        rows * self.widest_halo() * seconds_a_byte(cluster, link) > cluster.latency_of(link)
    }
}

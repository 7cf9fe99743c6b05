//! Candidates whose halo rows cross to a node once.

use super::{Lower, PlacementSpec, PlanRequest, Ready, least};
use gnnc_ir::cluster::{Cluster, Link};
use gnnc_ir::program::instr::{Collective, HaloExchange, HaloReduce};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Halo, Instr, Program};
use std::sync::Arc;

/// Why a pinned number of ranks a node is refused.
pub(super) const NO_HALO: &str = "node-ranks asks for halo rows that cross to a node once, but nothing here exchanges halo rows; leave it out";

impl PlanRequest<'_> {
    /// The ranks of a node, if they are pinned and a row may cross to a node once.
    pub(super) fn pinned_nodes(&self, spec: &PlacementSpec) -> Option<u32> {
        let several = |ranks: &u32| *ranks > 1 && spec.has_tiers();
        self.pin.knobs.node_ranks.filter(several)
    }

    /// The devices of a node of the cluster, if a candidate is to be tried on several nodes of several.
    fn nodes_to_try(&self, spec: &PlacementSpec) -> Option<u32> {
        let of_node = self.cluster.devices_per_node;
        let several = of_node > 1 && of_node < spec.ranks && spec.ranks.is_multiple_of(of_node);
        let free = self.pin.knobs.node_ranks.is_none() && spec.has_tiers();
        (several && free).then_some(of_node)
    }
}

impl Ready {
    /// The same candidate where halo rows cross to nodes once, with partial sums, and with both, as far as these are to be
    /// tried.
    pub(super) fn with_fewer_rows(&self, request: &PlanRequest, lower: &dyn Lower) -> Vec<Self> {
        let mut found = Vec::from_iter(self.on_nodes(request));
        if let Some(sums) = self.with_sums(request, lower) {
            found.extend(sums.on_nodes(request));
            found.push(sums);
        }
        found
    }

    /// Whether the programs exchange halo rows, if these are to cross to nodes once.
    pub(super) fn exchanges_on_nodes(&self) -> bool {
        let mut programs = self.programs.iter();
        self.spec.node_ranks().is_none() || programs.any(|program| program.node_ranks.is_some())
    }

    /// The candidate on the nodes of the cluster, if that is to be tried and halo rows are exchanged. Its programs
    /// differ only in how these exchanges run.
    fn on_nodes(&self, request: &PlanRequest) -> Option<Self> {
        let of_node = request.nodes_to_try(&self.spec)?;
        let mut found = self.clone();
        found.spec.knobs.node_ranks = Some(of_node);
        for program in Arc::make_mut(&mut found.programs) {
            *program = crate::placement::on_nodes(program.clone(), of_node).ok()?;
        }
        let first = found.programs.first()?;
        first.node_ranks?;
        found.parts = found.parts.on_nodes(request.workload, of_node);
        if first.halo == Halo::Everything {
            found.parts.everything_crosses();
        }
        if !found.may_gain(request) {
            return None;
        }
        if request.top.is_some() {
            found.least = least(request, &found.programs, &found.parts).ok()?;
        }
        Some(found)
    }

    /// Whether the widest rows that are passed on inside nodes, in place of crossing, save more time than the latency of the
    /// second message.
    fn may_gain(&self, request: &PlanRequest) -> bool {
        let cluster = request.cluster;
        let beyond = self.parts.share_beyond(cluster.devices_per_node);
        let sizes = self.parts.sizes.iter().enumerate();
        let passed = sizes.filter_map(|(rank, sizes)| {
            let tiers = self.parts.tiers(Some(rank), sizes.halo as f64 * beyond)?;
            Some(tiers.passed)
        });
        let bytes = passed.fold(0.0, f64::max) * self.widest_halo();
        let of = |link| seconds_a_byte(cluster, link);
        let saved = of(&cluster.between) - of(&cluster.inside);
        bytes * saved > cluster.latency_of(&cluster.inside)
    }

    /// Bytes of the widest row that is exchanged.
    pub(super) fn widest_halo(&self) -> f64 {
        let widest = self.programs.iter().map(widest_halo).max().unwrap_or(0);
        4.0 * f64::from(widest)
    }
}

/// Seconds that a rank needs for a byte of a message if all ranks of its node send.
pub(super) fn seconds_a_byte(cluster: &Cluster, link: &Link) -> f64 {
    link.sharers(f64::from(cluster.devices_per_node))
        / link.bandwidth
        / cluster.calibration.link_efficiency
}

/// Words of the widest row that is exchanged.
fn widest_halo(program: &Program) -> u32 {
    let mut widest = 0;
    for phase in Phase::ALL {
        widest = widest.max(widest_of(program.list(phase), program));
    }
    widest
}

fn widest_of(instrs: &[Instr], program: &Program) -> u32 {
    let words = |instr: &Instr| match instr.whole().collective() {
        Some(
            Collective::HaloExchange(HaloExchange { buffer, .. })
            | Collective::HaloReduce(HaloReduce { buffer, .. }),
        ) => program.buffer(buffer.buffer).row_words(),
        _ => 0,
    };
    let widths = instrs.iter().map(|instr| {
        let inside = widest_of(instr.body().unwrap_or_default(), program);
        words(instr).max(inside)
    });
    widths.max().unwrap_or(0)
}

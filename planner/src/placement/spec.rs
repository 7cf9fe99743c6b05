//! A candidate placement with its ranks and knobs, and the constraints on candidates.
//!
//! A knob is a field of [`Knobs`], with values to try in `search/candidates.rs` and an option in
//! `src/cli/knobs.rs`; here is what it means where it is left open.

use super::{OnBatches, Row, Stages, row};
use crate::parts::Parts;
use gnnc_ir::cluster::Cluster;
use gnnc_ir::plan::{
    Candidate, Cover, Knobs, Layout, Parameters, Partitioner, Placement, Relaxation,
};
use gnnc_ir::words::mesh::Mesh;
use gnnc_ir::words::sampling::Topology;
use gnnc_ir::words::units::significant;
use gnnc_ir::words::wire::Wire;

/// A placement on a number of ranks with its knobs: everything a lowering has to know, and how the
/// graph is divided for it. Knobs that are open have their defaults.
///
/// Plans list candidates that are equally good in this order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacementSpec {
    /// The placement.
    pub placement: Placement,
    /// Number of ranks.
    pub ranks: u32,
    /// Its knobs.
    pub knobs: Knobs,
}

impl PlacementSpec {
    /// A placement with all knobs at their defaults.
    pub fn new(placement: Placement, ranks: u32) -> Self {
        Self {
            placement,
            ranks,
            knobs: Knobs::default(),
        }
    }

    /// The candidate of a plan, as a lowering needs it.
    pub fn of(candidate: &Candidate) -> Self {
        Self {
            placement: candidate.placement,
            ranks: candidate.parameters.ranks,
            knobs: candidate.parameters.knobs.clone(),
        }
    }

    /// Properties of the placement, if it has a lowering.
    pub(super) fn row(&self) -> Option<&'static Row> {
        row(self.placement)
    }

    /// How layers and vertices are divided, if the placement has stages.
    pub fn stages(&self) -> Option<Stages> {
        let staged = self.row().is_some_and(Row::staged);
        staged.then(|| Stages::of(self))
    }

    /// Whether it trains on sampled batches.
    pub fn samples(&self) -> bool {
        self.row().is_some_and(|row| match row.batches {
            OnBatches::Never => false,
            OnBatches::Either => self.knobs.sampling.sampling().is_some(),
            OnBatches::Always => true,
        })
    }

    /// Whether batches are asked for that are not complete, of a placement that can do without.
    pub fn half_batches(&self) -> bool {
        let either = self
            .row()
            .is_some_and(|row| row.batches == OnBatches::Either);
        let sampling = &self.knobs.sampling;
        either && !sampling.is_open() && sampling.sampling().is_none()
    }

    /// The relaxations that it needs.
    pub fn relaxations(&self) -> Vec<Relaxation> {
        let of_placement = self.row().map_or(&[][..], |row| row.relaxations);
        let sample = self.samples().then_some(Relaxation::Sample);
        let late = self.delay() > 0 || self.copies_age().is_some_and(|age| age > 0);
        let delay = late.then_some(Relaxation::StaleWeights);
        let quantise = (!self.wire().is_f32()).then_some(Relaxation::Quantise);
        let of_knobs = sample.into_iter().chain(delay).chain(quantise);
        of_placement.iter().copied().chain(of_knobs).collect()
    }

    /// Whether optimizers step only the rows of embeddings that a batch has.
    pub fn lazy(&self) -> bool {
        self.samples() && self.knobs.sampling.lazy == Some(true)
    }

    /// Steps that copies of embeddings may lack, if ranks keep any.
    pub(crate) fn copies_age(&self) -> Option<u32> {
        let several = self.samples() && self.ranks > 1;
        self.knobs.sampling.cached().filter(|_| several)?.age
    }

    /// Threads of each rank that draw batches ahead on a cluster: as many as asked for, or as its hosts have left
    /// if ranks hold all edges.
    pub fn samplers(&self, cluster: &Cluster) -> u32 {
        let sampling = &self.knobs.sampling;
        let by_default = || match sampling.topology {
            Some(Topology::Own) => 0,
            Some(Topology::All) | None => cluster.samplers(self.ranks),
        };
        sampling.samplers.unwrap_or_else(by_default)
    }

    /// Whether batches leave out aggregations that depend on the data alone, which are made before.
    pub fn beforehand(&self) -> bool {
        self.samples() && self.knobs.sampling.beforehand == Some(true)
    }

    /// Batches by which the weights are late that a batch reads.
    pub fn delay(&self) -> u32 {
        match self.samples() {
            true => self.knobs.sampling.delay.unwrap_or(0),
            false => 0,
        }
    }

    /// How slices of the columns are spread over the ranks, if several have the same.
    pub fn mesh(&self) -> Option<Mesh> {
        let sliced = self.row().is_some_and(|row| row.slices);
        let mesh = self.knobs.slices.filter(|_| sliced);
        mesh.filter(|mesh| mesh.slices != self.ranks)
    }

    /// Ranks that divide the columns of a tensor in columns.
    pub fn slices(&self) -> u32 {
        self.mesh().map_or(self.ranks, |mesh| mesh.slices).max(1)
    }

    /// The ranks of a group, if groups of several divide the vertices, and the ranks of a group the columns.
    pub fn group_ranks(&self) -> Option<u32> {
        let mesh = self.mesh().filter(|_| !self.samples() && self.ranks > 1);
        let ranks = mesh.map(|mesh| mesh.slices);
        ranks.filter(|ranks| *ranks > 1 && self.ranks.is_multiple_of(*ranks))
    }

    /// Periods between the draw of a batch and its training, if ranks wait for each other in between;
    /// `None` for as many as messages need.
    pub fn prefetch(&self) -> Option<u32> {
        let none = (!self.overlap()).then_some(0);
        self.knobs.sampling.prefetch.or(none)
    }

    /// The partitioner.
    pub fn partitioner(&self) -> Partitioner {
        self.knobs.partitioner.unwrap_or(Partitioner::Range)
    }

    /// Whether it computes the same bits on any number of ranks.
    pub fn equal_bits(&self) -> bool {
        self.knobs.equal_bits.unwrap_or(false)
    }

    /// A knob with which bits depend on the number of ranks, if there is one.
    pub fn unequal(&self) -> Option<&'static str> {
        if self.sends_sums() {
            Some("cover=joint, whose partial sums follow the parts")
        } else if !self.wire().is_f32() {
            Some("fewer bits on the wire, which round only rows that travel")
        } else if !self.knobs.storage.is_f32() {
            Some("16-bit storage: which tensors are in 16 bits depends on what workers send")
        } else if self.offload() {
            Some("tensors that rest on the host")
        } else if self.knobs.interior == Some(true) {
            Some("interior=yes, which needs own rows in another order")
        } else {
            None
        }
    }

    /// Whether messages may be in flight during computation.
    pub fn overlap(&self) -> bool {
        self.knobs.overlap.unwrap_or(true)
    }

    /// Whether interior rows are computed while halo rows are in flight.
    pub fn interior(&self) -> bool {
        let apart = self.group_ranks().is_none() && !self.equal_bits();
        self.knobs.interior.unwrap_or(false) && apart
    }

    /// Ranks of a node, if a halo row crosses to a node once.
    pub fn node_ranks(&self) -> Option<u32> {
        let several = |ranks: &u32| *ranks > 1 && *ranks < self.ranks && self.has_tiers();
        self.knobs.node_ranks.filter(several)
    }

    /// Whether halo rows can cross to a node once: whole rows by parts, in exchanges that are never left out.
    pub fn has_tiers(&self) -> bool {
        let exchanges = |row: &Row| !row.skips && !row.staged() && !row.chunked();
        let exchanges = self.row().is_some_and(exchanges) && self.group_ranks().is_none();
        exchanges && !self.samples() && self.ranks > 1
    }

    /// What parts send for the edges between them.
    pub fn cover(&self) -> Cover {
        match self.sends_sums() {
            true => Cover::Joint,
            false => Cover::Rows,
        }
    }

    /// Whether partial sums are sent where they are fewer than rows.
    pub fn sends_sums(&self) -> bool {
        let joint = self.knobs.cover == Some(Cover::Joint);
        joint && self.has_tiers()
    }

    /// How rows travel in training epochs.
    pub fn wire(&self) -> Wire {
        let asked = self.knobs.wire.filter(|_| self.may_encode());
        asked.unwrap_or_default()
    }

    /// Whether rows may travel in fewer bits: in exchanges that are never left out.
    pub fn may_encode(&self) -> bool {
        let moves_rows = |row: &Row| !row.skips;
        self.row().is_some_and(moves_rows) && self.ranks > 1
    }

    /// Whether tensors that do not fit are offloaded to the host.
    pub fn offload(&self) -> bool {
        self.knobs.offload.unwrap_or(false)
    }

    /// Whether the choice of partitioner matters.
    pub fn by_parts(&self) -> bool {
        let cut = self.knobs.skip.is_some_and(|skipping| skipping.cut);
        let in_groups = self.group_ranks().is_some();
        cut || in_groups || self.row().is_some_and(|row| row.by_parts)
    }

    /// Chunks per epoch; 1 leaves work whole.
    pub fn chunks(&self) -> u32 {
        match self.stages() {
            Some(stages) => stages.chunks,
            None if self.group_ranks().is_some() => 1,
            None => self.knobs.chunks.unwrap_or(1),
        }
    }

    /// Whether a partitioner divides the vertices: into parts, or into leaves of which one rank owns all.
    pub fn has_partitioner(&self) -> bool {
        self.parts() > 1 || self.equal_bits()
    }

    /// Number of parts of the vertices: one per rank of a stage.
    pub fn parts(&self) -> u32 {
        match self.stages() {
            Some(stages) => stages.width(self.ranks),
            None => self.ranks,
        }
    }

    /// The candidate as plans hold it: only knobs that apply and differ from their defaults.
    pub(crate) fn parameters(&self, parts: Option<&Parts>) -> Parameters {
        let knobs = &self.knobs;
        let divided = self.parts() > 1;
        // If rows are only dealt out, boundaries do not matter.
        let parts = parts
            .filter(|_| divided && self.by_parts())
            .map(Parts::exchanged);
        let stages = self.stages();
        let stages = stages.as_ref();
        let virtual_stages = stages.map(|stages| stages.virtual_stages);
        let chunks = self.chunks();
        Parameters {
            ranks: self.ranks,
            knobs: Knobs {
                partitioner: self.has_partitioner().then_some(self.partitioner()),
                stages: stages.map(|stages| stages.count),
                virtual_stages: virtual_stages.filter(|virtual_stages| *virtual_stages != 1),
                interval: stages.map(|stages| stages.interval),
                shuffle: knobs.shuffle.filter(|shuffle| !shuffle),
                chunks: (stages.is_some() || chunks > 1).then_some(chunks),
                overlap: (self.ranks > 1 && !self.overlap()).then_some(false),
                interior: self.interior().then_some(true),
                node_ranks: self.node_ranks(),
                cover: self.sends_sums().then_some(Cover::Joint),
                equal_bits: self.equal_bits().then_some(true),
                wire: Some(self.wire()).filter(|wire| !wire.is_f32()),
                offload: self.offload().then_some(true),
                slices: self.mesh(),
                ..knobs.clone()
            },
            groups: stages.map(|stages| stages.width(self.ranks)),
            alpha: parts.map(|p| significant(p.alpha)),
            alpha_basis: parts.map(|p| p.alpha_basis),
            edge_imbalance: parts.map(|p| significant(p.edge_imbalance)),
            edge_imbalance_basis: parts.map(|p| p.edge_imbalance_basis),
        }
    }
}

/// Constraints on candidates. `None`, or an open knob, leaves the choice to the search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// The placement.
    pub placement: Option<Placement>,
    /// Number of ranks, which may differ from those of a node or of all devices.
    pub ranks: Option<u32>,
    /// Layout of a mixture's input features; restricts candidates to mixtures.
    pub features: Option<Layout>,
    /// The knobs. The partitioner and the number of chunks need not be among those tried.
    pub knobs: Knobs,
}

impl Pin {
    /// Constraints that only this candidate satisfies.
    pub fn only(spec: &PlacementSpec) -> Self {
        let stages = spec.stages();
        Self {
            placement: Some(spec.placement),
            ranks: Some(spec.ranks),
            features: None,
            knobs: Knobs {
                partitioner: spec.has_partitioner().then_some(spec.partitioner()),
                virtual_stages: stages.map(|stages| stages.virtual_stages),
                chunks: Some(spec.chunks()),
                interior: Some(spec.interior()),
                node_ranks: Some(spec.node_ranks().unwrap_or(1)),
                cover: Some(spec.cover()),
                equal_bits: Some(spec.equal_bits()),
                wire: Some(spec.wire()),
                slices: Some(spec.mesh().unwrap_or(Mesh::whole(spec.ranks))),
                offload: Some(spec.offload()),
                ..spec.knobs.clone()
            },
        }
    }

    pub(crate) fn admits(&self, spec: &PlacementSpec) -> bool {
        let pinned = &self.knobs;
        let stages = spec.stages();
        let stages = stages.as_ref();
        let nodes = spec.node_ranks().unwrap_or(1);
        self.placement.is_none_or(|p| p == spec.placement)
            && pinned.node_ranks.is_none_or(|ranks| ranks == nodes)
            && pinned.cover.is_none_or(|cover| cover == spec.cover())
            && (pinned.equal_bits).is_none_or(|equal| equal == spec.equal_bits())
            && pinned.wire.is_none_or(|wire| wire == spec.wire())
            && self.ranks.is_none_or(|r| r == spec.ranks)
            && pinned.chunks.is_none_or(|c| c == spec.chunks())
            && pinned
                .stages
                .is_none_or(|s| stages.is_some_and(|own| own.count == s))
            && pinned
                .virtual_stages
                .is_none_or(|v| stages.is_some_and(|own| own.virtual_stages == v))
            && (self.features.is_none() || spec.row().is_some_and(|row| row.mixes))
    }
}

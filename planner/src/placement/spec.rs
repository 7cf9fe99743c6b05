//! What a placement is made with: its knobs, as candidates, pins and plans have them.
//!
//! A knob is a field of [`Place`] (or of its [`Flow`] or [`Stages`]), of [`Pin`] and of
//! [`gnnc_ir::plan::Parameters`], with its conversions here, and an option in `src/cli/knobs.rs`.

use super::{Stages, row};
use crate::layout::Layouts;
use crate::parts::Parts;
use gnnc_ir::plan::{Candidate, Layout, Parameters, Partitioner, Placement};
use gnnc_ir::program::Skipping;
use gnnc_ir::words::storage::Storage;
use gnnc_ir::words::units::significant;
use std::cmp::Ordering;
use std::ops::Deref;

/// A placement with the parameters of its lowering.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The placement.
    pub placement: Placement,
    /// Number of ranks.
    pub ranks: u32,
    /// Layouts, if they are mixed.
    pub layouts: Layouts,
    /// How communication and computation share the time.
    pub flow: Flow,
    /// When exchanges are left out, if they may be; `None` means the default rule.
    pub skip: Option<Skipping>,
    /// How layers and vertices are divided in a pipeline.
    pub stages: Option<Stages>,
    /// How tensors are stored in memory.
    pub storage: Storage,
}

/// How communication and computation share the time; never affects what is computed or sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Flow {
    /// Whether messages may be in flight during computation.
    pub overlap: bool,
    /// Number of chunks for work over all vertices on column slices; 1 leaves it whole.
    pub chunks: u32,
    /// Whether interior rows are computed separately, so that halo messages can be in flight
    /// meanwhile.
    pub interior: bool,
}

impl Default for Flow {
    /// Overlap on, no chunks.
    fn default() -> Self {
        Self {
            overlap: true,
            chunks: 1,
            interior: false,
        }
    }
}

impl Place {
    /// A placement without mixed layouts.
    pub fn new(placement: Placement, ranks: u32) -> Self {
        Self {
            placement,
            ranks,
            layouts: Layouts::default(),
            flow: Flow::default(),
            skip: None,
            stages: None,
            storage: Storage::F32,
        }
    }
}

/// One candidate: everything a lowering has to know, and how the graph is divided for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementSpec {
    /// What is lowered; its layouts are empty and its stages without layers where the best ones are to be found.
    pub place: Place,
    /// The partitioner.
    pub partitioner: Partitioner,
    /// Whether tensors that do not fit are offloaded to the host.
    pub offload: bool,
}

/// Plans list candidates that are equally good in this order: by placement and ranks, then by partitioner.
impl Ord for PlacementSpec {
    fn cmp(&self, other: &Self) -> Ordering {
        let first = |spec: &Self| (spec.placement, spec.ranks, spec.partitioner);
        first(self)
            .cmp(&first(other))
            .then_with(|| self.place.cmp(&other.place))
            .then_with(|| self.offload.cmp(&other.offload))
    }
}

impl PartialOrd for PlacementSpec {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Deref for PlacementSpec {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.place
    }
}

impl PlacementSpec {
    /// The candidate of a plan, as a lowering needs it.
    pub fn of(candidate: &Candidate) -> Self {
        let parameters = &candidate.parameters;
        let stages = parameters.stages.map(|count| {
            let all = Stages::new(count);
            Stages {
                virtual_stages: parameters.virtual_stages.unwrap_or(all.virtual_stages),
                layers: parameters.layers.clone(),
                chunks: parameters.chunks.unwrap_or(all.chunks),
                shuffle: parameters.shuffle.unwrap_or(all.shuffle),
                interval: parameters.interval.unwrap_or(all.interval),
                ..all
            }
        });
        let place = Place {
            placement: candidate.placement,
            ranks: parameters.ranks,
            layouts: Layouts {
                features: parameters.feature_layout.unwrap_or_default(),
                epoch: parameters.layouts.clone(),
                eval: parameters.eval_layouts.clone(),
            },
            flow: Flow {
                overlap: parameters.overlap.unwrap_or(true),
                chunks: match stages {
                    Some(_) => 1,
                    None => parameters.chunks.unwrap_or(1),
                },
                interior: parameters.interior.unwrap_or(false),
            },
            skip: parameters.skip,
            stages,
            storage: parameters.storage,
        };
        Self {
            place,
            partitioner: parameters.partitioner.unwrap_or(Partitioner::Range),
            offload: parameters.offload.unwrap_or(false),
        }
    }

    /// The candidate with another flow.
    pub(crate) fn with_flow(&self, flow: Flow) -> Self {
        let mut spec = self.clone();
        spec.place.flow = flow;
        spec
    }

    /// Whether the choice of partitioner matters.
    pub fn by_parts(&self) -> bool {
        let cut = self.skip.is_some_and(|skipping| skipping.cut);
        cut || row(self.placement).is_some_and(|row| row.by_parts)
    }

    /// Chunks per epoch.
    pub(crate) fn chunks(&self) -> u32 {
        self.stages
            .as_ref()
            .map_or(self.flow.chunks, |stages| stages.chunks)
    }

    /// Number of parts of the vertices: one per rank of a stage.
    pub fn parts(&self) -> u32 {
        self.stages
            .as_ref()
            .map_or(self.ranks, |stages| stages.width(self.ranks))
    }
}

/// Constraints on candidates; `None` leaves a field free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// The placement.
    pub placement: Option<Placement>,
    /// Number of ranks, which may differ from those of a node or of all devices.
    pub ranks: Option<u32>,
    /// The partitioner, which need not be among those to try.
    pub partitioner: Option<Partitioner>,
    /// The layouts of a mixture.
    pub layouts: Option<Layouts>,
    /// Layout of a mixture's input features; restricts candidates to mixtures.
    pub features: Option<Layout>,
    /// Number of chunks, which need not be among those tried; other placements have one.
    pub chunks: Option<u32>,
    /// When exchanges are left out, if they may be.
    pub skip: Option<Skipping>,
    /// Stages of a pipeline; other placements have none.
    pub stages: Option<u32>,
    /// Runs of layers per stage.
    pub virtual_stages: Option<u32>,
    /// Layers per run.
    pub layers: Option<Vec<u32>>,
    /// Epochs between updates of a pipeline's histories.
    pub interval: Option<u32>,
    /// How tensors are stored in memory.
    pub storage: Storage,
    /// Whether tensors are offloaded: only candidates that need it, or none. If free, candidates
    /// that would not fit otherwise.
    pub offload: Option<bool>,
    /// Whether interior rows are computed while halo rows are in flight: only candidates that do,
    /// or none. If free, wherever it pays.
    pub interior: Option<bool>,
}

impl Pin {
    /// Constraints that only this candidate satisfies.
    pub fn only(spec: &PlacementSpec) -> Self {
        Self {
            placement: Some(spec.placement),
            ranks: Some(spec.ranks),
            partitioner: (spec.parts() > 1).then_some(spec.partitioner),
            layouts: Some(spec.layouts.clone()),
            skip: spec.skip,
            features: None,
            chunks: Some(spec.chunks()),
            stages: spec.stages.as_ref().map(|stages| stages.count),
            virtual_stages: spec.stages.as_ref().map(|stages| stages.virtual_stages),
            layers: spec.stages.as_ref().map(|stages| stages.layers.clone()),
            interval: spec.stages.as_ref().map(|stages| stages.interval),
            storage: spec.storage,
            offload: Some(spec.offload),
            interior: Some(spec.flow.interior),
        }
    }

    pub(crate) fn admits(&self, spec: &PlacementSpec) -> bool {
        self.placement.is_none_or(|p| p == spec.placement)
            && self.ranks.is_none_or(|r| r == spec.ranks)
            && self.chunks.is_none_or(|c| c == spec.chunks())
            && self
                .stages
                .is_none_or(|s| spec.stages.as_ref().is_some_and(|own| own.count == s))
            && self.virtual_stages.is_none_or(|t| {
                spec.stages
                    .as_ref()
                    .is_some_and(|own| own.virtual_stages == t)
            })
            && (self.features.is_none() || row(spec.placement).is_some_and(|row| row.mixes))
    }
}

pub(crate) fn parameters(spec: &PlacementSpec, parts: Option<&Parts>) -> Parameters {
    let divided = spec.ranks > 1;
    // If rows are only dealt out, boundaries do not matter.
    let bounded = spec.by_parts();
    let parts = parts.filter(|_| spec.parts() > 1 && bounded);
    let stages = spec.stages.as_ref();
    Parameters {
        ranks: spec.ranks,
        partitioner: (spec.parts() > 1).then_some(spec.partitioner),
        alpha: parts.map(|p| significant(p.alpha)),
        alpha_basis: parts.map(|p| p.alpha_basis),
        edge_imbalance: parts.map(|p| significant(p.edge_imbalance)),
        edge_imbalance_basis: parts.map(|p| p.edge_imbalance_basis),
        feature_layout: (spec.layouts.features == Layout::Columns).then_some(Layout::Columns),
        layouts: spec.layouts.epoch.clone(),
        eval_layouts: spec.layouts.eval.clone(),
        stages: stages.map(|stages| stages.count),
        virtual_stages: stages
            .and_then(|stages| (stages.virtual_stages != 1).then_some(stages.virtual_stages)),
        groups: stages.map(|stages| stages.width(spec.ranks)),
        layers: stages.map_or_else(Vec::new, |stages| stages.layers.clone()),
        interval: stages.map(|stages| stages.interval),
        shuffle: stages.and_then(|stages| (!stages.shuffle).then_some(false)),
        chunks: match stages {
            Some(stages) => Some(stages.chunks),
            None => (spec.flow.chunks > 1).then_some(spec.flow.chunks),
        },
        overlap: (divided && !spec.flow.overlap).then_some(false),
        interior: spec.flow.interior.then_some(true),
        skip: spec.skip,
        storage: spec.storage,
        offload: spec.offload.then_some(true),
    }
}

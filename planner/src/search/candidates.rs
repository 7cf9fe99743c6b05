//! The candidates to price.

use super::PlanRequest;
use crate::layout::Layouts;
use crate::placement::{Flow, Place, Row, Stages, TABLE, row};
use gnnc_ir::plan::{Candidate, Layout, Partitioner, Placement};
use gnnc_ir::program::{Rule, Skipping};
use gnnc_ir::words::storage::Storage;

/// Numbers of chunks to try if work may be cut.
const CHUNKS: [u32; 3] = [1, 4, 16];

/// Numbers of runs of layers per stage to try, besides one.
const TURNS: [u32; 2] = [2, 4];

/// Numbers of stages to try with groups of ranks.
const GROUPINGS: usize = 3;

/// One candidate: everything a lowering has to know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacementSpec {
    /// The placement.
    pub placement: Placement,
    /// Number of ranks.
    pub ranks: u32,
    /// The partitioner.
    pub partitioner: Partitioner,
    /// Layouts, if they are mixed; empty means the best ones.
    pub layouts: Layouts,
    /// How communication and computation share the time.
    pub flow: Flow,
    /// When exchanges are left out, if they may be.
    pub skip: Option<Skipping>,
    /// Whether tensors that do not fit are offloaded to the host.
    pub offload: bool,
    /// Stages of a pipeline; without layers, the best division is used.
    pub stages: Option<Stages>,
    /// How tensors are stored in memory.
    pub storage: Storage,
}

impl PlacementSpec {
    /// The candidate of a plan, as a lowering needs it.
    pub fn of(candidate: &Candidate) -> Self {
        let parameters = &candidate.parameters;
        let stages = parameters.stages.map(|count| {
            let all = Stages::new(count);
            Stages {
                turns: parameters.turns.unwrap_or(all.turns),
                layers: parameters.layers.clone(),
                chunks: parameters.chunks.unwrap_or(all.chunks),
                shuffle: parameters.shuffle.unwrap_or(all.shuffle),
                interval: parameters.interval.unwrap_or(all.interval),
                ..all
            }
        });
        Self {
            placement: candidate.placement,
            ranks: parameters.ranks,
            partitioner: parameters.partitioner.unwrap_or(Partitioner::Range),
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
            offload: parameters.offload.unwrap_or(false),
            stages,
            storage: parameters.storage,
        }
    }

    /// What is lowered.
    pub fn place(&self) -> Place {
        Place {
            placement: self.placement,
            ranks: self.ranks,
            layouts: self.layouts.clone(),
            flow: self.flow,
            skip: self.skip,
            stages: self.stages.clone(),
            storage: self.storage,
        }
    }

    /// The candidate with another flow.
    pub(super) fn with_flow(&self, flow: Flow) -> Self {
        Self {
            flow,
            ..self.clone()
        }
    }

    /// Whether the choice of partitioner matters.
    pub fn by_parts(&self) -> bool {
        let cut = self.skip.is_some_and(|skipping| skipping.cut);
        cut || row(self.placement).is_some_and(|row| row.by_parts)
    }

    /// Chunks per epoch.
    fn chunks(&self) -> u32 {
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
    pub turns: Option<u32>,
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
            turns: spec.stages.as_ref().map(|stages| stages.turns),
            layers: spec.stages.as_ref().map(|stages| stages.layers.clone()),
            interval: spec.stages.as_ref().map(|stages| stages.interval),
            storage: spec.storage,
            offload: Some(spec.offload),
            interior: Some(spec.flow.interior),
        }
    }

    fn admits(&self, spec: &PlacementSpec) -> bool {
        self.placement.is_none_or(|p| p == spec.placement)
            && self.ranks.is_none_or(|r| r == spec.ranks)
            && self.chunks.is_none_or(|c| c == spec.chunks())
            && self
                .stages
                .is_none_or(|s| spec.stages.as_ref().is_some_and(|own| own.count == s))
            && self
                .turns
                .is_none_or(|t| spec.stages.as_ref().is_some_and(|own| own.turns == t))
            && (self.features.is_none() || row(spec.placement).is_some_and(|row| row.mixes))
    }
}

impl PlanRequest<'_> {
    /// The candidates: one rank, one node, all devices, and pinned ranks; each placement, with each
    /// partitioner if parts matter.
    pub fn candidates(&self) -> Vec<PlacementSpec> {
        let all = self.cluster.devices();
        let mut ranks = vec![1, self.cluster.devices_per_node.min(all), all];
        ranks.extend(self.pin.ranks.filter(|&pinned| (1..=all).contains(&pinned)));
        ranks.sort_unstable();
        ranks.dedup();
        let mut specs = Vec::new();
        for ranks in ranks {
            for row in TABLE.iter().filter(|row| ranks > 1 || row.alone) {
                let layouts = match &self.pin.layouts {
                    Some(layouts) if row.mixes => layouts.clone(),
                    _ => Layouts::default(),
                };
                let interior = self.pin.interior == Some(true);
                let mut add = |chunks, stages: Option<Stages>| {
                    for skip in self.skips(row) {
                        let mut spec = PlacementSpec {
                            placement: row.placement,
                            ranks,
                            partitioner: Partitioner::Range,
                            offload: false,
                            skip,
                            layouts: layouts.clone(),
                            flow: Flow {
                                overlap: self.overlap,
                                chunks,
                                interior: interior && stages.is_none(),
                            },
                            stages: stages.clone(),
                            storage: self.pin.storage,
                        };
                        for partitioner in self.divisions(&spec) {
                            spec.partitioner = partitioner;
                            specs.push(spec.clone());
                        }
                    }
                };
                match row.staged() {
                    true => (self.stages(row, ranks).into_iter()).for_each(|s| add(1, Some(s))),
                    false => (self.chunks(row).into_iter()).for_each(|chunks| add(chunks, None)),
                }
            }
        }
        specs.retain(|spec| self.pin.admits(spec));
        specs.sort_unstable();
        specs.dedup();
        specs
    }

    /// The stages to try on all devices, or those pinned: one rank each, or groups of equal size.
    /// Of the latter at most [`GROUPINGS`], spread from the fewest stages to the most. Other
    /// numbers, and more stages than layers, must be pinned.
    fn stages(&self, row: &Row, ranks: u32) -> Vec<Stages> {
        let pinned = |count: &u32| self.pin.stages.is_none_or(|pinned| pinned == *count);
        let legal = |count: &u32| {
            let groups = row.placement == Placement::Hybrid;
            // A model without layers to divide is tried once, so that the plan says why.
            let first = if groups { 2 } else { ranks };
            let none = self.layers == 0 && *count == first;
            let admitted = self.pin.stages.is_some() || *count <= self.layers || none;
            let here = ranks == self.cluster.devices() || self.pin.ranks == Some(ranks);
            here && pinned(count)
                && ranks.is_multiple_of(*count)
                && groups == (*count < ranks)
                && admitted
        };
        let of = |(count, turns)| {
            let all = Stages::new(count);
            Stages {
                turns,
                layers: self.pin.layers.clone().unwrap_or_default(),
                chunks: self.pin.chunks.unwrap_or(all.chunks),
                interval: self.pin.interval.unwrap_or(all.interval),
                ..all
            }
        };
        let counts: Vec<u32> = (2..=ranks).filter(legal).collect();
        let tried = counts.len().min(GROUPINGS);
        let spread = |n: usize| counts[n * (counts.len() - 1) / (tried - 1).max(1)];
        let turns = |count: u32| self.turns(count).into_iter();
        let several = |count: u32| turns(count).map(move |turns| (count, turns));
        (0..tried).map(spread).flat_map(several).map(of).collect()
    }

    /// The numbers of runs per stage to try, limited by the number of layers; or the pinned one.
    /// Several are tried only if stages may form a ring.
    fn turns(&self, stages: u32) -> Vec<u32> {
        if let Some(pinned) = self.pin.turns {
            return vec![pinned];
        }
        let rings = self.cluster.rings();
        let enough = |turns: &u32| stages.saturating_mul(*turns) <= self.layers;
        let tried = TURNS.into_iter().filter(|turns| rings && enough(turns));
        std::iter::once(1).chain(tried).collect()
    }

    /// The numbers of chunks to try.
    fn chunks(&self, row: &Row) -> Vec<u32> {
        match row.chunked() {
            true => CHUNKS.into_iter().chain(self.pin.chunks).collect(),
            false => vec![1],
        }
    }

    /// Which exchanges may be left out: by the default rule, as whole blocks and as the rows of a
    /// cut.
    fn skips(&self, row: &Row) -> Vec<Option<Skipping>> {
        match (row.skips, self.pin.skip) {
            (false, _) => vec![None],
            (true, Some(pinned)) => vec![Some(pinned)],
            (true, None) => [false, true]
                .map(|cut| {
                    let rule = Rule::default();
                    Some(Skipping {
                        cut,
                        ..Skipping::from(rule)
                    })
                })
                .to_vec(),
        }
    }

    /// The partitioners to try.
    fn divisions(&self, spec: &PlacementSpec) -> Vec<Partitioner> {
        let cut = spec.skip.is_some_and(|skipping| skipping.cut);
        match self.pin.partitioner {
            _ if spec.parts() == 1 => vec![Partitioner::Range],
            Some(pinned) => vec![pinned],
            // One of the best suffices: without a rule, there is another candidate for every
            // partitioner.
            None if cut && self.partitioners.contains(&Partitioner::Metis) => {
                vec![Partitioner::Metis]
            }
            None if spec.by_parts() => self.partitioners.to_vec(),
            // The rows of a chunk are consecutive and should belong to all ranks.
            None if spec.flow.chunks > 1 => vec![Partitioner::Hash],
            None => vec![Partitioner::Range],
        }
    }
}

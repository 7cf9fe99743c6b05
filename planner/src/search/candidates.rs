//! What there is to price.

use super::PlanRequest;
use crate::layout::Layouts;
use crate::placement::{Flow, Place, Row, TABLE, row};
use gnnc_ir::plan::{Candidate, Layout, Partitioner, Placement};

/// Chunks that are tried where work may be cut.
const CHUNKS: [u32; 3] = [1, 4, 16];

/// One candidate: everything that a lowering has to know.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacementSpec {
    /// The placement.
    pub placement: Placement,
    /// Number of ranks.
    pub ranks: u32,
    /// How vertices are divided.
    pub partitioner: Partitioner,
    /// Layouts where they are mixed; those that are best if none are given.
    pub layouts: Layouts,
    /// How communication and computing share the time.
    pub flow: Flow,
}

impl PlacementSpec {
    /// The candidate of a plan as a lowering has to know it.
    pub fn of(candidate: &Candidate) -> Self {
        let parameters = &candidate.parameters;
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
                chunks: parameters.chunks.unwrap_or(1),
            },
        }
    }

    /// What is lowered.
    pub fn place(&self) -> Place {
        Place {
            placement: self.placement,
            ranks: self.ranks,
            layouts: self.layouts.clone(),
            flow: self.flow,
            stages: None,
        }
    }
}

/// What candidates must be; what is none is free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// The placement.
    pub placement: Option<Placement>,
    /// Number of ranks, which then need not be those of a node or of all devices.
    pub ranks: Option<u32>,
    /// How vertices are divided, which then need not be among the partitioners to try.
    pub partitioner: Option<Partitioner>,
    /// The layouts of a mixture.
    pub layouts: Option<Layouts>,
    /// How the input features of a mixture lie; there are only mixtures then.
    pub features: Option<Layout>,
    /// Chunks, which then need not be as many as are tried; other placements have one.
    pub chunks: Option<u32>,
}

impl Pin {
    /// Nothing but one candidate.
    pub fn only(spec: &PlacementSpec) -> Self {
        Self {
            placement: Some(spec.placement),
            ranks: Some(spec.ranks),
            partitioner: (spec.ranks > 1).then_some(spec.partitioner),
            layouts: Some(spec.layouts.clone()),
            features: None,
            chunks: Some(spec.flow.chunks),
        }
    }

    fn admits(&self, spec: &PlacementSpec) -> bool {
        self.placement.is_none_or(|p| p == spec.placement)
            && self.ranks.is_none_or(|r| r == spec.ranks)
            && self.chunks.is_none_or(|c| c == spec.flow.chunks)
            && (self.features.is_none() || row(spec.placement).is_some_and(|row| row.mixes))
    }
}

impl PlanRequest<'_> {
    /// The candidates: one rank, one node, all devices; each placement, with each partitioner where
    /// parts matter; what is pinned.
    pub fn candidates(&self) -> Vec<PlacementSpec> {
        let all = self.cluster.devices();
        let mut ranks = vec![1, self.cluster.devices_per_node.min(all), all];
        ranks.extend(self.pin.ranks.filter(|&pinned| (1..=all).contains(&pinned)));
        ranks.sort_unstable();
        ranks.dedup();
        let mut specs = Vec::new();
        for ranks in ranks {
            for row in TABLE.iter().filter(|row| ranks > 1 || row.alone) {
                for chunks in self.chunks(row) {
                    let divisions = self.divisions(row, ranks, chunks).into_iter();
                    specs.extend(divisions.map(|partitioner| PlacementSpec {
                        placement: row.placement,
                        ranks,
                        partitioner,
                        layouts: match &self.pin.layouts {
                            Some(layouts) if row.mixes => layouts.clone(),
                            _ => Layouts::default(),
                        },
                        flow: Flow {
                            overlap: self.overlap,
                            chunks,
                        },
                    }));
                }
            }
        }
        specs.retain(|spec| self.pin.admits(spec));
        specs.sort_unstable();
        specs.dedup();
        specs
    }

    /// How many chunks are tried.
    fn chunks(&self, row: &Row) -> Vec<u32> {
        match row.chunked() {
            true => CHUNKS.into_iter().chain(self.pin.chunks).collect(),
            false => vec![1],
        }
    }

    /// How vertices may be divided.
    fn divisions(&self, row: &Row, ranks: u32, chunks: u32) -> Vec<Partitioner> {
        match self.pin.partitioner {
            _ if ranks == 1 => vec![Partitioner::Range],
            Some(pinned) => vec![pinned],
            None if row.by_parts => self.partitioners.to_vec(),
            // The rows of a chunk, which lie together, are to belong to all ranks.
            None if chunks > 1 => vec![Partitioner::Hash],
            None => vec![Partitioner::Range],
        }
    }
}

//! The candidates to price.

use super::PlanRequest;
use crate::parts::PartsError;
use crate::placement::{OnBatches, PlacementSpec, Row, Stages, TABLE};
use gnnc_ir::cluster::DeviceKind;
use gnnc_ir::plan::{Knobs, Layouts, Method, Partitioner, Placement};
use gnnc_ir::program::leaves::leaves;
use gnnc_ir::program::{Rule, Skipping};
use gnnc_ir::words::mesh::Mesh;
use gnnc_ir::words::sampling::SamplingSettings;

/// Parts of all vertices to try to keep rows of.
const CACHES: [u32; 3] = [1, 4, 16];

/// Numbers of chunks to try if work may be cut.
const CHUNKS: [u32; 3] = [1, 4, 16];

/// Numbers of runs of layers per stage to try, besides one.
const VIRTUAL_STAGES: [u32; 2] = [2, 4];

/// Numbers of stages to try with groups of ranks.
const GROUPINGS: usize = 3;

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
            let here = TABLE.iter().filter(|row| ranks > 1 || row.alone);
            for row in here.filter(|row| !row.samples() || !self.batches.is_empty()) {
                let divisions = self.divisions(row, ranks).into_iter();
                for knobs in divisions.chain(self.batched(row, ranks)) {
                    for skip in self.skips(row) {
                        let mut spec = PlacementSpec {
                            placement: row.placement,
                            ranks,
                            knobs: Knobs {
                                skip,
                                ..knobs.clone()
                            },
                        };
                        for partitioner in self.partitioners(&spec) {
                            spec.knobs.partitioner = Some(partitioner);
                            spec.knobs.node_ranks = self.pinned_nodes(&spec);
                            spec.knobs.cover = self.pin.knobs.cover.filter(|_| spec.has_tiers());
                            spec.knobs.wire = self.pin.knobs.wire.filter(|_| spec.may_encode());
                            specs.push(spec.clone());
                        }
                    }
                }
            }
        }
        specs.retain(|spec| self.pin.admits(spec));
        specs.sort_unstable();
        specs.dedup();
        specs
    }

    /// What all candidates have in common.
    fn common(&self) -> Knobs {
        Knobs {
            overlap: self.pin.knobs.overlap,
            equal_bits: self.pin.knobs.equal_bits,
            storage: self.pin.knobs.storage,
            ..Knobs::default()
        }
    }

    /// The batches to try, if there are any and a placement may train on them.
    fn batched(&self, row: &Row, ranks: u32) -> Vec<Knobs> {
        let of_settings = |settings: &SamplingSettings| -> Vec<Knobs> {
            let mut sampling = settings.clone();
            let meshes = match row.batches {
                OnBatches::Never => return Vec::new(),
                // No row of features moves there.
                OnBatches::Either => {
                    (sampling.cache, sampling.cache_by) = (None, None);
                    sampling.cache_age = None;
                    self.meshes(ranks)
                }
                // Only rows of embeddings can be late there. Features are by rows.
                OnBatches::Always => {
                    sampling.delay = sampling.delay.filter(|_| sampling.lazy == Some(true));
                    vec![None]
                }
            };
            let mut merges = vec![None];
            let mut caches = vec![sampling.cache];
            if row.moves {
                merges = self.merges(ranks);
            } else {
                sampling.migrate = None;
            }
            // With merges as well, there would be many candidates.
            let keeps = row.samples() && !row.moves;
            let changes = sampling.lazy == Some(true);
            if keeps && (!changes || sampling.cache_age.is_some()) {
                caches = self.caches(ranks);
            }
            let mut found = Vec::new();
            for slices in meshes.into_iter() {
                for merges in &merges {
                    for cache in &caches {
                        found.push(Knobs {
                            slices,
                            sampling: SamplingSettings {
                                merges: *merges,
                                cache: *cache,
                                // Nothing is old where nothing is kept. Lowering refuses ages of what does not change.
                                cache_age: sampling
                                    .cache_age
                                    .filter(|_| cache.is_some() || !changes),
                                ..sampling.clone()
                            },
                            ..self.common()
                        });
                    }
                }
            }
            found
        };
        let all = self.batches.iter().map(|batches| &batches.settings);
        all.flat_map(of_settings).collect()
    }

    /// How many rows of other ranks may be kept: none, some shares of all, and all; or as pinned.
    fn caches(&self, ranks: u32) -> Vec<Option<u32>> {
        let pinned = self.pin.knobs.sampling.cache;
        // Copies of embeddings change what is trained, so a rank that has none is named without them.
        if ranks == 1 && self.pin.knobs.sampling.cache_age.is_some() {
            return vec![None];
        }
        if pinned.is_some() || ranks == 1 {
            return vec![pinned];
        }
        let vertices = self.workload.vertices.min(u64::from(u32::MAX - 1)) as u32;
        let rows = CACHES.map(|share| Some(vertices.div_ceil(share)));
        std::iter::once(None).chain(rows).collect()
    }

    /// How many visits of a model may be merged with others: none, and powers of two as long as two visits
    /// are left, and all but one; or as pinned.
    fn merges(&self, ranks: u32) -> Vec<Option<u32>> {
        let pinned = self.pin.knobs.sampling.merges;
        if pinned.is_some() {
            return vec![pinned];
        }
        let powers = std::iter::successors(Some(1), |merges| Some(2 * merges));
        let powers = powers.take_while(|merges| merges + 1 < ranks).map(Some);
        let one_visit = ranks.checked_sub(1).filter(|merges| *merges > 0);
        let all = std::iter::once(None).chain(powers);
        all.chain(one_visit.map(Some)).collect()
    }

    /// How slices of the features may be spread over the ranks: one a rank, one a node, as many as a
    /// node has ranks, fewer (powers of two), and all features on every rank; or as pinned.
    fn meshes(&self, ranks: u32) -> Vec<Option<Mesh>> {
        let pinned = self.pin.knobs.slices;
        if pinned.is_some() {
            return vec![pinned];
        }
        let inside = |slices| Mesh {
            slices,
            apart: false,
        };
        let of_node = self.cluster.devices_per_node.min(ranks).max(1);
        let fewer = std::iter::successors(Some(1), |slices| Some(2 * slices));
        let fewer = fewer.take_while(|slices| *slices < of_node);
        let mut meshes: Vec<Mesh> = fewer.map(inside).collect();
        if of_node < ranks {
            meshes.push(inside(of_node));
            meshes.push(Mesh {
                slices: ranks / of_node,
                apart: true,
            });
        }
        meshes.retain(|mesh| ranks.is_multiple_of(mesh.slices));
        std::iter::once(None)
            .chain(meshes.into_iter().map(Some))
            .collect()
    }

    /// The stages or the numbers of chunks to try on the whole graph, with what all candidates of a
    /// placement share.
    fn divisions(&self, row: &Row, ranks: u32) -> Vec<Knobs> {
        let pinned = &self.pin.knobs;
        let common = self.common();
        if row.samples() {
            return Vec::new();
        }
        if row.staged() {
            let stages = self.stages(row, ranks).into_iter();
            let with_stages = |stages: Stages| Knobs {
                storage: common.storage,
                ..Knobs::from(stages)
            };
            return stages.map(with_stages).collect();
        }
        let layouts = match row.mixes {
            true => pinned.layouts(),
            false => Layouts::default(),
        };
        let chunks = self.chunks(row).into_iter();
        let with_chunks = |chunks| Knobs {
            chunks: Some(chunks),
            interior: pinned.interior.filter(|interior| *interior),
            ..common.clone().with_layouts(layouts.clone())
        };
        let in_groups = |mesh| Knobs {
            slices: Some(mesh),
            ..with_chunks(1)
        };
        let pinned = pinned
            .slices
            .filter(|mesh| row.slices && mesh.slices != ranks);
        let groups = match pinned {
            Some(mesh) => return vec![in_groups(mesh)],
            None => self.groups(row, ranks).into_iter(),
        };
        chunks
            .map(with_chunks)
            .chain(groups.map(in_groups))
            .collect()
    }

    /// Ranks of groups to try, where each has a slice of the columns: all numbers that divide the ranks, if groups do not
    /// lie across nodes, and each rank has a column of every tensor.
    fn groups(&self, row: &Row, ranks: u32) -> Vec<Mesh> {
        let exact = row.relaxations.is_empty();
        if !row.chunked() || !exact || self.pin.knobs.slices.is_some() {
            return Vec::new();
        }
        let of_node = self.cluster.devices_per_node.max(1);
        let divides = |size: &u32| of_node.is_multiple_of(*size) || size.is_multiple_of(of_node);
        let most = ranks.min(self.columns.saturating_add(1));
        let all = (2..most).filter(|size| ranks.is_multiple_of(*size) && divides(size));
        let mesh = |slices| Mesh {
            slices,
            apart: false,
        };
        all.map(mesh).collect()
    }

    /// The stages to try on all devices, or those pinned: one rank each, or groups of equal size.
    /// Of the latter at most [`GROUPINGS`], spread from the fewest stages to the most. Other
    /// numbers, and more stages than layers, must be pinned.
    fn stages(&self, row: &Row, ranks: u32) -> Vec<Stages> {
        let pinned = |count: &u32| self.pin.knobs.stages.is_none_or(|pinned| pinned == *count);
        let legal = |count: &u32| {
            let groups = row.placement == Placement::Hybrid;
            // A model without layers to divide is tried once, so that the plan says why.
            let first = if groups { 2 } else { ranks };
            let none = self.layers == 0 && *count == first;
            let admitted = self.pin.knobs.stages.is_some() || *count <= self.layers || none;
            let here = ranks == self.cluster.devices() || self.pin.ranks == Some(ranks);
            here && pinned(count)
                && ranks.is_multiple_of(*count)
                && groups == (*count < ranks)
                && admitted
        };
        let of = |(count, virtual_stages)| {
            let all = Stages::new(count);
            Stages {
                virtual_stages,
                layers: self.pin.knobs.layers.clone(),
                chunks: self.pin.knobs.chunks.unwrap_or(all.chunks),
                interval: self.pin.knobs.interval.unwrap_or(all.interval),
                ..all
            }
        };
        let counts: Vec<u32> = (2..=ranks).filter(legal).collect();
        let tried = counts.len().min(GROUPINGS);
        let spread = |n: usize| counts[n * (counts.len() - 1) / (tried - 1).max(1)];
        let virtual_stages = |count: u32| self.virtual_stages(count).into_iter();
        let several =
            |count: u32| virtual_stages(count).map(move |virtual_stages| (count, virtual_stages));
        let usual = (0..tried).map(spread).flat_map(several).map(of);
        usual.flat_map(|stages| self.piloted(row, stages)).collect()
    }

    /// Stages as they are usual, and with the chunks and histories that a pilot has tried.
    fn piloted(&self, row: &Row, usual: Stages) -> Vec<Stages> {
        let pinned = &self.pin.knobs;
        let free = pinned.chunks.is_none() && pinned.interval.is_none();
        let pilot = self
            .pilot
            .filter(|_| free && row.placement == Placement::Pipeline);
        let tried = pilot.into_iter().flat_map(|pilot| &pilot.classes);
        let with = |method: &Method| match method {
            Method::Histories {
                chunks,
                interval,
                shuffle,
                division: None,
            } => Some(Stages {
                chunks: *chunks,
                interval: *interval,
                shuffle: *shuffle,
                ..usual.clone()
            }),
            Method::Histories { .. }
            | Method::Exact
            | Method::Decoupled
            | Method::Copies { .. }
            | Method::Sampled(_) => None,
        };
        let piloted = tried.filter_map(|piloted| with(&piloted.class.method));
        std::iter::once(usual.clone()).chain(piloted).collect()
    }

    /// The numbers of runs per stage to try, limited by the number of layers; or the pinned one.
    /// Several are tried only if stages may form a ring.
    fn virtual_stages(&self, stages: u32) -> Vec<u32> {
        if let Some(pinned) = self.pin.knobs.virtual_stages {
            return vec![pinned];
        }
        let rings = self.cluster.rings();
        let enough = |virtual_stages: &u32| stages.saturating_mul(*virtual_stages) <= self.layers;
        let tried = VIRTUAL_STAGES
            .into_iter()
            .filter(|virtual_stages| rings && enough(virtual_stages));
        std::iter::once(1).chain(tried).collect()
    }

    /// The numbers of chunks to try.
    fn chunks(&self, row: &Row) -> Vec<u32> {
        match row.chunked() {
            true => CHUNKS.into_iter().chain(self.pin.knobs.chunks).collect(),
            false => vec![1],
        }
    }

    /// Which exchanges may be left out: by the default rule, as whole blocks and as the rows of a
    /// cut.
    fn skips(&self, row: &Row) -> Vec<Option<Skipping>> {
        match (row.skips, self.pin.knobs.skip) {
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

    /// Refuses copies of embeddings on GPUs.
    pub(super) fn check_copies(&self, spec: &PlacementSpec) -> Result<(), String> {
        match spec.copies_age().is_some() && self.cluster.device.kind == DeviceKind::Gpu {
            true => Err(
                "no copies of embeddings are kept on GPUs; plan for processors, such as --cluster cpu, or leave out \
                 --cache-age"
                    .to_owned(),
            ),
            false => Ok(()),
        }
    }

    /// Refuses equal bits on GPUs, and on more ranks than there are leaves.
    pub(super) fn check_equal_bits(&self, spec: &PlacementSpec) -> Result<(), String> {
        if !spec.equal_bits() {
            return Ok(());
        }
        if self.cluster.device.kind == DeviceKind::Gpu {
            return Err(
                "GPUs give other bits for products of other shapes; plan equal bits for processors, such as --cluster cpu, \
                 or leave out --equal-bits"
                    .to_owned(),
            );
        }
        let (ranks, leaves) = (spec.ranks, leaves(self.workload.vertices));
        match ranks <= leaves {
            true => Ok(()),
            false => Err(PartsError::MoreRanksThanLeaves { ranks, leaves }.to_string()),
        }
    }

    /// The partitioner of leaves: the same for all candidates, and that of runs on processors, as other leaves give other bits.
    pub(super) fn of_leaves(&self) -> Option<Partitioner> {
        let mut all = self.partitioners.iter();
        let usual = all.find(|one| **one == Partitioner::MetisEdges);
        usual.or(self.partitioners.first()).copied()
    }

    /// The partitioners to try.
    fn partitioners(&self, spec: &PlacementSpec) -> Vec<Partitioner> {
        let cut = spec.knobs.skip.is_some_and(|skipping| skipping.cut);
        let in_groups = spec.group_ranks().is_some();
        match self.pin.knobs.partitioner {
            _ if spec.parts() == 1 && !spec.equal_bits() => vec![Partitioner::Range],
            Some(pinned) => vec![pinned],
            None if spec.equal_bits() => Vec::from_iter(self.of_leaves()),
            // One of the best suffices: without a rule, there is another candidate for every
            // partitioner.
            None if cut && self.partitioners.contains(&Partitioner::Metis) => {
                vec![Partitioner::Metis]
            }
            // The ranks of a group sum over all of its edges, of which groups should have as many as others.
            None if in_groups && self.partitioners.contains(&Partitioner::MetisEdges) => {
                vec![Partitioner::MetisEdges]
            }
            None if spec.by_parts() => self.partitioners.to_vec(),
            // The rows of a chunk are consecutive and should belong to all ranks.
            None if spec.chunks() > 1 => vec![Partitioner::Hash],
            None => vec![Partitioner::Range],
        }
    }
}

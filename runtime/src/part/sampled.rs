//! The graph that ranks sample, as all ranks of a process share it.

use super::Needs;
use super::asked::Owners;
use crate::RuntimeError;
use crate::options::RunOptions;
use crate::weights::Weights;
use gnnc_graph::partition::Partition;
use gnnc_graph::parts::{Parts, WholeGraph};
use gnnc_graph::sample::{
    At, BatchSource, Cached, Copies, HopEdges, PILOT, RankSeeds, Replay, Rule, SampleError,
    Sampler, check_apart, seeds,
};
use gnnc_graph::{EdgeFeatures, GraphData, Labels, LocalPart, Topology};
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::End;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{BatchSizes, Program};
use gnnc_ir::words::sampling::Sampling;
use gnnc_ir::words::types::BySet;
use std::borrow::Borrow;
use std::ops::Range;
use std::sync::Arc;

/// The batches of a list.
#[derive(Clone, Copy)]
pub(crate) struct OfList<'a> {
    pub(crate) phase: Phase,
    pub(crate) sampling: &'a Sampling,
}

/// A graph, and how it is divided among ranks.
#[derive(Clone, Copy)]
pub(crate) struct Divided<'a> {
    pub(crate) data: &'a GraphData,
    pub(crate) partition: &'a Partition,
    /// The parts at hand: all, or those of a folder that ranks of this process own.
    pub(crate) parts: &'a [LocalPart],
    /// The folder, if the graph is in one.
    pub(crate) folder: Option<&'a Parts>,
    pub(crate) whole: &'a WholeGraph,
    /// The ranks of this process.
    pub(crate) here: &'a Range<usize>,
}

impl Divided<'_> {
    /// The edges that ranks of this process draw from.
    fn edges(&self, program: &Program) -> Result<Topology, RuntimeError> {
        if !program.draws_apart() {
            return Ok(self.data.topology.only(EdgeSet::Plain).into_owned());
        }
        check_apart(self.whole.relations, self.whole.edges.len() > 1)?;
        let here = |part: &&LocalPart| self.here.contains(&(part.rank as usize));
        let own: Vec<&LocalPart> = self.parts.iter().filter(here).collect();
        Ok(LocalPart::edges_into(&own, self.data.vertices())?)
    }

    /// Edges at an end of each vertex.
    fn degrees(&self, set: EdgeSet, end: End) -> Result<Vec<u32>, RuntimeError> {
        if let Some(folder) = self.folder {
            return Ok(folder.degrees(end)?);
        }
        let edges = self.data.topology.only(set);
        Ok(match end {
            End::Dst => edges.in_degrees(),
            End::Src => edges.out_degrees(),
        })
    }
}

/// What all ranks of a process need of a graph that they sample.
pub(crate) struct Sampled {
    pub(super) edges: HopEdges<Arc<Topology>>,
    /// Edges of the graph, of all sets.
    pub(super) all_edges: u64,
    /// By edge set; none if nothing reads them.
    pub(super) edge_features: BySet<EdgeFeatures>,
    /// For each edge of the graph, the edges of its type into its destination; empty if nothing
    /// reads that.
    pub(super) type_degrees: Vec<u32>,
    /// Edges of a set out of each vertex; empty if nothing reads that.
    out_degrees: BySet<Vec<u32>>,
    /// Plain edges into each vertex; empty if nothing reads that, or all edges are here.
    in_degrees: Vec<u32>,
    /// Vertices from which batches to train on are drawn, and batches to evaluate on.
    seeds: [Vec<u32>; 2],
    /// Training, validation and test vertices; empty if a single rank has them anyway, or batches are
    /// not evaluated on.
    pub(super) splits: [Vec<bool>; 3],
    /// Labels of all vertices, as seeds need not be a rank's own. A single rank has them anyway, and keeps them
    /// here only to weigh the seeds of a batch.
    pub(super) labels: Labels,
    /// Weights of classes in the loss.
    pub(super) weights: Arc<Weights>,
    pub(crate) owners: Owners,
    /// Rows of other ranks that each rank keeps; none without a cache.
    caches: Vec<Arc<Cached>>,
}

impl Sampled {
    /// What ranks need to sample a graph for a program.
    /// `seed` is that of the run.
    ///
    /// # Errors
    /// A cache of batches that do not fit the graph.
    pub(crate) fn new(
        divided: Divided,
        needs: &Needs,
        weights: &Arc<Weights>,
        program: &Program,
        seed: u64,
    ) -> Result<Self, RuntimeError> {
        let Divided {
            data,
            partition,
            parts,
            ..
        } = divided;
        let several = partition.parts() > 1;
        let mut out_degrees = BySet::<Vec<u32>>::default();
        for set in EdgeSet::all().filter(|set| *needs.out_degrees.of(*set)) {
            *out_degrees.of_mut(set) = divided.degrees(set, End::Src)?;
        }
        let evaluates = program.evaluation.is_some();
        let over: Vec<EdgeSet> = [&program.sampling, &program.evaluation]
            .into_iter()
            .flatten()
            .flat_map(|sampling| sampling.over.iter().copied())
            .chain(EdgeSet::all().filter(|set| *needs.in_degrees.of(*set)))
            .collect();
        let vertices = data.vertices() as usize;
        let all = |split: &Vec<bool>| {
            let mut split = split.clone();
            split.resize(vertices, false);
            split
        };
        let mut sampled = Self {
            splits: match evaluates && several {
                true => [&data.train, &data.val, &data.test].map(all),
                false => Default::default(),
            },
            seeds: [
                seeds(data, Phase::Step),
                match evaluates {
                    true => seeds(data, Phase::Eval),
                    false => Vec::new(),
                },
            ],
            type_degrees: match needs.type_degrees {
                true => data.topology.relation_degrees(),
                false => Vec::new(),
            },
            out_degrees,
            in_degrees: match program.draws_apart() && needs.in_degrees.values().any(|read| *read) {
                true => divided.degrees(EdgeSet::Plain, End::Dst)?,
                false => Vec::new(),
            },
            all_edges: divided.whole.edges.iter().sum(),
            edges: HopEdges::new(Arc::new(divided.edges(program)?), data, &over),
            edge_features: BySet::from_fn(|set| match needs.edge_features.of(set) {
                true => data.edge_features.of_set(&data.topology, set),
                false => EdgeFeatures::default(),
            }),
            labels: if several || weights.differ() {
                data.labels.clone()
            } else {
                Labels::None
            },
            weights: Arc::clone(weights),
            owners: Owners::new(partition, parts),
            caches: Vec::new(),
        };
        if let Some(sampling) = &program.sampling {
            let source = BatchSource {
                edges: &sampled.edges,
                seeds: sampled.seeds(Phase::Step),
                sampling,
                partition: &sampled.owners.partition,
                seed,
            };
            sampled.caches = source.caches()?;
        }
        Ok(sampled)
    }

    /// Rows of other ranks that a rank keeps, if it keeps any.
    pub(super) fn cache(&self, rank: u32) -> Option<&Arc<Cached>> {
        self.caches.get(rank as usize)
    }

    /// The age of a rank's copies of others' rows, and of others' copies of its `own` rows, by rank; none if these rows
    /// do not change.
    pub(super) fn copies(&self, sampling: &Sampling, rank: u32, own: usize) -> Vec<Copies> {
        let Some(age) = sampling.cache.and_then(|cache| cache.age) else {
            return Vec::new();
        };
        let rows = (0..)
            .zip(&self.caches)
            .map(|(other, cache)| match other == rank {
                true => cache.ids().len(),
                false => own,
            });
        rows.map(|rows| Copies::new(age, rows)).collect()
    }

    /// The weight of the seeds of a batch in the mean of their losses.
    pub(super) fn weight(&self, seeds: &RankSeeds, batch: u32) -> f64 {
        if !self.weights.differ() {
            return seeds.of_all(batch).into();
        }
        let weight = |seed: u32| self.weights.of_vertex(&self.labels, seed as usize);
        seeds.seeds_of_all(batch).map(weight).sum()
    }

    /// Edges of a set at an end of a vertex, and its self loop if the set has one.
    pub(super) fn degree(&self, vertex: u32, set: EdgeSet, end: End) -> u64 {
        let degree = match end {
            End::Dst if !self.in_degrees.is_empty() => {
                self.in_degrees.get(vertex as usize).map(|d| u64::from(*d))
            }
            End::Dst => (self.edges.of(set)).map(|edges| edges.in_neighbours(vertex).len() as u64),
            End::Src => (self.out_degrees.of(set).get(vertex as usize)).map(|d| u64::from(*d)),
        };
        degree.unwrap_or(0) + set.loops()
    }

    /// Vertices of the graph.
    pub(super) fn vertices(&self) -> u64 {
        (self.edges.of(EdgeSet::Plain)).map_or(0, |edges| edges.vertices().into())
    }

    /// Vertices from which the batches of a list are drawn.
    pub(super) fn seeds(&self, phase: Phase) -> &[u32] {
        &self.seeds[usize::from(phase == Phase::Eval)]
    }

    /// The sizes of the first batches of a list, each rank by rank; none if no process has all edges of the graph.
    ///
    /// # Errors
    /// Settings that do not fit the graph; numbers that 32 bits do not hold.
    pub(crate) fn pilots(
        &self,
        program: &Program,
        of: OfList,
        options: &RunOptions,
        data: &GraphData,
    ) -> Result<Vec<Vec<BatchSizes>>, RuntimeError> {
        match of.sampling.draws_apart() {
            false => self.first(&self.edges, program, of, options),
            true if options.parts.is_some() => Ok(Vec::new()),
            true => self.first(&HopEdges::plain(&data.topology), program, of, options),
        }
    }

    fn first<T: Borrow<Topology> + Clone + Send + Sync>(
        &self,
        edges: &HopEdges<T>,
        program: &Program,
        of: OfList,
        options: &RunOptions,
    ) -> Result<Vec<Vec<BatchSizes>>, RuntimeError> {
        let OfList { sampling, phase } = of;
        let (seed, threads) = (options.seed, options.threads_per_rank);
        let sampler = sampler(edges, sampling, seed, threads)?;
        let (seeds, partition) = (self.seeds(phase), &self.owners.partition);
        let mut replay = Replay::new(sampler, seeds, sampling, partition, seed, &self.caches)?;
        let mut all = Vec::new();
        for batch in 0..replay.count().min(PILOT) {
            let sizes = replay.sizes(At::first_of(phase, batch))?;
            all.push(program.with_shared(&sizes));
        }
        Ok(all)
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let labels = match &self.labels {
            Labels::None => 0,
            Labels::Single(labels) => 4 * labels.len(),
            Labels::Values { values, .. } => 4 * values.len(),
        };
        let features = self.edge_features.values();
        let numbers = 4 * features.map(|of| of.values.len()).sum::<usize>();
        let degrees: usize = self.out_degrees.values().map(Vec::len).sum();
        let kept: u64 = self.caches.iter().map(|cache| cache.bytes()).sum();
        let lists = kept as usize
            + numbers
            + self.owners.bytes()
            + 4 * (self.type_degrees.len() + degrees + self.in_degrees.len());
        let splits: usize = self.splits.iter().map(Vec::len).sum();
        self.edges.bytes() + (labels + splits + lists) as u64
    }
}

/// Draws from a graph as a program says.
///
/// # Errors
/// Settings that do not fit the graph.
pub(super) fn sampler<T: Borrow<Topology> + Clone + Send + Sync>(
    edges: &HopEdges<T>,
    sampling: &Sampling,
    seed: u64,
    threads: usize,
) -> Result<Sampler<T>, SampleError> {
    Sampler::over(edges.clone(), &Rule::of(sampling, seed)?, threads)
}

//! The sampled batches of an epoch, as far as a plan depends on them.

use super::Parts;
use super::sets::Curve;
use gnnc_graph::sample::{
    Degrees, Division, Pilot, Rule, SampleError, by_degrees, check_roots, fetched_of, room,
};
use gnnc_ir::plan::{AlphaBasis, Partitioner};
use gnnc_ir::program::{BatchSizes, Capacity, Program, RankSizes};
use gnnc_ir::words::sampling::{Roots, Sampling, SamplingSettings};
use gnnc_ir::workload::Workload;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The batches of an epoch and their sizes on some ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchPlan {
    /// Rows that each rank's part of a batch has in the mean.
    pub expected: Vec<BatchSizes>,
    /// The same of batches to evaluate on; `None` for the whole graph.
    pub evaluated: Option<Vec<BatchSizes>>,
    /// Rows that the memory of any rank has room for.
    pub room: BatchSizes,
    /// Whether batches were drawn, or their sizes follow from a formula over the degrees.
    pub basis: AlphaBasis,
    /// Threads of each rank that draw batches while it trains.
    pub samplers: u32,
    drawn: Arc<Drawn>,
    /// How the rows of a batch grow with its seeds; `None` if its sets were drawn.
    curve: Option<Curve>,
}

/// The sizes of some batches, each rank by rank, without those that ranks share.
#[derive(Clone, Debug, PartialEq)]
struct Drawn {
    trained: Vec<Vec<BatchSizes>>,
    evaluated: Option<Vec<Vec<BatchSizes>>>,
    /// Vertices and edges of the graph.
    graph: (u64, u64),
}

/// The batches that a model may be trained on, and what is known of their sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchPlans {
    /// What was asked for, in the knobs of candidates that train on them.
    pub settings: SamplingSettings,
    /// How those to train on are drawn.
    pub sampling: Sampling,
    /// How those to evaluate on are drawn; `None` for the whole graph.
    pub evaluation: Option<Sampling>,
    /// Those that were drawn, by number of parts and partitioner.
    pub drawn: BTreeMap<(u32, Partitioner), BatchPlan>,
}

impl BatchPlans {
    /// Checks the settings against statistics of a graph.
    ///
    /// # Errors
    /// Settings that do not fit the graph, such as no training vertices.
    pub fn check(&self, workload: &Workload) -> Result<(), SampleError> {
        for (sampling, seeds) in self.with_seeds(workload) {
            batches(sampling, seeds)?;
        }
        Ok(())
    }

    /// The batches to train and to evaluate on, with the number of their seeds.
    fn with_seeds(&self, workload: &Workload) -> impl Iterator<Item = (&Sampling, u64)> {
        let [train, val, test] = workload.split;
        let evaluation = self.evaluation.iter();
        let evaluation = evaluation.map(move |sampling| (sampling, train + val + test));
        std::iter::once((&self.sampling, train)).chain(evaluation)
    }

    /// The batches on some parts: as drawn, or else estimated.
    ///
    /// # Errors
    /// Settings that do not fit the graph, such as no training vertices.
    pub fn on(&self, parts: &Parts, workload: &Workload) -> Result<BatchPlan, SampleError> {
        let division = (parts.sizes.len() as u32, parts.partitioner);
        let curve = Some(Curve::of(workload, &self.sampling)?);
        if let Some(drawn) = self.drawn.get(&division) {
            return Ok(BatchPlan {
                curve,
                ..drawn.clone()
            });
        }
        let estimated = |(sampling, seeds)| estimated(parts, workload, sampling, seeds);
        let found = self.with_seeds(workload).map(estimated);
        let found: Vec<BatchSizes> = found.collect::<Result<_, _>>()?;
        let named = workload.edge_sets.iter().map(|set| set.edges);
        let on_all = |sizes: &BatchSizes| vec![vec![*sizes; parts.sizes.len()]];
        let drawn = Drawn {
            trained: found.first().map_or_else(Vec::new, on_all),
            evaluated: found.get(1).map(on_all),
            graph: (workload.vertices, workload.edges + named.sum::<u64>()),
        };
        Ok(BatchPlan {
            curve,
            ..BatchPlan::of(drawn, AlphaBasis::Estimated)
        })
    }
}

impl BatchPlan {
    /// Batches of an epoch.
    pub fn count(&self) -> u64 {
        self.expected.first().map_or(0, |sizes| sizes.count)
    }

    /// The sizes of some batches that were drawn to train on, each rank by rank, and of some to evaluate
    /// on, on a graph of so many vertices and edges.
    pub fn drawn(
        trained: Vec<Vec<BatchSizes>>,
        evaluated: Option<Vec<Vec<BatchSizes>>>,
        graph: (u64, u64),
    ) -> Self {
        let drawn = Drawn {
            trained,
            evaluated,
            graph,
        };
        Self::of(drawn, AlphaBasis::Measured)
    }

    /// Batches whose levels no rank shares.
    fn of(drawn: Drawn, basis: AlphaBasis) -> Self {
        let mut plan = Self {
            expected: Vec::new(),
            evaluated: None,
            room: BatchSizes::NONE,
            basis,
            samplers: 0,
            drawn: Arc::new(drawn),
            curve: None,
        };
        plan.resolve(&|ranks| ranks.to_vec());
        plan
    }

    /// The batches of a program, whose ranks may share levels, or train seeds in sets.
    pub(super) fn share(&mut self, program: &Program) {
        let merges = program.sampling.as_ref().and_then(|one| one.merges);
        if let (Some(merges), Some(curve)) = (merges, self.curve.clone()) {
            self.divide(&|sizes| curve.in_sets(sizes, program.ranks, merges));
            return;
        }
        let cache = program.sampling.as_ref().and_then(|one| one.cache);
        let mut drawn = self.drawn.trained.iter().flatten();
        let known = drawn.any(|sizes| sizes.cached != BatchSizes::NONE.cached);
        if let (Some(cache), Some(curve), false) = (cache, self.curve.clone(), known) {
            self.divide(&|sizes| curve.kept(sizes, program.ranks, cache));
            return;
        }
        self.resolve(&|ranks| program.with_shared(ranks));
    }

    /// The batches to train on in sets, or with a cache; those to evaluate on are as they were.
    fn divide(&mut self, in_sets: &dyn Fn(&BatchSizes) -> BatchSizes) {
        let drawn = Arc::clone(&self.drawn);
        let (whole, most) = by_rank(&drawn.trained);
        self.expected = whole.iter().map(in_sets).collect();
        let mut most = in_sets(&most);
        let evaluated = drawn.evaluated.as_ref().map(|batches| by_rank(batches));
        self.evaluated = evaluated.map(|(mean, larger)| {
            most = most.max(&larger);
            mean
        });
        let (vertices, edges) = drawn.graph;
        self.room = room(most, vertices, edges);
    }

    fn resolve(&mut self, shared: &dyn Fn(&[BatchSizes]) -> Vec<BatchSizes>) {
        let drawn = Arc::clone(&self.drawn);
        let by_rank = |batches: &Vec<Vec<BatchSizes>>| {
            by_rank(
                &batches
                    .iter()
                    .map(|ranks| shared(ranks))
                    .collect::<Vec<_>>(),
            )
        };
        let (expected, mut most) = by_rank(&drawn.trained);
        self.expected = expected;
        self.evaluated = drawn.evaluated.as_ref().map(|batches| {
            let (mean, larger) = by_rank(batches);
            most = most.max(&larger);
            mean
        });
        let (vertices, edges) = drawn.graph;
        self.room = room(most, vertices, edges);
    }
}

/// The mean of some batches on each rank, and the largest on any.
fn by_rank(batches: &[Vec<BatchSizes>]) -> (Vec<BatchSizes>, BatchSizes) {
    let ranks = batches.first().map_or(0, Vec::len);
    let of_rank = |rank: usize| {
        let sizes = batches.iter().filter_map(|batch| batch.get(rank).copied());
        Pilot::of(&sizes.collect::<Vec<_>>())
    };
    let pilots: Vec<Pilot> = (0..ranks).map(of_rank).collect();
    let most = (pilots.iter()).fold(BatchSizes::NONE, |most, one| most.max(&one.most));
    (pilots.iter().map(|pilot| pilot.mean).collect(), most)
}

/// The rows of a rank's part of a batch of `seeds` vertices in all, on a graph of which only statistics
/// are known.
fn estimated(
    parts: &Parts,
    workload: &Workload,
    sampling: &Sampling,
    seeds: u64,
) -> Result<BatchSizes, SampleError> {
    let (rule, count) = batches(sampling, seeds)?;
    let ranks = parts.sizes.len() as f64;
    let seeds = seeds as f64 / f64::from(count) / ranks;
    let degrees = Degrees::of(workload);
    let found = by_degrees(&degrees, seeds, &rule);
    // A rank keeps the first rows that are not its own.
    let kept = sampling.cache.map_or(0.0, |cache| {
        let others = 1.0 - 1.0 / ranks.max(1.0);
        match others > 0.0 {
            true => {
                let fetched = fetched_of(cache, count);
                found.share_of_first(&degrees, f64::from(cache.rows) / others, fetched)
            }
            false => 0.0,
        }
    });
    let mut expected = BatchSizes::NONE;
    expected.count = count.into();
    let hops = rule.hops();
    let (mut known, mut elsewhere) = (0.0, 0.0);
    for (hop, vertices) in found.vertices.iter().enumerate() {
        expected.levels[hops - hop] = vertices.ceil() as u64;
        elsewhere += (vertices - known) * parts.remote(hop as i32, sampling.roots);
        known = *vertices;
        expected.remote[hops - hop] = (elsewhere * (1.0 - kept)).ceil() as u64;
        expected.cached[hops - hop] = (elsewhere * kept).floor() as u64;
    }
    for (hop, edges) in found.edges.iter().enumerate() {
        let level = hops - hop;
        expected.edges[level] = edges.ceil() as u64;
        if sampling.draws_apart() {
            let others = expected.remote[level] + expected.cached[level];
            let share = others as f64 / expected.levels[level].max(1) as f64;
            expected.remote_edges[level] = (edges * share).ceil() as u64;
        }
    }
    Ok(expected)
}

/// What is drawn, and the number of batches, of a graph with so many seeds.
fn batches(sampling: &Sampling, seeds: u64) -> Result<(Rule, u32), SampleError> {
    check_roots(sampling)?;
    let rule = Rule::of(sampling, 0)?;
    let seeds = seeds.min(u64::from(u32::MAX)) as u32;
    let division = Division::new(seeds, sampling.batch, sampling.cut)?;
    Ok((rule, division.count()))
}

impl Parts {
    /// The rows that a rank of these sizes has room for.
    pub fn capacity(&self, sizes: &RankSizes) -> Capacity {
        let batch = self.batch.as_ref();
        let room = batch.filter(|_| sizes.batch != BatchSizes::NONE);
        Capacity::of(RankSizes {
            batch: room.map_or(BatchSizes::NONE, |batch| batch.room),
            ..*sizes
        })
    }

    /// Which share of the vertices that many hops from the seeds belongs to other ranks, if each edge
    /// leads to one of them as often as any. No partition is worse than dealing vertices out.
    fn remote(&self, hops: i32, roots: Roots) -> f64 {
        let dealt = 1.0 - 1.0 / self.sizes.len().max(1) as f64;
        let edges: u64 = self.sizes.iter().map(|sizes| sizes.edges).sum();
        let cut: u64 = self.sizes.iter().map(|sizes| sizes.reach.halo_edges).sum();
        let stays = 1.0 - cut as f64 / edges.max(1) as f64;
        match roots {
            Roots::Dealt => dealt,
            Roots::Home | Roots::Own => dealt.min(1.0 - stays.powi(hops)),
        }
    }
}

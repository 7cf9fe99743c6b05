//! Rows of other ranks that a rank keeps, so that its batches fetch fewer.
//!
//! Features do not change, so the rows that batches read most often are fetched once, before training. For rows that
//! change, see `copies.rs`.

use super::{
    At, HopEdges, PILOT, RankBatch, RankSeeds, Rule, SampleError, Sampler, by_edges, shares,
};
use crate::Topology;
use crate::partition::Partition;
use gnnc_ir::EdgeSet;
use gnnc_ir::program::BatchSizes;
use gnnc_ir::words::sampling::{Cache, CacheBy, Roots, Sampling};
use std::borrow::Borrow;
use std::cmp::Reverse;
use std::sync::Arc;

/// No row.
const NONE: u32 = u32::MAX;

/// The vertices of other ranks whose rows a rank keeps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cached {
    /// Those read most often first.
    ids: Vec<u32>,
    /// For each vertex of the graph, its row among these.
    rows: Vec<u32>,
}

impl Cached {
    /// The first `rows` of the ranked vertices of a graph that are not a rank's own.
    fn of(ranked: impl Iterator<Item = u32>, rows: u32, partition: &Partition, rank: u32) -> Self {
        let owner = partition.owner();
        let others = ranked.filter(|v| owner[*v as usize] != rank);
        let ids: Vec<u32> = others.take(rows as usize).collect();
        let mut row_of = vec![NONE; owner.len()];
        for (row, v) in (0..).zip(&ids) {
            row_of[*v as usize] = row;
        }
        Self { ids, rows: row_of }
    }

    /// The vertices, in the order of their rows.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The row of a vertex, if it is kept.
    pub fn row(&self, vertex: u32) -> Option<u32> {
        let row = self.rows.get(vertex as usize).copied();
        row.filter(|row| *row != NONE)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        4 * (self.ids.len() + self.rows.len()) as u64
    }
}

/// What batches are drawn from.
pub struct BatchSource<'a, T> {
    /// The edges that hops run over.
    pub edges: &'a HopEdges<T>,
    /// The vertices that are trained on, ascending.
    pub seeds: &'a [u32],
    /// How batches are drawn.
    pub sampling: &'a Sampling,
    /// Which rank owns which vertex.
    pub partition: &'a Arc<Partition>,
    /// The seed of the run.
    pub seed: u64,
}

impl<T: Borrow<Topology> + Clone + Send + Sync> BatchSource<'_, T> {
    /// What each rank keeps; nothing if batches have no cache, or a rank is alone. Ties go to the vertex with
    /// the smaller id.
    ///
    /// # Errors
    /// Batches that do not fit the graph; probabilities of hops that run over named sets of edges.
    pub fn caches(&self) -> Result<Vec<Arc<Cached>>, SampleError> {
        let ranks = self.partition.parts();
        let Some(Cache { rows, by, .. }) = self.sampling.cache.filter(|_| ranks > 1) else {
            return Ok(Vec::new());
        };
        let of_rank = |rank, ranked: &[u32]| {
            let ranked = ranked.iter().copied();
            Arc::new(Cached::of(ranked, rows, self.partition, rank))
        };
        let all = 0..ranks;
        match by {
            CacheBy::Degree => {
                let degrees = self.degrees();
                let ranked = ranked(&degrees, |degree| Reverse(*degree));
                Ok(all.map(|rank| of_rank(rank, &ranked)).collect())
            }
            CacheBy::Probability => all
                .map(|rank| {
                    let probabilities = self.probabilities(rank)?;
                    // Probabilities are not negative, so their bits have their order.
                    let ranked = ranked(&probabilities, |p| Reverse(p.to_bits()));
                    Ok(of_rank(rank, &ranked))
                })
                .collect(),
            CacheBy::Counts => all
                .map(|rank| {
                    let counts = self.counts(rank)?;
                    let ranked = ranked(&counts, |count| Reverse(*count));
                    Ok(of_rank(rank, &ranked))
                })
                .collect(),
        }
    }

    /// Edges out of each vertex, of all sets that hops run over.
    fn degrees(&self) -> Vec<u32> {
        let mut sets: Vec<EdgeSet> = Vec::new();
        for level in 1..=self.sampling.fanouts.len() {
            let set = self.sampling.set_into(level);
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
        let mut degrees = vec![0; self.partition.owner().len()];
        for edges in sets.into_iter().filter_map(|set| self.edges.of(set)) {
            for (degree, more) in degrees.iter_mut().zip(edges.out_degrees()) {
                *degree += more;
            }
        }
        degrees
    }

    /// The probability that a batch of a rank reads each vertex.
    pub(super) fn probabilities(&self, rank: u32) -> Result<Vec<f64>, SampleError> {
        let named = (1..=self.sampling.fanouts.len())
            .any(|level| matches!(self.sampling.set_into(level), EdgeSet::Named(_)));
        let Some(plain) = self.edges.of(EdgeSet::Plain).filter(|_| !named) else {
            return Err(SampleError::Probabilities);
        };
        let owner = self.partition.owner();
        let ranks = f64::from(self.partition.parts());
        let of_step = (f64::from(self.sampling.batch) / self.seeds.len().max(1) as f64).min(1.0);
        let mut included = vec![0.0; owner.len()];
        match self.sampling.roots {
            Roots::Home => {
                let own = self.seeds.iter().filter(|v| owner[**v as usize] == rank);
                own.for_each(|v| included[*v as usize] = of_step);
            }
            Roots::Dealt => {
                let all = self.seeds.iter();
                all.for_each(|v| included[*v as usize] = of_step / ranks);
            }
            Roots::Own => {
                let shares = shares(self.seeds, self.partition);
                let own = shares.get(rank as usize).into_iter().flatten();
                own.for_each(|v| included[*v as usize] = of_step);
            }
        }
        by_edges(plain, &Rule::of(self.sampling, self.seed)?, &mut included)?;
        Ok(included)
    }

    /// How often some batches of a rank read each vertex: the first ones of the second epoch, since plans draw
    /// those of the first one to say how many rows are found.
    pub(super) fn counts(&self, rank: u32) -> Result<Vec<u32>, SampleError> {
        let rule = Rule::of(self.sampling, self.seed)?;
        let mut sampler = Sampler::over(self.edges.clone(), &rule, 1)?;
        let seeds = self.seeds.to_vec();
        let mut own = RankSeeds::new(seeds, self.sampling, self.partition, rank, self.seed)?;
        let (mut batch, mut counts) = (RankBatch::default(), vec![0; self.partition.owner().len()]);
        for number in 0..own.count().min(PILOT) {
            let at = At {
                epoch: 1,
                batch: number,
                step: own.count() + number,
            };
            own.draw(&mut sampler, at, &mut batch)?;
            for set in &batch.sets {
                set.blocks
                    .ids()
                    .iter()
                    .for_each(|v| counts[*v as usize] += 1);
            }
        }
        Ok(counts)
    }
}

/// The vertices by ascending keys.
fn ranked<K, O: Ord>(keys: &[K], order: impl Fn(&K) -> O) -> Vec<u32> {
    let mut vertices: Vec<u32> = (0..keys.len() as u32).collect();
    vertices.sort_by_key(|v| order(&keys[*v as usize]));
    vertices
}

/// Counts the vertices of each level that other ranks own: those that are kept, and those that are not.
/// `levels` are the vertices that each level adds, from the seeds outwards.
pub(super) fn count_remote<'a>(
    levels: impl Iterator<Item = &'a [u32]>,
    elsewhere: impl Fn(u32) -> bool,
    cached: Option<&Cached>,
    sizes: &mut BatchSizes,
    hops: usize,
) {
    let (mut remote, mut kept) = (0, 0);
    for (level, new) in (0..=hops).rev().zip(levels) {
        for v in new.iter().filter(|v| elsewhere(**v)) {
            match cached.and_then(|cached| cached.row(*v)) {
                Some(_) => kept += 1,
                None => remote += 1,
            }
        }
        (sizes.remote[level], sizes.cached[level]) = (remote, kept);
    }
}

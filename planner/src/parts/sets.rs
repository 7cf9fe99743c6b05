//! Batches whose seeds are trained in sets, as far as a plan depends on them.

use gnnc_graph::sample::{Degrees, Rule, SampleError, SetSeeds, by_degrees, fetched_of};
use gnnc_ir::program::BatchSizes;
use gnnc_ir::words::sampling::{Cache, MAX_HOPS, Sampling};
use gnnc_ir::workload::Workload;

/// How the rows of a batch grow with its seeds, by the degrees of a graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Curve {
    degrees: Degrees,
    rule: Rule,
}

impl Curve {
    /// Of the batches that a model is trained on.
    ///
    /// # Errors
    /// Settings that do not describe batches.
    pub(super) fn of(workload: &Workload, sampling: &Sampling) -> Result<Self, SampleError> {
        Ok(Self {
            degrees: Degrees::of(workload),
            rule: Rule::of(sampling, 0)?,
        })
    }

    /// The rows of `ranks` ranks that each have a batch of these sizes, if they train its seeds in sets with
    /// so many merges. Sets are taken for alike. A rank gets as many seeds that others own as it gives away.
    pub(super) fn in_sets(&self, whole: &BatchSizes, ranks: u32, merges: u32) -> BatchSizes {
        let sets = SetSeeds::count(ranks, merges);
        let seeds = whole.levels[self.rule.hops()] as f64;
        let stays = f64::from(sets) / f64::from(ranks.max(1));
        let [all, own, moved, of_set] =
            [1.0, stays, 1.0 - stays, 1.0 / f64::from(sets)].map(|part| self.rows(part * seeds));
        let others = 1.0 - 1.0 / f64::from(ranks.max(1));
        let mut found = *whole;
        found.sets = sets.into();
        for level in 0..=MAX_HOPS {
            let share = |part: &Rows| match all.vertices[level] > 0.0 {
                true => part.vertices[level] / all.vertices[level],
                false => 0.0,
            };
            let times = |count: u64, share: f64| (count as f64 * share).ceil() as u64;
            found.levels[level] = times(whole.levels[level], share(&of_set));
            let edges = match all.edges[level] > 0.0 {
                true => of_set.edges[level] / all.edges[level],
                false => 0.0,
            };
            found.edges[level] = times(whole.edges[level], edges);
            found.of_sets[level] = times(whole.levels[level], share(&own) + share(&moved));
            let elsewhere = times(whole.levels[level], others * share(&moved));
            found.remote[level] = times(whole.remote[level], share(&own)) + elsewhere;
        }
        found
    }

    /// The rows of a batch if each of the `ranks` keeps so many rows of others: those with most edges out of
    /// them, which is a lower bound of what the best ranking finds.
    pub(super) fn kept(&self, whole: &BatchSizes, ranks: u32, cache: Cache) -> BatchSizes {
        let others = 1.0 - 1.0 / f64::from(ranks.max(2));
        let seeds = whole.levels[self.rule.hops()] as f64;
        let found = by_degrees(&self.degrees, seeds, &self.rule);
        let batches = u32::try_from(whole.count).unwrap_or(u32::MAX);
        let fetched = fetched_of(cache, batches);
        let share = found.share_of_first(&self.degrees, f64::from(cache.rows) / others, fetched);
        let mut sizes = *whole;
        for level in 0..=MAX_HOPS {
            let kept = (whole.remote[level] as f64 * share).floor() as u64;
            sizes.cached[level] = kept;
            sizes.remote[level] = whole.remote[level] - kept;
        }
        sizes
    }

    /// Rows of a batch of so many seeds, by level from 0.
    fn rows(&self, seeds: f64) -> Rows {
        let found = by_degrees(&self.degrees, seeds, &self.rule);
        let hops = self.rule.hops();
        let mut rows = Rows {
            vertices: [0.0; MAX_HOPS + 1],
            edges: [0.0; MAX_HOPS + 1],
        };
        for (hop, vertices) in found.vertices.iter().enumerate() {
            rows.vertices[hops - hop] = *vertices;
        }
        for (hop, edges) in found.edges.iter().enumerate() {
            rows.edges[hops - hop] = *edges;
        }
        rows
    }
}

/// Vertices of each level and edges into each.
struct Rows {
    vertices: [f64; MAX_HOPS + 1],
    edges: [f64; MAX_HOPS + 1],
}

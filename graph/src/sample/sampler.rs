//! Draws the blocks of batches.

use super::apart::Own;
use super::blocks::{Blocks, Layer};
use super::draw::{Hop, Scratch};
use super::fill::{Degrees, Rows};
use super::numbers::{MOST, Numbers};
use super::pairs::Drawn;
use super::together::{self, Chunk};
use super::{Exclude, HopEdges, LeftOut, Rule, SampleError};
use crate::Topology;
use gnnc_ir::EdgeSet;
use std::borrow::Borrow;
use std::sync::{Mutex, PoisonError};

/// Draws the blocks of one batch after another from a graph.
///
/// It holds 4 bytes for each vertex of the graph, and buffers as large as the largest batch so far:
/// after that, it allocates nothing.
pub struct Sampler<T> {
    /// `None` for a single thread.
    pool: Option<rayon::ThreadPool>,
    pub(super) rule: Rule,
    pub(super) edges: HopEdges<T>,
    pub(super) state: State,
}

impl<T> Sampler<T> {
    /// The edges that it draws from.
    pub fn edges(&self) -> &HopEdges<T> {
        &self.edges
    }

    /// Goes on with the draws of another run.
    pub fn reseed(&mut self, seed: u64) {
        self.rule.seed = seed;
    }
}

/// What the threads work on.
#[derive(Default)]
pub(super) struct State {
    pub(super) numbers: Numbers,
    /// Where the edges of each row begin in the topology.
    pub(super) starts: Vec<u64>,
    /// Memory of each thread for its draws.
    pub(super) scratch: Vec<Mutex<Scratch>>,
    chunks: Vec<Chunk>,
    /// Memory to draw hop by hop.
    pub(super) own: Own,
}

impl<T: Borrow<Topology> + Send + Sync> Sampler<T> {
    /// A sampler of a graph's plain edges by a rule, with a number of threads (at least one) that changes
    /// no result.
    ///
    /// # Errors
    /// As [`Sampler::over`].
    pub fn new(topology: T, rule: &Rule, threads: usize) -> Result<Self, SampleError> {
        Self::over(HopEdges::plain(topology), rule, threads)
    }

    /// The same, whose hops run over the sets of edges that the rule says.
    ///
    /// # Errors
    /// Fanouts by type that do not fit the graph; edges that are not there; threads that cannot be started.
    pub fn over(edges: HopEdges<T>, rule: &Rule, threads: usize) -> Result<Self, SampleError> {
        rule.check(&edges)?;
        let vertices = edges.of_hop(EdgeSet::Plain, 1)?.vertices();
        let pool = match threads {
            0 | 1 => None,
            _ => {
                let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
                let pool = builder.build().map_err(|error| SampleError::Threads {
                    threads,
                    reason: error.to_string(),
                })?;
                Some(pool)
            }
        };
        Ok(Self {
            pool,
            rule: rule.clone(),
            state: State {
                numbers: Numbers::new(vertices),
                starts: Vec::new(),
                scratch: (0..threads.max(1)).map(|_| Mutex::default()).collect(),
                chunks: Vec::new(),
                own: Own::default(),
            },
            edges,
        })
    }

    /// The rule.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Draws the blocks of a batch. `seeds` are vertices, and there may be none; of repeated
    /// seeds the first stays.
    /// `step` is the optimizer step, counted over the whole run.
    ///
    /// # Errors
    /// A seed that is no vertex; more edges in a layer than 32-bit numbers count. `blocks` has no layers then.
    pub fn sample(
        &mut self,
        seeds: &[u32],
        step: u32,
        blocks: &mut Blocks,
    ) -> Result<(), SampleError> {
        self.sample_of(seeds, std::iter::empty(), step, blocks)
    }

    /// The same for some of the seeds of a batch of several ranks. Of pairs among `all` seeds that are links,
    /// the edges between their ends are left out, if the rule says so.
    ///
    /// # Errors
    /// As [`Sampler::sample`].
    pub fn sample_of(
        &mut self,
        seeds: &[u32],
        all: impl Iterator<Item = u32>,
        step: u32,
        blocks: &mut Blocks,
    ) -> Result<(), SampleError> {
        let (rule, edges, state) = (&self.rule, &self.edges, &mut self.state);
        leave_out(edges, rule, all, &mut blocks.left_out)?;
        match &self.pool {
            Some(pool) => pool.install(|| state.sample(edges, rule, seeds, step, blocks)),
            None => state.sample(edges, rule, seeds, step, blocks),
        }
    }
}

impl State {
    /// That of one thread which numbers no vertices.
    pub(super) fn without_numbers() -> Self {
        Self {
            scratch: vec![Mutex::default()],
            ..Self::default()
        }
    }

    fn sample<T: Borrow<Topology>>(
        &mut self,
        edges: &HopEdges<T>,
        rule: &Rule,
        seeds: &[u32],
        step: u32,
        blocks: &mut Blocks,
    ) -> Result<(), SampleError> {
        blocks.start(rule.hops());
        if let Err(refused) = self.numbers.start(seeds, &mut blocks.ids) {
            blocks.clear();
            return Err(refused);
        }
        blocks.sizes.push(blocks.ids.len());
        let drawn = self.layers(edges, rule, step, blocks);
        if self.is_alone() {
            self.numbers.forget(&blocks.ids);
        } else {
            self.numbers.forget_together(&blocks.ids);
        }
        if drawn.is_err() {
            blocks.clear();
        }
        drawn
    }

    fn is_alone(&self) -> bool {
        self.scratch.len() == 1
    }

    fn layers<T: Borrow<Topology>>(
        &mut self,
        edges: &HopEdges<T>,
        rule: &Rule,
        step: u32,
        blocks: &mut Blocks,
    ) -> Result<(), SampleError> {
        let Blocks {
            ids,
            sizes,
            layers,
            left_out,
        } = blocks;
        for (number, layer) in (1..).zip(layers) {
            let topology = edges.of_hop(rule.set(number), number)?;
            let hop = hop(edges, rule, (number, step), left_out)?;
            let found = self.count(topology, &hop, ids, layer);
            if found + ids.len() as u64 > MOST {
                return Err(SampleError::TooManyEdges { hop: number, found });
            }
            self.fill(topology, &hop, ids, layer);
            sizes.push(ids.len());
        }
        Ok(())
    }

    /// Fills in what is known of the rows before edges are drawn; returns how many are kept.
    pub(super) fn count(
        &mut self,
        topology: &Topology,
        hop: &Hop,
        ids: &[u32],
        layer: &mut Layer,
    ) -> u64 {
        let (rows, is_alone) = (ids.len(), self.is_alone());
        self.starts.resize(rows, 0);
        layer.degrees.resize(rows, 0);
        layer.edges.indptr.clear();
        layer.edges.indptr.resize(rows + 1, 0);
        layer.scales.clear();
        if !hop.is_typed() {
            layer.scales.resize(rows, 0.0);
        }
        let degrees = Degrees {
            ids,
            starts: &mut self.starts,
            degrees: &mut layer.degrees,
            kept: &mut layer.edges.indptr[1..],
            scales: &mut layer.scales,
        };
        if !is_alone {
            let (scratch, chunks) = (&self.scratch, &mut self.chunks);
            let edges = together::count(degrees, topology, hop, scratch, chunks);
            together::add_up(&mut layer.edges.indptr[1..], chunks);
            return edges;
        }
        degrees.count(topology, hop, alone(&mut self.scratch))
    }

    /// Draws the edges and appends the vertices that are new to `ids`.
    fn fill(&mut self, topology: &Topology, hop: &Hop, ids: &mut Vec<u32>, layer: &mut Layer) {
        let known = ids.len();
        let edges = layer.edges.indptr[known] as usize;
        let vertices = topology.vertices() as usize;
        let is_alone = self.is_alone();
        if is_alone {
            ids.resize(known + edges.min(vertices - known) + 1, 0);
        }
        let (rows, new) = ids.split_at_mut(known);
        let rows = Rows::of(rows, &self.starts, layer, hop);
        let (numbers, first) = (&self.numbers, known as u32);
        if !is_alone {
            let (scratch, chunks) = (&self.scratch, &mut self.chunks);
            together::fill(rows, topology, hop, numbers, first, scratch, chunks);
            together::number(ids, &mut layer.edges.indices, numbers, chunks);
        } else {
            let mut next = first;
            let give = |_, ends: &mut [u32]| numbers.give(ends, new, first, &mut next);
            rows.fill(topology, hop, numbers, alone(&mut self.scratch), give);
            ids.truncate(next as usize);
        }
    }
}

/// Leaves the edges between the ends of links among the seeds of all ranks out of a batch, if the rule says so.
pub(super) fn leave_out<T: Borrow<Topology>>(
    edges: &HopEdges<T>,
    rule: &Rule,
    all: impl Iterator<Item = u32>,
    left_out: &mut LeftOut,
) -> Result<(), SampleError> {
    match (edges.pairs(), rule.exclude) {
        (Some(pairs), Exclude::Seeds) => {
            let plain = edges.of_hop(EdgeSet::Plain, 1)?;
            left_out.fill(plain, all.filter_map(|seed| pairs.link(seed)));
        }
        (None, _) | (_, Exclude::Nothing) => left_out.clear(),
    }
    Ok(())
}

/// The draws of a hop (from 1, next to the seeds) in a step.
pub(super) fn hop<'a, T: Borrow<Topology>>(
    edges: &'a HopEdges<T>,
    rule: &'a Rule,
    (number, step): (usize, u32),
    left_out: &'a LeftOut,
) -> Result<Hop<'a>, SampleError> {
    let set = rule.set(number);
    let topology = edges.of_hop(set, number)?;
    let is_plain = set == EdgeSet::Plain && !left_out.is_empty();
    let plain = edges.of_hop(EdgeSet::Plain, number)?;
    let drawn = edges.pairs().and_then(|pairs| {
        Some(Drawn {
            pairs,
            plain,
            how: rule.negatives.drawn()?,
            at: (rule.seed, step),
            end: pairs.end_of(set)?,
        })
    });
    Ok(Hop::new(topology, rule, number, step).of_pairs(is_plain.then_some(left_out), drawn))
}

/// The memory of the only thread.
pub(super) fn alone(scratch: &mut [Mutex<Scratch>]) -> &mut Scratch {
    scratch[0].get_mut().unwrap_or_else(PoisonError::into_inner)
}

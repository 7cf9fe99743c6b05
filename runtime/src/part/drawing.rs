//! Draws the batches of a rank: when it needs them, or ahead on threads of their own ([`Samplers`]).
//!
//! Batches are functions of their place in the run, so no result depends on how many threads draw them, or when they begin.

use super::numbers::NumbersOf;
use super::sampled::{OfList, Sampled, sampler};
use super::samplers::{Samplers, Tasks};
use super::under_way::UnderWay;
use super::walks::{LayerWays, Layers, Listed};
use crate::RuntimeError;
use crate::fault::Fault;
use crate::launch::Launch;
use gnnc_graph::Topology;
use gnnc_graph::sample::{Answers, At, Cached, RankSeeds, Sampler};
use gnnc_ir::words::sampling::{Drawn, Sampling};
use gnnc_ir::words::types::{Level, Of};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whose batches are drawn, and with what.
#[derive(Clone, Copy)]
pub(crate) struct OfRun {
    pub(crate) rank: u32,
    /// Vertices that the rank owns.
    pub(crate) own: usize,
    /// Seed of the run.
    pub(crate) seed: u64,
    /// Threads of the rank.
    pub(crate) threads: usize,
    /// Threads that draw ahead; with none, those of the rank draw.
    pub(crate) samplers: usize,
    /// When they begin another batch.
    pub(crate) launch: Launch,
}

/// What a program reads of a rank's own part of a batch.
#[derive(Clone)]
pub(super) struct Read {
    /// How edges are walked.
    pub(super) ways: LayerWays,
    /// The level of which rows are fetched from other ranks.
    pub(super) asks: Option<Level>,
    /// Numbers of rows and edges.
    pub(super) numbers: Vec<Drawn>,
}

/// Lists what a batch that was drawn has.
#[derive(Clone)]
pub(super) struct Lister {
    pub(super) shared: Arc<Sampled>,
    rank: u32,
    pub(super) sampling: Sampling,
    pub(super) seeds: RankSeeds,
    /// Rows of other ranks that the rank keeps.
    cached: Option<Arc<Cached>>,
    pub(super) read: Read,
}

/// Draws batches one after another.
pub(super) struct Drawer {
    of: Lister,
    sampler: Sampler<Arc<Topology>>,
}

/// Draws batches in their order.
pub(super) struct Drawing {
    /// Knows how many batches there are, and draws them if no other thread does.
    own: Drawer,
    samplers: Option<Samplers>,
}

impl Lister {
    /// For the batches of a list.
    ///
    /// # Errors
    /// Settings that do not fit the graph, such as no training vertices.
    pub(super) fn new(
        shared: &Arc<Sampled>,
        of: OfList,
        read: &Read,
        cached: Option<&Arc<Cached>>,
        run: OfRun,
    ) -> Result<Self, RuntimeError> {
        let (sampling, partition) = (of.sampling, &shared.owners.partition);
        let seeds = shared.seeds(of.phase).to_vec();
        let seeds = RankSeeds::new(seeds, sampling, partition, run.rank, run.seed)?;
        Ok(Self {
            sampling: sampling.clone(),
            shared: Arc::clone(shared),
            rank: run.rank,
            seeds: seeds.with_cache(cached),
            cached: cached.map(Arc::clone),
            read: read.clone(),
        })
    }

    /// Lists what a batch that was drawn has.
    fn list(&self, at: At, batch: &mut UnderWay) {
        self.describe(at, batch);
        let edges = Listed {
            edges: &self.shared.edges,
            sampling: &self.sampling,
        };
        let sets = &batch.drawn.sets;
        batch.layers.resize_with(sets.len(), Layers::default);
        for (set, layers) in sets.iter().zip(&mut batch.layers) {
            edges.list(&set.blocks, &self.read.ways, layers);
        }
    }

    /// Lists all but the edges.
    pub(super) fn describe(&self, at: At, batch: &mut UnderWay) {
        (batch.number, batch.seeds) = (at.batch, self.seeds.of_all(at.batch));
        batch.of_epoch = self.seeds.used();
        batch.weight = self.shared.weight(&self.seeds, at.batch);
        if let Some(Level { number, of }) = self.read.asks
            && let Some(first) = batch.drawn.sets.first()
        {
            let level = usize::from(number);
            let vertices = match of {
                Of::Sets => batch.drawn.gathered.level(level),
                Of::One | Of::All | Of::Owned => first.blocks.level(level),
            };
            let kept = self.cached.as_deref();
            let owners = &self.shared.owners;
            batch.asked.sort(self.rank, vertices, owners, kept);
        }
        let sets = 0..batch.drawn.sets.len();
        let distances = sets.map(|number| self.seeds.sets().distance(number));
        batch.distances.clear();
        batch.distances.extend(distances);
    }

    /// Makes the numbers of a batch that was drawn.
    pub(super) fn number(&self, batch: &mut UnderWay) {
        batch
            .numbers
            .resize_with(batch.drawn.sets.len(), BTreeMap::new);
        for (set, made) in batch.drawn.sets.iter().zip(&mut batch.numbers) {
            let numbers = NumbersOf {
                shared: &self.shared,
                blocks: &set.blocks,
                left_out: batch.drawn.left_out(),
            };
            for drawn in &self.read.numbers {
                let out = made.entry(*drawn).or_default();
                out.clear();
                out.resize(numbers.count(*drawn), 0.0);
                numbers.write(*drawn, out);
            }
        }
    }
}

impl Drawer {
    /// Draws the batches that `of` lists.
    ///
    /// # Errors
    /// Settings that do not fit the graph.
    fn new(of: Lister, run: OfRun) -> Result<Self, RuntimeError> {
        let threads = if run.samplers > 0 { 1 } else { run.threads };
        Ok(Self {
            sampler: sampler(&of.shared.edges, &of.sampling, run.seed, threads)?,
            of,
        })
    }

    pub(super) fn reseed(&mut self, seed: u64) {
        self.sampler.reseed(seed);
        self.of.seeds.reseed(seed);
    }

    /// Draws a batch.
    ///
    /// # Errors
    /// Numbers that 32 bits do not hold.
    pub(super) fn draw(&mut self, at: At, batch: &mut UnderWay) -> Result<(), Fault> {
        batch.sizes = self
            .of
            .seeds
            .draw(&mut self.sampler, at, &mut batch.drawn)?;
        self.of.list(at, batch);
        Ok(())
    }

    /// Begins a batch of which other ranks hold edges: draws the hops that need none of these. Returns whether these
    /// are all.
    fn begin(&mut self, at: At, batch: &mut UnderWay) -> Result<bool, Fault> {
        self.of
            .seeds
            .begin(&mut self.sampler, at, &mut batch.drawn)?;
        let alone = self.of.sampling.fanouts.len() - self.of.sampling.asks_into().count();
        let partition = Arc::clone(&self.of.shared.owners.partition);
        let answers = Answers {
            rank: self.of.rank,
            owner: partition.owner(),
            by_rank: &[],
        };
        for _ in 0..alone {
            if self.add_hop(at, &answers, batch)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a hop to a batch; whether it was the last one.
    fn add_hop(&mut self, at: At, answers: &Answers, batch: &mut UnderWay) -> Result<bool, Fault> {
        let Some(set) = batch.drawn.sets.first_mut() else {
            return Err(Fault::Missing("a batch that was begun"));
        };
        self.sampler.add_hop(at.step, answers, &mut set.blocks)?;
        if set.blocks.layers() < self.of.sampling.fanouts.len() {
            return Ok(false);
        }
        batch.sizes = self.of.seeds.count_rows(&mut batch.drawn);
        self.of.list(at, batch);
        Ok(true)
    }
}

impl Drawing {
    /// With as many threads as the run has samplers.
    ///
    /// # Errors
    /// As [`Lister::new`], or if the system has no more threads.
    pub(super) fn new(
        shared: &Arc<Sampled>,
        of: OfList,
        read: &Read,
        cached: Option<&Arc<Cached>>,
        run: OfRun,
    ) -> Result<Self, RuntimeError> {
        let lister = Lister::new(shared, of, read, cached, run)?;
        let tasks = || Tasks::new(lister.clone(), run.seed);
        let samplers = (run.samplers > 0).then(|| Samplers::new(&tasks, run.samplers, run.launch));
        Ok(Self {
            samplers: samplers.transpose()?,
            own: Drawer::new(lister, run)?,
        })
    }

    /// Batches of an epoch.
    pub(super) fn count(&self) -> u32 {
        self.own.of.seeds.count()
    }

    /// The level of which rows are fetched from other ranks.
    pub(super) fn asks(&self) -> Option<Level> {
        self.own.of.read.asks
    }

    /// Goes on with the batches of another run.
    pub(super) fn reseed(&mut self, seed: u64) {
        self.own.reseed(seed);
        if let Some(samplers) = &mut self.samplers {
            samplers.reseed(seed);
        }
    }

    /// Draws a batch, or takes it from the threads that do. If other ranks hold some of its edges, it is only
    /// begun; whether it is complete.
    ///
    /// # Errors
    /// As [`Drawer::draw`].
    pub(super) fn draw(&mut self, at: At, batch: &mut UnderWay) -> Result<bool, Fault> {
        if self.own.of.sampling.draws_apart() {
            return self.own.begin(at, batch);
        }
        match &mut self.samplers {
            None => self.own.draw(at, batch)?,
            Some(samplers) => samplers.take(at, self.own.of.seeds.count(), batch)?,
        }
        Ok(true)
    }

    /// Adds a hop to a batch that was begun; whether it was the last one.
    ///
    /// # Errors
    /// Answers that do not fit their questions; numbers that 32 bits do not hold.
    pub(super) fn add_hop(
        &mut self,
        at: At,
        answers: &Answers,
        batch: &mut UnderWay,
    ) -> Result<bool, Fault> {
        self.own.add_hop(at, answers, batch)
    }

    /// Draws the edges of a hop and step into own vertices, for another rank.
    ///
    /// # Errors
    /// Numbers that 32 bits do not hold.
    pub(super) fn answer(
        &mut self,
        vertices: &[u32],
        at: (usize, u32),
        answer: &mut Vec<u32>,
    ) -> Result<(), Fault> {
        Ok(self.own.sampler.answer(vertices, at, answer)?)
    }

    /// Bytes of drawers, and of batches drawn ahead, each drawn with `table` bytes.
    pub(super) fn bytes(&self, table: u64) -> u64 {
        let ahead = self
            .samplers
            .as_ref()
            .map_or(0, |samplers| samplers.bytes(table));
        table + ahead
    }
}

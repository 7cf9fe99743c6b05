//! The tasks in which threads draw a batch (Zheng et al., ByteGNN, PVLDB 2022, section 4.1).
//!
//! `Seed` begins a batch. For each hop, tasks `Draw` draw the edges of some rows, and `Number` puts them together and numbers
//! the vertices that are new. Once all hops are drawn, a task `List` for each layer lists its edges as kernels walk them, and
//! `End` counts the rows and makes the numbers that kernels read. If seeds are in sets, their hops follow each other.

use super::super::drawing::Lister;
use super::super::under_way::UnderWay;
use super::super::walks::{Layers, Listed};
use crate::RuntimeError;
use crate::fault::Fault;
use gnnc_graph::Topology;
use gnnc_graph::sample::{At, DrawnRows, Growing, RankBatch, RankSet, Rule, TaskSampler};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

/// Rows of a task `Draw`, which takes some tenths of a millisecond.
const GRAIN: usize = 1024;

/// A task of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    Seed,
    /// Draws edges into some rows of the next hop.
    Draw {
        group: usize,
    },
    Number,
    List {
        set: usize,
        layer: usize,
    },
    End,
}

/// A task that can be done, and about how many words it reads.
pub(super) struct Next {
    pub(super) cost: u64,
    pub(super) task: Task,
}

/// A batch that is being drawn.
pub(super) struct Running {
    pub(super) at: At,
    /// Which of the batches that were begun it is.
    pub(super) launch: u64,
    pub(super) began: Instant,
    /// The seed of the run, and how often it has changed.
    pub(super) seed: u64,
    pub(super) seeds: u64,
    drawn: RwLock<Levels>,
    /// What was drawn for the groups of the hop at hand.
    groups: Mutex<Vec<DrawnRows>>,
    /// Tasks that others wait for: groups of the hop, or layers to list.
    left: AtomicUsize,
    lists: Mutex<UnderWay>,
    pub(super) open: Mutex<Open>,
}

/// Memory to draw a batch in, with a number for each vertex of the graph.
#[derive(Default)]
pub(super) struct Memory {
    growing: Growing,
    groups: Vec<DrawnRows>,
}

impl Memory {
    /// Size in bytes, without the numbers.
    pub(super) fn bytes(&self) -> u64 {
        self.groups.iter().map(DrawnRows::bytes).sum()
    }
}

/// What is left to do for a batch.
pub(super) struct Open {
    /// Tasks that are ready or being done.
    pub(super) tasks: usize,
    pub(super) failed: Option<Fault>,
}

/// The levels of a batch.
#[derive(Default)]
struct Levels {
    /// Those of the set at hand.
    growing: Growing,
    /// The sets, of which so many are drawn.
    batch: RankBatch,
    sets: usize,
}

impl Running {
    /// A batch, in memory of an earlier one.
    pub(super) fn new(
        at: At,
        launch: u64,
        [seed, seeds]: [u64; 2],
        mut lists: UnderWay,
        memory: Memory,
    ) -> Self {
        let levels = Levels {
            growing: memory.growing,
            batch: std::mem::take(&mut lists.drawn),
            sets: 0,
        };
        Self {
            at,
            launch,
            began: Instant::now(),
            seed,
            seeds,
            drawn: RwLock::new(levels),
            groups: Mutex::new(memory.groups),
            left: AtomicUsize::new(0),
            lists: Mutex::new(lists),
            open: Mutex::new(Open {
                tasks: 1,
                failed: None,
            }),
        }
    }

    /// The batch, and memory for another one, once all is done.
    pub(super) fn take(&self) -> (UnderWay, Memory) {
        let memory = Memory {
            growing: std::mem::take(&mut self.write().growing),
            groups: std::mem::take(&mut *lock(&self.groups)),
        };
        (std::mem::take(&mut *lock(&self.lists)), memory)
    }

    fn read(&self) -> RwLockReadGuard<'_, Levels> {
        self.drawn.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Levels> {
        self.drawn.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this was the last of the tasks that others wait for.
    fn last(&self) -> bool {
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// The rows of a group among so many.
fn rows(group: usize, of: usize) -> Range<usize> {
    group * GRAIN..((group + 1) * GRAIN).min(of)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a thread needs to do tasks.
pub(crate) struct Tasks {
    of: Lister,
    sampler: TaskSampler<Arc<Topology>>,
}

impl Tasks {
    /// Draws the batches that `of` lists; `seed` is that of the run.
    ///
    /// # Errors
    /// Settings that do not fit the graph.
    pub(in crate::part) fn new(of: Lister, seed: u64) -> Result<Self, RuntimeError> {
        let rule = Rule::of(&of.sampling, seed)?;
        Ok(Self {
            sampler: TaskSampler::new(of.shared.edges.clone(), rule)?,
            of,
        })
    }

    pub(super) fn reseed(&mut self, seed: u64) {
        self.sampler.reseed(seed);
        self.of.seeds.reseed(seed);
    }

    /// Does a task; returns those that can be done now.
    ///
    /// # Errors
    /// Numbers that 32 bits do not hold.
    pub(super) fn run(&mut self, batch: &Running, task: Task) -> Result<Vec<Next>, Fault> {
        match task {
            Task::Seed => self.begin_set(batch, &mut batch.write()),
            Task::Draw { group } => self.draw(batch, group),
            Task::Number => self.number(batch),
            Task::List { set, layer } => Ok(self.list(batch, set, layer)),
            Task::End => self.end(batch),
        }
    }

    /// Begins the next set of seeds.
    fn begin_set(&mut self, batch: &Running, levels: &mut Levels) -> Result<Vec<Next>, Fault> {
        self.of.seeds.go_to(batch.at.epoch, batch.at.batch)?;
        let by_set = self.of.seeds.seeds_by_set();
        levels
            .batch
            .sets
            .resize_with(by_set.len(), RankSet::default);
        let Some(seeds) = by_set.get(levels.sets) else {
            return Ok(self.lists(batch, levels));
        };
        // The memory of an earlier batch.
        let blocks = &mut levels.batch.sets[levels.sets].blocks;
        levels.growing.swap(blocks);
        let all = self.of.seeds.seeds_of_all(batch.at.batch);
        self.sampler.begin(seeds, all, &mut levels.growing)?;
        Ok(self.draws(batch, &levels.growing))
    }

    /// The tasks of the next hop.
    fn draws(&self, batch: &Running, growing: &Growing) -> Vec<Next> {
        let all = growing.rows().unwrap_or(0);
        let groups = all.div_ceil(GRAIN);
        if groups == 0 {
            return vec![Next {
                cost: 0,
                task: Task::Number,
            }];
        }
        let mut memory = lock(&batch.groups);
        if memory.len() < groups {
            memory.resize_with(groups, DrawnRows::default);
        }
        batch.left.store(groups, Ordering::Release);
        let draw = |group| Next {
            cost: self.sampler.degrees(growing, rows(group, all)),
            task: Task::Draw { group },
        };
        (0..groups).map(draw).collect()
    }

    fn draw(&mut self, batch: &Running, group: usize) -> Result<Vec<Next>, Fault> {
        let levels = batch.read();
        let all = levels.growing.rows().unwrap_or(0);
        let mut drawn = std::mem::take(&mut lock(&batch.groups)[group]);
        let (growing, step) = (&levels.growing, batch.at.step);
        self.sampler
            .draw(growing, step, rows(group, all), &mut drawn)?;
        lock(&batch.groups)[group] = drawn;
        if !batch.last() {
            return Ok(Vec::new());
        }
        let groups = &lock(&batch.groups)[..all.div_ceil(GRAIN)];
        let edges = groups.iter().map(DrawnRows::edges).sum();
        Ok(vec![Next {
            cost: edges,
            task: Task::Number,
        }])
    }

    fn number(&mut self, batch: &Running) -> Result<Vec<Next>, Fault> {
        let mut levels = batch.write();
        let groups = levels.growing.rows().unwrap_or(0).div_ceil(GRAIN);
        let drawn = lock(&batch.groups);
        self.sampler
            .end_hop(&mut levels.growing, &drawn[..groups])?;
        drop(drawn);
        if levels.growing.rows().is_some() {
            return Ok(self.draws(batch, &levels.growing));
        }
        let Levels {
            growing,
            batch: drawn,
            sets,
        } = &mut *levels;
        growing.swap(&mut drawn.sets[*sets].blocks);
        *sets += 1;
        self.begin_set(batch, &mut levels)
    }

    /// The tasks once all sets are drawn.
    fn lists(&self, batch: &Running, levels: &Levels) -> Vec<Next> {
        let layers = self.of.read.ways.len();
        let sets = &levels.batch.sets;
        let mut lists = lock(&batch.lists);
        lists.layers.resize_with(sets.len(), Layers::default);
        for of_set in &mut lists.layers {
            of_set.resize_with(layers, Default::default);
        }
        let mut next = Vec::with_capacity(sets.len() * layers);
        for (set, drawn) in sets.iter().enumerate() {
            for layer in 0..layers.min(drawn.blocks.layers()) {
                let edges = drawn.blocks.layer(layer + 1).positions.len();
                next.push(Next {
                    cost: edges as u64,
                    task: Task::List { set, layer },
                });
            }
        }
        batch.left.store(next.len(), Ordering::Release);
        if next.is_empty() {
            next = end();
        }
        next
    }

    fn list(&self, batch: &Running, set: usize, layer: usize) -> Vec<Next> {
        let levels = batch.read();
        let mut edges = std::mem::take(&mut lock(&batch.lists).layers[set][layer]);
        let listed = Listed {
            edges: &self.of.shared.edges,
            sampling: &self.of.sampling,
        };
        let blocks = &levels.batch.sets[set].blocks;
        listed.list_into(blocks, layer + 1, &self.of.read.ways[layer], &mut edges);
        lock(&batch.lists).layers[set][layer] = edges;
        match batch.last() {
            true => end(),
            false => Vec::new(),
        }
    }

    fn end(&mut self, batch: &Running) -> Result<Vec<Next>, Fault> {
        self.of.seeds.go_to(batch.at.epoch, batch.at.batch)?;
        let drawn = std::mem::take(&mut batch.write().batch);
        let mut lists = lock(&batch.lists);
        lists.drawn = drawn;
        lists.sizes = self.of.seeds.count_rows(&mut lists.drawn);
        self.of.describe(batch.at, &mut lists);
        self.of.number(&mut lists);
        Ok(Vec::new())
    }
}

/// The last task.
fn end() -> Vec<Next> {
    vec![Next {
        cost: 0,
        task: Task::End,
    }]
}

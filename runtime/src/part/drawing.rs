//! Draws the batches of a rank: when it needs them, or ahead on threads of their own.
//!
//! Batches are functions of their place in the run, so threads draw different ones and share nothing
//! but the graph: no result depends on how many there are. While a rank trains a batch, each thread
//! draws one and has the next one asked for, as ByteGNN's samplers do (Zheng et al., PVLDB 2022,
//! section 4), with a fixed number of batches under way.

use super::sampled::{OfList, Sampled, sampler};
use super::under_way::UnderWay;
use super::walks::{LayerWays, Layers, Listed};
use crate::RuntimeError;
use crate::fault::Fault;
use gnnc_graph::Topology;
use gnnc_graph::sample::{At, Cached, RankSeeds, Sampler};
use gnnc_ir::words::sampling::Sampling;
use gnnc_ir::words::types::{Level, Of};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Batches that each thread is asked for at a time: one that it draws, and the next one.
const ASKED: usize = 2;

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
}

/// Draws batches one after another.
pub(super) struct Drawer {
    shared: Arc<Sampled>,
    sampler: Sampler<Arc<Topology>>,
    sampling: Sampling,
    seeds: RankSeeds,
    /// Rows of other ranks that the rank keeps.
    cached: Option<Arc<Cached>>,
    /// How edges are walked.
    ways: LayerWays,
    /// The level of which rows are fetched from other ranks.
    asks: Option<Level>,
}

/// Draws batches in their order.
pub(super) struct Drawing {
    /// Knows how many batches there are, and draws them if no other thread does.
    own: Drawer,
    threads: Vec<DrawingThread>,
    /// Batches that threads were asked for and that nobody took yet.
    asked: VecDeque<At>,
    /// Batches whose memory is used again.
    spare: Vec<UnderWay>,
    /// Bytes of the largest batch so far.
    largest: u64,
}

/// What a thread is asked to do.
enum Request {
    Draw(At, Box<UnderWay>),
    Reseed(u64),
}

/// A thread that draws.
struct DrawingThread {
    /// Closed to end the thread.
    requests: Option<Sender<Request>>,
    drawn: Receiver<Result<Box<UnderWay>, Fault>>,
    thread: Option<JoinHandle<()>>,
}

impl Drawer {
    /// For the batches of a list.
    ///
    /// # Errors
    /// Settings that do not fit the graph, such as no training vertices.
    pub(super) fn new(
        shared: &Arc<Sampled>,
        of: OfList,
        (ways, asks): (LayerWays, Option<Level>),
        cached: Option<&Arc<Cached>>,
        run: OfRun,
    ) -> Result<Self, RuntimeError> {
        let (sampling, partition) = (of.sampling, &shared.owners.partition);
        let threads = if run.samplers > 0 { 1 } else { run.threads };
        let seeds = shared.seeds(of.phase).to_vec();
        let seeds = RankSeeds::new(seeds, sampling, partition, run.rank, run.seed)?;
        Ok(Self {
            sampler: sampler(&shared.edges, sampling, run.seed, threads)?,
            sampling: sampling.clone(),
            shared: Arc::clone(shared),
            seeds: seeds.with_cache(cached),
            cached: cached.map(Arc::clone),
            ways,
            asks,
        })
    }

    fn reseed(&mut self, seed: u64) {
        self.sampler.reseed(seed);
        self.seeds.reseed(seed);
    }

    /// Draws a batch.
    fn draw(&mut self, at: At, batch: &mut UnderWay) -> Result<(), Fault> {
        batch.sizes = (self.seeds).draw(&mut self.sampler, at, &mut batch.drawn)?;
        (batch.number, batch.seeds) = (at.batch, self.seeds.of_all(at.batch));
        batch.of_epoch = self.seeds.used();
        batch.weight = self.shared.weight(&self.seeds, at.batch);
        if let Some(Level { number, of }) = self.asks
            && let Some(first) = batch.drawn.sets.first()
        {
            let level = usize::from(number);
            let vertices = match of {
                Of::Sets => batch.drawn.gathered.level(level),
                Of::One | Of::All | Of::Owned => first.blocks.level(level),
            };
            let kept = self.cached.as_deref();
            batch.asked.sort(vertices, &self.shared.owners, kept);
        }
        let edges = Listed {
            edges: &self.shared.edges,
            sampling: &self.sampling,
        };
        let sets = batch.drawn.sets.len();
        batch.layers.resize_with(sets, Layers::default);
        batch.distances.clear();
        for (number, layers) in batch.layers.iter_mut().enumerate() {
            edges.list(&batch.drawn.sets[number].blocks, &self.ways, layers);
            batch.distances.push(self.seeds.sets().distance(number));
        }
        Ok(())
    }
}

impl Drawing {
    /// With as many threads as `samplers`, each with a drawer of its own.
    ///
    /// # Errors
    /// As `drawer`, or if the system has no more threads.
    pub(super) fn new(
        drawer: impl Fn() -> Result<Drawer, RuntimeError>,
        samplers: usize,
    ) -> Result<Self, RuntimeError> {
        let threads = (0..samplers).map(|_| DrawingThread::new(drawer()?, samplers));
        Ok(Self {
            threads: threads.collect::<Result<_, _>>()?,
            own: drawer()?,
            asked: VecDeque::new(),
            spare: Vec::new(),
            largest: 0,
        })
    }

    /// Batches of an epoch.
    pub(super) fn count(&self) -> u32 {
        self.own.seeds.count()
    }

    /// Goes on with the batches of another run.
    pub(super) fn reseed(&mut self, seed: u64) {
        self.own.reseed(seed);
        self.forget();
        for thread in &self.threads {
            thread.ask(Request::Reseed(seed));
        }
    }

    /// Draws a batch.
    ///
    /// # Errors
    /// Numbers that 32 bits do not hold.
    pub(super) fn draw(&mut self, at: At, batch: &mut UnderWay) -> Result<(), Fault> {
        if self.threads.is_empty() {
            return self.own.draw(at, batch);
        }
        // An epoch that was interrupted leaves batches behind.
        if self.asked.front().is_some_and(|first| *first != at) {
            self.forget();
        }
        let asked = self.asked.len();
        let wanted = (asked as u32..).map_while(|n| at.ahead(n, self.count()));
        let most = 1 + ASKED * self.threads.len();
        for at in wanted.take(most.saturating_sub(asked)).collect::<Vec<_>>() {
            let spare = self.spare.pop().unwrap_or_default();
            self.thread(at).ask(Request::Draw(at, Box::new(spare)));
            self.asked.push_back(at);
        }
        self.asked.pop_front();
        let drawn = self.thread(at).take()?;
        self.largest = self.largest.max(drawn.bytes());
        self.spare.push(std::mem::replace(batch, *drawn));
        Ok(())
    }

    /// The thread that draws a batch.
    fn thread(&self, at: At) -> &DrawingThread {
        &self.threads[at.batch as usize % self.threads.len()]
    }

    /// Takes back all batches that were asked for.
    fn forget(&mut self) {
        while let Some(at) = self.asked.pop_front() {
            if let Ok(drawn) = self.thread(at).take() {
                self.spare.push(*drawn);
            }
        }
    }

    /// Bytes of drawers, each with `table` bytes, and of batches drawn ahead.
    pub(super) fn bytes(&self, table: u64) -> u64 {
        let drawers = 1 + self.threads.len() as u64;
        let spare: u64 = self.spare.iter().map(UnderWay::bytes).sum();
        table * drawers + spare + self.asked.len() as u64 * self.largest
    }
}

impl DrawingThread {
    fn new(mut drawer: Drawer, samplers: usize) -> Result<Self, RuntimeError> {
        let (requests, asked) = channel();
        let (answers, drawn) = channel();
        let work = move || {
            while let Ok(request) = asked.recv() {
                match request {
                    Request::Reseed(seed) => drawer.reseed(seed),
                    Request::Draw(at, mut batch) => {
                        let answer = drawer.draw(at, &mut batch).map(|()| batch);
                        if answers.send(answer).is_err() {
                            return;
                        }
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("sampler".to_owned());
        let thread = thread.spawn(work).map_err(|e| RuntimeError::Threads {
            count: samplers,
            reason: e.to_string(),
        })?;
        Ok(Self {
            requests: Some(requests),
            drawn,
            thread: Some(thread),
        })
    }

    /// A thread that ended says so when its batch is taken.
    fn ask(&self, request: Request) {
        if let Some(requests) = &self.requests {
            let _ = requests.send(request);
        }
    }

    fn take(&self) -> Result<Box<UnderWay>, Fault> {
        (self.drawn.recv()).map_err(|_| Fault::Missing("a thread that draws batches"))?
    }
}

impl Drop for DrawingThread {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

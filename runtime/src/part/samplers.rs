//! Threads that draw batches ahead, in the order of the batches.

use super::drawing::Drawer;
use super::under_way::UnderWay;
use crate::RuntimeError;
use crate::fault::Fault;
use crate::launch::{Launch, Launcher};
use gnnc_graph::sample::At;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// The threads of a rank.
pub(super) struct Samplers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Bytes of the largest batch so far.
    largest: u64,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    launcher: Launcher,
    /// The next batch to draw, if one of the epoch is left, of so many.
    next: Option<At>,
    count: u32,
    /// The batch that the rank is to take next; `None` before the first of an epoch.
    expected: Option<At>,
    /// Batches that threads draw.
    running: usize,
    /// Those that were drawn, by their numbers.
    ready: BTreeMap<u32, Result<UnderWay, Fault>>,
    /// Batches whose memory is used again.
    spare: Vec<UnderWay>,
    /// The seed of the run, if it is another one than at first, and how often it has changed.
    seed: u64,
    seeds: u64,
    /// Whether the rank waits for a batch that nobody draws.
    starves: bool,
    closed: bool,
}

/// A batch to draw.
struct Job {
    at: At,
    batch: UnderWay,
    seed: u64,
    seeds: u64,
}

impl Samplers {
    /// Starts so many threads, each with a drawer of its own.
    ///
    /// # Errors
    /// As `drawer`, or if the system has no more threads.
    pub(super) fn new(
        drawer: &impl Fn() -> Result<Drawer, RuntimeError>,
        threads: usize,
        launch: Launch,
    ) -> Result<Self, RuntimeError> {
        let state = State {
            launcher: Launcher::new(launch, threads),
            next: None,
            count: 0,
            expected: None,
            running: 0,
            ready: BTreeMap::new(),
            spare: Vec::new(),
            seed: 0,
            seeds: 0,
            starves: false,
            closed: false,
        };
        let mut samplers = Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: Condvar::new(),
            }),
            threads: Vec::new(),
            largest: 0,
        };
        for _ in 0..threads {
            let (drawer, shared) = (drawer()?, Arc::clone(&samplers.shared));
            let thread = std::thread::Builder::new().name("sampler".to_owned());
            let thread = thread.spawn(move || shared.work(drawer));
            let thread = thread.map_err(|e| RuntimeError::Threads {
                count: threads,
                reason: e.to_string(),
            })?;
            samplers.threads.push(thread);
        }
        Ok(samplers)
    }

    /// Goes on with the batches of another run.
    pub(super) fn reseed(&mut self, seed: u64) {
        let mut state = self.shared.reset();
        (state.seed, state.seeds) = (seed, state.seeds + 1);
    }

    /// Takes a batch, of so many of an epoch.
    ///
    /// # Errors
    /// As [`Drawer::draw`], or if a thread panicked.
    pub(super) fn take(&mut self, at: At, count: u32, batch: &mut UnderWay) -> Result<(), Fault> {
        let mut state = self.shared.lock();
        if state.expected != Some(at) {
            // An epoch begins. One that was interrupted leaves batches behind.
            drop(state);
            state = self.shared.reset();
            (state.next, state.count) = (Some(at), count);
        }
        state.expected = at.ahead(1, count);
        state.launcher.asked();
        let drawn = loop {
            if let Some(drawn) = state.ready.remove(&at.batch) {
                break drawn;
            }
            state.starves = state.running == 0;
            self.shared.changed.notify_all();
            state = self.shared.wait(state);
        };
        state.starves = false;
        state.launcher.taken();
        let drawn = drawn?;
        self.largest = self.largest.max(drawn.bytes());
        state.spare.push(std::mem::replace(batch, drawn));
        // There is room for another one.
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Bytes of drawers, each with `table` bytes, and of batches drawn ahead.
    pub(super) fn bytes(&self, table: u64) -> u64 {
        let state = self.shared.lock();
        let spare: u64 = state.spare.iter().map(UnderWay::bytes).sum();
        let under_way = (state.running + state.ready.len()) as u64;
        table * self.threads.len() as u64 + spare + under_way * self.largest
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no thread draws, and drops what they have drawn.
    fn reset(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        state.next = None;
        while state.running > 0 {
            state = self.wait(state);
        }
        let drawn = std::mem::take(&mut state.ready);
        state
            .spare
            .extend(drawn.into_values().filter_map(Result::ok));
        state.expected = None;
        state
    }

    /// Draws batches until the rank is gone.
    fn work(&self, mut drawer: Drawer) {
        let mut seeds = 0;
        while let Some(mut job) = self.job() {
            let began = Instant::now();
            if job.seeds != seeds {
                drawer.reseed(job.seed);
                seeds = job.seeds;
            }
            let draw = AssertUnwindSafe(|| drawer.draw(job.at, &mut job.batch));
            let drawn =
                catch_unwind(draw).unwrap_or(Err(Fault::Missing("a thread that draws batches")));
            let mut state = self.lock();
            state.launcher.drawn(began.elapsed().as_secs_f64());
            state.running -= 1;
            state.ready.insert(job.at.batch, drawn.map(|()| job.batch));
            self.changed.notify_all();
        }
    }

    /// Waits for the time to draw another batch; `None` when the rank is gone.
    fn job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(at) = state.next {
                let (running, waiting) = (state.running, state.ready.len());
                if state.starves || state.launcher.begins(running, waiting) {
                    state.next = at.ahead(1, state.count);
                    state.running += 1;
                    state.starves = false;
                    state.launcher.began();
                    return Some(Job {
                        at,
                        batch: state.spare.pop().unwrap_or_default(),
                        seed: state.seed,
                        seeds: state.seeds,
                    });
                }
            }
            state = match state.launcher.tick().filter(|_| state.next.is_some()) {
                None => self.wait(state),
                Some(tick) => {
                    let waited = self.changed.wait_timeout(state, tick);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

impl Drop for Samplers {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

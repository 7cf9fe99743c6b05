//! Threads that draw batches ahead, in tasks that they share (Zheng et al., ByteGNN, PVLDB 2022, section 4): the launcher
//! says when another batch is begun, and the threads do the tasks of the oldest batch first.

mod ready;
mod tasks;

pub(super) use self::tasks::Tasks;

use self::ready::Ready;
use self::tasks::{Memory, Next, Running, Task, lock};
use super::under_way::UnderWay;
use crate::RuntimeError;
use crate::fault::Fault;
use crate::launch::{Launch, Launcher};
use gnnc_graph::sample::At;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

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
    /// Batches that were begun, and those of them that threads draw.
    launched: u64,
    running: usize,
    /// The tasks that can be done.
    ready: Ready<Job>,
    /// Those that were drawn, by their numbers.
    drawn: BTreeMap<u32, Result<UnderWay, Fault>>,
    /// Batches whose memory is used again.
    spare: Vec<UnderWay>,
    memory: Vec<Memory>,
    /// The most bytes that a batch's groups have taken.
    hop: u64,
    /// The seed of the run, if it is another one than at first, and how often it has changed.
    seed: u64,
    seeds: u64,
    /// Whether the rank waits for a batch that nobody draws.
    starves: bool,
    closed: bool,
}

/// A task of a batch.
struct Job {
    batch: Arc<Running>,
    task: Task,
}

impl Samplers {
    /// Starts so many threads, which do tasks.
    ///
    /// # Errors
    /// As `tasks`, or if the system has no more threads.
    pub(super) fn new(
        tasks: &impl Fn() -> Result<Tasks, RuntimeError>,
        threads: usize,
        launch: Launch,
    ) -> Result<Self, RuntimeError> {
        let state = State {
            launcher: Launcher::new(launch, threads),
            next: None,
            count: 0,
            expected: None,
            launched: 0,
            running: 0,
            ready: Ready::new(),
            drawn: BTreeMap::new(),
            spare: Vec::new(),
            memory: Vec::new(),
            hop: 0,
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
            let (tasks, shared) = (tasks()?, Arc::clone(&samplers.shared));
            let thread = std::thread::Builder::new().name("sampler".to_owned());
            let thread = thread.spawn(move || shared.work(tasks));
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
    /// Numbers that 32 bits do not hold, or a thread that panicked.
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
            if let Some(drawn) = state.drawn.remove(&at.batch) {
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

    /// Bytes of the batches that are drawn, each with `table` bytes, and of those that were.
    pub(super) fn bytes(&self, table: u64) -> u64 {
        let state = self.shared.lock();
        let spare: u64 = state.spare.iter().map(UnderWay::bytes).sum();
        let under_way = (state.running + state.drawn.len()) as u64;
        let tables = (state.running + state.memory.len()) as u64;
        (table + state.hop) * tables + spare + under_way * self.largest
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
        let drawn = std::mem::take(&mut state.drawn);
        state
            .spare
            .extend(drawn.into_values().filter_map(Result::ok));
        state.expected = None;
        state
    }

    /// Does tasks until the rank is gone.
    fn work(&self, mut tasks: Tasks) {
        let mut seeds = 0;
        while let Some(Job { batch, task }) = self.job() {
            if batch.seeds != seeds {
                tasks.reseed(batch.seed);
                seeds = batch.seeds;
            }
            let has_failed = lock(&batch.open).failed.is_some();
            let done = match has_failed {
                true => Ok(Vec::new()),
                false => catch_unwind(AssertUnwindSafe(|| tasks.run(&batch, task)))
                    .unwrap_or(Err(Fault::Missing("a thread that draws batches"))),
            };
            self.done(&batch, done);
        }
    }

    /// Waits for a task; `None` when the rank is gone.
    fn job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.ready.take() {
                return Some(job);
            }
            // Tasks of another batch would only wait behind those of the batches that are drawn.
            if let Some(at) = state.next {
                let (running, waiting) = (state.running, state.drawn.len());
                if state.starves || state.launcher.begins(running, waiting) {
                    return Some(state.launch(at));
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

    /// A task is done, and others can be; or the batch is drawn.
    fn done(&self, batch: &Arc<Running>, done: Result<Vec<Next>, Fault>) {
        let mut state = self.lock();
        let mut open = lock(&batch.open);
        open.tasks -= 1;
        let mut others = false;
        match done {
            Ok(next) => {
                others = !next.is_empty();
                open.tasks += next.len();
                for Next { cost, task } in next {
                    let batch = Arc::clone(batch);
                    state.ready.add(batch.launch, cost, Job { batch, task });
                }
            }
            Err(fault) => {
                open.failed.get_or_insert(fault);
            }
        }
        if open.tasks == 0 {
            let (lists, memory) = batch.take();
            state.hop = state.hop.max(memory.bytes());
            state.memory.push(memory);
            let drawn = match open.failed.take() {
                None => Ok(lists),
                Some(fault) => Err(fault),
            };
            let seconds = batch.began.elapsed().as_secs_f64();
            state.launcher.drawn(seconds);
            state.running -= 1;
            state.drawn.insert(batch.at.batch, drawn);
        }
        if others || open.tasks == 0 {
            self.changed.notify_all();
        }
    }
}

impl State {
    /// Begins a batch.
    fn launch(&mut self, at: At) -> Job {
        self.next = at.ahead(1, self.count);
        self.running += 1;
        self.starves = false;
        self.launcher.began();
        self.launched += 1;
        let lists = self.spare.pop().unwrap_or_default();
        let memory = self.memory.pop().unwrap_or_default();
        let seeds = [self.seed, self.seeds];
        Job {
            batch: Arc::new(Running::new(at, self.launched, seeds, lists, memory)),
            task: Task::Seed,
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

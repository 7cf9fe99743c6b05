//! A session's interface to its ranks, and its implementation by CPU threads.

use crate::RuntimeError;
use crate::error::Failure;
use crate::executor::Worker;
use crate::fault::Fault;
use crate::rank::Rank;
use crate::step_context::StepContext;
use crate::transport::TransportError;
use crate::transport::mpi::World;
use crate::words::{bytes, words};
use gnnc_ir::program::BufferId;
use gnnc_ir::program::trace::Phase;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A job for a rank.
type Job = (Phase, StepContext);

/// The ranks of a session, wherever they run.
pub(crate) trait RankSet: Send {
    /// Runs an instruction list on all ranks and waits for them.
    ///
    /// # Errors
    /// The first failure, in this call and in all later ones.
    fn run(&mut self, phase: Phase, step_context: StepContext) -> Result<(), Failure>;

    /// Visits the ranks of this process, in order, between runs.
    fn each(&self, visit: &mut dyn FnMut(&mut dyn AtRest));

    /// Broadcasts `floats` from rank `from` to all processes. Collective; called between runs. Does
    /// nothing if every rank is in this process.
    ///
    /// # Errors
    /// If a device or a connection fails.
    fn tell(&self, from: u32, floats: &mut [f32]) -> Result<(), Failure>;

    /// The first rank of each process.
    fn leaders(&self) -> Vec<u32>;
}

/// A rank between runs.
pub(crate) trait AtRest {
    /// Everything but its memory.
    fn rank(&mut self) -> &mut Rank;

    /// The floats of a buffer, all slots.
    ///
    /// # Errors
    /// If they cannot be copied from the device.
    fn read(&mut self, id: BufferId) -> Result<Vec<f32>, Failure>;

    /// Writes all floats of a buffer.
    ///
    /// # Errors
    /// If they cannot be copied to the device.
    fn write(&mut self, id: BufferId, floats: &[f32]) -> Result<(), Failure>;

    /// Payload bytes sent so far.
    fn bytes_sent(&self) -> u64;

    /// Bytes of memory in use.
    fn memory_bytes(&self) -> u64;
}

impl dyn RankSet + '_ {
    /// Visits the ranks until a visit fails.
    ///
    /// # Errors
    /// The first failure.
    pub(crate) fn try_each(
        &self,
        mut visit: impl FnMut(&mut dyn AtRest) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut outcome = Ok(());
        self.each(&mut |rank| {
            if outcome.is_ok() {
                outcome = visit(rank);
            }
        });
        outcome
    }

    /// Whether this process has rank 0.
    pub(crate) fn leads(&self) -> bool {
        self.map(|rank| rank.rank().number).first() == Some(&0)
    }

    /// What each process knows, in the order of their ranks. Collective.
    ///
    /// # Errors
    /// As [`RankSet::tell`].
    pub(crate) fn gather<T: Serialize + DeserializeOwned>(
        &self,
        own: T,
    ) -> Result<Vec<T>, Failure> {
        let leaders = self.leaders();
        if leaders.len() < 2 {
            return Ok(vec![own]);
        }
        let first = self.map(|rank| rank.rank().number).first().copied();
        let unread = |error: serde_json::Error| Failure {
            rank: first.unwrap_or(0),
            instruction: "an exchange between two lists of instructions".to_owned(),
            reason: error.to_string(),
        };
        let said = serde_json::to_vec(&own).map_err(unread)?;
        let mut all = Vec::with_capacity(leaders.len());
        for leader in leaders {
            let own = Some(leader) == first;
            let mut length = [f32::from_bits(if own { said.len() as u32 } else { 0 })];
            self.tell(leader, &mut length)?;
            let length = length[0].to_bits() as usize;
            let mut told = match own {
                true => words(&said),
                false => vec![0.0; length.div_ceil(4)],
            };
            self.tell(leader, &mut told)?;
            all.push(serde_json::from_slice(&bytes(&told, length)).map_err(unread)?);
        }
        Ok(all)
    }

    /// Joins floats of which each process has some, and zeros elsewhere; where several have one, it is the same.
    /// Collective.
    ///
    /// # Errors
    /// As [`RankSet::tell`].
    pub(crate) fn unite(&self, floats: &mut [f32]) -> Result<(), Failure> {
        let leaders = self.leaders();
        if leaders.len() < 2 {
            return Ok(());
        }
        let own = floats.to_vec();
        for leader in leaders {
            let mut told = own.clone();
            self.tell(leader, &mut told)?;
            for (float, told) in floats.iter_mut().zip(told) {
                *float = f32::from_bits(float.to_bits() | told.to_bits());
            }
        }
        Ok(())
    }

    /// Collects the function's result for each rank, in order.
    pub(crate) fn map<T>(&self, mut of: impl FnMut(&mut dyn AtRest) -> T) -> Vec<T> {
        let mut found = Vec::new();
        self.each(&mut |rank| found.push(of(rank)));
        found
    }
}

impl AtRest for Worker {
    fn rank(&mut self) -> &mut Rank {
        &mut self.own
    }

    fn read(&mut self, id: BufferId) -> Result<Vec<f32>, Failure> {
        // SAFETY: the rank is locked and not running.
        let words = unsafe { self.buffer(id).read() }.to_vec();
        Ok(self.own.unpacked(id, words))
    }

    fn write(&mut self, id: BufferId, floats: &[f32]) -> Result<(), Failure> {
        let words = self.own.packed(id, floats);
        // SAFETY: the rank is locked and not running.
        unsafe { self.buffer(id).write() }.copy_from_slice(&words);
        Ok(())
    }

    fn bytes_sent(&self) -> u64 {
        self.transport.bytes_sent()
    }

    fn memory_bytes(&self) -> u64 {
        Worker::memory_bytes(self)
    }
}

/// Ranks on the CPU. Each has its own thread, which lives as long as this set; a single rank runs
/// on the calling thread.
pub(crate) struct Workers {
    ranks: Vec<Arc<Mutex<Worker>>>,
    workers: Vec<(Sender<Job>, JoinHandle<()>)>,
    done: Receiver<Result<(), Failure>>,
    failed: Option<Failure>,
    /// The processes of the run, if there are several.
    world: Option<Arc<World>>,
}

impl Workers {
    /// Starts the threads of the ranks of this process.
    pub(crate) fn new(ranks: Vec<Worker>, world: Option<Arc<World>>) -> Result<Self, RuntimeError> {
        let ranks: Vec<_> = ranks
            .into_iter()
            .map(|rank| Arc::new(Mutex::new(rank)))
            .collect();
        let (report, done) = channel();
        let mut rank_set = Self {
            ranks,
            workers: Vec::new(),
            done,
            failed: None,
            world,
        };
        if rank_set.ranks.len() == 1 {
            return Ok(rank_set);
        }
        for (n, rank) in rank_set.ranks.iter().enumerate() {
            let (jobs, inbox) = channel::<Job>();
            let (rank, report) = (Arc::clone(rank), report.clone());
            let work = move || {
                // Ends when the set drops its end of the channel, or stops listening.
                while let Ok(job) = inbox.recv() {
                    if report.send(run(&rank, job)).is_err() {
                        break;
                    }
                }
            };
            let thread = std::thread::Builder::new()
                .name(format!("rank {n}"))
                .spawn(work)
                .map_err(|e| RuntimeError::Threads {
                    count: rank_set.ranks.len(),
                    reason: e.to_string(),
                })?;
            rank_set.workers.push((jobs, thread));
        }
        Ok(rank_set)
    }
}

impl RankSet for Workers {
    fn run(&mut self, phase: Phase, step_context: StepContext) -> Result<(), Failure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        let gone = |rank: usize| Failure {
            rank: rank as u32,
            instruction: phase.to_string(),
            reason: "its thread ended".to_owned(),
        };
        let mut first = None;
        if self.workers.is_empty() {
            first = self
                .ranks
                .iter()
                .find_map(|rank| run(rank, (phase, step_context)).err());
        }
        let mut started = 0;
        for (n, (jobs, _)) in self.workers.iter().enumerate() {
            match jobs.send((phase, step_context)) {
                Ok(()) => started += 1,
                Err(_) => {
                    let failure = gone(n);
                    lock(&self.ranks[n]).transport.abort(failure.clone());
                    first.get_or_insert(failure);
                }
            }
        }
        for n in 0..started {
            let result = self.done.recv().unwrap_or_else(|_| Err(gone(n)));
            if let Err(failure) = result {
                first.get_or_insert(failure);
            }
        }
        self.failed = first.clone();
        first.map_or(Ok(()), Err)
    }

    fn each(&self, visit: &mut dyn FnMut(&mut dyn AtRest)) {
        self.ranks.iter().for_each(|rank| visit(&mut *lock(rank)));
    }

    fn tell(&self, from: u32, floats: &mut [f32]) -> Result<(), Failure> {
        let Some(world) = &self.world else {
            return Ok(());
        };
        let number = self.ranks.first().map_or(0, |rank| lock(rank).own.number);
        world.tell(from, floats).map_err(|error| match error {
            TransportError::Aborted(failure) => failure,
            error => Failure {
                rank: number,
                instruction: "an exchange between two lists of instructions".to_owned(),
                reason: error.to_string(),
            },
        })
    }

    fn leaders(&self) -> Vec<u32> {
        self.world.as_ref().map_or(vec![0], |world| world.leaders())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for (jobs, thread) in self.workers.drain(..) {
            drop(jobs);
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Runs a job on a rank. Any failure stops the other ranks; all report the first one.
fn run(rank: &Mutex<Worker>, (phase, step_context): Job) -> Result<(), Failure> {
    let mut rank = lock(rank);
    let rank = &mut *rank;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // The team must outlive its work's borrow of the rank.
        let team = Arc::clone(&rank.team);
        team.enter(|| rank.run(phase, &step_context))
    }));
    let failure = match outcome {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(Fault::Transport(TransportError::Aborted(failure)))) => return Err(failure),
        Ok(Err(Fault::Transport(lost @ TransportError::Gone { .. }))) => {
            let epoch = step_context.epoch + 1;
            rank.own.failure(format!("in epoch {epoch}, {lost}"))
        }
        Ok(Err(fault)) => rank.own.failure(fault.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            rank.own
                .failure(format!("panicked: {}", text.unwrap_or("without a message")))
        }
    };
    rank.transport.abort(failure.clone());
    Err(failure)
}

fn lock(rank: &Mutex<Worker>) -> MutexGuard<'_, Worker> {
    rank.lock().unwrap_or_else(PoisonError::into_inner)
}

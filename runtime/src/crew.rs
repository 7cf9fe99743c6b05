//! The threads that ranks run on.

use crate::RuntimeError;
use crate::error::Failure;
use crate::executor::{Fault, Rank};
use crate::moment::Moment;
use crate::transport::TransportError;
use gnnc_ir::trace::Phase;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// What a rank is told to do.
type Job = (Phase, Moment);

/// All ranks. Each has a thread of its own that lives as long as the crew; a single rank
/// runs on the calling thread.
pub(crate) struct Crew {
    ranks: Vec<Arc<Mutex<Rank>>>,
    workers: Vec<(Sender<Job>, JoinHandle<()>)>,
    done: Receiver<Result<(), Failure>>,
    failed: Option<Failure>,
}

impl Crew {
    /// Starts the threads.
    pub(crate) fn new(ranks: Vec<Rank>) -> Result<Self, RuntimeError> {
        let ranks: Vec<_> = ranks
            .into_iter()
            .map(|rank| Arc::new(Mutex::new(rank)))
            .collect();
        let (report, done) = channel();
        let mut crew = Self {
            ranks,
            workers: Vec::new(),
            done,
            failed: None,
        };
        if crew.ranks.len() == 1 {
            return Ok(crew);
        }
        for (n, rank) in crew.ranks.iter().enumerate() {
            let (jobs, inbox) = channel::<Job>();
            let (rank, report) = (Arc::clone(rank), report.clone());
            let work = move || {
                // Ends when the crew drops its end, or nobody listens.
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
                    count: crew.ranks.len(),
                    reason: e.to_string(),
                })?;
            crew.workers.push((jobs, thread));
        }
        Ok(crew)
    }

    /// Runs an instruction list on all ranks and waits for them.
    ///
    /// # Errors
    /// The first failure, now and in all later calls.
    pub(crate) fn run(&mut self, phase: Phase, moment: Moment) -> Result<(), Failure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        let gone = |rank: usize| Failure {
            rank: rank as u32,
            instruction: phase.to_string(),
            reason: "its thread is gone".to_owned(),
        };
        let mut first = None;
        if self.workers.is_empty() {
            first = self
                .ranks
                .iter()
                .find_map(|rank| run(rank, (phase, moment)).err());
        }
        let mut started = 0;
        for (n, (jobs, _)) in self.workers.iter().enumerate() {
            match jobs.send((phase, moment)) {
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

    /// The ranks, to look at between runs.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = MutexGuard<'_, Rank>> {
        self.ranks.iter().map(|rank| lock(rank))
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for (jobs, thread) in self.workers.drain(..) {
            drop(jobs);
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Runs a job on a rank. A failure of any kind stops the other ranks; all report the first one.
fn run(rank: &Mutex<Rank>, (phase, moment): Job) -> Result<(), Failure> {
    let mut rank = lock(rank);
    let rank = &mut *rank;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        // The team must outlive the borrow of the rank that its work takes.
        let team = Arc::clone(&rank.team);
        team.enter(|| rank.run(phase, &moment))
    }));
    let failure = match outcome {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(Fault::Transport(TransportError::Aborted(failure)))) => return Err(failure),
        Ok(Err(fault)) => rank.failure(fault.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            rank.failure(format!("panicked: {}", text.unwrap_or("without a message")))
        }
    };
    rank.transport.abort(failure.clone());
    Err(failure)
}

fn lock(rank: &Mutex<Rank>) -> MutexGuard<'_, Rank> {
    rank.lock().unwrap_or_else(PoisonError::into_inner)
}

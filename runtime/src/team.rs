//! The threads of one rank.

use crate::RuntimeError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Float accesses below which handing work to other threads takes longer than doing it.
const SMALL: u64 = 48 * 1024;

/// The threads of one rank. How work is cut into pieces never depends on their number.
pub(crate) struct Team {
    pool: Option<rayon::ThreadPool>,
    threads: usize,
}

impl Team {
    /// A team of `threads` threads; one thread means the calling one.
    pub(crate) fn new(rank: u32, threads: usize) -> Result<Self, RuntimeError> {
        let threads = threads.max(1);
        let refused = |e: rayon::ThreadPoolBuildError| RuntimeError::Threads {
            count: threads,
            reason: e.to_string(),
        };
        let pool = match threads {
            1 => None,
            _ => Some(
                rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .thread_name(move |i| format!("rank {rank} thread {i}"))
                    .build()
                    .map_err(refused)?,
            ),
        };
        Ok(Self { pool, threads })
    }

    /// Runs `work` on a thread of the team, from where [`Self::each`] is quick.
    pub(crate) fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(work),
            None => work(),
        }
    }

    /// Runs `piece` for every number below `pieces`, in any order; at once if there are
    /// several threads and `accesses` floats to touch are worth it.
    pub(crate) fn each(&self, pieces: usize, accesses: u64, piece: impl Fn(usize) + Sync) {
        match &self.pool {
            Some(pool) if pieces > 1 && accesses >= SMALL => {
                let next = AtomicUsize::new(0);
                let work = || loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= pieces {
                        break;
                    }
                    piece(i);
                };
                pool.scope(|scope| {
                    for _ in 1..self.threads.min(pieces) {
                        scope.spawn(|_| work());
                    }
                    work();
                });
            }
            _ => (0..pieces).for_each(piece),
        }
    }
}

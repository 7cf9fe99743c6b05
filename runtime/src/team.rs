//! The threads of one rank.
//!
//! They flush subnormal numbers to zero: a processor takes a hundred times as long for each of
//! those, and a model that has learned its training vertices has many, in the gradient of its loss
//! and everything computed from it.

use crate::RuntimeError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Float accesses below which handing work to other threads takes longer than doing it.
const SMALL: u64 = 48 * 1024;

/// Does `work` with floats below the smallest normal one (1.2e-38) read and written as zero.
fn flushed<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the compiler may assume exact results for floats it can compute itself. This runs
    // only generated kernels and loops over run-time numbers. The thread's mode is restored when
    // this returns or unwinds.
    unsafe { no_denormals::no_denormals(work) }
}

/// The threads of one rank. Their number never affects how work is cut into pieces.
pub(crate) struct Team {
    pool: Option<rayon::ThreadPool>,
    threads: usize,
}

impl Team {
    /// A team of `threads` threads; a single thread is the calling one.
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

    /// Number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `work` on a thread of the team, where [`Self::each`] is fast.
    pub(crate) fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.pool {
            Some(pool) => pool.install(|| flushed(work)),
            None => flushed(work),
        }
    }

    /// Runs `piece` for every number below `pieces`, in any order; in parallel if there are several
    /// threads and enough `accesses` to floats.
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
                        scope.spawn(|_| flushed(work));
                    }
                    work();
                });
            }
            _ => (0..pieces).for_each(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn what_is_too_small_for_a_normal_float_is_zero_on_all_threads() {
        let product = || black_box(1e-30f32) * black_box(1e-10f32);
        for threads in [1, 3] {
            let team = Team::new(0, threads).unwrap();
            let (zeros, others) = (AtomicU32::new(0), AtomicU32::new(0));
            let piece = |_| {
                let counter = if product() == 0.0 { &zeros } else { &others };
                counter.fetch_add(1, Ordering::Relaxed);
                // Long enough for the other threads to take their share.
                std::thread::sleep(std::time::Duration::from_millis(2));
            };
            team.enter(|| team.each(30, SMALL, piece));
            assert_eq!((zeros.into_inner(), others.into_inner()), (30, 0));
            assert!(product() > 0.0, "the calling thread is as it was");
        }
    }
}

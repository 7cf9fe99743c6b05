//! The threads of one rank.
//!
//! On them numbers too small for a normal float are zero: a processor takes a hundred times as long for each of those, and
//! a model that has learnt its training vertices has many, in the gradient of its loss and all that follows from it.

use crate::RuntimeError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Float accesses below which handing work to other threads takes longer than doing it.
const SMALL: u64 = 48 * 1024;

/// Does `work` with floats below the smallest normal one (1.2e-38) read and written as zero.
fn flushed<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: the compiler may take floats that it knows to be computed exactly; what runs here are generated
    // kernels and loops over numbers that only a run knows. The thread is as before when this returns or unwinds.
    unsafe { no_denormals::no_denormals(work) }
}

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
            Some(pool) => pool.install(|| flushed(work)),
            None => flushed(work),
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

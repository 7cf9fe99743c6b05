//! The threads of a search.

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::OnceLock;

/// Bytes of a thread's stack, as many as the first thread of a process usually has: lowering follows chains of operators.
const STACK: usize = 8 << 20;

/// As many threads as rayon takes, one for each core unless `RAYON_NUM_THREADS` says otherwise; `None` if the machine
/// refuses them. Rayon's global pool would panic instead.
fn pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| ThreadPoolBuilder::new().stack_size(STACK).build().ok());
    pool.as_ref()
}

/// How many items [`each`] works on at a time.
pub(super) fn count() -> usize {
    pool().map_or(1, ThreadPool::current_num_threads)
}

/// What a function makes of each item, in their order. It runs on several threads, or one item after another if the
/// machine refuses threads.
pub(super) fn each<T: Send, R: Send>(items: Vec<T>, of: impl Fn(T) -> R + Send + Sync) -> Vec<R> {
    match pool() {
        Some(pool) => pool.install(|| items.into_par_iter().map(of).collect()),
        None => items.into_iter().map(of).collect(),
    }
}

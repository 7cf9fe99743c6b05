//! How a session runs.

use crate::stop::Stop;
use gnnc_codegen::cache::Cache;
use gnnc_codegen::cuda::schedule::HUB_EDGES;

/// How to run a program.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Keys start values and dropout.
    pub seed: u64,
    /// Learning rate of the optimizer; see also [`crate::Session::set_learning_rate`].
    pub learning_rate: f64,
    /// Threads of each rank, at least 1.
    pub threads_per_rank: usize,
    /// Where compiled kernels are kept; `None` keeps none.
    pub cache: Option<Cache>,
    /// Whether every instruction's begin and end are written down.
    pub trace: bool,
    /// Whether generated kernels compare each access with the bounds of what they access, and a rank fails at the first
    /// that is outside: slow, for tests, and on the processor only.
    pub checked: bool,
    /// What the model is, for checkpoints: one of another model is refused. Empty for unknown.
    pub model: String,
    /// What checkpoints know the programs by ([`crate::Programs::hash`]): that of those before some of their tensors
    /// rested on the host, which is the same under every budget. `None` for the programs as they are.
    pub program: Option<u64>,
    /// Bytes of memory that the buffers of all ranks together may take; `None` for what the
    /// machine has left.
    pub memory_limit: Option<u64>,
    /// By what the run is asked to stop; only ranks on the processor look for it within an epoch.
    pub stop: Stop,
    /// Edges from which a GPU gives a row to several blocks.
    pub hub_edges: u64,
}

impl Default for RunOptions {
    /// Seed 0, learning rate 0.01, one thread a rank, no cache, no trace, no checks, the machine's memory.
    fn default() -> Self {
        Self {
            seed: 0,
            learning_rate: 0.01,
            threads_per_rank: 1,
            cache: None,
            trace: false,
            checked: false,
            model: String::new(),
            program: None,
            memory_limit: None,
            stop: Stop::default(),
            hub_edges: HUB_EDGES,
        }
    }
}

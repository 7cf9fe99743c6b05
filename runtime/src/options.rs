//! Options of a session.

use crate::launch::Launch;
use crate::stop::Stop;
use gnnc_codegen::cuda::schedule::HUB_EDGES;
use gnnc_files::Cache;
use gnnc_graph::parts::Parts;
use std::fmt;
use std::sync::Arc;

/// A function that is called after each batch of an epoch, with the number of batches done and of all.
/// It should return quickly, as a rank waits for it.
#[derive(Clone)]
pub struct OnBatch(Arc<dyn Fn(u32, u32) + Send + Sync>);

impl OnBatch {
    /// Calls `told`, from the thread of a rank.
    pub fn new(told: impl Fn(u32, u32) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    pub(crate) fn tell(&self, done: u32, all: u32) {
        (self.0)(done, all);
    }
}

impl fmt::Debug for OnBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnBatch")
    }
}

/// How to run a program.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Seed of initial values and dropout.
    pub seed: u64,
    /// Learning rate of the optimizer; see also [`crate::Session::set_learning_rate`].
    pub learning_rate: f64,
    /// Threads of each rank, at least 1.
    pub threads_per_rank: usize,
    /// Threads of each rank on the processor that draw batches ahead; with none, the rank draws
    /// each batch when it needs it.
    pub samplers: usize,
    /// When these threads begin another batch.
    pub launch: Launch,
    /// Cache of compiled kernels, if any.
    pub cache: Option<Cache>,
    /// Whether to record the begin and end of every instruction.
    pub trace: bool,
    /// Whether generated kernels check the bounds of each access; a rank fails at the first
    /// violation. Slow, for tests, CPU only.
    pub checked: bool,
    /// The model's name in checkpoints; checkpoints of other models are refused. Empty if unknown.
    pub model: String,
    /// Program hash stored in checkpoints ([`crate::Programs::hash`]), taken before offloading, so
    /// that it is the same under every memory budget. `None` hashes the programs as they are.
    pub program: Option<u64>,
    /// The folder that ranks read their parts of the edges from; without one, the graph has them.
    pub parts: Option<Arc<Parts>>,
    /// Most bytes for the buffers of all ranks together; `None` means the machine's available
    /// memory.
    pub memory_limit: Option<u64>,
    /// Requests the run to stop; only CPU ranks check it within an epoch.
    pub stop: Stop,
    /// Called after each batch of an epoch.
    pub on_batch: Option<OnBatch>,
    /// Edges from which a GPU splits a row over several blocks.
    pub hub_edges: u64,
}

impl Default for RunOptions {
    /// Seed 0, learning rate 0.01, one thread per rank, which draws its batches, no cache, no trace, no checks, the
    /// machine's available memory.
    fn default() -> Self {
        Self {
            seed: 0,
            learning_rate: 0.01,
            threads_per_rank: 1,
            samplers: 0,
            launch: Launch::Fixed,
            cache: None,
            trace: false,
            checked: false,
            model: String::new(),
            program: None,
            parts: None,
            memory_limit: None,
            stop: Stop::default(),
            on_batch: None,
            hub_edges: HUB_EDGES,
        }
    }
}

//! Errors of running programs.

mod world;

pub use world::WorldError;

use gnnc_graph::sample::SampleError;
use gnnc_ir::program::{Capacity, Program, Role};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::words::units::Bytes;
use std::fmt;
use std::path::PathBuf;

/// Why a session could not start or continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The program is inconsistent, or does not fit the data or the partition.
    #[error("this program cannot run on this data: {0}")]
    Program(String),
    /// The data graph lacks something the program reads.
    #[error("the graph `{graph}` has {found}, expected {expected}")]
    Data {
        /// Name of the graph.
        graph: String,
        /// What is there.
        found: String,
        /// What the program needs.
        expected: String,
    },
    /// The data graph and the partition do not fit each other.
    #[error(transparent)]
    Graph(#[from] gnnc_graph::GraphError),
    /// Batches cannot be drawn as the program says.
    #[error("{}", sampling(.0))]
    Sampling(#[from] gnnc_graph::sample::SampleError),
    /// A kernel failed to compile.
    #[error("kernel {kernel} does not compile: {source}")]
    Kernel {
        /// Its number in the program.
        kernel: usize,
        /// Why.
        source: gnnc_codegen::CodegenError,
    },
    /// The system refused memory.
    #[error(
        "rank {rank} needs {} of memory, which the system refused ({source}); make the model smaller, or raise the limit of this process (`ulimit -v`)",
        Bytes(*bytes)
    )]
    Memory {
        /// The rank.
        rank: u32,
        /// Bytes requested.
        bytes: u64,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The ranks together need more memory than this machine has left.
    #[error(
        "the run needs {} of memory ({ranks} {}), but this machine has {} available; use smaller model parameters (`--set`), fewer layers or fewer features, or free memory (more workers do not help, since they share it){copies}",
        Bytes(*needed), if *ranks == 1 { "worker" } else { "workers" }, Bytes(*available)
    )]
    MachineMemory {
        /// Number of ranks.
        ranks: usize,
        /// Bytes of the buffers of all ranks.
        needed: u64,
        /// Bytes available.
        available: u64,
        /// The part of it taken by rows of earlier epochs.
        copies: Copies,
    },
    /// The system refused threads.
    #[error(
        "cannot start {} ({reason}); use fewer ranks, or fewer threads per rank",
        counted(count, "thread")
    )]
    Threads {
        /// Number of threads requested.
        count: usize,
        /// The system's answer.
        reason: String,
    },
    /// Processes that train together could not join, or lost each other.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A GPU refused something before the first epoch.
    #[error(transparent)]
    Device(#[from] DriverError),
    /// The run was asked to stop and abandoned the current epoch. The state that checkpoints hold
    /// is that before the epoch; the session cannot run any further.
    #[error("the run was asked to stop")]
    Stopped,
    /// A rank failed, which stopped all ranks.
    #[error(transparent)]
    Rank(#[from] Failure),
    /// Parameters that do not fit the model.
    #[error("{what} does not fit this model: found {found}, expected {expected}")]
    Parameters {
        /// The tensor, or the list of tensors.
        what: String,
        /// What was passed in.
        found: String,
        /// What the model has.
        expected: String,
    },
    /// A file could not be read or written.
    #[error("cannot {action} `{}`: {source}; {help}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
        /// A remedy.
        help: &'static str,
    },
    /// The file is not a checkpoint of this model.
    #[error("`{}` cannot be used: {reason}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// The first failure of a run. It stopped all ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "rank {rank} failed at {instruction}: {reason}; the run ended, resume from the last checkpoint"
)]
pub struct Failure {
    /// The rank where it happened.
    pub rank: u32,
    /// The instruction, as `step 3.1 (halo-exchange)`: its position in `setup`, `step` or `eval`,
    /// through loop bodies.
    pub instruction: String,
    /// What happened.
    pub reason: String,
}

/// Why a device call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// A library or a device is missing: says which, where it was looked for, and what to do.
    #[error("{0}")]
    Missing(String),
    /// Device memory does not suffice.
    #[error(
        "the device lacks memory for {bytes} more bytes ({free} are free); use more ranks, or a smaller model"
    )]
    Memory {
        /// Bytes requested.
        bytes: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The host lacks memory that the device can copy to and from directly.
    #[error(
        "the host refused {bytes} bytes of memory for tensors offloaded from the device ({message}); use more ranks, \
         a smaller model, or raise the limit of locked memory (`ulimit -l`)"
    )]
    HostMemory {
        /// Bytes requested.
        bytes: u64,
        /// The driver's message.
        message: String,
    },
    /// A call failed.
    #[error("{call} failed: {message}")]
    Call {
        /// The function.
        call: &'static str,
        /// The library's message.
        message: String,
    },
    /// Generated code does not compile, which is a defect.
    #[error("{0}")]
    Code(String),
}

/// Why batches cannot be drawn, in the words of a training run.
fn sampling(error: &SampleError) -> String {
    match error {
        SampleError::NoSeeds => {
            "the graph has no training vertices, so there are no batches to train on; \
             give it a training mask, or a `split`"
                .to_owned()
        }
        other => other.to_string(),
    }
}

/// Bytes of rows of earlier epochs by tensor, over all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copies(Vec<(String, u64)>);

impl Copies {
    pub(crate) fn add(&mut self, program: &Program, capacity: &Capacity) {
        let kept = program.buffers.iter();
        for buffer in kept.filter(|b| matches!(b.role, Role::History(_))) {
            let bytes = buffer.words(capacity).saturating_mul(4);
            match self.0.iter_mut().find(|(name, _)| *name == buffer.name) {
                Some((_, sum)) => *sum = sum.saturating_add(bytes),
                None => self.0.push((buffer.name.clone(), bytes)),
            }
        }
    }
}

impl fmt::Display for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (name, bytes)) in self.0.iter().enumerate() {
            let before = match n {
                0 => "; rows of earlier epochs take",
                _ => ",",
            };
            write!(f, "{before} {} for `{name}`", Bytes(*bytes))?;
        }
        Ok(())
    }
}

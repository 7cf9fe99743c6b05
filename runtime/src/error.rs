//! What can go wrong while a program runs.

use gnnc_ir::program::{Program, RankSizes, Role};
use gnnc_ir::words::units::Bytes;
use std::fmt;
use std::path::PathBuf;

/// Why a session could not be built or could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The program does not fit itself, the data or the partition.
    #[error("this program cannot run on this data: {0}")]
    Program(String),
    /// The data graph lacks something that the program reads.
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
    /// A kernel did not compile.
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
        /// What it asked for.
        bytes: u64,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The ranks, which share this machine, need more memory than it has left.
    #[error(
        "the run needs {} of memory ({ranks} {}), but this machine has {} available; use smaller model parameters (`--set`), fewer layers or fewer features, or free memory (more workers do not help, since they share it){copies}",
        Bytes(*needed), if *ranks == 1 { "worker" } else { "workers" }, Bytes(*available)
    )]
    MachineMemory {
        /// How many ranks.
        ranks: usize,
        /// Bytes of the buffers of all ranks.
        needed: u64,
        /// Bytes that there are.
        available: u64,
        /// What rows of earlier epochs take of it.
        copies: Copies,
    },
    /// The system refused threads.
    #[error("cannot start {count} threads ({reason}); use fewer ranks, or fewer threads per rank")]
    Threads {
        /// How many.
        count: usize,
        /// The system's answer.
        reason: String,
    },
    /// A GPU refused something before the first epoch.
    #[error(transparent)]
    Device(#[from] DriverError),
    /// The run was asked to stop, and the epoch at hand was given up. What checkpoints hold is as it was
    /// before the epoch; nothing else can be run.
    #[error("the run was asked to stop")]
    Stopped,
    /// A rank failed, which stopped all of them.
    #[error(transparent)]
    Rank(#[from] Failure),
    /// Parameters do not fit the model.
    #[error("{what} does not fit this model: found {found}, expected {expected}")]
    Parameters {
        /// The tensor, or the list of tensors.
        what: String,
        /// What was given.
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
        /// What to do.
        help: &'static str,
    },
    /// A file is no checkpoint of this model.
    #[error("`{}` cannot be resumed: {reason}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// The first failure of a run, which stopped all ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "rank {rank} failed at {instruction}: {reason}; the run ended, resume from the last checkpoint"
)]
pub struct Failure {
    /// The rank where it happened.
    pub rank: u32,
    /// The instruction, as `step 3.1 (halo-exchange)`: its place in `setup`, `step` or
    /// `eval`, through loop bodies.
    pub instruction: String,
    /// What happened.
    pub reason: String,
}

/// Why a device did not do what it was told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// A library or a device is not there; says what is missing, where it was looked for, what to do.
    #[error("{0}")]
    Missing(String),
    /// There is not enough memory.
    #[error(
        "the device lacks memory for {bytes} more bytes ({free} are free); use more ranks, or a smaller model"
    )]
    Memory {
        /// Bytes that were asked for.
        bytes: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// The processor has not enough memory that the device may copy to and from by itself.
    #[error(
        "the host refused {bytes} bytes of memory for tensors offloaded from the device ({message}); use more ranks, \
         a smaller model, or raise the limit of locked memory (`ulimit -l`)"
    )]
    HostMemory {
        /// Bytes that were asked for.
        bytes: u64,
        /// What the driver said.
        message: String,
    },
    /// A call failed.
    #[error("{call} failed: {message}")]
    Call {
        /// The function.
        call: &'static str,
        /// What the library said.
        message: String,
    },
    /// Generated code does not compile: a defect.
    #[error("{0}")]
    Code(String),
}

/// Bytes of rows of earlier epochs by tensor, all ranks together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Copies(Vec<(String, u64)>);

impl Copies {
    pub(crate) fn add(&mut self, program: &Program, sizes: &RankSizes) {
        let kept = program.buffers.iter();
        for buffer in kept.filter(|b| matches!(b.role, Role::History(_))) {
            let bytes = buffer.words(sizes).saturating_mul(4);
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

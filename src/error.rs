//! Why a command failed, and which exit code says so.

use gnnc_graph::GraphError;
use gnnc_ir::words::units::Bytes;
use gnnc_lang::Diagnostic;
use gnnc_lang::diagnostic::render;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Why something failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read` or `write`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The model has errors; they are rendered apart.
    #[error("{} has {} error(s)", file, diagnostics.iter().filter(|d| d.is_error()).count())]
    Model {
        /// Name of the file.
        file: String,
        /// Its text, for rendering.
        text: String,
        /// What is wrong.
        diagnostics: Vec<Diagnostic>,
    },
    /// The data graph does not fit the model or the command.
    #[error("{0}")]
    Input(String),
    /// The data graph is broken.
    #[error(transparent)]
    Graph(#[from] gnnc_graph::GraphError),
    /// The cluster description is broken.
    #[error(transparent)]
    Cluster(#[from] gnnc_ir::cluster::ClusterError),
    /// Rewriting failed.
    #[error(transparent)]
    Form(#[from] gnnc_planner::forms::FormError),
    /// The model cannot be lowered.
    #[error(transparent)]
    Lower(#[from] gnnc_planner::LowerError),
    /// A plan file is broken.
    #[error(transparent)]
    Plan(#[from] gnnc_ir::plan::PlanError),
    /// Running failed.
    #[error(transparent)]
    Runtime(#[from] gnnc_runtime::RuntimeError),
    /// A GPU, or what it needs, is not here or refuses.
    #[error(transparent)]
    Device(#[from] gnnc_runtime::device::gpu::driver::DriverError),
    /// Something does not fit into the memory of this machine.
    #[error("{what} needs about {} of memory, but this machine has {} available; ask for less, or free memory", Bytes(*needed), Bytes(*available))]
    Memory {
        /// What does not fit.
        what: &'static str,
        /// Bytes that it takes.
        needed: u64,
        /// Bytes that there are.
        available: u64,
    },
    /// Repeated measurements of a machine do not agree.
    #[error(
        "repeated measurements of {group} on {ranks} differ by {:.0} %, while the fitted costs are within {:.0} %: \
         something else keeps this machine busy; stop it and calibrate again, or accept noisy measurements with \
         --noisy",
        repeated * 100.0,
        error * 100.0
    )]
    Unsettled {
        /// Instructions that share costs.
        group: String,
        /// Ranks that ran at once, as in `2 ranks`.
        ranks: String,
        /// How much repeated measurements differ, relative to themselves.
        repeated: f64,
        /// The mean error of the costs.
        error: f64,
    },
    /// The bytes that were sent differ from the program's.
    #[error(
        "sent {sent} bytes, but the program predicts {predicted}: this is a bug, please report it"
    )]
    Bytes {
        /// What was sent.
        sent: u64,
        /// What the program says.
        predicted: u64,
    },
    /// The bytes that were copied from and to the hosts differ from the program's.
    #[error(
        "copied {moved} bytes to and from the hosts, but the program predicts {predicted}: this is a bug, please report it"
    )]
    Moved {
        /// What was copied.
        moved: u64,
        /// What the program says.
        predicted: u64,
    },
}

impl Error {
    /// The error as a report shows it: the diagnostics of a model in its text, or a line.
    pub fn report(&self, colour: bool) -> String {
        match self {
            Self::Model {
                file,
                text,
                diagnostics,
            } => render(diagnostics, file, text, colour),
            _ => format!("error: {self}\n"),
        }
    }

    /// 1 for the user's input, 2 for the machine or a bug.
    pub fn exit_code(&self) -> u8 {
        use gnnc_graph::sample::SampleError;
        use gnnc_planner::LowerError;
        use gnnc_planner::sampled::SampledError;
        use gnnc_runtime::{RuntimeError, WorldError};
        match self {
            Self::Graph(GraphError::Partitioner { .. } | GraphError::Temporary { .. }) => 2,
            Self::Graph(GraphError::Io { source, .. }) if is_lack(source) => 2,
            Self::Lower(LowerError::NotSampled(_, SampledError::Type(_))) => 2,
            Self::Runtime(RuntimeError::Sampling(SampleError::Threads { .. })) => 2,
            Self::Runtime(RuntimeError::World(
                WorldError::Workers { .. } | WorldError::Differ { .. },
            )) => 1,
            Self::Model { .. }
            | Self::Input(_)
            | Self::Graph(_)
            | Self::Cluster(_)
            | Self::Plan(_)
            | Self::Lower(
                LowerError::Unsupported(_)
                | LowerError::Illegal(_)
                | LowerError::NoForm(..)
                | LowerError::NotSampled(..)
                | LowerError::Fanouts { .. }
                | LowerError::Layouts { .. },
            ) => 1,
            Self::File { source, .. } if is_lack(source) => 2,
            Self::File { action, .. } => {
                if *action == "read" {
                    1
                } else {
                    2
                }
            }
            Self::Runtime(
                RuntimeError::Data { .. }
                | RuntimeError::Graph(_)
                | RuntimeError::Sampling(_)
                | RuntimeError::Checkpoint { .. }
                | RuntimeError::Parameters { .. }
                | RuntimeError::File { action: "read", .. },
            ) => 1,
            Self::Form(_)
            | Self::Lower(_)
            | Self::Runtime(_)
            | Self::Device(_)
            | Self::Memory { .. }
            | Self::Unsettled { .. }
            | Self::Bytes { .. }
            | Self::Moved { .. } => 2,
        }
    }
}

/// Whether the machine has too little of something.
fn is_lack(error: &io::Error) -> bool {
    let kind = error.kind();
    matches!(
        kind,
        ErrorKind::OutOfMemory | ErrorKind::StorageFull | ErrorKind::QuotaExceeded
    )
}

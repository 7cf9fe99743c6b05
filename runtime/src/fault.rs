//! Why a rank did not finish an instruction.

use crate::transport::TransportError;
use gnnc_codegen::args::ArgsError;
use gnnc_graph::sample::SampleError;
use gnnc_ir::program::Rule;
use gnnc_ir::words::spelling::counted;
use gnnc_ir::words::units::Bytes;

/// Why an instruction did not finish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The run was asked to stop.
    #[error("the run was asked to stop")]
    Stopped,
    /// A batch cannot be drawn.
    #[error(transparent)]
    Sampling(#[from] SampleError),
    /// The system refused memory for a batch that is larger than those before.
    #[error(
        "a batch needs {} of memory, which the system refused ({reason}); use a smaller batch or smaller fanouts",
        Bytes(*bytes)
    )]
    Memory { bytes: u64, reason: std::io::Error },
    /// A checked kernel found an access out of bounds.
    #[error(transparent)]
    Outside(#[from] ArgsError),
    /// The program needs data this rank lacks. A session's checks rule this out before anything
    /// runs.
    #[error("the program needs {0}, which this rank does not have")]
    Missing(&'static str),
    /// Kernels read several floats at a time, which needs alignment.
    #[error(
        "a tensor does not start at a multiple of {0} bytes, as its kernel expects; please report the program"
    )]
    Alignment(u64),
    /// A copy the rule forbids would be read, which is a bug in the decision.
    #[error(
        "the copy of rank {block}'s rows of `{tensor}` was last sent {}, which the rule {rule} \
         does not allow",
        age.map_or("never".to_owned(), |age| format!("{} ago", counted(age, "epoch")))
    )]
    Stale {
        /// The tensor.
        tensor: String,
        /// The rank that owns the rows.
        block: u32,
        /// Epochs since they were sent.
        age: Option<u64>,
        /// The rule.
        rule: Rule,
    },
    /// Rows to be compared are not finite.
    #[error("rows of `{0}` are not finite; try a smaller learning rate")]
    NoNumbers(String),
    #[error(
        "`{history}` would store a value that is not finite in epoch {epoch}, chunk {chunk}; lower the learning rate"
    )]
    NotFinite {
        history: String,
        epoch: u64,
        /// The chunk's number, or `all`.
        chunk: String,
    },
    #[error(
        "`{history}` was stored {} before epoch {epoch}, but the program allows an age of at most {interval}",
        counted(age, "epoch")
    )]
    TooOld {
        history: String,
        age: u64,
        epoch: u64,
        interval: u32,
    },
}

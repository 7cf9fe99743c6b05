//! Why a rank did not finish an instruction.

use crate::transport::TransportError;
use gnnc_codegen::args::ArgsError;
use gnnc_ir::program::Rule;

/// Why an instruction did not finish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The run was asked to stop.
    #[error("the run was asked to stop")]
    Stopped,
    /// Found by a checked kernel.
    #[error(transparent)]
    Outside(#[from] ArgsError),
    /// Found by the checks of a session before anything runs.
    #[error("the program needs {0}, which this rank does not have")]
    Missing(&'static str),
    /// Kernels read several floats at once.
    #[error(
        "a tensor does not start at a multiple of {0} bytes, as its kernel expects; please report the program"
    )]
    Alignment(u64),
    /// A copy that a rule does not allow would be read: a bug of whoever decides.
    #[error(
        "the copy of rank {block}'s rows of `{tensor}` was last sent {}, which the rule {rule} \
         does not allow",
        age.map_or("never".to_owned(), |age| format!("{age} epochs ago"))
    )]
    Stale {
        /// What the rows are of.
        tensor: String,
        /// Whose rows they are.
        block: u32,
        /// Epochs since they were sent.
        age: Option<u64>,
        /// What they had to be.
        rule: Rule,
    },
    /// Values that are compared are no numbers.
    #[error("rows of `{0}` are not finite; try a smaller learning rate")]
    NoNumbers(String),
    #[error(
        "`{history}` would store a value that is not finite in epoch {epoch}, chunk {chunk}; lower the learning rate"
    )]
    NotFinite {
        history: String,
        epoch: u64,
        /// Its number, or `all`.
        chunk: String,
    },
    #[error(
        "`{history}` was stored {age} epochs before epoch {epoch}, but the program allows an age of at most {interval}"
    )]
    TooOld {
        history: String,
        age: u64,
        epoch: u64,
        interval: u32,
    },
}

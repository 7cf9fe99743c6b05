//! Errors in cluster descriptions.

use thiserror::Error;

/// A cluster that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ClusterError {
    /// Not TOML.
    #[error("line {line}, column {column} of the cluster file: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What the TOML reader says.
        message: String,
    },
    /// Written for another version.
    #[error("the cluster file says version = {found}; this gnnc reads version = {expected}")]
    UnknownVersion {
        /// The version that was found.
        found: String,
        /// The version that can be read.
        expected: i64,
    },
    /// An unknown key.
    #[error("unknown key `{key}`; expected one of {}{}", list(.expected), did_you_mean(.suggestion))]
    UnknownKey {
        /// The key, with its tables.
        key: String,
        /// Keys allowed there.
        expected: Vec<String>,
        /// The key that was probably meant.
        suggestion: Option<String>,
    },
    /// A key that is given twice.
    #[error("`{key}` is given twice; leave out one")]
    Twice {
        /// The key.
        key: String,
    },
    /// A missing key.
    #[error("`{key}` is missing; {help}")]
    MissingKey {
        /// The key, with its tables.
        key: String,
        /// What to write.
        help: &'static str,
    },
    /// A value of the wrong type.
    #[error("`{key}` is {found}, expected {expected}")]
    WrongType {
        /// The key, with its tables.
        key: String,
        /// What was found.
        found: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A number that must be above 0.
    #[error("`{key}` is {found}, expected a number above 0")]
    NotPositive {
        /// The key, with its tables.
        key: String,
        /// The number.
        found: String,
    },
    /// A number that must not be below 0.
    #[error("`{key}` is {found}, expected 0 or more")]
    Negative {
        /// The key, with its tables.
        key: String,
        /// The number.
        found: String,
    },
    /// A spread below 1.
    #[error("`{key}` is {found}, expected a factor of 1 or more")]
    Spread {
        /// The key, with its tables.
        key: String,
        /// The number.
        found: String,
    },
    /// A device or link that is not built in.
    #[error("unknown {what} profile `{found}`; expected one of {}{}", list(.known), did_you_mean(.suggestion))]
    UnknownProfile {
        /// `device` or `link`.
        what: &'static str,
        /// The name.
        found: String,
        /// Names that are built in.
        known: Vec<String>,
        /// The name that was probably meant.
        suggestion: Option<String>,
    },
    /// A cluster that is not built in.
    #[error(
        "unknown cluster `{found}`; expected a cluster file, `cpu`, a device and a number such as `h100x8`, or keys such as \
         `nodes=2 gpus=4 gpu=a100-40`{}",
        did_you_mean(.suggestion)
    )]
    UnknownCluster {
        /// The name.
        found: String,
        /// The name that was probably meant.
        suggestion: Option<String>,
    },
    /// Devices that do not fill the nodes evenly.
    #[error(
        "{devices} devices do not divide evenly among {nodes} nodes; give a multiple of {nodes}, or another number of nodes"
    )]
    Uneven {
        /// Devices of all nodes.
        devices: u32,
        /// Nodes.
        nodes: u32,
    },
    /// More memory than any machine has.
    #[error(
        "`{key}` is {found}, expected at most {limit}; write the bytes of one device, or of one node's host memory"
    )]
    TooMuchMemory {
        /// The key.
        key: String,
        /// Its value.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// More devices than can be planned for.
    #[error("found {found} devices, expected at most {limit}")]
    TooManyDevices {
        /// Devices of all nodes.
        found: u64,
        /// The limit.
        limit: u64,
    },
}

fn list(names: &[String]) -> String {
    names
        .iter()
        .map(|n| format!("`{n}`"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn did_you_mean(suggestion: &Option<String>) -> String {
    suggestion
        .as_ref()
        .map_or_else(String::new, |s| format!(" (did you mean `{s}`?)"))
}

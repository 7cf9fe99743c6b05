//! Errors of processes that train together.

use gnnc_ir::words::spelling::counted;

/// Why processes could not join, or lost each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// No MPI library can be loaded.
    #[error(
        "mpirun started several processes, but no MPI library was found ({reasons}); install the one that mpirun belongs \
         to, or name its file in GNNC_MPI_LIBRARY"
    )]
    NoLibrary {
        /// Why each of them was refused.
        reasons: String,
    },
    /// The library is something else.
    #[error(
        "{library} has no function {symbol}; name the file of an MPI library in GNNC_MPI_LIBRARY"
    )]
    NotMpi {
        /// Its file.
        library: String,
        /// What is missing.
        symbol: &'static str,
    },
    /// The library does not know of the other processes.
    #[error(
        "mpirun started {expected} processes, but {library} knows of {found}: it belongs to another MPI; name the file of \
         the library that mpirun belongs to in GNNC_MPI_LIBRARY"
    )]
    Alone {
        /// Its file.
        library: String,
        /// Processes by the launcher.
        expected: u32,
        /// Processes by the library.
        found: u32,
    },
    /// The library cannot be called from threads.
    #[error(
        "{library} was built without support for threads; use one built with it (Open MPI, MPICH and Intel MPI have it)"
    )]
    Threads {
        /// Its file.
        library: String,
    },
    /// The number of workers is no multiple of the processes.
    #[error(
        "found {}, expected a multiple of the {}: each process has as many; leave out --workers, or change the \
         number after `mpirun -n`",
        counted(workers, "worker"),
        counted(processes, "process")
    )]
    Workers {
        /// Number of workers.
        workers: u32,
        /// Number of processes.
        processes: u32,
    },
    /// Processes cannot reach process 0.
    #[error(
        "process {process} on {host} cannot connect to process 0 on {to} ({reason}); processes watch each other over \
         TCP, so let the hosts connect to each other on ports that the system chooses"
    )]
    Unreached {
        /// The process that tried.
        process: u32,
        /// Its host.
        host: String,
        /// The host of process 0.
        to: String,
        /// What happened.
        reason: String,
    },
    /// A message is too long for MPI.
    #[error(
        "a message has {floats} numbers, and MPI sends at most 2,147,483,647; use more workers"
    )]
    Long {
        /// Its length.
        floats: usize,
    },
    /// There are more tags than the library has.
    #[error(
        "{library} has {most} tags for messages, and this run needs {needed}; use fewer workers a process"
    )]
    Tags {
        /// Its file.
        library: String,
        /// Largest tag.
        most: u32,
        /// What is needed.
        needed: u64,
    },
    /// A call failed.
    #[error("{call} failed: {reason}")]
    Call {
        /// Name of the function.
        call: &'static str,
        /// What the library says.
        reason: String,
    },
    /// Another process failed.
    #[error("{0}")]
    Lost(String),
    /// Processes were started with different input.
    #[error(
        "the processes disagree ({differences}); start all with the same program, model, graph and options"
    )]
    Differ {
        /// What differs.
        differences: String,
    },
}

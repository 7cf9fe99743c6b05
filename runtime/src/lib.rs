//! Runs programs.
//!
//! A [`Session`] takes a [`Program`](gnnc_ir::program::Program), a data graph and a partition of
//! it. Every rank is a thread with its own share of the data, its own memory and its own
//! connections, or all ranks share a GPU ([`Session::on_device`]). The executor reads instructions
//! and knows nothing of placements: the program says which rank sends what.
//!
//! Losses are bit-identical for any number of threads: work is cut into pieces, panels and blocks
//! whose sizes depend only on the program and the data, and partial sums are added in order.

mod arena;
mod by_part;
mod checkpoint;
mod chunks;
mod clocks;
mod communication;
pub mod device;
mod error;
mod executor;
mod facts;
mod fault;
mod gemm;
mod histories;
mod init;
mod labels;
mod launch;
mod leaves;
mod loss;
mod machine;
mod options;
mod part;
mod programs;
mod rank;
mod rank_set;
pub mod report;
pub mod session;
mod shards;
mod sparse;
pub mod staleness;
mod start;
mod step_context;
mod steps;
mod stop;
mod team;
pub mod transport;
mod weights;
mod words;

pub use by_part::runs_on_parts;
pub use checkpoint::{Snapshot, Tensor, first_checkpoint, parse_checkpoint};
pub use error::{Copies, Failure, RuntimeError, WorldError};
pub use facts::Fact;
pub use gnnc_ir::program::trace::{Event, Phase, Trace};
pub use labels::check_labels;
pub use launch::Launch;
pub use machine::{available_memory, resident_memory};
pub use options::{OnBatch, RunOptions};
pub use programs::Programs;
pub use rank::chunk_order;
pub use report::{Best, EpochReport, Judged, Metrics, Plateau, Resumed, Score};
pub use session::Session;
pub use staleness::{LayerStaleness, Staleness};
pub use stop::Stop;

//! Why a graph cannot be divided.

use gnnc_ir::plan::Partitioner;
use gnnc_ir::words::spelling::counted;
use thiserror::Error;

/// Why there are no such parts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PartsError {
    /// No ranks.
    #[error("found 0 ranks, expected at least 1")]
    NoRanks,
    /// Some ranks would own no vertices.
    #[error(
        "found {} for a graph of {}; use at most {vertices}",
        counted(ranks, "rank"),
        counted(vertices, "vertex")
    )]
    MoreRanksThanVertices {
        /// Ranks.
        ranks: u32,
        /// Vertices.
        vertices: u64,
    },
    /// A partition that statistics cannot estimate.
    #[error(
        "partitioner {partitioner} needs the graph, as its parts follow from the edges and the split; name the graph \
         file, or a workload with this partition into {}, or choose another partitioner",
        counted(ranks, "part")
    )]
    NotCounted {
        /// The partitioner.
        partitioner: Partitioner,
        /// Ranks.
        ranks: u32,
    },
    /// A partition with contradictory numbers.
    #[error(
        "the workload's partition into {} is inconsistent: it lists {} and {} of messages; make the workload again",
        counted(ranks, "part"),
        counted(loads, "load"),
        counted(rows, "row")
    )]
    Inconsistent {
        /// Its number of parts.
        ranks: u32,
        /// Number of loads it lists.
        loads: usize,
        /// Rows of its message matrix.
        rows: usize,
    },
    /// More ranks than leaves, of which each rank needs one to compute equal bits on any number of ranks.
    #[error(
        "found {} for equal bits, which divide this graph into {leaves} leaves; use at most {leaves}, or leave out --equal-bits",
        counted(ranks, "rank")
    )]
    MoreRanksThanLeaves {
        /// Ranks.
        ranks: u32,
        /// Leaves.
        leaves: u32,
    },
}

//! The numbers behind the reasons in a plan.

use crate::words::units::Bytes;
use serde::{Deserialize, Serialize};

/// Bytes that all ranks send in an epoch, by kind. Row counts are the rows that all ranks
/// together read in one exchange or redistribution, divided by the graph's vertices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// Bytes of halo exchanges and reductions.
    pub halo: Bytes,
    /// Of these, the bytes that cross between nodes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub halo_between: Bytes,
    /// Bytes of redistributions.
    pub redistribute: Bytes,
    /// Bytes of all-reduces.
    pub all_reduce: Bytes,
    /// Bytes of the rows that batches fetch, and of their ids.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fetch: Bytes,
    /// Rows per halo exchange: the replication factor, or ranks - 1 if everything is sent.
    pub halo_rows: f64,
    /// Rows per redistribution between rows and columns: (ranks - 1) / ranks.
    pub redistribute_rows: f64,
}

fn is_zero(bytes: &Bytes) -> bool {
    bytes.0 == 0
}

/// What is offloaded to the hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Device memory assumed in planning.
    pub device: Bytes,
    /// Host memory on the node that holds most.
    pub memory: Bytes,
    /// Bytes copied from hosts per epoch, all ranks together.
    pub fetched: Bytes,
    /// Bytes copied to hosts per epoch, all ranks together.
    pub stored: Bytes,
    /// Most chunks that an instruction runs in, if its operands do not fit as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u32>,
}

/// A candidate relative to the best one: its numbers divided by the best's; `None` if the
/// best's is 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Against {
    /// Time of an epoch.
    pub seconds: Option<f64>,
    /// Bytes sent in an epoch.
    pub bytes: Option<f64>,
    /// Peak memory.
    pub memory: Option<f64>,
    /// The share of draws of what is uncertain in which its epoch takes less time; plans of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faster: Option<f64>,
    /// What takes most of the additional time.
    pub main: Main,
}

/// A component of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Main {
    /// Communication that nothing overlaps.
    ExposedCommunication,
    /// Waiting for other ranks.
    Bubble,
    /// Computation.
    Compute,
}

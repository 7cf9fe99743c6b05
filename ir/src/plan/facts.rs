//! What the reasons of a plan are made of, as numbers.

use crate::words::units::Bytes;
use serde::{Deserialize, Serialize};

/// What all ranks send in an epoch, by what it is. Rows are those that all ranks read together in one
/// exchange or redistribution, in multiples of the vertices of the graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volume {
    /// By halo exchanges and reductions.
    pub halo: Bytes,
    /// By redistributions.
    pub redistribute: Bytes,
    /// By all-reductions.
    pub all_reduce: Bytes,
    /// Rows of a halo exchange: the replication factor; ranks - 1 where everything is sent.
    pub halo_rows: f64,
    /// Rows of a redistribution between rows and columns: (ranks - 1) / ranks.
    pub redistribute_rows: f64,
}

/// What rests in the memory of the hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Memory of a device that was planned with.
    pub device: Bytes,
    /// Memory of the host in the node where most rests.
    pub memory: Bytes,
    /// Copied from the hosts in an epoch, all ranks together.
    pub fetched: Bytes,
    /// Copied to the hosts in an epoch, all ranks together.
    pub stored: Bytes,
    /// Most chunks of rows that an instruction runs over, where what it works on does not fit by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u32>,
}

/// A candidate beside the best one: its numbers divided by the best's; none where that has 0.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Against {
    /// Time of an epoch.
    pub seconds: Option<f64>,
    /// Bytes sent in an epoch.
    pub bytes: Option<f64>,
    /// Peak memory.
    pub memory: Option<f64>,
    /// What most of the further time goes to.
    pub main: Main,
}

/// What time goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Main {
    /// Communication that nothing hides.
    ExposedCommunication,
    /// Waiting for other ranks.
    Bubble,
    /// Computing.
    Compute,
}

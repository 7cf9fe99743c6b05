//! Communication among all ranks of a group.

use crate::graph::op;
use crate::program::{BufferId, Matrix, Moved, Ref, Returned, Skip};
use serde::{Deserialize, Serialize};

/// Sends own rows to the ranks that read them; fills the halo rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HaloExchange {
    /// A buffer with `Local` rows.
    pub buffer: Ref,
    /// How ranks may leave out their rows, so that others fill in copies; only in `step`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skip>,
}

/// Sends halo rows to their owners, which add them to their own in rank order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HaloReduce {
    /// A buffer with `Local` rows.
    pub buffer: Ref,
    /// Of gradients by rows that may be copies, which of them are sent; only in `step`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Returned>,
}

/// Sums buffers over all ranks, in rank order, as one message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllReduce {
    /// Buffers with fixed rows.
    pub buffers: Vec<BufferId>,
}

/// Moves a tensor from one layout over the ranks to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Redistribute {
    /// How.
    pub how: op::Redistribute,
    /// The operand; heads lie one after the other.
    pub from: Matrix,
    /// The result, which fills its slot.
    pub to: Ref,
    /// Heads of the tensor by rows.
    pub heads: u32,
    /// Columns of a head of the tensor by rows.
    pub width: u32,
    /// Which rows are moved.
    #[serde(default, skip_serializing_if = "Moved::is_all")]
    pub moved: Moved,
}

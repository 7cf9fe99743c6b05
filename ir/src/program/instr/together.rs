//! Instructions of all ranks of a stage.

use super::{
    AllReduce, AskRows, CacheRows, DrawEdges, HaloExchange, HaloReduce, PushRows, Redistribute,
    ServeRows, ShareLevels, Shift,
};

/// What all ranks of a stage do together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Collective<'a> {
    /// Fills halo rows.
    HaloExchange(&'a HaloExchange),
    /// Adds halo rows to those of their owners.
    HaloReduce(&'a HaloReduce),
    /// Sums buffers.
    AllReduce(&'a AllReduce),
    /// Changes a layout.
    Redistribute(&'a Redistribute),
    /// Draws edges into a level of each rank's batch.
    DrawEdges(&'a DrawEdges),
    /// Names rows of a batch to their owners.
    AskRows(&'a AskRows),
    /// Fills these rows.
    ServeRows(&'a ServeRows),
    /// Adds rows to those of their owners.
    PushRows(&'a PushRows),
    /// Fills the rows of others that a rank keeps.
    CacheRows(&'a CacheRows),
    /// Puts the lower levels of all ranks side by side.
    ShareLevels(&'a ShareLevels),
    /// Moves sums of gradients, and weights, to the rank of a model's next set.
    Shift(&'a Shift),
}

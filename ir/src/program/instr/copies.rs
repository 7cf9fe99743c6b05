//! Copies of rows: to and from the host, and into histories.

use crate::program::{Chunk, Ref};
use serde::{Deserialize, Serialize};

/// Copies a slot between the memory of the rank and that of its host, of which one buffer lies in
/// each: the rows that both have, own vertices first, or those of a chunk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// Where the rows are.
    pub from: Ref,
    /// Where they go.
    pub to: Ref,
    /// The chunk of rows that is copied; all if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Chunk>,
}

/// Keeps rows for later epochs, in every epoch that is a multiple of [`Pipeline::interval`]: copies
/// those of the chunk at hand (all outside of [`Instr::Chunks`]), halo rows included where both have them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remember {
    /// The rows.
    pub from: Ref,
    /// A buffer with [`Role::History`].
    pub history: Ref,
}

//! Loops.

use super::Instr;
use serde::{Deserialize, Serialize};

/// A loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Repeat {
    /// Number of iterations.
    pub count: u32,
    /// Whether the index runs from `count - 1` down to 0.
    pub reverse: bool,
    /// What an iteration does.
    pub body: Vec<Instr>,
}

/// Runs the body for every chunk of the epoch's order: whatever runs over own rows, local rows or
/// the edges into own rows, and whatever is exchanged of them, is restricted to the vertices of the
/// chunk, halo vertices included. Neither nested nor around or inside of a [`Instr::Repeat`]; the
/// body has no [`Product::Tn`], no reduction over rows, no [`Instr::AllReduce`] and no
/// [`Instr::Begin`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chunks {
    /// Whether the order is run backwards.
    pub reverse: bool,
    /// What is done for a chunk.
    pub body: Vec<Instr>,
}

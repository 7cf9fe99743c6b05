//! Chunks: what is computed for all vertices, a run of consecutive vertices after the other.

use super::RankSizes;
use crate::kernel::End;
use serde::{Deserialize, Serialize};

/// One of several chunks that the vertices are cut into, in order, so that each has about as many arcs
/// into its vertices. Which vertices these are is known where the graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Chunk {
    /// Which one, from 0.
    pub index: u32,
    /// How many there are: the same everywhere in a program.
    pub of: u32,
}

/// The rows that a redistribution moves. Every rank knows all of these sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moved {
    /// All of them.
    #[default]
    All,
    /// The vertices of a chunk.
    Rows(Chunk),
    /// The vertices of a chunk, and those at the other end of their arcs, that no chunk before has:
    /// what a reduction of the chunk's arcs to that end reads first.
    New(End, Chunk),
}

impl Moved {
    /// Whether no row stays.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// The chunk, if it is not all rows.
    pub fn chunk(&self) -> Option<Chunk> {
        match self {
            Self::All => None,
            Self::Rows(chunk) | Self::New(_, chunk) => Some(*chunk),
        }
    }
}

impl Chunk {
    /// An even share of so many; the shares of all chunks add up to it.
    pub fn share(&self, total: u64) -> u64 {
        let (of, index) = (u128::from(self.of.max(1)), u128::from(self.index));
        let before = |n: u128| (u128::from(total) * n / of) as u64;
        before(index + 1) - before(index)
    }

    /// About what a chunk of the whole graph has of it: an even share.
    pub fn sizes(&self, sizes: &RankSizes) -> RankSizes {
        RankSizes {
            vertices: self.share(sizes.vertices),
            all_edges: self.share(sizes.all_edges),
            ..*sizes
        }
    }
}

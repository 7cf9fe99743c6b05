//! Chunks: what is computed for all vertices, a run of consecutive vertices after the other.

use super::{Extent, RankSizes};
use crate::kernel::{COLUMN_BLOCK, End};
use crate::memory::product_block;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// One of several chunks that the vertices are cut into, in order, so that each has about as many arcs
/// into its vertices. Which vertices these are is known where the graph is. Or, if [`Chunk::even`] says so,
/// so that each has as many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Chunk {
    /// Which one, from 0.
    pub index: u32,
    /// How many there are: the same everywhere in a program, of those that are cut by arcs.
    pub of: u32,
    /// How they are cut, if by rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub even: Option<Even>,
}

/// A cut into chunks of as many rows, of which the last ones may have fewer or none: known from how many rows
/// a rank has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Even {
    /// The rows that are cut.
    pub rows: Vertices,
    /// What no chunk cuts in two.
    pub grain: Grain,
}

/// Rows that belong to vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vertices {
    /// The rank's own.
    Inner,
    /// Own ones, then halo vertices.
    Local,
    /// Those of the whole graph.
    All,
}

/// Rows that stay together, counted from the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grain {
    /// As many as make pieces of memory begin where kernels may read several floats at once.
    Lines,
    /// The blocks of a column reduction, so that partial sums are the same.
    Sums,
    /// The blocks of a transposed product; likewise.
    Products,
}

/// Rows whose elements always take a multiple of 64 bytes, also in 16 bits.
const LINE_ROWS: u64 = 32;

impl Vertices {
    /// Those that an extent stands for, if it does.
    pub fn of(extent: Extent) -> Option<Self> {
        match extent {
            Extent::Inner => Some(Self::Inner),
            Extent::Local => Some(Self::Local),
            Extent::All => Some(Self::All),
            _ => None,
        }
    }

    /// The extent of all of them.
    pub fn extent(self) -> Extent {
        match self {
            Self::Inner => Extent::Inner,
            Self::Local => Extent::Local,
            Self::All => Extent::All,
        }
    }
}

impl Even {
    /// Rows of the first of so many chunks, which is the longest.
    pub fn longest(&self, of: u32, sizes: &RankSizes) -> u64 {
        let total = sizes.rows(self.rows.extent());
        let grain = match self.grain {
            Grain::Lines => LINE_ROWS,
            Grain::Sums => COLUMN_BLOCK as u64,
            Grain::Products => product_block(total),
        };
        let each = total.div_ceil(u64::from(of.max(1)));
        each.checked_next_multiple_of(grain)
            .map_or(total, |rows| rows.min(total))
    }
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

    /// The rows of the chunk, if it is one of rows.
    pub fn rows(&self, sizes: &RankSizes) -> Option<Range<u64>> {
        let even = self.even?;
        let total = sizes.rows(even.rows.extent());
        let longest = even.longest(self.of, sizes);
        let bound = |n: u32| longest.saturating_mul(n.into()).min(total);
        Some(bound(self.index)..bound(self.index + 1))
    }

    /// The same chunk of another number.
    pub fn at(&self, index: u32) -> Self {
        Self { index, ..*self }
    }

    /// About what a chunk has of a rank's rows and arcs: an even share.
    pub fn sizes(&self, sizes: &RankSizes) -> RankSizes {
        let whole = RankSizes {
            vertices: self.share(sizes.vertices),
            all_edges: self.share(sizes.all_edges),
            ..*sizes
        };
        match self.even.map(|even| even.rows) {
            None | Some(Vertices::All) => whole,
            Some(Vertices::Inner | Vertices::Local) => RankSizes {
                inner: self.share(sizes.inner),
                halo: self.share(sizes.halo),
                edges: self.share(sizes.edges),
                ..*sizes
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks of rows lie one after the other, none longer than the first, and cut no block in two.
    #[test]
    fn even_chunks_cover_all_rows() {
        for total in [0u64, 1, 31, 32, 33, 1000, 5000, 40_000] {
            let sizes = RankSizes {
                inner: total,
                ..RankSizes::default()
            };
            for grain in [Grain::Lines, Grain::Sums, Grain::Products] {
                let rows = Vertices::Inner;
                let even = Even { rows, grain };
                let block = match grain {
                    Grain::Lines => 32,
                    Grain::Sums => 1024,
                    Grain::Products => product_block(total),
                };
                for of in 1..9 {
                    let mut end = 0;
                    for index in 0..of {
                        let even = Some(even);
                        let rows = Chunk { index, of, even }.rows(&sizes).unwrap();
                        assert_eq!(rows.start, end);
                        assert!(rows.is_empty() || rows.start.is_multiple_of(block));
                        assert!(rows.end - rows.start <= even.unwrap().longest(of, &sizes));
                        end = rows.end;
                    }
                    assert_eq!(end, total, "{total} rows in {of}");
                }
            }
        }
    }
}

//! Chunks: runs of consecutive vertices that are computed one after the other.

use super::{Extent, RankSizes};
use crate::kernel::{COLUMN_BLOCK, End};
use crate::program::memory::{ALIGN, product_block};
use crate::words::types::{EdgeSet, Level};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// One chunk of the vertices. Chunks follow the vertex order and have about equally many edges
/// into their vertices; which vertices these are is known only with the graph. With
/// [`Chunk::even`], chunks have equally many rows instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Chunk {
    /// Index, from 0.
    pub index: u32,
    /// Number of chunks. All chunks by edges in a program have the same number.
    pub of: u32,
    /// How rows are divided, for chunks by rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub even: Option<Even>,
}

/// A division into chunks with equally many rows; the last ones may have fewer or none. If the
/// rows' edges are walked, a chunk ends early when it would get too many edges: with `2 n`
/// chunks, none has much more than `1 / n` of the rows or edges. Its maximum size follows from
/// the numbers of rows and edges and from the largest degree. [`Grain::Reach`] always gives two
/// chunks, of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Even {
    /// The rows that are divided.
    pub rows: Vertices,
    /// Rows that are never separated.
    pub grain: Grain,
    /// The walked edges, grouped by the end to which the rows belong; `None` if no edges are
    /// walked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edges: Option<Grouped>,
}

/// Edges in order of their vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Grouped {
    /// The edges.
    pub set: EdgeSet,
    /// The end that they are grouped by.
    pub by: End,
}

/// Rows that belong to vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vertices {
    /// The rank's own vertices.
    Inner,
    /// Own vertices, then halo vertices.
    Local,
    /// Vertices of the whole graph.
    All,
}

/// Rows that stay in one chunk, counted from the first row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grain {
    /// As many rows as it takes for chunks to start at addresses suitable for vector loads.
    Lines,
    /// The blocks of a column reduction, so that partial sums do not change.
    Sums,
    /// The blocks of a transposed product, so that partial sums do not change.
    Products,
    /// Splits rows by whether they need other ranks. Of own rows, chunk 0 has the interior and
    /// chunk 1 the rest. Of own and halo rows, chunk 0 has the own rows and chunk 1 the halo.
    Reach,
}

/// With this many rows, elements take a multiple of 64 bytes even in 16 bits.
const LINE_ROWS: u64 = 32;

impl Vertices {
    /// The vertices of an extent; `None` if its rows are not vertices.
    pub fn of(extent: Extent) -> Option<Self> {
        match extent {
            Extent::Inner => Some(Self::Inner),
            Extent::Local => Some(Self::Local),
            // Chunks of the group's rows have no halo.
            Extent::All => Some(Self::All),
            Extent::AllLocal => None,
            Extent::Fixed(_) | Extent::Halo | Extent::Edges(_) | Extent::AllEdges(_) => None,
            Extent::FeatureNonzeros | Extent::SliceNonzeros | Extent::Run(..) => None,
            Extent::EdgeRun(..) | Extent::Level(_) | Extent::LevelEdges(..) => None,
        }
    }

    /// The extent with all of these rows.
    pub fn extent(self) -> Extent {
        match self {
            Self::Inner => Extent::Inner,
            Self::Local => Extent::Local,
            Self::All => Extent::All,
        }
    }
}

impl Even {
    /// Chunk `index` of `of`.
    pub fn chunk(self, index: u32, of: u32) -> Chunk {
        let even = Some(self);
        Chunk { index, of, even }
    }

    /// Rows of the longest of `of` chunks, which is the first (except with [`Grain::Reach`]).
    pub fn longest(&self, of: u32, sizes: &RankSizes) -> u64 {
        let total = sizes.rows(self.rows.extent());
        let grain = match self.grain {
            Grain::Reach => {
                let near = self.near(sizes);
                return near.max(total - near);
            }
            Grain::Lines => LINE_ROWS,
            Grain::Sums => COLUMN_BLOCK as u64,
            Grain::Products => product_block(total),
        };
        let each = total.div_ceil(self.parts(of));
        each.checked_next_multiple_of(grain)
            .map_or(total, |rows| rows.min(total))
    }

    /// Rows of the first chunk with [`Grain::Reach`].
    fn near(&self, sizes: &RankSizes) -> u64 {
        match self.rows {
            Vertices::Inner => sizes.reach.interior.min(sizes.inner),
            Vertices::Local => sizes.inner,
            Vertices::All => sizes.vertices,
        }
    }

    /// Into how many parts rows, and separately edges, are divided.
    fn parts(&self, of: u32) -> u64 {
        let of = u64::from(of.max(1));
        if self.edges.is_some() {
            of.div_ceil(2)
        } else {
            of
        }
    }

    /// Most edges in a chunk; 0 if none are walked.
    pub fn most_edges(&self, of: u32, sizes: &RankSizes) -> u64 {
        let Some(Grouped { set, .. }) = self.edges else {
            return 0;
        };
        let total = sizes.rows(self.rows.extent().edges(set));
        let loops = set.loops();
        // Rows of one grain stay together.
        let together = LINE_ROWS.saturating_mul(sizes.max_degree.saturating_add(loops));
        let each = total.div_ceil(self.parts(of));
        each.saturating_add(together).min(total)
    }

    /// Elements of a buffer for the edges of a chunk. Includes room to align them within a
    /// cache line as in the buffer for all edges.
    pub fn room_for_edges(&self, of: u32, sizes: &RankSizes) -> u64 {
        match self.most_edges(of, sizes) {
            0 => 0,
            most => most.saturating_add(ALIGN),
        }
    }

    /// First rows of the chunks, and one past the last row. `first` has the first edge of each
    /// row, if edges are walked.
    pub fn bounds(&self, of: u32, sizes: &RankSizes, first: &[u64]) -> Vec<u64> {
        let total = sizes.rows(self.rows.extent());
        if self.grain == Grain::Reach {
            return vec![0, self.near(sizes), total];
        }
        let (longest, most) = (self.longest(of, sizes), self.most_edges(of, sizes));
        let edges = |row: u64| first.get(row as usize).copied().unwrap_or(0);
        let mut bounds = vec![0];
        let mut begin = 0u64;
        for chunk in 1..=of {
            let mut end = begin;
            if self.edges.is_none() {
                end = begin.saturating_add(longest).min(total);
            }
            while self.edges.is_some() && end < total {
                let next = (end + LINE_ROWS).min(total);
                if next - begin > longest || edges(next) - edges(begin) > most {
                    break;
                }
                end = next;
            }
            begin = if chunk == of { total } else { end };
            bounds.push(begin);
        }
        bounds
    }
}

/// The rows that a redistribution moves. Every rank can derive them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moved {
    /// All rows.
    #[default]
    All,
    /// The vertices of a chunk.
    Rows(Chunk),
    /// The vertices of a chunk and the other ends of their edges, without those of earlier
    /// chunks: the rows that a reduction of the chunk's edges to that end is the first to read.
    New(End, Chunk),
    /// The vertices of this level of the batch at hand, each rank's part being its own.
    Level(u8),
}

impl Moved {
    /// Whether all rows are moved.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }

    /// The chunk; `None` if all rows are moved.
    pub fn chunk(&self) -> Option<Chunk> {
        match self {
            Self::All | Self::Level(_) => None,
            Self::Rows(chunk) | Self::New(_, chunk) => Some(*chunk),
        }
    }

    /// A rank's own rows, of all chunks.
    pub fn own_rows(&self, sizes: &RankSizes) -> u64 {
        match self {
            Self::All | Self::Rows(_) | Self::New(..) => sizes.inner,
            Self::Level(level) => sizes.batch.rows(Level::own(*level)),
        }
    }

    /// The rows that a rank's own and those of all ranks are, of the tensors that are moved.
    pub fn extents(&self) -> [Extent; 2] {
        match self {
            Self::All | Self::Rows(_) | Self::New(..) => [Extent::Inner, Extent::All],
            Self::Level(level) => [Level::own(*level), Level::all(*level)].map(Extent::Level),
        }
    }
}

impl Chunk {
    /// An even share of `total`; the shares of all chunks add up to it.
    pub fn share(&self, total: u64) -> u64 {
        let (of, index) = (u128::from(self.of.max(1)), u128::from(self.index));
        let before = |n: u128| (u128::from(total) * n / of) as u64;
        before(index + 1) - before(index)
    }

    /// The rows of the chunk; `None` if they depend on edges.
    pub fn rows(&self, sizes: &RankSizes) -> Option<Range<u64>> {
        let even = self.even.filter(|even| even.edges.is_none())?;
        let total = sizes.rows(even.rows.extent());
        if even.grain == Grain::Reach {
            let near = even.near(sizes);
            return Some(if self.index == 0 {
                0..near
            } else {
                near..total
            });
        }
        let longest = even.longest(self.of, sizes);
        let bound = |n: u32| longest.saturating_mul(n.into()).min(total);
        Some(bound(self.index)..bound(self.index + 1))
    }

    /// The chunk with another index.
    pub fn at(&self, index: u32) -> Self {
        Self { index, ..*self }
    }

    /// The rows that are divided, if the grain is [`Grain::Reach`].
    pub fn reach(&self) -> Option<Vertices> {
        let even = self.even.filter(|even| even.grain == Grain::Reach)?;
        Some(even.rows)
    }

    /// Approximate rows and edges of a chunk on a rank: an even share, or exact counts with
    /// [`Grain::Reach`].
    pub fn sizes(&self, sizes: &RankSizes) -> RankSizes {
        if let Some(rows) = self.reach() {
            return self.near_or_far(rows, sizes);
        }
        let whole = RankSizes {
            vertices: self.share(sizes.vertices),
            all_edges: self.share(sizes.all_edges),
            all_named_edges: sizes.all_named_edges.map(|edges| self.share(edges)),
            ..*sizes
        };
        match self.even.map(|even| even.rows) {
            None | Some(Vertices::All) => whole,
            Some(Vertices::Inner | Vertices::Local) => RankSizes {
                inner: self.share(sizes.inner),
                halo: self.share(sizes.halo),
                edges: self.share(sizes.edges),
                named_edges: sizes.named_edges.map(|edges| self.share(edges)),
                ..*sizes
            },
        }
    }
}

impl Chunk {
    /// The rows and edges that need no other rank (chunk 0), or the others (chunk 1).
    fn near_or_far(&self, rows: Vertices, sizes: &RankSizes) -> RankSizes {
        let reach = sizes.reach;
        let (inner, halo, edges) = match (rows, self.index) {
            (Vertices::Inner, 0) => (reach.interior, sizes.halo, reach.interior_edges),
            (Vertices::Inner, _) => (
                sizes.inner.saturating_sub(reach.interior),
                sizes.halo,
                sizes.edges.saturating_sub(reach.interior_edges),
            ),
            (_, 0) => (sizes.inner, 0, sizes.edges.saturating_sub(reach.halo_edges)),
            _ => (0, sizes.halo, reach.halo_edges),
        };
        // How many edges of named sets are near is not counted: as many as of the stored ones.
        let share = |of: u64| match sizes.edges {
            0 => of / 2,
            all => (u128::from(of) * u128::from(edges) / u128::from(all)) as u64,
        };
        RankSizes {
            inner,
            halo,
            edges,
            named_edges: sizes.named_edges.map(share),
            ..*sizes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Reach;

    /// Chunks of rows are consecutive, none is longer than the first, and none splits a grain.
    #[test]
    fn even_chunks_cover_all_rows() {
        for total in [0u64, 1, 31, 32, 33, 1000, 5000, 40_000] {
            let sizes = RankSizes {
                inner: total,
                ..RankSizes::default()
            };
            for grain in [Grain::Lines, Grain::Sums, Grain::Products] {
                let rows = Vertices::Inner;
                let edges = None;
                let even = Even { rows, grain, edges };
                let block = match grain {
                    Grain::Lines => 32,
                    Grain::Reach => 1,
                    Grain::Sums => 1024,
                    Grain::Products => product_block(total),
                };
                for of in 1..9 {
                    let mut end = 0;
                    for index in 0..of {
                        let chunk = Chunk {
                            index,
                            of,
                            even: Some(even),
                        };
                        let rows = chunk.rows(&sizes).unwrap();
                        assert_eq!(rows.start, end);
                        assert!(rows.is_empty() || rows.start.is_multiple_of(block));
                        assert!(rows.end - rows.start <= even.longest(of, &sizes));
                        end = rows.end;
                    }
                    assert_eq!(end, total, "{total} rows in {of}");
                }
            }
        }
    }

    /// The near and far chunks add up to all rows and edges, even if one of them is empty.
    #[test]
    fn near_and_far_rows_are_all() {
        let sizes = RankSizes {
            inner: 10,
            halo: 4,
            edges: 30,
            ..RankSizes::default()
        };
        for (interior, interior_edges, halo_edges) in [(0, 0, 30), (10, 30, 0), (7, 18, 5)] {
            let reach = Reach {
                interior,
                interior_edges,
                halo_edges,
            };
            let sizes = RankSizes { reach, ..sizes };
            for (rows, near) in [(Vertices::Inner, interior), (Vertices::Local, 10)] {
                let even = Even {
                    rows,
                    grain: Grain::Reach,
                    edges: None,
                };
                let chunk = |index| Chunk {
                    index,
                    of: 2,
                    even: Some(even),
                };
                let total = sizes.rows(rows.extent());
                assert_eq!(even.bounds(2, &sizes, &[]), [0, near, total]);
                assert_eq!(chunk(0).rows(&sizes), Some(0..near));
                assert_eq!(chunk(1).rows(&sizes), Some(near..total));
                assert_eq!(even.longest(2, &sizes), near.max(total - near));
                let [one, other] = [0, 1].map(|index| chunk(index).sizes(&sizes));
                assert_eq!(one.edges + other.edges, sizes.edges);
                assert_eq!(one.rows(rows.extent()), near);
                assert_eq!(other.rows(rows.extent()), total - near);
                let looped = Extent::Edges(EdgeSet::Looped);
                assert_eq!(one.rows(looped) + other.rows(looped), sizes.rows(looped));
            }
        }
    }

    /// Chunks of rows with edges cover all rows, and none exceeds its limits, wherever edges
    /// concentrate.
    #[test]
    fn chunks_have_few_rows_and_few_edges() {
        for (rows, heavy) in [(0u64, 0), (33, 5), (2000, 0), (2000, 7), (2000, 300)] {
            let degree = |row: u64| if row < heavy { 90 } else { row % 3 };
            let mut first = vec![0];
            (0..rows).for_each(|row| first.push(first[row as usize] + degree(row)));
            let sizes = RankSizes {
                inner: rows,
                edges: first[rows as usize],
                max_degree: 90,
                ..RankSizes::default()
            };
            let even = Even {
                rows: Vertices::Inner,
                grain: Grain::Lines,
                edges: Some(Grouped {
                    set: EdgeSet::Plain,
                    by: End::Dst,
                }),
            };
            for of in [2, 4, 8, 16, 64] {
                let bounds = even.bounds(of, &sizes, &first);
                assert_eq!((bounds.len(), bounds[0]), (of as usize + 1, 0));
                assert_eq!(bounds[of as usize], rows);
                for pair in bounds.windows(2) {
                    assert!(
                        pair[1] - pair[0] <= even.longest(of, &sizes),
                        "{of}: {bounds:?}"
                    );
                    let edges = first[pair[1] as usize] - first[pair[0] as usize];
                    assert!(edges <= even.most_edges(of, &sizes), "{of}: {bounds:?}");
                }
            }
        }
    }
}

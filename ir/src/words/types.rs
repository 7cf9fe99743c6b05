//! Tensor types: kind of rows, heads, width.

pub use super::level::{Level, Of};

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// Which edges a message-passing step runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EdgeSet {
    /// The stored edges; self loops are not stored.
    Plain,
    /// The stored edges and one self loop per vertex.
    Looped,
    /// A further set of edges of the graph, by its number, which is from 1 to [`MAX_SETS`]. The
    /// stored edges do not include them.
    Named(u8),
}

/// Most named edge sets of a graph.
pub const MAX_SETS: usize = 7;

impl EdgeSet {
    /// The edges of a graph without named sets.
    pub const UNNAMED: [Self; 2] = [Self::Plain, Self::Looped];

    /// All edge sets that a graph can have.
    pub fn all() -> impl Iterator<Item = Self> {
        let named = (1..=MAX_SETS as u8).map(Self::Named);
        Self::UNNAMED.into_iter().chain(named)
    }

    /// Self loops of each vertex.
    pub const fn loops(self) -> u64 {
        match self {
            Self::Looped => 1,
            Self::Plain | Self::Named(_) => 0,
        }
    }

    /// The same set without self loops.
    pub const fn stored(self) -> Self {
        match self {
            Self::Plain | Self::Looped => Self::Plain,
            Self::Named(number) => Self::Named(number),
        }
    }

    /// Its place in [`EdgeSet::all`].
    pub const fn index(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Looped => 1,
            Self::Named(number) => 1 + number as usize,
        }
    }
}

/// A value for each edge set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BySet<T>([T; MAX_SETS + 2]);

impl<T> BySet<T> {
    /// The values that a function gives.
    pub fn from_fn(mut value: impl FnMut(EdgeSet) -> T) -> Self {
        let mut sets = EdgeSet::all();
        Self(std::array::from_fn(|_| {
            value(sets.next().unwrap_or(EdgeSet::Plain))
        }))
    }

    /// The value of a set.
    pub fn of(&self, set: EdgeSet) -> &T {
        &self.0[set.index().min(MAX_SETS + 1)]
    }

    /// The value of a set.
    pub fn of_mut(&mut self, set: EdgeSet) -> &mut T {
        &mut self.0[set.index().min(MAX_SETS + 1)]
    }

    /// The values.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// The sets with their values.
    pub fn each(&self) -> impl Iterator<Item = (EdgeSet, &T)> {
        EdgeSet::all().zip(&self.0)
    }
}

/// Numbers of edges of the named sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NamedEdges([u64; MAX_SETS]);

impl NamedEdges {
    /// No edges.
    pub const NONE: Self = Self([0; MAX_SETS]);

    /// Different numbers from `first` on.
    pub fn typical(first: u64) -> Self {
        Self(std::array::from_fn(|k| first + 17 * k as u64))
    }

    /// The number of each set.
    pub fn numbers(&self) -> [u64; MAX_SETS] {
        self.0
    }

    /// Whether there are none.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Edges of the named set with this number.
    pub fn of(&self, number: u8) -> u64 {
        let place = usize::from(number).wrapping_sub(1);
        self.0.get(place).copied().unwrap_or(0)
    }

    /// Adds to the edges of a named set.
    pub fn add(&mut self, number: u8, edges: u64) {
        let place = usize::from(number).wrapping_sub(1);
        if let Some(count) = self.0.get_mut(place) {
            *count += edges;
        }
    }

    /// A share of each number. Without edges, the function is not asked.
    pub fn map(self, f: impl Fn(u64) -> u64) -> Self {
        if self.is_none() {
            return self;
        }
        Self(self.0.map(f))
    }

    /// A function of each number and the same one of others.
    pub fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|k| f(self.0[k], other.0[k])))
    }
}

/// Which vertex a reduction over edges belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The destination: edges by in-neighbor CSR, one result per inner vertex.
    Dst,
    /// The source: edges by out-neighbor CSR, one result per local vertex (inner and halo).
    Src,
}

/// What the rows of a tensor stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rows {
    /// A fixed number of rows, equal on every rank (weights, scalars).
    Fixed(u32),
    /// One row per vertex.
    Vertices,
    /// One row per edge of an edge set, in in-neighbor CSR order.
    Edges(EdgeSet),
    /// One row per vertex of the whole graph, on every rank, by global id. Such tensors hold a
    /// slice of the columns (layout *columns by slice*), or all of them (*replicated*).
    All,
    /// One row per edge of the whole graph, on every rank, in in-neighbor CSR order.
    AllEdges(EdgeSet),
    /// One row per vertex of a level of the batch at hand; see [`crate::words::sampling`].
    Level(Level),
    /// One row per edge of a layer of the batch: those kept into the vertices of this level, from
    /// the level below.
    LevelEdges(Level, EdgeSet),
}

/// The type of a tensor of 32-bit floats: `rows x heads x width`, row-major.
///
/// `stack` is 0 for a plain tensor. With `stack = n`, the tensor is a sequence of `n` plain
/// tensors, one per iteration of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Type {
    /// Iterations that a stacked tensor spans; 0 for a plain tensor.
    pub stack: u32,
    /// What a row stands for.
    pub rows: Rows,
    /// Attention heads; 1 if there are none.
    pub heads: u32,
    /// Columns of one head.
    pub width: u32,
}

impl Rows {
    /// The edge set, if rows are edges.
    pub const fn edge_set(self) -> Option<EdgeSet> {
        match self {
            Self::Edges(set) | Self::AllEdges(set) | Self::LevelEdges(_, set) => Some(set),
            Self::Fixed(_) | Self::Vertices | Self::All | Self::Level(_) => None,
        }
    }

    /// Rows at an end of the edges of a set to rows of these edges; `None` for rows that are no
    /// vertices.
    pub const fn taken(self, set: EdgeSet, end: End) -> Option<Self> {
        match (self, end) {
            (Self::Vertices, _) => Some(Self::Edges(set)),
            (Self::All, _) => Some(Self::AllEdges(set)),
            (Self::Level(level), End::Dst) => Some(Self::LevelEdges(level, set)),
            (Self::Level(level), End::Src) => Some(Self::LevelEdges(level.above(), set)),
            (Self::Fixed(_) | Self::Edges(_) | Self::AllEdges(_) | Self::LevelEdges(..), _) => None,
        }
    }

    /// Rows of the edges of `set` to rows at an end of them; `None` for other rows.
    pub fn gathered(self, set: EdgeSet, end: End) -> Option<Self> {
        if self.edge_set() != Some(set) {
            return None;
        }
        match (self, end) {
            (Self::Edges(_), _) => Some(Self::Vertices),
            (Self::AllEdges(_), _) => Some(Self::All),
            (Self::LevelEdges(level, _), End::Dst) => Some(Self::Level(level)),
            (Self::LevelEdges(level, _), End::Src) => level.below().map(Self::Level),
            (Self::Fixed(_) | Self::Vertices | Self::All | Self::Level(_), _) => None,
        }
    }

    /// A rank's own vertices to those of all ranks, on every rank; `None` for other rows.
    pub const fn spread(self) -> Option<Self> {
        match self {
            Self::Vertices => Some(Self::All),
            Self::Level(Level {
                number,
                of: Of::One,
            }) => Some(Self::Level(Level::all(number))),
            Self::Level(_) | Self::LevelEdges(..) | Self::Fixed(_) => None,
            Self::All | Self::Edges(_) | Self::AllEdges(_) => None,
        }
    }

    /// The vertices of all ranks to a rank's own; `None` for other rows.
    pub const fn collected(self) -> Option<Self> {
        match self {
            Self::All => Some(Self::Vertices),
            Self::Level(Level {
                number,
                of: Of::All,
            }) => Some(Self::Level(Level::own(number))),
            Self::Level(_) | Self::LevelEdges(..) | Self::Fixed(_) => None,
            Self::Vertices | Self::Edges(_) | Self::AllEdges(_) => None,
        }
    }

    /// Rows of the same vertices or edges of all ranks, on every rank; others as they are.
    pub const fn of_all(self) -> Self {
        match self {
            Self::Vertices => Self::All,
            Self::Edges(set) => Self::AllEdges(set),
            Self::Level(level) => Self::Level(Level::all(level.number)),
            Self::LevelEdges(level, set) => Self::LevelEdges(Level::all(level.number), set),
            Self::Fixed(_) | Self::All | Self::AllEdges(_) => self,
        }
    }

    /// Whether every rank has the rows of all.
    pub const fn are_all(self) -> bool {
        match self {
            Self::All | Self::AllEdges(_) => true,
            Self::Level(level) | Self::LevelEdges(level, _) => matches!(level.of, Of::All),
            Self::Fixed(_) | Self::Vertices | Self::Edges(_) => false,
        }
    }

    /// Whether these are vertices, or edges, of a sampled batch.
    pub const fn of_batch(self) -> bool {
        match self {
            Self::Level(_) | Self::LevelEdges(..) => true,
            Self::Fixed(_) | Self::Vertices | Self::All => false,
            Self::Edges(_) | Self::AllEdges(_) => false,
        }
    }
}

impl Type {
    /// A plain tensor.
    pub const fn new(rows: Rows, heads: u32, width: u32) -> Self {
        Self {
            stack: 0,
            rows,
            heads,
            width,
        }
    }

    /// A vertex tensor without heads.
    pub const fn vertices(width: u32) -> Self {
        Self::new(Rows::Vertices, 1, width)
    }

    /// A matrix with the same number of rows on every rank.
    pub const fn matrix(rows: u32, width: u32) -> Self {
        Self::new(Rows::Fixed(rows), 1, width)
    }

    /// One number.
    pub const SCALAR: Self = Self::matrix(1, 1);

    /// Floats per row.
    pub const fn columns(&self) -> u32 {
        self.heads * self.width
    }

    /// The type of one element of a stacked tensor.
    pub const fn unstacked(self) -> Self {
        Self { stack: 0, ..self }
    }

    /// A stack of `count` tensors of this type.
    pub const fn stacked(self, count: u32) -> Self {
        Self {
            stack: count,
            ..self
        }
    }

    /// The type of an element-wise operation on `self` and `other`, broadcasting single rows,
    /// heads and columns. `None` if they do not match.
    pub fn broadcast(self, other: Self) -> Option<Self> {
        let one = |a: u32, b: u32| match (a, b) {
            (a, b) if a == b => Some(a),
            (1, b) => Some(b),
            (a, 1) => Some(a),
            _ => None,
        };
        let rows = match (self.rows, other.rows) {
            (a, b) if a == b => a,
            (Rows::Fixed(1), b) => b,
            (a, Rows::Fixed(1)) => a,
            _ => return None,
        };
        if self.stack != other.stack {
            return None;
        }
        let (heads, width) = (one(self.heads, other.heads)?, one(self.width, other.width)?);
        Some(Self {
            stack: self.stack,
            rows,
            heads,
            width,
        })
    }
}

impl fmt::Display for EdgeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("E"),
            Self::Looped => f.write_str("E+"),
            Self::Named(number) => write!(f, "E:{number}"),
        }
    }
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(n) => write!(f, "{n}"),
            Self::Vertices => f.write_str("V"),
            Self::Edges(set) => set.fmt(f),
            Self::All => f.write_str("all V"),
            Self::AllEdges(set) => write!(f, "all {set}"),
            Self::Level(Level { number, of }) => write!(f, "{of}V{number}"),
            Self::LevelEdges(Level { number, of }, set) => match set {
                EdgeSet::Plain => write!(f, "{of}E{number}"),
                EdgeSet::Looped => write!(f, "{of}E{number}+"),
                EdgeSet::Named(name) => write!(f, "{of}E{number}:{name}"),
            },
        }
    }
}

/// Nothing, or `all ` before what has rows of all ranks.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.stack != 0 {
            write!(f, "{} * ", self.stack)?;
        }
        match self.heads {
            1 => write!(f, "[{} x {}]", self.rows, self.width),
            heads => write!(f, "[{} x {heads} x {}]", self.rows, self.width),
        }
    }
}

/// The elements of `0..of` that belong to `rank` when they are divided evenly: shares are
/// contiguous, in rank order, and differ by at most one element.
pub fn share(of: u32, ranks: u32, rank: u32) -> Range<u32> {
    let ranks = ranks.max(1);
    let (size, longer) = (of / ranks, of % ranks);
    let begin = rank * size + rank.min(longer);
    begin..begin + size + u32::from(rank < longer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_rows_heads_and_columns_are_broadcast() {
        let full = Type::new(Rows::Vertices, 8, 16);
        let scale = Type::new(Rows::Vertices, 8, 1);
        let bias = Type::new(Rows::Fixed(1), 1, 16);
        assert_eq!(full.broadcast(scale), Some(full));
        assert_eq!(scale.broadcast(bias), Some(full));
        assert_eq!(full.broadcast(Type::matrix(2, 16)), None);
        assert_eq!(full.to_string(), "[V x 8 x 16]");
    }
}

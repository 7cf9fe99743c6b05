//! What operators have from outside of a model: values of the data graph and of earlier epochs, and
//! draws.

use super::Slice;
use crate::kernel::mask_key;
use crate::words::types::{EdgeSet, Rows, Type};
use serde::{Deserialize, Serialize};

/// Values that come with the data graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// The feature matrix, `[V x F]`.
    Features,
    /// A rank's columns of the features of all vertices, `[all V x slice]`.
    FeatureSlice(Slice),
    /// Number of edges into a vertex, `[V x 1]`.
    InDegree(EdgeSet),
    /// Number of edges out of a vertex, `[V x 1]`.
    OutDegree(EdgeSet),
    /// History `n`: rows of an earlier epoch, `[V x C]`; constant within an epoch.
    History(History),
    /// 1 for edges whose source's chunk does not come after the destination's in this epoch, else 0,
    /// `[E x 1]`. Where vertices are not in chunks, 1 for all.
    Fresh(EdgeSet),
    /// The type of an edge, a whole number, `[E x 1]`.
    Relation(Relations),
    /// Number of edges of the same type into the same vertex, `[E x 1]`.
    RelationDegree(Relations),
}

/// The edges whose types are read, self loops not counted: they have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Relations {
    /// Number of types; those of edges are below it.
    pub count: u32,
    /// Whether the edges are those of the whole graph, on every rank.
    pub all: bool,
}

impl Relations {
    /// The type of a tensor of one number an edge.
    pub fn ty(self) -> Type {
        let rows = match self.all {
            true => Rows::AllEdges(EdgeSet::Plain),
            false => Rows::Edges(EdgeSet::Plain),
        };
        Type::new(rows, 1, 1)
    }
}

/// A history, which starts as what an exact pass finds and as zeros in the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct History {
    /// Its number.
    pub number: u32,
    /// Its heads.
    pub heads: u32,
    /// Columns of a head.
    pub width: u32,
}

impl History {
    /// Columns of a row.
    pub fn columns(self) -> u32 {
        self.heads * self.width
    }

    /// Its type.
    pub fn ty(self) -> Type {
        Type::new(Rows::Vertices, self.heads, self.width)
    }
}

/// A dropout in a model.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Site {
    /// Its number.
    pub number: u32,
    /// The iteration that it belongs to, where it comes from a loop that was unrolled; added to that of
    /// the enclosing loop.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub iteration: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl From<u32> for Site {
    fn from(number: u32) -> Self {
        let iteration = 0;
        Self { number, iteration }
    }
}

impl Site {
    /// The key of its draws in an epoch, in an iteration of the enclosing loop.
    pub fn key(self, seed: u64, epoch: u32, iteration: u32) -> u64 {
        mask_key(
            seed,
            epoch,
            self.number,
            self.iteration.saturating_add(iteration),
        )
    }
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.iteration {
            0 => write!(f, "{}", self.number),
            n => write!(f, "{}.{n}", self.number),
        }
    }
}

/// What a tensor has to do with copies of rows that other ranks own (SANCUS, option `stale_grad = stop`). A rank
/// reads copies in place of the rows of a *block* that was left out; where all rows are on one rank there are
/// none, and all of these are the operand but [`Copies::Left`], which is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copies {
    /// The rows of which copies are kept. What lies between it and [`Copies::Seen`] is computed of copies too.
    Kept,
    /// The rows that edges see.
    Seen,
    /// Of the gradients that edges bring to what they see, those by own rows: what edges of other ranks bring
    /// counts only if the block was sent.
    Back,
    /// The others: those by rows of blocks that were left out, 0 in all other rows.
    Left,
}

impl Copies {
    /// The name in printed graphs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Seen => "seen",
            Self::Back => "back",
            Self::Left => "left",
        }
    }
}

/// Clipping of the gradient of a vertex tensor by *blocks*, the rows of a rank (SANCUS, section 3.2, step 1 of the
/// backward pass).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clip {
    /// The tensor, as it is; its gradient is clipped.
    Gradient,
    /// The rows of each block, multiplied with `min(1, most / length)`, `length` that of the block.
    Rows,
    /// That factor of a rank's block: `[1 x 1] -> [1 x 1]`, of the sum of the block's squares.
    Factor,
}

impl Clip {
    /// What a block is multiplied with whose squares add up to `squares`.
    pub fn factor(most: f64, squares: f64) -> f64 {
        (most / squares.sqrt()).min(1.0)
    }

    /// The name in printed graphs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gradient => "clip_gradient",
            Self::Rows => "clip_rows",
            Self::Factor => "clip_factor",
        }
    }
}

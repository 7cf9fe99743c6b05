//! Values that operators take from outside a model: the data graph, earlier epochs, and draws.

use super::Slice;
use crate::kernel::mask_key;
use crate::words::sampling::Drawn;
use crate::words::types::{EdgeSet, Level, Of, Rows, Type};
use serde::{Deserialize, Serialize};

/// Inputs from the data graph and from earlier epochs.
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
    /// 1 for an edge unless its source's chunk comes after its destination's in this epoch,
    /// then 0; `[E x 1]`. Always 1 without chunks.
    Fresh(EdgeSet),
    /// Type of each edge, a whole number, `[E x 1]`.
    Relation(Relations),
    /// Number of edges of the same type into the same vertex, `[E x 1]`.
    RelationDegree(Relations),
    /// The features of each edge, `[E x D]`.
    EdgeFeatures(EdgeColumns),
    /// Numbers of the batch at hand.
    Drawn(Drawn),
}

/// How rows of a sampled batch come from others. Vertices of a level are the first rows of every
/// level below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampled {
    /// The rows of a level's vertices: `[V x C] -> [level x C]`. Levels of all ranks are read from
    /// the rows of all vertices.
    Fetch(Level),
    /// The first rows: `[level m x C] -> [level l x C]`, with `l >= m`.
    Prefix(Level),
    /// Adds to the first rows: `[level m x C] [level l x C] -> [level m x C]`, with `l >= m`.
    AddPrefix,
}

impl Sampled {
    /// The name in printed graphs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fetch(_) => "fetch",
            Self::Prefix(_) => "prefix",
            Self::AddPrefix => "add_prefix",
        }
    }

    /// The type of the result; `None` if the operands do not match.
    pub fn result(self, types: &[Type]) -> Option<Type> {
        match (self, types) {
            (Self::Fetch(level), [x]) if x.stack == 0 => {
                let own = x.rows == Rows::Vertices && level.of == Of::One;
                let rows = Rows::Level(level);
                (own || x.rows == Rows::All).then_some(Type { rows, ..*x })
            }
            (Self::Prefix(level), [x]) => match x.rows {
                Rows::Level(below) if below.begins_with(level) => Some(Type {
                    rows: Rows::Level(level),
                    ..*x
                }),
                _ => None,
            },
            (Self::AddPrefix, [x, first]) => match (x.rows, first.rows) {
                (Rows::Level(below), Rows::Level(level)) if below.begins_with(level) => {
                    let same = Type {
                        rows: x.rows,
                        ..*first
                    };
                    (same == *x).then_some(*x)
                }
                _ => None,
            },
            (Self::Fetch(_) | Self::Prefix(_) | Self::AddPrefix, _) => None,
        }
    }
}

/// The edges whose types are read. Self loops have no type and do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Relations {
    /// Number of types; every type is below it.
    pub count: u32,
    /// Whether these are the edges of the whole graph, on every rank.
    pub all: bool,
}

impl Relations {
    /// The type of a tensor with one number per edge.
    pub fn ty(self) -> Type {
        let rows = match self.all {
            true => Rows::AllEdges(EdgeSet::Plain),
            false => Rows::Edges(EdgeSet::Plain),
        };
        Type::new(rows, 1, 1)
    }
}

/// The edges whose features are read. Self loops have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EdgeColumns {
    /// Features of an edge.
    pub count: u32,
    /// The edges, without self loops.
    pub set: EdgeSet,
    /// Whether these are the edges of the whole graph, on every rank.
    pub all: bool,
}

impl EdgeColumns {
    /// The type of a tensor with the features of the edges.
    pub fn ty(self) -> Type {
        let rows = if self.all {
            Rows::AllEdges(self.set)
        } else {
            Rows::Edges(self.set)
        };
        Type::new(rows, 1, self.count)
    }
}

/// A history. It starts as the result of an exact pass; in the interpreter it starts as zeros.
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
    /// Its iteration if it comes from an unrolled loop; added to that of the enclosing loop.
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
    /// Key of its draws, given the epoch and the iteration of the enclosing loop.
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

/// A tensor's role in an exchange of copies of rows that other ranks own (SANCUS, option
/// `stale_grad = stop`). Where a *block* was not sent, a rank reads its copies. With all rows
/// on one rank there are no copies: each of these equals its operand, except [`Copies::Left`],
/// which is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copies {
    /// The exchanged rows, whose copies are kept. Tensors between it and [`Copies::Seen`] or
    /// [`Copies::Through`] are computed from copies too.
    Kept,
    /// The rows that edges see. Gradients of copies stop here.
    Seen,
    /// The rows that edges see. Gradients go through to the owners of all rows.
    Through,
    /// The gradients that edges bring for own rows. Those from edges of other ranks count only
    /// if the block was sent.
    Back,
    /// The remaining gradients: those for rows of blocks that were not sent; 0 in all other
    /// rows.
    Left,
}

impl Copies {
    /// The name in printed graphs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Seen => "seen",
            Self::Through => "through",
            Self::Back => "back",
            Self::Left => "left",
        }
    }
}

/// Clipping of the gradient of a vertex tensor by *blocks*; a block is the rows of one rank
/// (SANCUS, section 3.2, step 1 of the backward pass).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clip {
    /// The tensor itself; its gradient is clipped.
    Gradient,
    /// The rows of each block times `min(1, most / length)`, where `length` is the norm of the
    /// block.
    Rows,
    /// That factor for a rank's block, from the block's sum of squares: `[1 x 1] -> [1 x 1]`.
    Factor,
}

impl Clip {
    /// The factor for a block with a sum of squares of `squares`.
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

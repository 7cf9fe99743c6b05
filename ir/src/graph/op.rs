//! The operators of the IR, in one table.

mod data;
mod origin;
mod weights;

use crate::kernel::{Axis, End, Reduce};
use crate::words::number::Number;
use crate::words::scalar::{Binary, Unary};
use crate::words::types::{EdgeSet, Type};
use serde::{Deserialize, Serialize};

pub use data::{Clip, Copies, EdgeColumns, History, Input, Relations, Sampled, Site};
pub use origin::{Product, ValueOrigin};
pub use weights::ClassWeights;

/// What a loss compares the numbers of a vertex with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelKind {
    /// A class.
    Class,
    /// As many numbers, from 0 to 1: whether it has each of several labels.
    Several,
    /// As many numbers.
    Numbers,
}

/// The loss functions, with their numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Loss {
    /// Mean over the training vertices of the cross-entropy of `softmax(z)` with a distribution: the label has the
    /// probability `1 - smoothing`, and all classes share the rest equally (Szegedy et al., 2016). With weights, the
    /// term of each class counts as often as its weight says, and the sum is divided by the weights of the labels.
    CrossEntropy {
        /// What all classes share, from 0 to 1.
        smoothing: Number,
        /// The weights of the classes.
        weights: ClassWeights,
    },
    /// Mean over training vertices and classes of the binary cross-entropy with logits.
    BinaryCrossEntropy {
        /// For each class, how often a label counts that is there; empty if once.
        positive: Vec<Number>,
    },
    /// Mean over training vertices and columns of `(z - y)^2`.
    SquaredError,
    /// Mean over training vertices and columns of `|z - y|`.
    AbsoluteError,
    /// Mean over training vertices and columns of `(z - y)^2 / 2` where `|z - y|` is below the
    /// threshold, and of `delta (|z - y| - delta / 2)` elsewhere (Huber, 1964).
    Huber {
        /// The threshold, above 0.
        delta: Number,
    },
}

impl Loss {
    /// The cross-entropy with the label alone.
    pub const CROSS_ENTROPY: Self = Self::CrossEntropy {
        smoothing: Number::ZERO,
        weights: ClassWeights::Equal,
    };
    /// The binary cross-entropy in which all labels count alike.
    pub const BINARY_CROSS_ENTROPY: Self = Self::BinaryCrossEntropy {
        positive: Vec::new(),
    };
    /// The loss of Huber with the threshold 1.
    pub const HUBER: Self = Self::Huber { delta: Number::ONE };

    /// What the logits are compared with.
    pub fn labels(&self) -> LabelKind {
        match self {
            Self::CrossEntropy { .. } => LabelKind::Class,
            Self::BinaryCrossEntropy { .. } => LabelKind::Several,
            Self::SquaredError | Self::AbsoluteError | Self::Huber { .. } => LabelKind::Numbers,
        }
    }

    /// Labels of a vertex, of four bytes each.
    pub fn per_vertex(&self, width: u32) -> u32 {
        match self.labels() {
            LabelKind::Class => 1,
            LabelKind::Several | LabelKind::Numbers => width,
        }
    }

    /// The name in the language.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::CrossEntropy { .. } => "cross_entropy",
            Self::BinaryCrossEntropy { .. } => "bce_with_logits",
            Self::SquaredError => "mse",
            Self::AbsoluteError => "mae",
            Self::Huber { .. } => "huber",
        }
    }

    /// The weights that it is given, one for each class.
    pub fn given_weights(&self) -> Option<&[Number]> {
        match self {
            Self::CrossEntropy {
                weights: ClassWeights::Given(weights),
                ..
            } => Some(weights),
            Self::BinaryCrossEntropy { positive } if !positive.is_empty() => Some(positive),
            Self::CrossEntropy { .. } | Self::BinaryCrossEntropy { .. } => None,
            Self::SquaredError | Self::AbsoluteError | Self::Huber { .. } => None,
        }
    }

    /// The loss of the number of a column against its target, in exact arithmetic, and its derivative; `None`
    /// for losses of classes.
    pub fn of_number(&self, column: usize, z: f64, y: f64) -> Option<(f64, f64)> {
        let e = z - y;
        match self {
            Self::CrossEntropy { .. } => None,
            // max(z, 0) - z y + ln(1 + exp(-|z|)) does not overflow for large |z|; -ln(sigmoid(z)) is
            // max(-z, 0) + ln(1 + exp(-|z|)).
            Self::BinaryCrossEntropy { positive } => {
                let rest = (-z.abs()).exp().ln_1p();
                let more = positive.get(column).map_or(0.0, |weight| weight.0 - 1.0) * y;
                Some((
                    z.max(0.0) - z * y + rest + more * (rest + (-z).max(0.0)),
                    1.0 / (1.0 + (-z).exp()) - y - more / (1.0 + z.exp()),
                ))
            }
            Self::SquaredError => Some((e * e, 2.0 * e)),
            Self::AbsoluteError => Some((e.abs(), sign(e))),
            Self::Huber { delta } if e.abs() < delta.0 => Some((0.5 * e * e, e)),
            Self::Huber { delta } => Some((delta.0 * (e.abs() - 0.5 * delta.0), delta.0 * sign(e))),
        }
    }
}

/// The sign of a number, 0 for 0.
fn sign(x: f64) -> f64 {
    f64::from(i8::from(x > 0.0) - i8::from(x < 0.0))
}

/// An operator. [`crate::graph::infer::infer`] checks its operands and gives its result type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// A value of the data graph.
    Input(Input),
    /// A trainable tensor; stacked if it belongs to a repeated layer.
    Param(crate::graph::ParamId),
    /// A number.
    Const(f32),
    /// One number per iteration of a scan: `[n * [1 x 1]]`.
    Table(Vec<f32>),
    /// Argument `n` of a scan body.
    Arg(u32),
    /// A function of every element.
    Unary(Unary),
    /// An element-wise function of two tensors, with broadcasting.
    Binary(Binary),
    /// Zeroes elements with probability `p` and scales the others by `1 / (1 - p)`. The draw is
    /// keyed by site, epoch, iteration, row and column. Identity outside training.
    Dropout {
        /// Probability of dropping.
        p: f32,
        /// Which dropout of the model.
        site: Site,
        /// The slice that the operand holds, if it is one; draws use columns of the whole
        /// tensor.
        slice: Option<Slice>,
    },
    /// Repeats single rows, heads and columns up to a type.
    Broadcast(Type),
    /// Vertex rows to edge rows: each edge gets the row of its source (`End::Src`) or
    /// destination.
    Take(EdgeSet, End),
    /// A vertex tensor whose current or earlier rows edges see. Operands are `[x, old, kept,
    /// history]`; `x` and `old` have one type, `kept` and `history` another. Only [`Op::Take`]
    /// with [`End::Src`] reads it: edges that [`Input::Fresh`] marks see rows of `x`, the
    /// others rows of `old`. `old` is computed from `history` row by row, as `x` is from
    /// `kept`. `kept` becomes `history` for later epochs. Each edge's gradient goes to what it
    /// sees: to `x`, or to the parameters in `old`.
    Blend,
    /// Rows of a sampled batch; see [`Sampled`].
    Sampled(Sampled),
    /// Marks a vertex tensor's part in an exchange of copies; its value is the tensor. Marks
    /// with the same number belong to one exchange.
    Copies(Copies, u32),
    /// A step of clipping the gradient of a vertex tensor. On each rank, the Frobenius norm of
    /// the gradient of its rows is at most this number.
    Clip(Clip, f32),
    /// Edge rows to vertex rows: reduces the edges that share an end.
    Gather(EdgeSet, End, Reduce),
    /// Mean over the edges into a vertex; 0 where there are none.
    GatherMean(EdgeSet),
    /// Softmax over the edges into a vertex, for every head and column.
    EdgeSoftmax(EdgeSet),
    /// For each edge, the table row that it names by a whole number: `[n x h x w] [E x 1] -> [E
    /// x h x w]`.
    Pick,
    /// For each of `n` table rows, the sum over the edges that name it: `[E x h x w] [E x 1] ->
    /// [n x h x w]`.
    PickSum(u32),
    /// For each edge, the head that it names by a whole number: `[E x n x w] [E x 1] -> [E x 1
    /// x w]`.
    PickHead,
    /// Expands to `n` heads: the one that each edge names holds the operand, the others are 0:
    /// `[E x 1 x w] [E x 1] -> [E x n x w]`.
    PlaceHead(u32),
    /// `a . b`: `[n x a] [a x b] -> [n x b]`; heads of `a` count as columns.
    MatMul,
    /// `a . b^T`: `[n x a] [b x a] -> [n x b]`.
    MatMulNT,
    /// `a^T . b`: `[n x a] [n x b] -> [a x b]`; sums over rows.
    MatMulTN,
    /// Changes heads and columns; `heads * width` stays the same.
    Reshape {
        /// Heads of the result.
        heads: u32,
        /// Columns of a head of the result.
        width: u32,
    },
    /// Concatenates columns, head by head.
    Concat,
    /// Columns `start .. start + len` of every head.
    SliceCols {
        /// First column.
        start: u32,
        /// Number of columns.
        len: u32,
    },
    /// Zero columns added before and after, in every head.
    PadCols {
        /// Zero columns before.
        before: u32,
        /// Zero columns after.
        after: u32,
    },
    /// Rows `start .. start + len` of a matrix.
    SliceRows {
        /// First row.
        start: u32,
        /// Number of rows.
        len: u32,
    },
    /// Zero rows added before and after a matrix.
    PadRows {
        /// Zero rows before.
        before: u32,
        /// Zero rows after.
        after: u32,
    },
    /// Reduces the columns of each head, or the heads.
    ReduceCols(Axis, Reduce),
    /// Sum over all rows: `[n x h x w] -> [1 x h x w]`.
    SumRows,
    /// Moves from one layout over the ranks to another. This and [`Op::SumRanks`] are the only
    /// operators whose value depends on other ranks.
    Redistribute(Redistribute),
    /// Sum of a tensor of fixed rows over all ranks: `[n x C] -> [n x C]`.
    SumRanks,
    /// Loss of logits: `[V x C] -> [1 x 1]`.
    Loss(Loss),
    /// Derivative of the loss with respect to the logits.
    LossGrad(Loss),
    /// A loop. Operands: `carries`, then `consts`, then `xs` (stacked by `count`). The body's
    /// arguments are the same, with `xs` unstacked; its results are the carries, then `ys`.
    /// Results of the scan are the last carries and the stacked `ys`.
    Scan(Box<Scan>),
    /// Result `n` of a scan.
    Out(u32),
}

/// A move of a tensor from one layout to another. `V` stands for a rank's own rows, `all V` for
/// the rows of every vertex. In a batch these are the rows of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Redistribute {
    /// Rows to columns: `[V x C] -> [all V x slice]` (NeutronTP's *split*).
    Split(Slice),
    /// Columns to rows: `[all V x slice] -> [V x C]` (NeutronTP's *gather*).
    Join(Slice),
    /// Rows to a copy of all rows on every rank: `[V x C] -> [all V x C]` (an all-gather).
    Replicate,
    /// Partial sums of all rows to the sums of own rows: `[all V x C] -> [V x C]` (a
    /// reduce-scatter).
    Reduce,
    /// The own rows of a tensor that every rank holds: `[all V x C] -> [V x C]`. Sends nothing.
    Own,
}

/// A rank's slice of the heads, or of the columns of every head.
///
/// Rank `r` of `M` has elements [`share`](crate::words::types::share)`(of, M, r)` of the axis.
/// If some shares would be empty, or some have one element and others two, shorter slices get
/// one padding element (0 on arrival, never read). Otherwise ranks would run different
/// programs, since a program for one element differs from one for several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Slice {
    /// The axis that is divided.
    pub axis: Axis,
    /// Elements of the axis on all ranks together.
    pub of: u32,
    /// First element of this rank.
    pub start: u32,
    /// Elements of this rank, without padding.
    pub own: u32,
    /// Elements of this rank, with padding.
    pub len: u32,
}

impl Slice {
    /// The slice of a rank.
    pub fn new(axis: Axis, of: u32, ranks: u32, rank: u32) -> Self {
        let share = crate::words::types::share(of, ranks, rank);
        let own = share.len() as u32;
        let len = match Self::padded(of, ranks) {
            true => of.div_ceil(ranks.max(1)),
            false => own,
        };
        Self {
            axis,
            of,
            start: share.start,
            own,
            len: len.max(1),
        }
    }

    /// Position of the slice in the whole tensor, given the type of the slice: the column of
    /// its first element (heads one after the other), and the number of columns from one of its
    /// heads to the next.
    pub fn columns(&self, ty: Type) -> (u32, u32) {
        match self.axis {
            Axis::Heads => (self.start * ty.width, ty.width),
            Axis::Width => (self.start, self.of),
        }
    }

    /// Whether some ranks compute a padding element.
    pub fn padded(of: u32, ranks: u32) -> bool {
        of < 2 * ranks && !of.is_multiple_of(ranks.max(1))
    }

    /// The type of a tensor of own rows to the type of its slice.
    pub fn cut(&self, ty: Type) -> Option<Type> {
        let rows = ty.rows.spread()?;
        let ty = self.swap(ty, self.of, self.len)?;
        Some(Type { rows, ..ty })
    }

    /// The type of a slice to the type of its tensor of own rows.
    pub fn whole(&self, ty: Type) -> Option<Type> {
        let rows = ty.rows.collected()?;
        let ty = self.swap(ty, self.len, self.of)?;
        Some(Type { rows, ..ty })
    }

    fn swap(&self, mut ty: Type, from: u32, to: u32) -> Option<Type> {
        let size = match self.axis {
            Axis::Heads => &mut ty.heads,
            Axis::Width => &mut ty.width,
        };
        if *size != from {
            return None;
        }
        *size = to;
        Some(ty)
    }
}

impl Redistribute {
    /// The type of the result; `None` if the operand does not match.
    pub fn result(&self, ty: Type) -> Option<Type> {
        if ty.stack != 0 {
            return None;
        }
        match self {
            Self::Split(slice) => slice.cut(ty),
            Self::Join(slice) => slice.whole(ty),
            Self::Replicate => ty.rows.spread().map(|rows| Type { rows, ..ty }),
            Self::Reduce | Self::Own => ty.rows.collected().map(|rows| Type { rows, ..ty }),
        }
    }

    /// The slice of the columns that results have; `None` if these are whole.
    pub fn slice(&self) -> Option<Slice> {
        match self {
            Self::Split(slice) => Some(*slice),
            Self::Join(_) | Self::Replicate | Self::Reduce | Self::Own => None,
        }
    }

    /// The name in printed graphs, traces and reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Split(_) => "split",
            Self::Join(_) => "join",
            Self::Replicate => "replicate",
            Self::Reduce => "reduce-rows",
            Self::Own => "own-rows",
        }
    }
}

/// A loop whose body is compiled once (in the sense of `jax.lax.scan`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scan {
    /// Number of iterations.
    pub count: u32,
    /// Whether iterations run from last to first.
    pub reverse: bool,
    /// Values carried from one iteration to the next.
    pub carries: u32,
    /// Values that every iteration reads.
    pub consts: u32,
    /// Stacked values; iteration `i` reads element `i`.
    pub xs: u32,
    /// The body; its `params` are empty.
    pub body: crate::graph::Graph,
}

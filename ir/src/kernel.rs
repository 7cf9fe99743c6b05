//! Kernel specifications: what a kernel computes, never how.
//!
//! A [`Kernel`] is a loop nest over rows (and, for some, over the edges of a row) with scalar
//! expressions inside. Code generators choose the schedule; the oracle interprets the same
//! value in double precision. Widths are constants of the specification; row counts are not.

pub use crate::words::scalar::Reduce;
pub use crate::words::types::End;

use crate::kernel::expr::Expr;
use crate::words::storage::Storage;
use crate::words::types::EdgeSet;
use serde::{Deserialize, Serialize};

pub mod expr;
pub mod flatten;
pub mod pass;
mod walk;

pub use pass::{EdgeNumber, EdgePass, EdgeResult};
pub use walk::{HUB_EDGES, Walk, mask_row, result_shape};

/// Which row of an operand an element comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum At {
    /// The row being computed (a vertex, a fixed row, or an edge for edge kernels).
    Row,
    /// The source vertex of the current edge.
    Src,
    /// The destination vertex of the current edge.
    Dst,
    /// The current edge, by its position in the in-neighbor CSR.
    Edge,
    /// Always row 0: a value shared by all rows (a bias, an attention vector).
    One,
    /// Row `list[row]` of the kernel's row list (packing messages).
    List,
}

/// An operand: where its rows lie, and how its elements follow the kernel's index `(row, head,
/// column)`.
///
/// Element `(row, h, c)` is number `row * stride + offset + h * head_step + c * column_step`. A
/// step of 0 broadcasts; `column_step` is 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operand {
    /// Which row.
    pub at: At,
    /// Elements from one row to the next.
    pub stride: u32,
    /// First element used in a row.
    pub offset: u32,
    /// Elements from one head to the next; 0 if all heads share the value.
    pub head_step: u32,
    /// 1, or 0 if all columns of a head share the value.
    pub column_step: u32,
    /// How elements lie in memory; arithmetic is in 32 bits.
    #[serde(default, skip_serializing_if = "Storage::is_f32")]
    pub storage: Storage,
    /// Offset read from another input. On the output of a summing gather it selects where each
    /// edge's value is added; all other places are 0, and `finish` must be the sum itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picked: Option<Picked>,
}

/// An offset of `number * step` elements, where another input holds `number`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Picked {
    /// The input that holds the number: one per edge (`At::Edge`), a whole number below
    /// `count`, in 32 bits.
    pub by: u16,
    /// Number of places.
    pub count: u32,
    /// Elements from one place to the next.
    pub step: u32,
}

/// A dropout mask of a kernel. See [`keep`] for the function.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mask {
    /// Probability of dropping an element.
    pub p: f32,
    /// `Row`, `Src` or `Dst` for a vertex mask (keyed by the vertex's global id); `Edge` for an
    /// edge mask (keyed by the global ids of source and destination).
    pub at: At,
    /// Column of the first element in the masked tensor: 0, or the start of a rank's slice.
    pub first: u32,
    /// Columns from one head to the next in the masked tensor; 0 if heads share the value.
    pub head_step: u32,
    /// 1, or 0 if all columns of a head share the value.
    pub column_step: u32,
}

/// The rows that a kernel runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Over {
    /// Rows without edges; their number is given at run time.
    Rows,
    /// The edges of a set, by destination, in in-neighbor CSR order.
    Edges(EdgeSet),
}

/// Which axis of a row [`Body::RowReduce`] reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Axis {
    /// The columns of each head: the result is `[rows x heads x 1]`.
    Width,
    /// The heads: the result is `[rows x 1 x width]`.
    Heads,
}

/// The loop nest of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Body {
    /// `out_i[row, h, c] = values_i` for every element. An output may alias an input that is
    /// read at the same element.
    Map {
        /// The rows.
        over: Over,
        /// One expression per output.
        values: Vec<Expr>,
    },
    /// g-SpMM: `out[v, h, c] = finish(reduce over edges of v of value)`.
    Gather {
        /// The edges.
        set: EdgeSet,
        /// The vertex that edges are grouped by. `Src` walks the out-neighbor CSR, whose
        /// permutation gives the edge's position for `At::Edge`.
        to: End,
        /// The reduction.
        reduce: Reduce,
        /// The message of one edge.
        value: Expr,
        /// Applied to the result; loads are `Row`, `One` (and `Acc`).
        finish: Expr,
    },
    /// g-SDDMM and row norms: reduces one axis of every row.
    RowReduce {
        /// The rows.
        over: Over,
        /// The axis that is reduced.
        axis: Axis,
        /// The reduction.
        reduce: Reduce,
        /// The element.
        value: Expr,
        /// Applied to the result; its loads ignore the reduced axis (their step there is 0).
        finish: Expr,
    },
    /// `out[0, h, c] = sum over rows of value`. Sums blocks of [`COLUMN_BLOCK`] rows (or
    /// destination vertices), then adds the block sums in order.
    ColReduce {
        /// The rows.
        over: Over,
        /// The element.
        value: Expr,
    },
    /// `out[n, h, c] = sum over the edges of type n of value`. Loads are `Edge`; `Row` stands
    /// for the type. The launch covers the destination vertices; the result has a row per type.
    TypeSum {
        /// The edges.
        set: EdgeSet,
        /// Number of types.
        types: u32,
        /// The element of one edge.
        value: Expr,
    },
    /// Several results of one pass over the edges of each row.
    EdgePass(EdgePass),
}

/// Rows (or destination vertices) that [`Body::ColReduce`] sums before adding to the total.
/// Part of the meaning: the order of additions never depends on threads.
pub const COLUMN_BLOCK: usize = 1024;

/// A kernel specification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// The loop nest.
    pub body: Body,
    /// Heads of the iteration space.
    pub heads: u32,
    /// Columns of a head of the iteration space.
    pub width: u32,
    /// Operands that `Value::Load` names.
    pub inputs: Vec<Operand>,
    /// Outputs, with `at` = `Row` (`One` for a column reduction); a map may have several.
    pub outputs: Vec<Operand>,
    /// Dropout masks that `Value::Mask` names; each has a 64-bit key at run time.
    pub masks: Vec<Mask>,
    /// Number of run-time scalars that `Value::Scalar` names.
    pub scalars: u16,
}

/// A 32-bit mixing function (lowbias32 by C. Wellons): every input bit reaches every output bit.
pub const fn mix32(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ (x >> 16)
}

/// The 64-bit key of one dropout draw, equal on every rank, thread and device.
///
/// `iteration` is that of the enclosing scan, and 0 outside scans; for nested scans it is
/// `outer iteration * count of the inner scan + inner iteration`. The seed's splitmix64 round
/// (Steele, Lea, Flood 2014) is followed by two more, which make neighboring sites, epochs and
/// iterations independent.
pub const fn mask_key(seed: u64, epoch: u32, site: u32, iteration: u32) -> u64 {
    let place = ((site as u64) << 32) | iteration as u64;
    mix64(mix64(mix64(seed) ^ epoch as u64) ^ place)
}

/// One step of splitmix64.
const fn mix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Hash of a vertex for a mask key.
pub const fn vertex_hash(key: u64, vertex: u32) -> u32 {
    mix32(vertex.wrapping_mul(0x9e37_79b1) ^ key as u32).wrapping_add((key >> 32) as u32)
}

/// Hash of an edge for a mask key; `src` and `dst` are global ids.
pub const fn edge_hash(key: u64, src: u32, dst: u32) -> u32 {
    mix32(vertex_hash(key, dst) ^ src.wrapping_mul(0x85eb_ca6b))
}

/// Whether a mask keeps an element, given the hash of its row and its column in the masked
/// tensor (`first + h * head_step + c * column_step`). Equal on every rank, thread and device.
pub fn keep(row_hash: u32, column: u32, p: f32) -> bool {
    draw(row_hash, column) >= drop_threshold(p)
}

/// The 24-bit number that [`keep`] compares with [`drop_threshold`].
pub const fn draw(row_hash: u32, column: u32) -> u32 {
    mix32(row_hash ^ column.wrapping_mul(0x9e37_79b9)) >> 8
}

/// The 24-bit number below which a draw means "drop".
pub fn drop_threshold(p: f32) -> u32 {
    (f64::from(p) * f64::from(1u32 << 24)).round() as u32
}

impl Body {
    /// Every expression of the kernel.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            Self::Map { values, .. } => values.iter().collect(),
            Self::Gather { value, finish, .. } | Self::RowReduce { value, finish, .. } => {
                vec![value, finish]
            }
            Self::ColReduce { value, .. } | Self::TypeSum { value, .. } => vec![value],
            Self::EdgePass(pass) => pass.exprs(),
        }
    }

    /// The same expressions, to change.
    pub fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        match self {
            Self::Map { values, .. } => values.iter_mut().collect(),
            Self::Gather { value, finish, .. } | Self::RowReduce { value, finish, .. } => {
                vec![value, finish]
            }
            Self::ColReduce { value, .. } | Self::TypeSum { value, .. } => vec![value],
            Self::EdgePass(pass) => pass.exprs_mut(),
        }
    }

    /// Whether expression number `index` of [`Body::exprs`] is an epilogue: it may use the result
    /// of the reduction, and edges are over.
    pub fn is_finish(&self, index: usize) -> bool {
        match self {
            Self::Gather { .. } | Self::RowReduce { .. } => index == 1,
            Self::EdgePass(pass) => {
                let behind = index.checked_sub(pass.numbers.len());
                behind.is_some_and(|n| n % 2 == 1)
            }
            Self::Map { .. } | Self::ColReduce { .. } | Self::TypeSum { .. } => false,
        }
    }

    /// The short name that traces and reports use.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Map {
                over: Over::Rows, ..
            } => "map",
            Self::Map {
                over: Over::Edges(_),
                ..
            } => "edge-map",
            Self::Gather { to: End::Dst, .. } => "spmm",
            Self::Gather { to: End::Src, .. } => "spmm-t",
            Self::RowReduce {
                over: Over::Rows, ..
            } => "row-reduce",
            Self::RowReduce {
                over: Over::Edges(_),
                ..
            } => "sddmm",
            Self::ColReduce { .. } => "col-reduce",
            Self::TypeSum { .. } => "type-sum",
            Self::EdgePass(EdgePass { to: End::Dst, .. }) => "edge-pass",
            Self::EdgePass(EdgePass { to: End::Src, .. }) => "edge-pass-t",
        }
    }

    /// Whether the kernel sums over all rows, so that it cannot run on only some of them.
    pub fn sums_rows(&self) -> bool {
        matches!(self, Self::ColReduce { .. } | Self::TypeSum { .. })
    }

    /// The edge set that the kernel walks, if it walks edges.
    pub fn edge_set(&self) -> Option<EdgeSet> {
        match self {
            Self::Gather { set, .. } | Self::TypeSum { set, .. } => Some(*set),
            Self::EdgePass(pass) => Some(pass.set),
            Self::Map { over, .. }
            | Self::RowReduce { over, .. }
            | Self::ColReduce { over, .. } => match over {
                Over::Edges(set) => Some(*set),
                Over::Rows => None,
            },
        }
    }
}

impl Kernel {
    /// Whether an input or output lies at this row.
    pub fn uses(&self, at: At) -> bool {
        let mut operands = self.inputs.iter().chain(&self.outputs);
        operands.any(|operand| operand.at == at)
    }

    /// Whether the kernel is a map that treats its operands as flat arrays: each is contiguous
    /// or one shared number.
    pub fn is_flat(&self) -> bool {
        let rows = matches!(
            self.body,
            Body::Map {
                over: Over::Rows,
                ..
            }
        );
        let consecutive = |operand: &Operand| {
            let lies = operand.at == At::One || operand.at == At::Row && operand.stride == 1;
            lies && operand.offset == 0 && operand.picked.is_none()
        };
        let mut operands = self.inputs.iter().chain(&self.outputs);
        rows && self.heads == 1
            && self.width == 1
            && self.masks.is_empty()
            && operands.all(consecutive)
    }
}

impl Operand {
    /// A contiguous operand with `heads x width` columns.
    pub fn dense(at: At, heads: u32, width: u32) -> Self {
        let head_step = if heads == 1 { 0 } else { width };
        let column_step = u32::from(width != 1);
        Self {
            at,
            stride: heads * width,
            offset: 0,
            head_step,
            column_step,
            storage: Storage::F32,
            picked: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_keep_the_stated_share() {
        for p in [0.1f32, 0.5, 0.6] {
            let kept: usize = (0..2000u32)
                .map(|v| {
                    (0..64)
                        .filter(|&c| keep(vertex_hash(7 << 32 | 3, v), c, p))
                        .count()
                })
                .sum();
            let share = kept as f64 / (2000.0 * 64.0);
            assert!((share - f64::from(1.0 - p)).abs() < 0.005, "{p}: {share}");
        }
    }
}

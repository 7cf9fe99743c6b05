//! Dense products.

use super::Launch;
use crate::program::{Chunk, Extent, Matrix};
use serde::{Deserialize, Serialize};

/// Which product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Product {
    /// `a . b`
    Nn,
    /// `a . b^T`
    Nt,
    /// `a^T . b`
    Tn,
}

/// Dense product: `out = a . b` (or a transposed form). `rows` is the extent of `a`'s
/// rows; `inner` the summed size of `Nn` and `Nt`; for `Tn`, `a` is `rows x inner`
/// and `out` is `inner x columns`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatMul {
    /// Which product.
    pub product: Product,
    /// First operand.
    pub a: Matrix,
    /// Second operand.
    pub b: Matrix,
    /// Result.
    pub out: Matrix,
    /// Rows of `a`.
    pub rows: Extent,
    /// Columns of `a`.
    pub inner: u32,
    /// Columns of the result.
    pub columns: u32,
    /// An element-wise kernel over the rows of the result, fused into the product.
    pub finish: Option<Launch>,
    /// The chunk of rows that it is restricted to, as its finishing kernel is; all if none. `Tn` adds to
    /// what it gave for the chunks before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<Chunk>,
}

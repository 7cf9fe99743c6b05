//! Products and copies of sparse input features.

use super::Product;
use crate::graph::op::Site;
use crate::program::{Matrix, Ref};
use serde::{Deserialize, Serialize};

/// Product with the sparse input features `x`: `out = x . b` (`Nn`) or `x^T . b` (`Tn`).
/// Whether `x` is own rows or own columns is said by the extent of its values, here and below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SparseMatMul {
    /// `Nn` or `Tn`.
    pub product: Product,
    /// Values of the non-zeros.
    pub values: Ref,
    /// Dense operand.
    pub b: Matrix,
    /// Result.
    pub out: Matrix,
    /// Columns of `x`.
    pub inner: u32,
    /// Columns of the result.
    pub columns: u32,
}

/// Dropout of the sparse input features' values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SparseDropout {
    /// Values of the non-zeros.
    pub values: Ref,
    /// Dropped values.
    pub out: Ref,
    /// Probability of dropping.
    pub p: f32,
    /// Dropout site.
    pub site: Site,
}

/// Writes sparse feature values as a dense matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Densify {
    /// Values of the non-zeros.
    pub values: Ref,
    /// The dense matrix.
    pub out: Ref,
}

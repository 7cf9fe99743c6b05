//! Scalar expressions: what a kernel computes for one element.
//!
//! An [`Expr`] is a list of values in evaluation order. Operands refer to earlier entries, so a
//! value used twice is computed once.

use crate::words::scalar::{Binary, Unary};
use serde::{Deserialize, Serialize};

/// Index of a value in an [`Expr`].
pub type ValueId = u16;

/// One scalar value of an [`Expr`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// The current element of input `n` of the kernel.
    Load(u16),
    /// A constant.
    Const(f32),
    /// Run-time scalar `n` of the kernel (a learning rate, a loop-dependent constant).
    Scalar(u16),
    /// The result of the kernel's reduction; valid only in a `finish` expression.
    Acc,
    /// A function of one value.
    Unary(Unary, ValueId),
    /// A function of two values.
    Binary(Binary, ValueId, ValueId),
    /// Number `n` of the current edge and head; only in an edge pass, see
    /// [`crate::kernel::EdgePass`].
    Number(u16),
    /// A dropout factor: 0 or `1 / (1 - p)`, see [`crate::kernel::keep`].
    Mask(u16),
}

/// A scalar expression; its value is that of the last entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Expr {
    /// Values in evaluation order.
    pub values: Vec<Value>,
}

impl Expr {
    /// An expression that is one value.
    pub fn leaf(value: Value) -> Self {
        Self {
            values: vec![value],
        }
    }

    /// Appends a value unless the list already holds it; returns its id.
    pub fn push(&mut self, value: Value) -> ValueId {
        let found = self.values.iter().position(|v| *v == value);
        found.unwrap_or_else(|| {
            self.values.push(value);
            self.values.len() - 1
        }) as ValueId
    }

    /// The id of the result.
    pub fn result(&self) -> ValueId {
        (self.values.len() - 1) as ValueId
    }

    /// Whether the expression is the reduction's result and nothing else.
    pub fn is_acc(&self) -> bool {
        self.values == [Value::Acc]
    }
}

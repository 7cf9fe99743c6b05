//! A pass over the edges of each row with several results: what fused attention is made of.

use super::expr::Expr;
use crate::words::types::{EdgeSet, End};
use serde::{Deserialize, Serialize};

/// Several results of one pass over the edges of each row.
///
/// For every edge and head, `numbers` are computed first. The results share them, so a score or an
/// exponential that several results use is computed once and lies in no tensor. Attention is a
/// pass by destination that weights the neighbors' rows by a softmax, and a pass by source that
/// computes the gradients (Dao et al., FlashAttention, section 3, for sparse neighborhoods).
///
/// Operands of an expression for a head have column step 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgePass {
    /// The edges.
    pub set: EdgeSet,
    /// The vertex that edges are grouped by, as in a gather.
    pub to: End,
    /// Computed in order; each may use those before it.
    pub numbers: Vec<EdgeNumber>,
    /// The number whose softmax over the row's edges multiplies every value that is summed. The
    /// maximum is subtracted first.
    pub softmax: Option<u16>,
    /// One per output of the kernel.
    pub results: Vec<EdgeResult>,
}

/// A number of each edge and head, which `Value::Number` names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgeNumber {
    /// The number; the element of one column if `dot`.
    pub value: Expr,
    /// Whether the number is the sum of `value` over the columns of the head.
    pub dot: bool,
}

/// A result of a pass.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EdgeResult {
    /// `out[v, h, c] = finish(sum over the edges of v of value)`; one column per head if the
    /// output's column step is 0.
    Sum {
        /// What one edge brings.
        value: Expr,
        /// Applied to the sum, as in a gather.
        finish: Expr,
    },
    /// `out[edge, h] = number`, for an output at the edge.
    Number(u16),
    /// `out[v, h] = log(sum over the edges of v of exp(score))`, where `softmax` names the score;
    /// 0 for a row without edges.
    LogSumExp,
}

impl EdgePass {
    /// Every expression: those of the numbers, then `value` and `finish` of each sum.
    pub fn exprs(&self) -> Vec<&Expr> {
        let mut exprs: Vec<&Expr> = self.numbers.iter().map(|number| &number.value).collect();
        for result in &self.results {
            if let EdgeResult::Sum { value, finish } = result {
                exprs.extend([value, finish]);
            }
        }
        exprs
    }

    /// The same expressions, to change.
    pub fn exprs_mut(&mut self) -> Vec<&mut Expr> {
        let numbers = self.numbers.iter_mut().map(|number| &mut number.value);
        let mut exprs: Vec<&mut Expr> = numbers.collect();
        for result in &mut self.results {
            if let EdgeResult::Sum { value, finish } = result {
                exprs.extend([value, finish]);
            }
        }
        exprs
    }
}

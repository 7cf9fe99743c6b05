//! Where the value of a node comes from.

use super::{Input, Op, Scan};
use crate::graph::ParamId;
use serde::{Deserialize, Serialize};

/// Where a value comes from: an operator, as passes see it that follow values in and out of loops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ValueOrigin<'a> {
    /// The data graph.
    Input(Input),
    /// A trainable tensor.
    Param(ParamId),
    /// A number.
    Const(f32),
    /// One number per iteration of a scan.
    Table(&'a [f32]),
    /// Argument `n` of a scan body.
    Arg(u32),
    /// A loop.
    Scan(&'a Scan),
    /// Result `n` of a loop.
    Out(u32),
    /// Its operands, by the operator.
    Operands,
}

/// A dense product.
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

impl From<Product> for Op {
    fn from(product: Product) -> Self {
        match product {
            Product::Nn => Self::MatMul,
            Product::Nt => Self::MatMulNT,
            Product::Tn => Self::MatMulTN,
        }
    }
}

impl Op {
    /// Which dense product it is; `None` if it is none.
    pub fn product(&self) -> Option<Product> {
        let all = [Product::Nn, Product::Nt, Product::Tn];
        all.into_iter()
            .find(|product| *self == Self::from(*product))
    }

    /// Where the value of a node with this operator comes from.
    pub fn origin(&self) -> ValueOrigin<'_> {
        match self {
            Self::Input(input) => ValueOrigin::Input(*input),
            Self::Param(param) => ValueOrigin::Param(*param),
            Self::Const(value) => ValueOrigin::Const(*value),
            Self::Table(values) => ValueOrigin::Table(values),
            Self::Arg(n) => ValueOrigin::Arg(*n),
            Self::Scan(scan) => ValueOrigin::Scan(scan),
            Self::Out(n) => ValueOrigin::Out(*n),
            Self::Unary(_) | Self::Binary(_) | Self::Dropout { .. } => ValueOrigin::Operands,
            Self::Broadcast(_) | Self::Take(..) | Self::Blend => ValueOrigin::Operands,
            Self::Copies(..) | Self::Clip(..) | Self::Gather(..) => ValueOrigin::Operands,
            Self::GatherMean(_) | Self::EdgeSoftmax(_) | Self::Pick => ValueOrigin::Operands,
            Self::PickSum(_) | Self::PickHead | Self::PlaceHead(_) => ValueOrigin::Operands,
            Self::MatMul | Self::MatMulNT | Self::MatMulTN => ValueOrigin::Operands,
            Self::Reshape { .. } | Self::Concat | Self::SliceCols { .. } => ValueOrigin::Operands,
            Self::PadCols { .. } | Self::SliceRows { .. } => ValueOrigin::Operands,
            Self::PadRows { .. } | Self::ReduceCols(..) | Self::SumRows => ValueOrigin::Operands,
            Self::Redistribute(_) | Self::SumRanks | Self::Loss(_) => ValueOrigin::Operands,
            Self::LossGrad(_) | Self::Sampled(_) => ValueOrigin::Operands,
        }
    }
}

//! Trivial identities of one operator.

use super::{Identity, Merger};
use crate::graph::NodeId;
use crate::graph::op::{Op, Sampled, ValueOrigin};
use crate::kernel::Axis;
use crate::words::scalar::{Binary, Unary};
use crate::words::types::{Rows, Type};

impl Merger {
    /// What `op` on `inputs`, with result type `ty`, simplifies to, if it is trivial.
    pub(super) fn identity(&self, op: &Op, inputs: &[NodeId], ty: Type) -> Option<Identity> {
        let x = *inputs.first()?;
        let x_ty = self.out.ty(x);
        let inner = self.out.node(x);
        let trivial = match op {
            Op::Binary(f) => return self.binary_identity(*f, x, *inputs.get(1)?, ty),
            Op::Unary(Unary::Neg) if inner.op == *op => {
                return Some(Identity::Node(inner.inputs[0]));
            }
            Op::Unary(Unary::Neg) if inner.op == Op::Binary(Binary::Sub) => {
                // -(a - b) = b - a
                let swapped = vec![inner.inputs[1], inner.inputs[0]];
                return Some(Identity::Op(inner.op.clone(), swapped));
            }
            Op::Broadcast(_) | Op::Reshape { .. } if x_ty != ty => {
                let repeated = std::mem::discriminant(&inner.op) == std::mem::discriminant(op);
                return repeated.then(|| Identity::Op(op.clone(), vec![inner.inputs[0]]));
            }
            Op::SliceCols { start, .. } if matches!(inner.op, Op::PadCols { before, .. } if before == *start) =>
            {
                let source = inner.inputs[0];
                return (self.out.ty(source) == ty).then_some(Identity::Node(source));
            }
            Op::SliceRows { start, .. } if matches!(inner.op, Op::PadRows { before, .. } if before == *start) =>
            {
                let source = inner.inputs[0];
                return (self.out.ty(source) == ty).then_some(Identity::Node(source));
            }
            Op::Broadcast(_) | Op::Reshape { .. } => true,
            Op::SliceCols { .. } | Op::SliceRows { .. } => x_ty == ty,
            Op::PadCols { .. } | Op::PadRows { .. } => x_ty == ty,
            Op::Concat => inputs.len() == 1,
            Op::ReduceCols(Axis::Width, _) => x_ty.width == 1,
            Op::ReduceCols(Axis::Heads, _) => x_ty.heads == 1,
            Op::SumRows => x_ty.rows == Rows::Fixed(1),
            Op::Dropout { p, .. } => *p == 0.0,
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Table(_) | Op::Arg(_) => false,
            Op::Unary(_) | Op::Take(..) | Op::Blend | Op::Copies(..) | Op::Clip(..) => false,
            Op::Gather(..) | Op::GatherMean(_) | Op::EdgeSoftmax(_) | Op::Pick => false,
            Op::PickSum(_) | Op::PickHead | Op::PlaceHead(_) | Op::MatMul | Op::MatMulNT => false,
            Op::MatMulTN | Op::Redistribute(_) | Op::SumRanks | Op::Loss(_) => false,
            Op::LossGrad(_) | Op::Scan(_) | Op::Out(_) => false,
            Op::Sampled(Sampled::Prefix(_)) => x_ty == ty,
            Op::Sampled(Sampled::Fetch(_) | Sampled::AddPrefix) => false,
        };
        trivial.then_some(Identity::Node(x))
    }

    fn binary_identity(&self, f: Binary, a: NodeId, b: NodeId, ty: Type) -> Option<Identity> {
        let (a_ty, b_ty) = (self.out.ty(a), self.out.ty(b));
        let neutral = match f {
            Binary::Add if self.is_all(a, 0.0) => Some((b, b_ty)),
            Binary::Add | Binary::Sub if self.is_all(b, 0.0) => Some((a, a_ty)),
            Binary::Mul if self.is_all(a, 1.0) => Some((b, b_ty)),
            Binary::Mul | Binary::Div if self.is_all(b, 1.0) => Some((a, a_ty)),
            _ => None,
        };
        if let Some((id, _)) = neutral.filter(|(_, found)| *found == ty) {
            return Some(Identity::Node(id));
        }
        let negated = |id: NodeId| {
            let node = self.out.node(id);
            (node.op == Op::Unary(Unary::Neg)).then(|| node.inputs[0])
        };
        let signs = match (f, negated(a), negated(b)) {
            (Binary::Add, _, Some(b)) => Some((Binary::Sub, a, b)),
            (Binary::Add, Some(a), None) => Some((Binary::Sub, b, a)),
            (Binary::Sub, _, Some(b)) => Some((Binary::Add, a, b)),
            (Binary::Mul | Binary::Div, Some(a), Some(b)) => Some((f, a, b)),
            _ => None,
        };
        if let Some((f, a, b)) = signs {
            return Some(Identity::Op(Op::Binary(f), vec![a, b]));
        }
        // Element-wise operators broadcast on their own.
        let source = |id: NodeId| {
            let node = self.out.node(id);
            matches!(node.op, Op::Broadcast(_)).then(|| node.inputs[0])
        };
        let fits = |x: NodeId, y: Type| self.out.ty(x).broadcast(y) == Some(ty);
        if let Some(x) = source(a).filter(|x| fits(*x, b_ty)) {
            return Some(Identity::Op(Op::Binary(f), vec![x, b]));
        }
        if let Some(x) = source(b).filter(|x| fits(*x, a_ty)) {
            return Some(Identity::Op(Op::Binary(f), vec![a, x]));
        }
        None
    }

    /// Whether all elements of a node are the constant `value`.
    fn is_all(&self, id: NodeId, value: f32) -> bool {
        let node = self.out.node(id);
        match node.op.origin() {
            ValueOrigin::Const(found) => found == value,
            ValueOrigin::Table(found) => found.iter().all(|x| *x == value),
            ValueOrigin::Input(_) | ValueOrigin::Param(_) => false,
            ValueOrigin::Arg(_) | ValueOrigin::Scan(_) | ValueOrigin::Out(_) => false,
            ValueOrigin::Operands => {
                matches!(node.op, Op::Broadcast(_)) && self.is_all(node.inputs[0], value)
            }
        }
    }
}

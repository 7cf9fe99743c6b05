//! Derivatives of all operators except the scan.

use super::{AutodiffError, Tape};
use crate::graph::NodeId;
use crate::graph::op::{Clip, Copies, Input, Op, Product, Sampled};
use crate::kernel::{Axis, End, Reduce};
use crate::words::scalar::{Binary, Derivative, Term, Unary};
use crate::words::types::{EdgeSet, Rows, Type};

impl Tape {
    /// Propagates the gradient `g` of node `y` to the node's operands.
    pub(super) fn rule(&mut self, y: NodeId, g: NodeId) -> Result<(), AutodiffError> {
        let node = self.graph.node(y).clone();
        let x = node.inputs.first().copied().unwrap_or(y);
        let x_ty = self.graph.ty(x);
        let grad = match node.op {
            // Leaves keep their gradient until the end.
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Table(_) | Op::Arg(_) => {
                return Ok(());
            }
            Op::Unary(f) => return self.unary_rule(f, x, y, g),
            Op::Binary(f) => return self.binary_rule(f, x, node.inputs[1], y, g),
            // The mask depends only on an element's position, so the gradient uses the same
            // one.
            Op::Dropout { .. } => self.emit(node.op, &[g])?,
            Op::Broadcast(_) => self.sum_to(g, x_ty)?,
            Op::Take(set, _) if self.graph.node(x).op == Op::Blend => {
                return self.blend_rule(set, x, g);
            }
            Op::Take(set, end) => self.emit(Op::Gather(set, end, Reduce::Sum), &[g])?,
            Op::Blend => g,
            Op::Sampled(Sampled::Prefix(_)) => return self.add_first(x, g),
            // Copies are constants, so their gradient stops here.
            Op::Copies(Copies::Kept, _) if self.of_copies => return Ok(()),
            Op::Copies(Copies::Kept | Copies::Through, _) => g,
            Op::Copies(Copies::Seen, number) => return self.seen_rule(x, number, g),
            // Gradients of copies belong to other ranks' rows; they are not clipped.
            Op::Clip(Clip::Gradient, _) if self.of_copies => g,
            Op::Clip(Clip::Gradient, most) => self.emit(Op::Clip(Clip::Rows, most), &[g])?,
            Op::Gather(set, end, reduce) if reduce.is_linear() => {
                self.emit(Op::Take(set, end), &[g])?
            }
            Op::Gather(set, end, _) => {
                // Edges whose value was chosen share the gradient.
                let top = self.emit(Op::Take(set, end), &[y])?;
                let attains = self.binary(Binary::Eq, x, top)?;
                let count = self.emit(Op::Gather(set, end, Reduce::Sum), &[attains])?;
                let share = self.over(g, count)?;
                let share = self.emit(Op::Take(set, end), &[share])?;
                self.binary(Binary::Mul, share, attains)?
            }
            Op::GatherMean(set) => {
                let degree = self.emit(Op::Input(Input::InDegree(set)), &[])?;
                let share = self.over(g, degree)?;
                self.emit(Op::Take(set, End::Dst), &[share])?
            }
            Op::EdgeSoftmax(set) => {
                // y * (g - sum over the edges into the same vertex of y * g)
                let weighted = self.binary(Binary::Mul, y, g)?;
                let sum = self.emit(Op::Gather(set, End::Dst, Reduce::Sum), &[weighted])?;
                let sum = self.emit(Op::Take(set, End::Dst), &[sum])?;
                let centred = self.binary(Binary::Sub, g, sum)?;
                self.binary(Binary::Mul, y, centred)?
            }
            Op::Pick => {
                let rows = fixed_rows(x_ty);
                self.emit(Op::PickSum(rows), &[g, node.inputs[1]])?
            }
            Op::PickSum(_) => self.emit(Op::Pick, &[g, node.inputs[1]])?,
            Op::PickHead => self.emit(Op::PlaceHead(x_ty.heads), &[g, node.inputs[1]])?,
            Op::PlaceHead(_) => self.emit(Op::PickHead, &[g, node.inputs[1]])?,
            Op::MatMul => return self.matmul_rule(Product::Nn, x, node.inputs[1], g),
            Op::MatMulNT => return self.matmul_rule(Product::Nt, x, node.inputs[1], g),
            Op::MatMulTN => return self.matmul_rule(Product::Tn, x, node.inputs[1], g),
            Op::Reshape { .. } => self.reshape(g, x_ty)?,
            Op::Concat => {
                let mut start = 0;
                for part in node.inputs {
                    let len = self.graph.ty(part).width;
                    if self.wants(part) {
                        let slice = self.emit(Op::SliceCols { start, len }, &[g])?;
                        self.add(part, slice)?;
                    }
                    start += len;
                }
                return Ok(());
            }
            Op::SliceCols { start, len } => {
                let after = x_ty.width - start - len;
                self.emit(
                    Op::PadCols {
                        before: start,
                        after,
                    },
                    &[g],
                )?
            }
            Op::PadCols { before, .. } => self.emit(
                Op::SliceCols {
                    start: before,
                    len: x_ty.width,
                },
                &[g],
            )?,
            Op::SliceRows { start, len } => {
                let after = fixed_rows(x_ty) - start - len;
                self.emit(
                    Op::PadRows {
                        before: start,
                        after,
                    },
                    &[g],
                )?
            }
            Op::PadRows { before, .. } => {
                let len = fixed_rows(x_ty);
                self.emit(Op::SliceRows { start: before, len }, &[g])?
            }
            Op::SumRows => self.emit(Op::Broadcast(x_ty), &[g])?,
            Op::ReduceCols(_, reduce) if reduce.is_linear() => {
                self.emit(Op::Broadcast(x_ty), &[g])?
            }
            Op::ReduceCols(axis, _) => {
                let attains = self.binary(Binary::Eq, x, y)?;
                let count = self.emit(Op::ReduceCols(axis, Reduce::Sum), &[attains])?;
                let share = self.over(g, count)?;
                self.binary(Binary::Mul, attains, share)?
            }
            Op::Loss(loss) => {
                let derivative = self.emit(Op::LossGrad(loss), &[x])?;
                self.binary(Binary::Mul, derivative, g)?
            }
            // Layouts are chosen after differentiation.
            Op::LossGrad(_)
            | Op::Redistribute(_)
            | Op::SumRanks
            | Op::Sampled(Sampled::Fetch(_) | Sampled::AddPrefix)
            | Op::Clip(Clip::Rows | Clip::Factor, _)
            | Op::Copies(Copies::Back | Copies::Left, _) => {
                return Err(AutodiffError::NotDifferentiable {
                    op: node.op.to_string(),
                });
            }
            Op::Out(n) => return self.add_result(x, n, g),
            // `run` differentiates scans by all their results at once.
            Op::Scan(_) => return Ok(()),
        };
        self.add(x, grad)
    }

    /// Propagates the gradient `g` of what edges see of a blend: fresh edges to the current
    /// rows, the others to the old ones.
    fn blend_rule(&mut self, set: EdgeSet, blend: NodeId, g: NodeId) -> Result<(), AutodiffError> {
        let current = self.fresh_sum(set, g)?;
        self.add(blend, current)?;
        let old = self.graph.node(blend).inputs[1];
        if !self.wants(old) {
            return Ok(());
        }
        // Stale edges are all edges minus the fresh ones. `g` is rewritten to read `old` where
        // these edges saw it.
        let g = self.seen_earlier(g)?;
        let all = self.emit(Op::Gather(set, End::Src, Reduce::Sum), &[g])?;
        let current = self.fresh_sum(set, g)?;
        let earlier = self.binary(Binary::Sub, all, current)?;
        self.add(old, earlier)
    }

    /// Propagates the gradient `g` of the rows that edges see. Gradients of own rows and of
    /// blocks that were sent go to `x`; the rest reaches only the parameters used to compute
    /// rows from copies.
    fn seen_rule(&mut self, x: NodeId, number: u32, g: NodeId) -> Result<(), AutodiffError> {
        let back = self.emit(Op::Copies(Copies::Back, number), &[g])?;
        self.add(x, back)?;
        let left = self.emit(Op::Copies(Copies::Left, number), &[g])?;
        self.of_copies = true;
        let added = self.add(x, left);
        self.of_copies = false;
        added
    }

    /// Sum over the fresh edges out of each vertex.
    fn fresh_sum(&mut self, set: EdgeSet, g: NodeId) -> Result<NodeId, AutodiffError> {
        let fresh = self.emit(Op::Input(Input::Fresh(set)), &[])?;
        let g = self.binary(Binary::Mul, g, fresh)?;
        self.emit(Op::Gather(set, End::Src, Reduce::Sum), &[g])
    }

    /// Rewrites an edge tensor for stale edges: as far as it is computed edge by edge, it reads
    /// old rows instead of the blend.
    fn seen_earlier(&mut self, id: NodeId) -> Result<NodeId, AutodiffError> {
        let node = self.graph.node(id).clone();
        if node.ty.rows.edge_set().is_none() {
            return Ok(id);
        }
        if matches!(node.op, Op::Take(..)) {
            let blend = self.graph.node(node.inputs[0]);
            return match blend.inputs.get(1) {
                Some(&old) if blend.op == Op::Blend => self.emit(node.op, &[old]),
                _ => Ok(id),
            };
        }
        if !matches!(
            node.op,
            Op::Unary(_) | Op::Binary(_) | Op::Dropout { .. } | Op::Broadcast(_)
        ) {
            return Ok(id);
        }
        let inputs: Result<Vec<NodeId>, _> = node
            .inputs
            .iter()
            .map(|input| self.seen_earlier(*input))
            .collect();
        match inputs? {
            inputs if inputs == node.inputs => Ok(id),
            inputs => self.emit(node.op, &inputs),
        }
    }

    fn unary_rule(
        &mut self,
        f: Unary,
        x: NodeId,
        y: NodeId,
        g: NodeId,
    ) -> Result<(), AutodiffError> {
        let grad = match f.derivative() {
            Derivative::Zero => return Ok(()),
            Derivative::Gradient(grad) => self.term(&grad, x, y, g)?,
            Derivative::Times(slope) => {
                let slope = self.term(&slope, x, y, g)?;
                self.binary(Binary::Mul, g, slope)?
            }
        };
        self.add(x, grad)
    }

    /// A value that the derivative of a function `y` of `x` is made of.
    fn term(
        &mut self,
        term: &Term,
        x: NodeId,
        y: NodeId,
        g: NodeId,
    ) -> Result<NodeId, AutodiffError> {
        match term {
            Term::X => Ok(x),
            Term::Y => Ok(y),
            Term::G => Ok(g),
            Term::One => {
                let one = self.emit(Op::Const(1.0), &[])?;
                self.stacked_like(one, y)
            }
            Term::Unary(f, a) => {
                let a = self.term(a, x, y, g)?;
                self.unary(*f, a)
            }
            Term::Binary(f, a, b) => {
                let (a, b) = (self.term(a, x, y, g)?, self.term(b, x, y, g)?);
                self.binary(*f, a, b)
            }
            Term::Scaled(by, a) => {
                let a = self.term(a, x, y, g)?;
                self.scaled(*by, a)
            }
        }
    }

    fn binary_rule(
        &mut self,
        f: Binary,
        a: NodeId,
        b: NodeId,
        y: NodeId,
        g: NodeId,
    ) -> Result<(), AutodiffError> {
        // At ties of a maximum, both sides share the gradient.
        let attains = match f {
            Binary::Max => {
                let left = self.binary(Binary::Eq, a, y)?;
                let right = self.binary(Binary::Eq, b, y)?;
                let count = self.binary(Binary::Add, left, right)?;
                Some((left, right, self.over(g, count)?))
            }
            _ => None,
        };
        if self.wants(a) {
            let grad = match (f, attains) {
                (Binary::Add | Binary::Sub, _) => g,
                (Binary::Mul, _) => self.binary(Binary::Mul, g, b)?,
                (Binary::Div, _) => self.binary(Binary::Div, g, b)?,
                (_, Some((left, _, share))) => self.binary(Binary::Mul, share, left)?,
                (Binary::Max | Binary::Eq, None) => return Ok(()),
            };
            let grad = self.sum_to(grad, self.graph.ty(a))?;
            self.add(a, grad)?;
        }
        if self.wants(b) {
            let grad = match (f, attains) {
                (Binary::Add | Binary::Sub, _) => g,
                (Binary::Mul, _) => self.binary(Binary::Mul, g, a)?,
                (Binary::Div, _) => {
                    // -a / b^2 = -y / b
                    let weighted = self.binary(Binary::Mul, g, y)?;
                    self.binary(Binary::Div, weighted, b)?
                }
                (_, Some((_, right, share))) => self.binary(Binary::Mul, share, right)?,
                (Binary::Max | Binary::Eq, None) => return Ok(()),
            };
            let mut grad = self.sum_to(grad, self.graph.ty(b))?;
            if matches!(f, Binary::Sub | Binary::Div) {
                grad = self.unary(Unary::Neg, grad)?;
            }
            self.add(b, grad)?;
        }
        Ok(())
    }

    fn matmul_rule(
        &mut self,
        product: Product,
        a: NodeId,
        b: NodeId,
        g: NodeId,
    ) -> Result<(), AutodiffError> {
        if self.wants(a) {
            let grad = match product {
                Product::Nn => self.emit(Op::MatMulNT, &[g, b])?,
                Product::Nt => self.emit(Op::MatMul, &[g, b])?,
                Product::Tn => self.emit(Op::MatMulNT, &[b, g])?,
            };
            let grad = self.reshape(grad, self.graph.ty(a))?;
            self.add(a, grad)?;
        }
        if self.wants(b) {
            let grad = match product {
                Product::Nn => self.emit(Op::MatMulTN, &[a, g])?,
                Product::Nt => self.emit(Op::MatMulTN, &[g, a])?,
                Product::Tn => self.emit(Op::MatMul, &[a, g])?,
            };
            let grad = self.reshape(grad, self.graph.ty(b))?;
            self.add(b, grad)?;
        }
        Ok(())
    }

    /// Sums over broadcast dimensions, back to the operand's type.
    fn sum_to(&mut self, g: NodeId, ty: Type) -> Result<NodeId, AutodiffError> {
        let mut g = g;
        // Rows first, so that the other sums run over one row.
        if ty.rows == Rows::Fixed(1) && self.graph.ty(g).rows != ty.rows {
            g = self.emit(Op::SumRows, &[g])?;
        }
        if ty.heads == 1 && self.graph.ty(g).heads != 1 {
            g = self.emit(Op::ReduceCols(Axis::Heads, Reduce::Sum), &[g])?;
        }
        if ty.width == 1 && self.graph.ty(g).width != 1 {
            g = self.emit(Op::ReduceCols(Axis::Width, Reduce::Sum), &[g])?;
        }
        Ok(g)
    }

    /// `g / count`, 0 where the count is 0.
    fn over(&mut self, g: NodeId, count: NodeId) -> Result<NodeId, AutodiffError> {
        let inverse = self.unary(Unary::Recip, count)?;
        self.binary(Binary::Mul, g, inverse)
    }

    fn reshape(&mut self, g: NodeId, ty: Type) -> Result<NodeId, AutodiffError> {
        self.emit(
            Op::Reshape {
                heads: ty.heads,
                width: ty.width,
            },
            &[g],
        )
    }

    fn scaled(&mut self, factor: f32, x: NodeId) -> Result<NodeId, AutodiffError> {
        let factor = self.emit(Op::Const(factor), &[])?;
        let factor = self.stacked_like(factor, x)?;
        self.binary(Binary::Mul, factor, x)
    }

    /// If `x` is a stack, repeats the number once per element of the stack.
    fn stacked_like(&mut self, number: NodeId, x: NodeId) -> Result<NodeId, AutodiffError> {
        if let count @ 1.. = self.graph.ty(x).stack
            && let Op::Const(value) = self.graph.node(number).op
        {
            return self.emit(Op::Table(vec![value; count as usize]), &[]);
        }
        Ok(number)
    }
}

fn fixed_rows(ty: Type) -> u32 {
    match ty.rows {
        Rows::Fixed(n) => n,
        _ => 0,
    }
}

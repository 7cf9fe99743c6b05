//! Instructions of operators that are not element-wise: reductions, products, losses, and tensors
//! assembled from parts.

use crate::lower::analysis::pointwise;
use crate::lower::kernel::{Builder, fresh};
use crate::lower::region::{Region, Value, launch_rows, over};
use crate::lower::sampled::fetches_features;
use crate::lower::{LowerError, Lowerer};
use gnnc_ir::graph::op::{Input, Op, Redistribute};
use gnnc_ir::kernel::expr::{Expr, Value as Scalar};
use gnnc_ir::kernel::{At, Body, End, Over, Reduce};
use gnnc_ir::program::instr;
use gnnc_ir::program::{Extent, Instr, Moved, Product, Ref};
use gnnc_ir::{EdgeSet, Graph, NodeId, Rows};

/// Whether an edge tensor computed in a kernel has a factor that is 0 for edges that are not fresh.
pub fn collects_fresh(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let inner = pointwise(&node.op) && !matches!(node.op, Op::Take(..));
    fresh(graph, id).is_some() || (inner && node.inputs.iter().any(|id| collects_fresh(graph, *id)))
}

/// The rows of a sum over edges to an end.
pub fn sum_rows(lowerer: &Lowerer, rows: Rows, to: End) -> Extent {
    match (rows, to) {
        (Rows::Level(level), _) => Extent::Level(level),
        (Rows::All, End::Src) if lowerer.in_groups => Extent::AllLocal,
        (Rows::All, _) => Extent::All,
        (_, End::Src) => Extent::Local,
        (_, End::Dst) => Extent::Inner,
    }
}

impl Region<'_> {
    /// A kernel that computes reduction `g` and ends in the element-wise node `last`.
    pub fn reduction(
        &mut self,
        lowerer: &mut Lowerer,
        g: NodeId,
        last: NodeId,
    ) -> Result<(), LowerError> {
        let graph = self.graph;
        let node = graph.node(g);
        let operand = node
            .inputs
            .first()
            .copied()
            .ok_or_else(|| LowerError::Internal(format!("{g}, {}, has no operand", node.op)))?;
        // The value an edge brings to one of several heads is computed without the other heads.
        let place = graph.node(operand);
        let (operand, head) = if let Op::PlaceHead(heads) = place.op
            && matches!(node.op, Op::Gather(_, _, Reduce::Sum))
            && self.value(operand).is_none()
        {
            (place.inputs[0], Some((place.inputs[1], heads)))
        } else {
            (operand, None)
        };
        let space = graph.ty(operand);
        let to_source = matches!(node.op, Op::Gather(_, End::Src, _));
        let mut builder = Builder::new(space);
        let value = builder.value(self, operand)?;
        let finish = match last == g {
            true => Expr::leaf(Scalar::Acc),
            false => builder.finish(self, last, g)?,
        };
        let (body, rows) = match &node.op {
            Op::Gather(set, to, reduce) => {
                let rows = sum_rows(lowerer, node.ty.rows, *to);
                (
                    Body::Gather {
                        set: *set,
                        to: *to,
                        reduce: *reduce,
                        value,
                        finish,
                    },
                    rows,
                )
            }
            Op::ReduceCols(axis, reduce) => {
                let (over, axis) = (over(space), *axis);
                let body = Body::RowReduce {
                    over,
                    axis,
                    reduce: *reduce,
                    value,
                    finish,
                };
                (body, self.rows_of(last))
            }
            Op::SumRows => (
                Body::ColReduce {
                    over: over(space),
                    value,
                },
                self.summed(operand),
            ),
            Op::PickSum(types) => (
                Body::TypeSum {
                    set: EdgeSet::Plain,
                    types: *types,
                    value,
                },
                launch_rows(space),
            ),
            // Written as sums, see `attention`.
            Op::EdgeSoftmax(_)
            | Op::Input(_)
            | Op::Param(_)
            | Op::Const(_)
            | Op::Table(_)
            | Op::Arg(_)
            | Op::Unary(_)
            | Op::Binary(_)
            | Op::Dropout { .. }
            | Op::Broadcast(_)
            | Op::Take(..)
            | Op::Blend
            | Op::Sampled(_)
            | Op::Copies(..)
            | Op::Clip(..)
            | Op::GatherMean(_)
            | Op::Pick
            | Op::PickHead
            | Op::PlaceHead(_)
            | Op::MatMul
            | Op::MatMulNT
            | Op::MatMulTN
            | Op::Reshape { .. }
            | Op::Concat
            | Op::SliceCols { .. }
            | Op::PadCols { .. }
            | Op::SliceRows { .. }
            | Op::PadRows { .. }
            | Op::Redistribute(_)
            | Op::SumRanks
            | Op::Loss(_)
            | Op::LossGrad(_)
            | Op::Scan(_)
            | Op::Out(_) => return Err(LowerError::Unsupported(node.op.to_string())),
        };
        let shared = to_source && lowerer.has_halo(node.ty.rows);
        let extent = match shared {
            true => lowerer.extent(node.ty).with_halo(),
            false => self.extent_of(lowerer, last),
        };
        let mut out = self.target(lowerer, last, extent);
        out.halo = self.embeddings.near(last);
        let at = if matches!(node.op, Op::SumRows) {
            At::One
        } else {
            At::Row
        };
        let mut output = out.operand(at);
        if let Some((number, heads)) = head {
            let picked = builder.head(self, number, (heads, out.head_step))?;
            (output.head_step, output.picked) = (0, Some(picked));
        }
        let launch = builder.launch(&mut lowerer.program, body, rows, vec![(output, out.at)]);
        if to_source && collects_fresh(graph, operand) {
            self.fresh.push(self.code.len());
        }
        self.code.push(Instr::Launch(launch));
        // If gradients stop at copies, what is sent is decided later.
        let raw = self.embeddings.raw.get(last.0 as usize) == Some(&true);
        if shared && !raw {
            self.code.push(Instr::HaloReduce(instr::HaloReduce {
                slice: out.slice,
                ..instr::HaloReduce::of(out.at)
            }));
        }
        out.halo |= raw;
        self.values[last.0 as usize] = Some(out);
        Ok(())
    }

    /// The matrix product `g`, whose rows end in the element-wise node `last`.
    pub fn product(
        &mut self,
        lowerer: &mut Lowerer,
        g: NodeId,
        last: NodeId,
    ) -> Result<Value, LowerError> {
        let graph = self.graph;
        let node = graph.node(g);
        let (left, right) = (node.inputs[0], node.inputs[1]);
        let product = node.op.product().unwrap_or(Product::Tn);
        let columns = node.ty.columns();
        let inner = graph.ty(left).columns();
        let owned = lowerer.has_own_rows(graph, right);
        let sparse = match product {
            Product::Nt => None,
            Product::Nn | Product::Tn if owned => None,
            Product::Nn | Product::Tn => self.sparse(lowerer, left)?,
        };
        let b = self.plain(lowerer, right)?;
        let looked_up =
            lowerer.looks_up && fetches_features(graph, left) && self.unread[left.0 as usize];
        let a = match sparse {
            _ if looked_up || owned => None,
            Some(_) => None,
            None => Some(self.plain(lowerer, left)?),
        };
        let extent = self.extent_of(lowerer, last);
        let mut out = self.target(lowerer, last, extent);
        out.halo = self.embeddings.near(last);
        let finish = match last == g {
            true => None,
            false => {
                // The product goes to the result's own memory, where the kernel reads it.
                self.values[g.0 as usize] = Some(Value { ty: node.ty, ..out });
                let mut builder = Builder::new(node.ty);
                let value = builder.value(self, last)?;
                self.values[g.0 as usize] = None;
                let body = Body::Map {
                    over: Over::Rows,
                    values: vec![value],
                };
                let output = (out.operand(At::Row), out.at);
                let rows = self.rows_of(last);
                Some(builder.launch(&mut lowerer.program, body, rows, vec![output]))
            }
        };
        match (sparse, a) {
            _ if looked_up => {
                self.look_up(product, b, out)?;
                self.code.extend(finish.map(Instr::Launch));
            }
            _ if owned => {
                // Own rows of an identity matrix pick own rows.
                let rows = Value { ty: node.ty, ..b };
                self.copy(lowerer, rows, out);
                self.code.extend(finish.map(Instr::Launch));
            }
            (Some(values), _) => {
                let (b, to) = (b.matrix(), out.matrix());
                self.code.push(Instr::SparseMatMul(instr::SparseMatMul {
                    product,
                    values,
                    b,
                    out: to,
                    inner,
                    columns,
                }));
                self.code.extend(finish.map(Instr::Launch));
            }
            (None, Some(a)) => {
                let rows = match self.embeddings.near(last) {
                    true => Extent::Local,
                    false if product == Product::Tn && self.embeddings.beside(right) => {
                        Extent::Local
                    }
                    false => lowerer.extent(a.ty),
                };
                let (a, b, to) = (a.matrix(), b.matrix(), out.matrix());
                let instr = Instr::MatMul(instr::MatMul {
                    product,
                    a,
                    b,
                    out: to,
                    rows,
                    inner,
                    columns,
                    finish,
                    chunk: None,
                });
                self.code.push(instr);
            }
            (None, None) => return Err(LowerError::Internal("a product of nothing".to_owned())),
        }
        Ok(out)
    }

    /// The rows over which a tensor is summed.
    fn summed(&self, id: NodeId) -> Extent {
        match self.embeddings.beside(id) {
            true => Extent::Local,
            false => launch_rows(self.graph.ty(id)),
        }
    }

    /// A tensor that edges see in two versions: old rows are written before the epoch's chunks,
    /// current rows overwrite them, and the rows to keep go to the history.
    pub fn blend(&mut self, lowerer: &mut Lowerer, id: NodeId) -> Result<(), LowerError> {
        let graph = self.graph;
        let [x, old, kept, history] = graph.node(id).inputs[..] else {
            return Err(LowerError::Internal(format!("{id} is no blend of four")));
        };
        let rows = match lowerer.distributed {
            true => Extent::Local,
            false => Extent::Inner,
        };
        self.fetch_halo(lowerer, kept)?;
        let mut out = self.target(lowerer, id, rows);
        out.halo = lowerer.distributed;
        let mut fill = |region: &mut Self, from| -> Result<Instr, LowerError> {
            let mut builder = Builder::new(graph.ty(id));
            let values = vec![builder.value(region, from)?];
            let body = Body::Map {
                over: Over::Rows,
                values,
            };
            let output = vec![(out.operand(At::Row), out.at)];
            let launch = builder.launch(&mut lowerer.program, body, rows, output);
            Ok(Instr::Launch(launch))
        };
        let (earlier, current) = (fill(self, old)?, fill(self, x)?);
        self.before.push(earlier);
        self.code.push(current);
        let (kept, history) = (self.plain(lowerer, kept)?, self.stored(history)?);
        let remember = Instr::Remember(instr::Remember {
            from: kept.at,
            history: history.at,
        });
        // Several tensors may be computed from one history.
        if !self.code.contains(&remember) {
            self.code.push(remember);
        }
        self.values[id.0 as usize] = Some(out);
        Ok(())
    }

    /// Redistributes a tensor from one layout to another.
    pub fn redistribute(
        &mut self,
        lowerer: &mut Lowerer,
        id: NodeId,
        how: Redistribute,
    ) -> Result<(), LowerError> {
        let graph = self.graph;
        let ty = graph.ty(id);
        let operand = graph.node(id).inputs[0];
        let from = self.plain(lowerer, operand)?;
        let extent = lowerer.extent(ty);
        let out = self.target(lowerer, id, extent);
        let whole = match how {
            Redistribute::Split(_) => graph.ty(operand),
            _ => ty,
        };
        let mut moved = Moved::All;
        if let Rows::Level(level) = ty.rows {
            moved = Moved::Level(level.number);
        }
        self.code.push(Instr::Redistribute(instr::Redistribute {
            how,
            from: from.matrix(),
            to: out.at,
            heads: whole.heads,
            width: whole.width,
            moved,
            encoded: None,
        }));
        self.values[id.0 as usize] = Some(out);
        Ok(())
    }

    /// The nonzeros of a node that is the sparse feature matrix or its dropout.
    fn sparse(&mut self, lowerer: &mut Lowerer, id: NodeId) -> Result<Option<Ref>, LowerError> {
        let node = self.graph.node(id);
        let sliced = matches!(node.op, Op::Input(Input::FeatureSlice(_)));
        if sliced || node.op == Op::Input(Input::Features) {
            return Ok(lowerer.feature_values(sliced));
        }
        if let Op::Dropout { p, site, .. } = node.op
            && self.train
            && let Some(values) = self.sparse(lowerer, node.inputs[0])?
        {
            return Ok(Some(lowerer.dropped(&mut self.code, values, p, site)));
        }
        Ok(None)
    }

    pub fn loss(
        &mut self,
        lowerer: &mut Lowerer,
        id: NodeId,
        loss: &gnnc_ir::graph::op::Loss,
    ) -> Result<(), LowerError> {
        let graph = self.graph;
        let logits = graph.node(id).inputs[0];
        let value = self.plain(lowerer, logits)?;
        let twin = |op: Op| {
            let found = graph
                .iter()
                .find(|(_, n)| n.op == op && n.inputs == [logits]);
            found.map(|(id, _)| id)
        };
        let (sum, gradient) = (
            twin(Op::Loss(loss.clone())),
            twin(Op::LossGrad(loss.clone())),
        );
        let out = sum.map(|s| self.target(lowerer, s, Extent::Fixed(1)));
        let rows = lowerer.extent(value.ty).without_halo();
        let grad = gradient.map(|g| self.target(lowerer, g, rows));
        self.code.push(Instr::Loss(instr::Loss {
            loss: loss.clone(),
            logits: value.at,
            out: out.map(|v| v.at),
            grad: grad.map(|v| v.at),
            classes: value.ty.columns(),
        }));
        for (node, value) in [(sum, out), (gradient, grad)] {
            if let Some(node) = node {
                self.values[node.0 as usize] = value;
            }
        }
        Ok(())
    }

    /// Concatenation and padding: each operand is computed in place.
    pub fn assemble(&mut self, lowerer: &mut Lowerer, id: NodeId) -> Result<(), LowerError> {
        let node = self.graph.node(id);
        let extent = self.extent_of(lowerer, id);
        let mut out = self.target(lowerer, id, extent);
        out.halo = self.embeddings.near(id);
        let padded = !matches!(node.op, Op::Concat);
        if padded {
            let zero = Expr::leaf(Scalar::Const(0.0));
            self.store(lowerer, Builder::new(node.ty), zero, out, id);
        }
        let mut offset = 0;
        if let Op::PadCols { before, .. } = node.op {
            offset = before;
        } else if let Op::PadRows { before, .. } = node.op {
            offset = before * out.stride;
        }
        for part in &node.inputs {
            let ty = self.graph.ty(*part);
            let mut builder = Builder::new(ty);
            let value = match self.value(*part) {
                Some(from) if ty.rows.edge_set().is_some() => builder.read(from, At::Edge),
                Some(from) => builder.read(from, At::Row),
                None => builder.value(self, *part)?,
            };
            self.store(lowerer, builder, value, Value { offset, ty, ..out }, id);
            offset += ty.width;
        }
        self.values[id.0 as usize] = Some(out);
        Ok(())
    }

    /// Stores part of a node.
    fn store(
        &mut self,
        lowerer: &mut Lowerer,
        builder: Builder,
        value: Expr,
        out: Value,
        of: NodeId,
    ) {
        let body = Body::Map {
            over: over(out.ty),
            values: vec![value],
        };
        let output = (out.operand(At::Row), out.at);
        let rows = match self.embeddings.near(of) {
            true => Extent::Local,
            false => launch_rows(out.ty),
        };
        let launch = builder.launch(&mut lowerer.program, body, rows, vec![output]);
        self.code.push(Instr::Launch(launch));
    }
}

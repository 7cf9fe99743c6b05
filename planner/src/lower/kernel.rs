//! Builds one kernel from a tree of element-wise nodes.

use crate::error::LowerError;
use crate::lower::attention::{Factor, has_factor};
use crate::lower::region::{Region, Value};
use gnnc_ir::graph::op::{Input, Op, Site, Slice};
use gnnc_ir::kernel::expr::{Expr, Value as Scalar, ValueId};
use gnnc_ir::kernel::{At, Body, EdgeNumber, End, Kernel, Mask, Operand, Over, Picked};
use gnnc_ir::program::{Buffer, Extent, KernelId, Launch, Program, Ref};
use gnnc_ir::{Graph, NodeId, Rows, Type};

/// A kernel under construction, with the bindings of its operands.
pub struct Builder {
    /// Type of the elements the kernel iterates over.
    space: Type,
    inputs: Vec<(Operand, Ref)>,
    masks: Vec<(Mask, Site)>,
    /// The reduction the kernel performs; its result is `Acc`.
    acc: Option<NodeId>,
    /// In an edge pass: what its numbers are.
    pub numbers: Vec<Factor>,
    /// In an edge pass: the weights of its softmax, with which it multiplies all values anyway.
    pub unit: Option<NodeId>,
    /// Nodes that already have an entry in the expression being built.
    done: Vec<(NodeId, ValueId)>,
}

impl Builder {
    /// A kernel that iterates over elements of a type.
    pub fn new(space: Type) -> Self {
        Self {
            space,
            inputs: Vec::new(),
            masks: Vec::new(),
            acc: None,
            numbers: Vec::new(),
            unit: None,
            done: Vec::new(),
        }
    }

    /// The expression for an element of a node.
    pub fn value(&mut self, region: &Region<'_>, node: NodeId) -> Result<Expr, LowerError> {
        self.root(region, node, None)
    }

    /// The expression for `node`, where `acc` is the reduction's result.
    pub fn finish(
        &mut self,
        region: &Region<'_>,
        node: NodeId,
        acc: NodeId,
    ) -> Result<Expr, LowerError> {
        self.root(region, node, Some(acc))
    }

    fn root(
        &mut self,
        region: &Region<'_>,
        node: NodeId,
        acc: Option<NodeId>,
    ) -> Result<Expr, LowerError> {
        self.acc = acc;
        self.done.clear();
        let mut expr = Expr::default();
        let result = self.tree(region, &mut expr, node)?;
        if result != expr.result() {
            // The result was an earlier entry: repeat it as the last one.
            let last = expr.values[result as usize];
            expr.values.push(last);
        }
        Ok(expr)
    }

    fn tree(
        &mut self,
        region: &Region<'_>,
        expr: &mut Expr,
        id: NodeId,
    ) -> Result<ValueId, LowerError> {
        if let Some((_, value)) = self.done.iter().find(|(n, _)| *n == id) {
            return Ok(*value);
        }
        let node = region.graph.node(id);
        let number = self.number(&Factor::Node(id));
        // A product that includes the weights cannot be loaded: they would count twice.
        let weighted = self
            .unit
            .is_some_and(|unit| has_factor(region.graph, id, unit));
        let value = if self.acc == Some(id) {
            expr.push(Scalar::Acc)
        } else if let Some(number) = number {
            expr.push(Scalar::Number(number))
        } else if self.unit == Some(id) {
            expr.push(Scalar::Const(1.0))
        } else if let Some(value) = region.value(id).filter(|_| !weighted) {
            let at = self.place(value.ty, None);
            self.load(expr, value, at)
        } else {
            match &node.op {
                Op::Const(c) => expr.push(Scalar::Const(*c)),
                Op::Unary(op) => {
                    let a = self.tree(region, expr, node.inputs[0])?;
                    expr.push(Scalar::Unary(*op, a))
                }
                // For edges that are not fresh, the other factor is 0: see `phases`.
                Op::Binary(op) => {
                    if let Some(other) = fresh(region.graph, id).or(self.times_unit(region, id)) {
                        return self.tree(region, expr, other);
                    }
                    let a = self.tree(region, expr, node.inputs[0])?;
                    let b = self.tree(region, expr, node.inputs[1])?;
                    expr.push(Scalar::Binary(*op, a, b))
                }
                Op::Broadcast(_) => self.tree(region, expr, node.inputs[0])?,
                Op::Dropout { p, site, slice } => {
                    let drawn = Factor::Mask(*p, *site, *slice, node.ty);
                    let mask = match self.number(&drawn) {
                        Some(number) => Scalar::Number(number),
                        None => self.mask(node.ty, (*p, *site), *slice, region)?,
                    };
                    if self.unit == Some(node.inputs[0]) {
                        expr.push(mask)
                    } else {
                        let a = self.tree(region, expr, node.inputs[0])?;
                        let mask = expr.push(mask);
                        expr.push(Scalar::Binary(gnnc_ir::Binary::Mul, a, mask))
                    }
                }
                Op::Pick => {
                    let table = region.stored(node.inputs[0])?;
                    let count = match table.ty.rows {
                        Rows::Fixed(count) => count,
                        _ => 0,
                    };
                    let picked = self.head(region, node.inputs[1], (count, table.stride))?;
                    let operand = Operand {
                        picked: Some(picked),
                        ..table.operand(At::One)
                    };
                    let n = self.operand(operand, table.at);
                    expr.push(Scalar::Load(n))
                }
                Op::PickHead => {
                    let of = node.inputs[0];
                    let (mut value, mut taken) = (region.value(of), None);
                    if value.is_none()
                        && let Op::Take(_, end) = region.graph.node(of).op
                    {
                        value = region.value(region.graph.node(of).inputs[0]);
                        taken = Some(end);
                    }
                    let value = value.ok_or_else(|| {
                        LowerError::Internal(format!("heads of {of} are picked but not stored"))
                    })?;
                    let picked =
                        self.head(region, node.inputs[1], (value.ty.heads, value.head_step))?;
                    let operand = Operand {
                        head_step: 0,
                        picked: Some(picked),
                        ..value.operand(self.place(value.ty, taken))
                    };
                    let n = self.operand(operand, value.at);
                    expr.push(Scalar::Load(n))
                }
                Op::Take(_, end) => {
                    let operand = node.inputs[0];
                    let value = region.value(operand).ok_or_else(|| {
                        LowerError::Internal(format!("{operand} is taken but not stored"))
                    })?;
                    let at = self.place(value.ty, Some(*end));
                    self.load(expr, value, at)
                }
                Op::Input(_)
                | Op::Param(_)
                | Op::Table(_)
                | Op::Arg(_)
                | Op::Blend
                | Op::Sampled(_)
                | Op::Copies(..)
                | Op::Clip(..)
                | Op::Gather(..)
                | Op::GatherMean(_)
                | Op::EdgeSoftmax(_)
                | Op::PickSum(_)
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
                | Op::ReduceCols(..)
                | Op::SumRows
                | Op::Redistribute(_)
                | Op::SumRanks
                | Op::Loss(_)
                | Op::LossGrad(_)
                | Op::Scan(_)
                | Op::Out(_) => {
                    let op = &node.op;
                    let found = format!("{id}, {op}, is used in a kernel but not stored");
                    return Err(LowerError::Internal(found));
                }
            }
        };
        self.done.push((id, value));
        Ok(value)
    }

    /// The number of an edge pass that a factor is.
    fn number(&self, factor: &Factor) -> Option<u16> {
        let found = self.numbers.iter().position(|number| number == factor);
        found.map(|n| n as u16)
    }

    /// The expression for a number of an edge pass, and whether it is a dot.
    pub fn edge_number(
        &mut self,
        region: &Region<'_>,
        factor: &Factor,
    ) -> Result<EdgeNumber, LowerError> {
        let id = match factor {
            Factor::Node(id) => *id,
            Factor::Mask(p, site, slice, ty) => {
                let mask = self.mask(*ty, (*p, *site), *slice, region)?;
                let value = Expr::leaf(mask);
                return Ok(EdgeNumber { value, dot: false });
            }
        };
        let node = region.graph.node(id);
        let dot = matches!(node.op, Op::ReduceCols(..)) && region.value(id).is_none();
        let of = if dot { node.inputs[0] } else { id };
        let value = self.value(region, of)?;
        Ok(EdgeNumber { value, dot })
    }

    /// The other factor of a product with the unit.
    fn times_unit(&self, region: &Region<'_>, id: NodeId) -> Option<NodeId> {
        let node = region.graph.node(id);
        let (Op::Binary(gnnc_ir::Binary::Mul), [a, b]) = (&node.op, &node.inputs[..]) else {
            return None;
        };
        let is_unit = |id: &NodeId| self.unit.is_some() && self.unit == Some(*id);
        if is_unit(a) {
            return Some(*b);
        }
        is_unit(b).then_some(*a)
    }

    /// A head picked by the number `number` has for each edge: one of `count`, which are `step`
    /// apart.
    pub fn head(
        &mut self,
        region: &Region<'_>,
        number: NodeId,
        (count, step): (u32, u32),
    ) -> Result<Picked, LowerError> {
        let number = region.stored(number)?;
        let by = self.operand(number.operand(At::Edge), number.at);
        Ok(Picked { by, count, step })
    }

    /// The expression that reads a tensor at the kernel's current element.
    pub fn read(&mut self, value: Value, at: At) -> Expr {
        let mut expr = Expr::default();
        let at = if at == At::Row {
            self.place(value.ty, None)
        } else {
            at
        };
        self.load(&mut expr, value, at);
        expr
    }

    /// How the kernel's row indexes the rows of a tensor.
    fn place(&self, ty: Type, taken: Option<End>) -> At {
        match (ty.rows, taken) {
            (_, Some(End::Src)) => At::Src,
            (_, Some(End::Dst)) => At::Dst,
            (Rows::Edges(_) | Rows::AllEdges(_) | Rows::LevelEdges(..), None) => At::Edge,
            (Rows::Fixed(1), None) if self.space.rows != Rows::Fixed(1) => At::One,
            _ => At::Row,
        }
    }

    /// Adds the read of a tensor to an expression.
    pub fn load_from(&mut self, expr: &mut Expr, value: Value, at: At) -> ValueId {
        self.load(expr, value, at)
    }

    fn load(&mut self, expr: &mut Expr, value: Value, at: At) -> ValueId {
        let n = self.operand(value.operand(at), value.at);
        expr.push(Scalar::Load(n))
    }

    /// The index of an input; equal inputs share one.
    fn operand(&mut self, operand: Operand, at: Ref) -> u16 {
        let found = self.inputs.iter().position(|i| *i == (operand, at));
        let n = found.unwrap_or_else(|| {
            self.inputs.push((operand, at));
            self.inputs.len() - 1
        });
        n as u16
    }

    fn mask(
        &mut self,
        ty: Type,
        (p, site): (f32, Site),
        slice: Option<Slice>,
        region: &Region<'_>,
    ) -> Result<Scalar, LowerError> {
        if !region.train {
            return Err(LowerError::Internal(format!(
                "dropout site {site} outside training"
            )));
        }
        let at = match ty.rows {
            Rows::Vertices | Rows::All | Rows::Level(_) => At::Row,
            Rows::Edges(_) | Rows::AllEdges(_) | Rows::LevelEdges(..) => At::Edge,
            Rows::Fixed(_) => {
                return Err(LowerError::Unsupported("dropout of a parameter".to_owned()));
            }
        };
        let (first, head_step) = slice.map_or((0, ty.width), |slice| slice.columns(ty));
        let mask = Mask {
            p,
            at,
            first,
            head_step: if ty.heads == 1 { 0 } else { head_step },
            column_step: u32::from(ty.width != 1),
        };
        let entry = (mask, site);
        let found = self.masks.iter().position(|m| *m == entry);
        let n = found.unwrap_or_else(|| {
            self.masks.push(entry);
            self.masks.len() - 1
        });
        Ok(Scalar::Mask(n as u16))
    }

    /// The launch of the finished kernel.
    pub fn launch(
        self,
        program: &mut Program,
        body: gnnc_ir::kernel::Body,
        rows: Extent,
        outputs: Vec<(Operand, Ref)>,
    ) -> Launch {
        let kernel = Kernel {
            body,
            heads: self.space.heads,
            width: self.space.width,
            inputs: self.inputs.iter().map(|(operand, _)| *operand).collect(),
            outputs: outputs.iter().map(|(operand, _)| *operand).collect(),
            masks: self.masks.iter().map(|(mask, _)| *mask).collect(),
            scalars: 0,
        };
        Launch {
            kernel: intern(program, kernel),
            rows,
            inputs: self.inputs.into_iter().map(|(_, at)| at).collect(),
            outputs: outputs.into_iter().map(|(_, at)| at).collect(),
            scalars: Vec::new(),
            sites: self.masks.into_iter().map(|(_, site)| site).collect(),
            lists: Vec::new(),
            chunk: None,
        }
    }
}

/// The other factor of a product with the indicator of fresh edges.
pub fn fresh(graph: &Graph, id: NodeId) -> Option<NodeId> {
    let node = graph.node(id);
    let is_fresh = |id: &NodeId| matches!(graph.node(*id).op, Op::Input(Input::Fresh(_)));
    let (Op::Binary(gnnc_ir::Binary::Mul), [a, b]) = (&node.op, &node.inputs[..]) else {
        return None;
    };
    match (is_fresh(a), is_fresh(b)) {
        (_, true) => Some(*a),
        (true, false) => Some(*b),
        (false, false) => None,
    }
}

/// The id of a kernel; equal kernels share one.
pub fn intern(program: &mut Program, kernel: Kernel) -> KernelId {
    let found = program.kernels.iter().position(|k| *k == kernel);
    let id = found.unwrap_or_else(|| {
        program.kernels.push(kernel);
        program.kernels.len() - 1
    });
    KernelId(id as u32)
}

/// A launch of `value` over so many elements of operands without rows of their own.
pub fn flat(
    program: &mut Program,
    elements: u32,
    value: Expr,
    inputs: Vec<Ref>,
    output: Ref,
) -> Launch {
    let operand = Operand::dense(At::Row, 1, 1);
    let kernel = Kernel {
        body: Body::Map {
            over: Over::Rows,
            values: vec![value],
        },
        heads: 1,
        width: 1,
        inputs: vec![operand; inputs.len()],
        outputs: vec![operand],
        masks: Vec::new(),
        scalars: 0,
    };
    Launch {
        kernel: intern(program, kernel),
        rows: Extent::Fixed(elements),
        inputs,
        outputs: vec![output],
        scalars: Vec::new(),
        sites: Vec::new(),
        lists: Vec::new(),
        chunk: None,
    }
}

/// Elements of a buffer with fixed rows, all slots; 0 of others.
pub fn fixed_elements(buffer: &Buffer) -> u32 {
    let mut elements = 0;
    if let Extent::Fixed(rows) = buffer.extent {
        elements = rows * buffer.columns * buffer.slots;
    }
    elements
}

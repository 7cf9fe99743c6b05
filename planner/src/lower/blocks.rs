//! Gradients clipped by blocks (SANCUS, section 3.2, step 1 of the backward pass).
//!
//! A layer's *pre-activations* are the tensors that an activation or the loss reads. Each rank
//! scales their gradient in its own rows before it goes on to weights and earlier layers, by a
//! factor of its own, so no message is needed. The tensors are marked before a model is
//! differentiated ([`Clip::Gradient`]); the marks are gone when it is lowered, and their
//! counterparts in the backward pass ([`Clip::Rows`]) become other operators.

use super::kernel::Builder;
use super::region::Region;
use super::{LowerError, Lowerer};
use crate::fixed::fixed;
use gnnc_ir::graph::infer::TypeError;
use gnnc_ir::graph::op::{Clip, Op};
use gnnc_ir::kernel::expr::{Expr, Value as Scalar, ValueId};
use gnnc_ir::kernel::{At, Axis, Body, Over, Reduce};
use gnnc_ir::program::Instr;
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::{Graph, NodeId, Rows};

/// The same graph with marked pre-activations, which bound the length of the gradients of a rank's
/// rows by `most`.
///
/// # Errors
/// If the graph is invalid.
pub fn marked(graph: &Graph, most: f32) -> Result<Graph, TypeError> {
    within(graph, &[], most)
}

/// Marks a graph; `args` says which arguments are the same in every epoch.
fn within(graph: &Graph, args: &[bool], most: f32) -> Result<Graph, TypeError> {
    let fixed = fixed(graph, args);
    let mut read = vec![false; graph.nodes.len()];
    for node in graph.nodes.iter().filter(|node| activates(&node.op)) {
        let x = node.inputs[0];
        read[x.0 as usize] = graph.ty(x).rows == Rows::Vertices && !fixed[x.0 as usize];
    }
    let mut out = graph.clone_without_nodes();
    // Each node, and the node its readers use instead.
    let mut new: Vec<(NodeId, NodeId)> = Vec::with_capacity(graph.nodes.len());
    for (id, node) in graph.iter() {
        let mut op = node.op.clone();
        if let Op::Scan(scan) = &mut op {
            let of = |input: &NodeId| fixed[input.0 as usize];
            let mut args: Vec<bool> = node.inputs.iter().map(of).collect();
            args[..scan.carries as usize].fill(false);
            scan.body = within(&scan.body, &args, most)?;
        }
        // Results of a loop except the first are read from the loop.
        let of_loop = matches!(op, Op::Out(_));
        let input = |input: &NodeId| {
            let (itself, marked) = new[input.0 as usize];
            if of_loop { itself } else { marked }
        };
        let inputs: Vec<NodeId> = node.inputs.iter().map(input).collect();
        let same = out.add(op, &inputs, node.scope)?;
        let marked = match read[id.0 as usize] {
            true => out.add(Op::Clip(Clip::Gradient, most), &[same], node.scope)?,
            false => same,
        };
        new.push((same, marked));
    }
    out.results = graph
        .results
        .iter()
        .map(|id| new[id.0 as usize].1)
        .collect();
    Ok(out)
}

/// Whether an operator reads the end of a layer's linear part.
fn activates(op: &Op) -> bool {
    matches!(op, Op::Loss(_)) || matches!(op, Op::Unary(f) if f.is_activation())
}

/// A rank's rows `x`, multiplied by a factor that depends on their squares.
pub fn clip_rows(out: &mut Graph, x: NodeId, most: f32, scope: u32) -> Result<NodeId, TypeError> {
    let squares = out.add(Op::Binary(Binary::Mul), &[x, x], scope)?;
    let mut sum = out.add(Op::SumRows, &[squares], scope)?;
    for axis in [Axis::Heads, Axis::Width] {
        sum = out.add(Op::ReduceCols(axis, Reduce::Sum), &[sum], scope)?;
    }
    let factor = out.add(Op::Clip(Clip::Factor, most), &[sum], scope)?;
    out.add(Op::Binary(Binary::Mul), &[x, factor], scope)
}

/// Appends `min(1, most / length)`.
pub fn at_most(expr: &mut Expr, length: ValueId, most: f32) -> ValueId {
    let most = expr.push(Scalar::Const(most));
    let share = expr.push(Scalar::Binary(Binary::Div, most, length));
    // There is a maximum of two numbers, but no minimum.
    let share = expr.push(Scalar::Unary(Unary::Neg, share));
    let one = expr.push(Scalar::Const(-1.0));
    let share = expr.push(Scalar::Binary(Binary::Max, one, share));
    expr.push(Scalar::Unary(Unary::Neg, share))
}

impl Region<'_> {
    /// The factor of a rank's block, from its sum of squares.
    pub fn clip_factor(
        &mut self,
        lowerer: &mut Lowerer,
        id: NodeId,
        most: f32,
    ) -> Result<(), LowerError> {
        let node = self.graph.node(id);
        let squares = self.stored(node.inputs[0])?;
        let mut builder = Builder::new(node.ty);
        let mut value = builder.read(squares, At::Row);
        let length = value.push(Scalar::Unary(Unary::Sqrt, value.result()));
        at_most(&mut value, length, most);
        let body = Body::Map {
            over: Over::Rows,
            values: vec![value],
        };
        let extent = lowerer.extent(node.ty);
        let out = self.target(lowerer, id, extent);
        let output = (out.operand(At::Row), out.at);
        let launch = builder.launch(&mut lowerer.program, body, extent, vec![output]);
        self.code.push(Instr::Launch(launch));
        self.values[id.0 as usize] = Some(out);
        Ok(())
    }
}

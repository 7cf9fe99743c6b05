//! Writes softmax over edges in terms of sums, so that no tensor of weights has to exist.
//!
//! With `l = max + log(sum(exp(s - max)))` by destination, the weight of an edge is `exp(s - l)`:
//! a kernel that has the scores computes it where it is needed. [`super::passes`] then finds what
//! one walk over the edges can compute together. Two sums of the backward pass are moved from
//! edges to vertices:
//!
//! - `sum over edges of a <g, x> = <g, sum over edges of a x>` for a row `g` of the destination;
//!   the sum on the right is a result of the forward pass (Dao et al., FlashAttention, section 3.1).
//! - A sum over all edges of what is expensive to compute is a sum over vertices of sums of edges.

use crate::lower::LowerError;
use gnnc_ir::graph::infer::TypeError;
use gnnc_ir::graph::op::{Op, Site, Slice};
use gnnc_ir::graph::simplify::simplify;
use gnnc_ir::kernel::{Axis, End, Reduce};
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::words::types::EdgeSet;
use gnnc_ir::{Graph, Node, NodeId, Type};

/// The same graph without [`Op::EdgeSoftmax`].
///
/// # Errors
/// If the result is not well typed, which is a bug.
pub fn expanded(graph: &Graph) -> Result<Graph, LowerError> {
    if !has_softmax(graph) {
        return Ok(graph.clone());
    }
    let mut out = graph.clone_without_nodes();
    let mut new: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let inputs: Vec<NodeId> = node.inputs.iter().map(|id| new[id.0 as usize]).collect();
        new.push(expand(&mut out, node, &inputs)?);
    }
    out.results = graph.results.iter().map(|id| new[id.0 as usize]).collect();
    Ok(simplify(&out.pruned()))
}

/// Adds a node, or what stands for it.
fn expand(out: &mut Graph, node: &Node, inputs: &[NodeId]) -> Result<NodeId, LowerError> {
    let bug = |e: TypeError| LowerError::Internal(format!("softmax as sums: {e}"));
    let scope = node.scope;
    if let (Op::EdgeSoftmax(set), [scores]) = (&node.op, inputs) {
        return softmax(out, *set, *scores, scope).map_err(bug);
    }
    if let (Op::Gather(set, End::Dst, Reduce::Sum), [x]) = (&node.op, inputs)
        && let Some((row, sum)) = moved_dot(out, *set, *x)
    {
        let product = out.add(Op::Binary(Binary::Mul), &[row, sum], scope);
        let dot = Op::ReduceCols(Axis::Width, Reduce::Sum);
        return out.add(dot, &[product.map_err(bug)?], scope).map_err(bug);
    }
    if let (Op::SumRows, [x]) = (&node.op, inputs)
        && let Some(set) = out.ty(*x).rows.edge_set()
        && out.ty(*x).columns() > 1
        && expensive(out, *x)
    {
        let sum = Op::Gather(set, End::Dst, Reduce::Sum);
        let sum = out.add(sum, &[*x], scope).map_err(bug)?;
        return out.add(Op::SumRows, &[sum], scope).map_err(bug);
    }
    let mut op = node.op.clone();
    if let Op::Scan(scan) = &mut op {
        scan.body = expanded(&scan.body)?;
    }
    out.add(op, inputs, scope).map_err(bug)
}

fn has_softmax(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| {
        let inside = matches!(&node.op, Op::Scan(scan) if has_softmax(&scan.body));
        inside || matches!(node.op, Op::EdgeSoftmax(_))
    })
}

/// Adds `exp(s - l)`, where `l` is the log-sum-exp of the scores by destination.
fn softmax(out: &mut Graph, set: EdgeSet, scores: NodeId, scope: u32) -> Result<NodeId, TypeError> {
    let mut add = |op: Op, inputs: &[NodeId]| out.add(op, inputs, scope);
    let take = Op::Take(set, End::Dst);
    let gather = |reduce| Op::Gather(set, End::Dst, reduce);
    let (less, exp) = (Op::Binary(Binary::Sub), Op::Unary(Unary::Exp));
    let top = add(gather(Reduce::Max), &[scores])?;
    let at_edge = add(take.clone(), &[top])?;
    let below = add(less.clone(), &[scores, at_edge])?;
    let power = add(exp.clone(), &[below])?;
    let total = add(gather(Reduce::Sum), &[power])?;
    let log = add(Op::Unary(Unary::Log), &[total])?;
    let log_sum = add(Op::Binary(Binary::Add), &[top, log])?;
    let at_edge = add(take, &[log_sum])?;
    let below = add(less, &[scores, at_edge])?;
    add(exp, &[below])
}

/// A softmax as [`expanded`] writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSum {
    /// The edges.
    pub set: EdgeSet,
    /// The scores.
    pub scores: NodeId,
    /// Their maximum by destination.
    pub top: NodeId,
    /// The sum of exponentials by destination.
    pub total: NodeId,
}

/// Recognises the log-sum-exp of scores, one per head.
pub fn log_sum(graph: &Graph, id: NodeId) -> Option<LogSum> {
    let node = |id: NodeId| graph.node(id);
    let (Op::Binary(Binary::Add), [top, log]) = (&node(id).op, &node(id).inputs[..]) else {
        return None;
    };
    let (Op::Unary(Unary::Log), [total]) = (&node(*log).op, &node(*log).inputs[..]) else {
        return None;
    };
    let Op::Gather(set, End::Dst, Reduce::Max) = node(*top).op else {
        return None;
    };
    let scores = *node(*top).inputs.first()?;
    if node(*total).op != Op::Gather(set, End::Dst, Reduce::Sum) || graph.ty(scores).width != 1 {
        return None;
    }
    let power = *node(*total).inputs.first()?;
    let found = LogSum {
        set,
        scores,
        top: *top,
        total: *total,
    };
    (difference(graph, power, *top) == Some(scores)).then_some(found)
}

/// The scores, if a node is `exp(scores - row)` for a row of each edge's destination.
pub fn difference(graph: &Graph, id: NodeId, row: NodeId) -> Option<NodeId> {
    let node = |id: NodeId| graph.node(id);
    if node(id).op != Op::Unary(Unary::Exp) {
        return None;
    }
    let below = *node(id).inputs.first()?;
    let (Op::Binary(Binary::Sub), [scores, at_edge]) = (&node(below).op, &node(below).inputs[..])
    else {
        return None;
    };
    let taken = matches!(node(*at_edge).op, Op::Take(_, End::Dst));
    (taken && node(*at_edge).inputs == [row]).then_some(*scores)
}

/// A factor of a product.
#[derive(Clone, Debug, PartialEq)]
pub enum Factor {
    /// A tensor.
    Node(NodeId),
    /// A dropout mask: its probability, site, slice and shape.
    Mask(f32, Site, Option<Slice>, Type),
}

impl Factor {
    /// The tensor, if it is one.
    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::Node(id) => Some(*id),
            Self::Mask(..) => None,
        }
    }
}

/// The factors of a product, in no particular order.
pub fn factors(graph: &Graph, id: NodeId) -> Vec<Factor> {
    let node = graph.node(id);
    if let Op::Dropout { p, site, slice } = &node.op {
        let mut found = factors(graph, node.inputs[0]);
        found.push(Factor::Mask(*p, *site, *slice, node.ty));
        return found;
    }
    if matches!(node.op, Op::Binary(Binary::Mul) | Op::Broadcast(_)) {
        let each = node.inputs.iter().flat_map(|id| factors(graph, *id));
        return each.collect();
    }
    vec![Factor::Node(id)]
}

/// Whether a node is a product with a tensor, or that tensor.
pub fn has_factor(graph: &Graph, id: NodeId, tensor: NodeId) -> bool {
    factors(graph, id).contains(&Factor::Node(tensor))
}

/// Whether two lists hold the same factors.
fn same(a: &[Factor], b: &[Factor]) -> bool {
    let mut rest = b.to_vec();
    let found = |factor: &Factor| match rest.iter().position(|other| other == factor) {
        Some(at) => {
            rest.swap_remove(at);
            true
        }
        None => false,
    };
    a.len() == b.len() && a.iter().all(found)
}

/// For a sum over edges of `a <g, x>`, the row `g` of destinations and an existing sum of `a x`.
fn moved_dot(graph: &Graph, set: EdgeSet, value: NodeId) -> Option<(NodeId, NodeId)> {
    let all = factors(graph, value);
    for (n, factor) in all.iter().enumerate() {
        let Factor::Node(dot) = factor else {
            continue;
        };
        if graph.node(*dot).op != Op::ReduceCols(Axis::Width, Reduce::Sum) {
            continue;
        }
        let product = graph.node(*dot).inputs[0];
        let inside = factors(graph, product);
        let row = inside.iter().position(|factor| match factor {
            Factor::Node(id) => graph.node(*id).op == Op::Take(set, End::Dst),
            Factor::Mask(..) => false,
        });
        let Some(row) = row else {
            continue;
        };
        let Factor::Node(taken) = inside[row] else {
            continue;
        };
        let mut wanted = all.clone();
        wanted.remove(n);
        wanted.extend(
            inside
                .iter()
                .enumerate()
                .filter(|(i, _)| *i != row)
                .map(|(_, f)| f.clone()),
        );
        let gather = Op::Gather(set, End::Dst, Reduce::Sum);
        let ty = graph.ty(product);
        let sum = graph.iter().find(|(_, node)| {
            let of = node.inputs.first().filter(|_| node.op == gather);
            of.is_some_and(|of| graph.ty(*of) == ty && same(&factors(graph, *of), &wanted))
        });
        if let Some((sum, _)) = sum {
            let row = graph.node(taken).inputs[0];
            return Some((row, sum));
        }
    }
    None
}

/// Whether an edge tensor needs an exponential or a sum over columns of each edge.
pub fn expensive(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    if node.ty.rows.edge_set().is_none() || matches!(node.op, Op::Take(..)) {
        return false;
    }
    matches!(node.op, Op::Unary(Unary::Exp) | Op::ReduceCols(..))
        || node.inputs.iter().any(|id| expensive(graph, *id))
}

//! Hoists values out of loops that are the same in every iteration and worth keeping: row scalings
//! (an inverse root of a degree), and anything that contains a product or an aggregation.
//!
//! Wide element-wise values stay: they fuse into their readers, and keeping them costs memory.

use gnnc_ir::graph::infer::TypeError;
use gnnc_ir::graph::op::{Scan, ValueOrigin};
use gnnc_ir::graph::{Node, NodeId};
use gnnc_ir::{Graph, Op, Rows};
use std::collections::BTreeMap;

/// How a node of a loop body relates to iterations.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Differs between iterations, or is made in every iteration anyway.
    Varying,
    /// The same in every iteration, but cheap.
    Fixed,
    /// The same in every iteration and worth computing once.
    Worth,
}

/// The same graph with such values computed before the loops.
pub(super) fn hoist(graph: &Graph) -> Result<Graph, TypeError> {
    let mut out = graph.clone_without_nodes();
    let mut new: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let inputs: Vec<NodeId> = node.inputs.iter().map(|id| new[id.0 as usize]).collect();
        let id = if let Op::Scan(scan) = &node.op {
            out_of(scan, &inputs, node.scope, &mut out)?
        } else {
            out.add(node.op.clone(), &inputs, node.scope)?
        };
        new.push(id);
    }
    out.results = graph.results.iter().map(|id| new[id.0 as usize]).collect();
    Ok(out)
}

/// Writes the hoisted values of a loop before it, then the loop.
fn out_of(
    scan: &Scan,
    operands: &[NodeId],
    scope: u32,
    out: &mut Graph,
) -> Result<NodeId, TypeError> {
    let kinds = kinds(scan);
    let body = &scan.body;
    let taken: Vec<NodeId> = body
        .iter()
        .filter(|(id, _)| {
            let reader = |(user, node): (NodeId, &Node)| {
                node.inputs.contains(id) && kinds[user.0 as usize] == Kind::Varying
            };
            kinds[id.0 as usize] == Kind::Worth
                && (body.iter().any(reader) || body.results.contains(id))
        })
        .map(|(id, _)| id)
        .collect();
    // The hoisted values and their operands, before the loop.
    let mut outside: BTreeMap<NodeId, NodeId> = BTreeMap::new();
    for (id, node) in below(body, &taken) {
        let place = if let Op::Arg(n) = node.op {
            operands[n as usize]
        } else {
            let inputs: Vec<NodeId> = node.inputs.iter().map(|i| outside[i]).collect();
            out.add(node.op.clone(), &inputs, scope)?
        };
        outside.insert(id, place);
    }
    // The loop, which reads them as additional constants.
    let first_x = (scan.carries + scan.consts) as usize;
    let count = taken.len() as u32;
    let mut args = body.args.clone();
    args.splice(first_x..first_x, taken.iter().map(|id| body.ty(*id)));
    let mut inputs = operands.to_vec();
    inputs.splice(first_x..first_x, taken.iter().map(|id| outside[id]));
    let mut inner = Graph {
        args,
        ..body.clone()
    };
    for (id, node) in body.iter() {
        let op = if let Some(i) = taken.iter().position(|t| *t == id) {
            Op::Arg((first_x + i) as u32)
        } else if let Op::Arg(n) = node.op
            && n as usize >= first_x
        {
            Op::Arg(n + count)
        } else {
            continue;
        };
        inner.nodes[id.0 as usize] = Node {
            op,
            inputs: Vec::new(),
            ..node.clone()
        };
    }
    let consts = scan.consts + count;
    let scan = Scan {
        consts,
        body: inner.pruned(),
        ..scan.clone()
    };
    out.add(Op::Scan(Box::new(scan)), &inputs, scope)
}

fn kinds(scan: &Scan) -> Vec<Kind> {
    let consts = scan.carries..scan.carries + scan.consts;
    let mut kinds: Vec<Kind> = Vec::with_capacity(scan.body.nodes.len());
    for node in &scan.body.nodes {
        let below = |kind: Kind| node.inputs.iter().any(|id| kinds[id.0 as usize] == kind);
        let narrow = node.ty.columns() == 1 && node.ty.rows == Rows::Vertices;
        // Readers load taken rows themselves; a draw is new in every iteration.
        let varying = matches!(
            node.op,
            Op::Take(..) | Op::Pick | Op::PickHead | Op::Dropout { .. }
        );
        let sums = matches!(
            node.op,
            Op::Gather(..)
                | Op::GatherMean(_)
                | Op::EdgeSoftmax(_)
                | Op::PickSum(_)
                | Op::MatMul
                | Op::MatMulNT
                | Op::MatMulTN
                | Op::ReduceCols(..)
                | Op::SumRows
        );
        kinds.push(match node.op.origin() {
            ValueOrigin::Input(_) | ValueOrigin::Const(_) => Kind::Fixed,
            ValueOrigin::Arg(n) if consts.contains(&n) => Kind::Fixed,
            ValueOrigin::Arg(_) | ValueOrigin::Param(_) | ValueOrigin::Table(_) => Kind::Varying,
            ValueOrigin::Scan(_) | ValueOrigin::Out(_) => Kind::Varying,
            ValueOrigin::Operands if varying || below(Kind::Varying) => Kind::Varying,
            ValueOrigin::Operands if sums || narrow || below(Kind::Worth) => Kind::Worth,
            ValueOrigin::Operands => Kind::Fixed,
        });
    }
    kinds
}

/// The nodes that `roots` need, in evaluation order.
fn below<'a>(body: &'a Graph, roots: &[NodeId]) -> Vec<(NodeId, &'a Node)> {
    let mut needed = vec![false; body.nodes.len()];
    let mut work = roots.to_vec();
    while let Some(id) = work.pop() {
        if !std::mem::replace(&mut needed[id.0 as usize], true) {
            work.extend(&body.node(id).inputs);
        }
    }
    body.iter()
        .filter(|(id, _)| needed[id.0 as usize])
        .collect()
}

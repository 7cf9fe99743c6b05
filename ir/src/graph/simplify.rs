//! Simplification: removes equal subexpressions, dead code and trivial identities.
//!
//! Every rewrite is exact in floating point, up to the sign of a zero, so it is always safe to
//! apply.

mod identity;
mod trim;

use crate::graph::op::Op;
use crate::graph::{Graph, Node, NodeId};
use crate::words::types::Type;
use std::collections::BTreeMap;

/// Limit on passes before giving up on a fixed point; three are usual.
const MAX_PASSES: usize = 32;

/// Removes equal subexpressions, dead code and trivial operators, inside scan bodies too.
/// Arguments, parameters and results keep their order.
///
/// Deterministic; the graph must be valid.
pub fn simplify(graph: &Graph) -> Graph {
    let mut graph = graph.pruned();
    for _ in 0..MAX_PASSES {
        let next = trim::trimmed(&Merger::merged(&graph)).pruned();
        if next == graph {
            break;
        }
        graph = next;
    }
    graph
}

/// Copies a graph node by node and skips what is already there.
struct Merger {
    out: Graph,
    /// Emitted nodes, by their operands; those without operands by a number that equal ones share.
    seen: BTreeMap<(Vec<NodeId>, u64), Vec<NodeId>>,
}

/// What a node simplifies to.
enum Identity {
    /// Another node.
    Node(NodeId),
    /// Another operator on other operands, with the same type.
    Op(Op, Vec<NodeId>),
}

impl Merger {
    fn merged(graph: &Graph) -> Graph {
        let mut merger = Self {
            out: graph.clone_without_nodes(),
            seen: BTreeMap::new(),
        };
        let mut new_id: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
        for node in &graph.nodes {
            let inputs = node.inputs.iter().map(|i| new_id[i.0 as usize]).collect();
            let mut op = node.op.clone();
            if let Op::Scan(scan) = &mut op {
                scan.body = simplify(&scan.body);
            }
            new_id.push(merger.place(op, inputs, node.ty, node.scope));
        }
        merger.out.results = graph.results.iter().map(|r| new_id[r.0 as usize]).collect();
        merger.out
    }

    /// The node that computes `op` on `inputs`, existing or new.
    fn place(&mut self, mut op: Op, mut inputs: Vec<NodeId>, ty: Type, scope: u32) -> NodeId {
        loop {
            match self.identity(&op, &inputs, ty) {
                Some(Identity::Node(id)) => return id,
                Some(Identity::Op(next, operands)) => (op, inputs) = (next, operands),
                None => break,
            }
        }
        let equal = self.seen.entry((inputs.clone(), number(&op))).or_default();
        if let Some(id) = equal.iter().find(|id| same(&self.out.node(**id).op, &op)) {
            return *id;
        }
        let id = NodeId(self.out.nodes.len() as u32);
        equal.push(id);
        self.out.nodes.push(Node {
            op,
            inputs,
            ty,
            scope,
        });
        id
    }
}

/// A number that tells many of the operators without operands apart.
fn number(op: &Op) -> u64 {
    if let Op::Param(param) = op {
        u64::from(param.0) << 2 | 1
    } else if let Op::Const(value) = op {
        u64::from(value.to_bits()) << 2 | 2
    } else if let Op::Arg(number) = op {
        u64::from(*number) << 2 | 3
    } else {
        0
    }
}

/// Whether two operators compute the same from equal operands.
fn same(a: &Op, b: &Op) -> bool {
    // 0 and -0 are equal numbers but different constants.
    if let (Op::Const(a), Op::Const(b)) = (a, b) {
        return a.to_bits() == b.to_bits();
    }
    if let (Op::Table(a), Op::Table(b)) = (a, b) {
        return a
            .iter()
            .map(|x| x.to_bits())
            .eq(b.iter().map(|x| x.to_bits()));
    }
    a == b
}

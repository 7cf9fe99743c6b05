//! The forward pass of a model without dropout, for evaluations.

use gnnc_ir::graph::op::Op;
use gnnc_ir::{Graph, NodeId};

/// The forward graph without dropout, with the logits as its only result.
pub fn evaluation(forward: &Graph) -> Graph {
    let mut graph = without_dropout(forward);
    if let Some(logits) = graph.results.get(1).copied() {
        graph.results = vec![logits];
    }
    gnnc_ir::graph::simplify::simplify(&graph.pruned())
}

/// The same graph without dropout.
pub(super) fn without_dropout(graph: &Graph) -> Graph {
    let mut clean = graph.clone();
    let mut same: Vec<NodeId> = (0..graph.nodes.len() as u32).map(NodeId).collect();
    for (n, node) in clean.nodes.iter_mut().enumerate() {
        for input in &mut node.inputs {
            *input = same[input.0 as usize];
        }
        if matches!(node.op, Op::Dropout { .. }) {
            same[n] = node.inputs[0];
        }
        if let Op::Scan(scan) = &mut node.op {
            scan.body = without_dropout(&scan.body);
        }
    }
    for result in &mut clean.results {
        *result = same[result.0 as usize];
    }
    clean
}

//! The meaning of [`Op::Blend`] in terms of other operators.

use crate::graph::infer::TypeError;
use crate::graph::op::{Input, Op};
use crate::graph::{Graph, NodeId};
use crate::kernel::End;
use crate::words::scalar::Binary;

/// Replaces each [`Op::Blend`]: edges that read one get the sum of current and earlier rows,
/// one of them multiplied by 0. Scan bodies hold no blends.
///
/// # Errors
/// If the graph is inconsistent.
pub fn expanded(graph: &Graph) -> Result<Graph, TypeError> {
    let mut out = graph.clone_without_nodes();
    let mut new: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let of = |id: NodeId| new[id.0 as usize];
        let read = node.inputs.first().map(|id| graph.node(*id));
        let id = if node.op == Op::Blend {
            of(node.inputs[0])
        } else if let (Op::Take(set, End::Src), Some(blend)) = (&node.op, read)
            && blend.op == Op::Blend
        {
            let [x, old] = [of(blend.inputs[0]), of(blend.inputs[1])];
            let mut add = |op, inputs: &[NodeId]| out.add(op, inputs, node.scope);
            let fresh = add(Op::Input(Input::Fresh(*set)), &[])?;
            let one = add(Op::Const(1.0), &[])?;
            let stale = add(Op::Binary(Binary::Sub), &[one, fresh])?;
            let [x, old] = [x, old].map(|id| add(node.op.clone(), &[id]));
            let x = add(Op::Binary(Binary::Mul), &[x?, fresh])?;
            let old = add(Op::Binary(Binary::Mul), &[old?, stale])?;
            add(Op::Binary(Binary::Add), &[x, old])?
        } else {
            let inputs: Vec<NodeId> = node.inputs.iter().map(|id| of(*id)).collect();
            out.add(node.op.clone(), &inputs, node.scope)?
        };
        new.push(id);
    }
    out.results = graph.results.iter().map(|id| new[id.0 as usize]).collect();
    Ok(out)
}

//! Which nodes of a graph are the same in every epoch.

use gnnc_ir::Graph;
use gnnc_ir::graph::op::{Input, Op};

/// Nodes that are the same in every epoch; `args` says which arguments are.
pub fn fixed(graph: &Graph, args: &[bool]) -> Vec<bool> {
    let mut fixed = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let given = |n: u32| args.get(n as usize).copied().unwrap_or(false);
        let own = !matches!(
            node.op,
            Op::Param(_)
                | Op::Input(Input::History(_) | Input::Fresh(_))
                | Op::Dropout { .. }
                | Op::Loss(_)
                | Op::LossGrad(_)
                | Op::Scan(_)
                | Op::Out(_)
                | Op::Table(_)
        );
        let known = match node.op {
            Op::Arg(n) => given(n),
            _ => own,
        };
        fixed.push(known && node.inputs.iter().all(|i| fixed[i.0 as usize]));
    }
    fixed
}

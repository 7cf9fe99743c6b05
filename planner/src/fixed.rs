//! Which nodes of a graph are the same in every epoch.

use gnnc_ir::Graph;
use gnnc_ir::graph::op::{Input, Op, ValueOrigin};

/// Nodes that are the same in every epoch; `args` says which arguments are.
pub fn fixed(graph: &Graph, args: &[bool]) -> Vec<bool> {
    let mut fixed = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let given = |n: u32| args.get(n as usize).copied().unwrap_or(false);
        let drawn = matches!(
            node.op,
            Op::Dropout { .. } | Op::Loss(_) | Op::LossGrad(_) | Op::Sampled(_)
        );
        let known = match node.op.origin() {
            ValueOrigin::Arg(n) => given(n),
            ValueOrigin::Input(input) => match input {
                Input::History(_) | Input::Fresh(_) | Input::Drawn(_) => false,
                Input::Features | Input::FeatureSlice(_) | Input::Relation(_) => true,
                Input::InDegree(_) | Input::OutDegree(_) | Input::RelationDegree(_) => true,
            },
            ValueOrigin::Const(_) => true,
            ValueOrigin::Param(_) | ValueOrigin::Table(_) => false,
            ValueOrigin::Scan(_) | ValueOrigin::Out(_) => false,
            ValueOrigin::Operands => !drawn,
        };
        fixed.push(known && node.inputs.iter().all(|i| fixed[i.0 as usize]));
    }
    fixed
}

//! Which nodes of a graph are the same in every epoch, and which depend on no parameter.

use gnnc_ir::graph::op::{Input, Op, ValueOrigin};
use gnnc_ir::{Graph, Rows};

/// Nodes that are the same in every epoch; `args` says which arguments are.
pub fn fixed(graph: &Graph, args: &[bool]) -> Vec<bool> {
    known(graph, args, false)
}

/// The same, with nodes that depend on nothing but the data and the draw of a batch.
pub fn given(graph: &Graph) -> Vec<bool> {
    known(graph, &[], true)
}

fn known(graph: &Graph, args: &[bool], of_batch: bool) -> Vec<bool> {
    let mut fixed = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let given = |n: u32| args.get(n as usize).copied().unwrap_or(false);
        let of_step = matches!(node.op, Op::Dropout { .. } | Op::Loss(_) | Op::LossGrad(_));
        // Even equal rows differ in number from batch to batch.
        let of_level = matches!(node.ty.rows, Rows::Level(_) | Rows::LevelEdges(..));
        let sampled = of_level || matches!(node.op, Op::Sampled(_));
        let drawn = of_step || !of_batch && sampled;
        let known = match node.op.origin() {
            ValueOrigin::Arg(n) => given(n),
            ValueOrigin::Input(input) => match input {
                Input::History(_) | Input::Fresh(_) => false,
                Input::Drawn(_) => of_batch,
                Input::Features | Input::FeatureSlice(_) | Input::Relation(_) => true,
                Input::EdgeFeatures(_) => true,
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

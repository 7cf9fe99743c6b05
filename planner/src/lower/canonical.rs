//! Operators that kernels have no form of their own for, in terms of others.

use crate::lower::LowerError;
use gnnc_ir::graph::Graph;
use gnnc_ir::infer::TypeError;
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::op::{Binary, Input, Op, Unary};
use gnnc_ir::{NodeId, Rows};

/// Writes means as scaled sums and, if the input features are stored as non-zeros, moves
/// scalings of their rows to the other side of products: `(s x) w = s (x w)` and
/// `(s x)^T g = x^T (s g)`, so that the non-zeros are used as they are.
pub fn canonical(graph: &Graph, sparse: bool) -> Result<Graph, LowerError> {
    let bug = |e: TypeError| LowerError::Internal(format!("canonical form: {e}"));
    let mut out = graph.clone_without_nodes();
    let mut map: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let inputs: Vec<NodeId> = node.inputs.iter().map(|i| map[i.0 as usize]).collect();
        let scope = node.scope;
        let mut add = |op: Op, inputs: &[NodeId]| out.add(op, inputs, scope).map_err(bug);
        let scaled = node
            .inputs
            .first()
            .filter(|_| sparse)
            .and_then(|x| row_scaled(graph, *x));
        let id = match (&node.op, scaled) {
            (Op::GatherMean(set), _) => {
                let sum = add(Op::Gather(*set, End::Dst, Reduce::Sum), &inputs)?;
                let degree = add(Op::Input(Input::InDegree(*set)), &[])?;
                let share = add(Op::Unary(Unary::Recip), &[degree])?;
                add(Op::Binary(Binary::Mul), &[sum, share])?
            }
            (Op::MatMul, Some((x, scale))) => {
                let (x, scale) = (map[x.0 as usize], map[scale.0 as usize]);
                let product = add(Op::MatMul, &[x, inputs[1]])?;
                add(Op::Binary(Binary::Mul), &[product, scale])?
            }
            (Op::MatMulTN, Some((x, scale))) => {
                let (x, scale) = (map[x.0 as usize], map[scale.0 as usize]);
                let right = add(Op::Binary(Binary::Mul), &[inputs[1], scale])?;
                add(Op::MatMulTN, &[x, right])?
            }
            (Op::Scan(scan), _) => {
                let mut scan = scan.clone();
                scan.body = canonical(&scan.body, sparse)?;
                add(Op::Scan(scan), &inputs)?
            }
            (op, _) => add(op.clone(), &inputs)?,
        };
        map.push(id);
    }
    out.results = graph.results.iter().map(|r| map[r.0 as usize]).collect();
    Ok(gnnc_ir::simplify::simplify(&out.pruned()))
}

/// Whether a node is the feature matrix or a dropout of it.
pub fn features(graph: &Graph, id: NodeId) -> bool {
    match &graph.node(id).op {
        Op::Input(Input::Features | Input::FeatureSlice(_)) => true,
        Op::Dropout { .. } => features(graph, graph.node(id).inputs[0]),
        _ => false,
    }
}

/// The features and the scale, if a node is the features with scaled rows.
fn row_scaled(graph: &Graph, id: NodeId) -> Option<(NodeId, NodeId)> {
    let node = graph.node(id);
    if node.op != Op::Binary(Binary::Mul) {
        return None;
    }
    let scale = |s: NodeId| {
        let ty = graph.ty(s);
        ty.columns() == 1 && matches!(ty.rows, Rows::Vertices | Rows::Fixed(1))
    };
    match node.inputs[..] {
        [x, s] if features(graph, x) && scale(s) => Some((x, s)),
        [s, x] if features(graph, x) && scale(s) => Some((x, s)),
        _ => None,
    }
}

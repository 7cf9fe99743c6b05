//! Expresses operators that kernels have no form for in terms of others.

use crate::error::LowerError;
use crate::lower::blocks::clip_rows;
use gnnc_ir::graph::Graph;
use gnnc_ir::graph::infer::TypeError;
use gnnc_ir::graph::op::{Clip, Input, Op, Scan};
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::{EdgeSet, Node, NodeId, Rows};

/// Writes means as scaled sums, and clipping as a factor. If the input features are stored as
/// nonzeros, moves scalings of their rows to the other side of products, so that the nonzeros are
/// used unchanged: `(s x) w = s (x w)` and `(s x)^T g = x^T (s g)`.
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
        let id = match &node.op {
            Op::GatherMean(set) => {
                let sum = add(Op::Gather(*set, End::Dst, Reduce::Sum), &inputs)?;
                let degree = add(Op::Input(Input::InDegree(*set)), &[])?;
                let share = add(Op::Unary(Unary::Recip), &[degree])?;
                add(Op::Binary(Binary::Mul), &[sum, share])?
            }
            Op::MatMul | Op::MatMulTN => match (scaled, node.op == Op::MatMul) {
                (None, _) => add(node.op.clone(), &inputs)?,
                (Some((x, scale)), true) => {
                    let (x, scale) = (map[x.0 as usize], map[scale.0 as usize]);
                    let product = add(Op::MatMul, &[x, inputs[1]])?;
                    add(Op::Binary(Binary::Mul), &[product, scale])?
                }
                (Some((x, scale)), false) => {
                    let (x, scale) = (map[x.0 as usize], map[scale.0 as usize]);
                    let right = add(Op::Binary(Binary::Mul), &[inputs[1], scale])?;
                    add(Op::MatMulTN, &[x, right])?
                }
            },
            // Heads are picked from rows as stored, and placed by the sums that have them.
            Op::PickHead => {
                let taken = taken(&mut out, inputs[0], scope).map_err(bug)?;
                out.add(Op::PickHead, &[taken, inputs[1]], scope)
                    .map_err(bug)?
            }
            Op::Gather(set, end, Reduce::Sum) => {
                gather_places(&mut out, (*set, *end), inputs[0], scope).map_err(bug)?
            }
            Op::Clip(Clip::Gradient, _) => inputs[0],
            Op::Clip(Clip::Rows, most) => {
                clip_rows(&mut out, inputs[0], *most, scope).map_err(bug)?
            }
            Op::Scan(scan) => {
                let mut scan = scan.clone();
                let mut inputs = inputs;
                if sparse {
                    features_inside(&mut scan, &mut inputs, &out);
                }
                scan.body = canonical(&scan.body, sparse)?;
                out.add(Op::Scan(scan), &inputs, scope).map_err(bug)?
            }
            Op::Input(_)
            | Op::Param(_)
            | Op::Const(_)
            | Op::Table(_)
            | Op::Arg(_)
            | Op::Unary(_)
            | Op::Binary(_)
            | Op::Dropout { .. }
            | Op::Broadcast(_)
            | Op::Take(..)
            | Op::Blend
            | Op::Sampled(_)
            | Op::Copies(..)
            | Op::Clip(Clip::Factor, _)
            | Op::Gather(_, _, Reduce::Max)
            | Op::EdgeSoftmax(_)
            | Op::Pick
            | Op::PickSum(_)
            | Op::PlaceHead(_)
            | Op::MatMulNT
            | Op::Reshape { .. }
            | Op::Concat
            | Op::SliceCols { .. }
            | Op::PadCols { .. }
            | Op::SliceRows { .. }
            | Op::PadRows { .. }
            | Op::ReduceCols(..)
            | Op::SumRows
            | Op::Redistribute(_)
            | Op::SumRanks
            | Op::Loss(_)
            | Op::LossGrad(_)
            | Op::Out(_) => add(node.op.clone(), &inputs)?,
        };
        map.push(id);
    }
    out.results = graph.results.iter().map(|r| map[r.0 as usize]).collect();
    Ok(gnnc_ir::graph::simplify::simplify(&out.pruned()))
}

/// Makes a loop that gets the features as a constant read them itself, so that products inside of it
/// use the nonzeros.
fn features_inside(scan: &mut Scan, operands: &mut Vec<NodeId>, around: &Graph) {
    let consts = scan.carries as usize..(scan.carries + scan.consts) as usize;
    for n in consts.rev() {
        let op = around.node(operands[n]).op.clone();
        if !matches!(op, Op::Input(Input::Features | Input::FeatureSlice(_))) {
            continue;
        }
        operands.remove(n);
        scan.body.args.remove(n);
        scan.consts -= 1;
        for node in &mut scan.body.nodes {
            let Op::Arg(m) = node.op else {
                continue;
            };
            if m as usize == n {
                node.op = op.clone();
            } else if m as usize > n {
                node.op = Op::Arg(m - 1);
            }
        }
    }
}

/// The same rows of vertices, with the take last: `reshape(take(x)) = take(reshape(x))`.
fn taken(out: &mut Graph, id: NodeId, scope: u32) -> Result<NodeId, TypeError> {
    let node = out.node(id).clone();
    let (Op::Reshape { .. }, Some(take)) = (&node.op, node.inputs.first()) else {
        return Ok(id);
    };
    let take = out.node(*take).clone();
    if matches!(take.op, Op::Take(..)) {
        let rows = out.add(node.op, &take.inputs, scope)?;
        out.add(take.op, &[rows], scope)
    } else {
        Ok(id)
    }
}

/// A sum over edges in which placed heads are separate: `gather(place(a) + b) = gather(place(a)) +
/// gather(b)`. A factor of one column moves inside the placed value.
fn gather_places(
    out: &mut Graph,
    (set, end): (EdgeSet, End),
    x: NodeId,
    scope: u32,
) -> Result<NodeId, TypeError> {
    fn places(graph: &Graph, id: NodeId) -> bool {
        let node = graph.node(id);
        let through = matches!(node.op, Op::Binary(Binary::Add | Binary::Mul));
        matches!(node.op, Op::PlaceHead(_))
            || through && node.inputs.iter().any(|i| places(graph, *i))
    }
    let gather = Op::Gather(set, end, Reduce::Sum);
    let node = out.node(x).clone();
    if let (Op::Binary(Binary::Add), [a, b]) = (&node.op, &node.inputs[..])
        && (places(out, *a) || places(out, *b))
        && out.ty(*a) == out.ty(*b)
    {
        let a = gather_places(out, (set, end), *a, scope)?;
        let b = gather_places(out, (set, end), *b, scope)?;
        return out.add(Op::Binary(Binary::Add), &[a, b], scope);
    }
    if let (Op::Binary(Binary::Mul), [a, b]) = (&node.op, &node.inputs[..]) {
        let (place, factor) = match out.ty(*b).columns() {
            1 => (*a, *b),
            _ => (*b, *a),
        };
        let of = out.node(place).clone();
        if matches!(of.op, Op::PlaceHead(_)) && out.ty(factor).columns() == 1 {
            let inner = out.add(node.op.clone(), &[of.inputs[0], factor], scope)?;
            let placed = out.add(of.op, &[inner, of.inputs[1]], scope)?;
            return out.add(gather, &[placed], scope);
        }
    }
    out.add(gather, &[x], scope)
}

/// Whether a node multiplies with its operand at a position from the left, and reads it nowhere else.
pub fn is_left_factor(node: &Node, position: usize) -> bool {
    let only = (node.inputs.split_first()).is_some_and(|(left, more)| !more.contains(left));
    position == 0 && only && matches!(node.op, Op::MatMul | Op::MatMulTN)
}

/// Whether a node is the feature matrix or its dropout.
pub fn features(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    matches!(node.op, Op::Input(Input::Features | Input::FeatureSlice(_)))
        || matches!(node.op, Op::Dropout { .. }) && features(graph, node.inputs[0])
}

/// The features and the scale, if a node is the features with scaled rows.
fn row_scaled(graph: &Graph, id: NodeId) -> Option<(NodeId, NodeId)> {
    let node = graph.node(id);
    if node.op != Op::Binary(Binary::Mul) {
        return None;
    }
    let scale = |s: NodeId| {
        let ty = graph.ty(s);
        ty.columns() == 1 && matches!(ty.rows, Rows::Vertices | Rows::Level(_) | Rows::Fixed(1))
    };
    match node.inputs[..] {
        [x, s] if features(graph, x) && scale(s) => Some((x, s)),
        [s, x] if features(graph, x) && scale(s) => Some((x, s)),
        _ => None,
    }
}

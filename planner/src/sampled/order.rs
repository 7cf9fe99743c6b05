//! Aggregates rows before it multiplies them: `A (x w) = (A x) w`.
//!
//! On the whole graph both sides of a layer have as many rows, and rewriting multiplies first where
//! that makes rows narrower. In a batch the level below has several times as many rows, and a product
//! of all of them costs more than the edges save: an edge reads four bytes for each column of `x`, a
//! row of the product does two operations for each column of the result.

use gnnc_ir::graph::infer::TypeError;
use gnnc_ir::graph::op::{Input, Op};
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::words::scalar::Binary;
use gnnc_ir::{Graph, NodeId, Rows};

/// Operations that a processor does in the time in which it reads a byte, at least.
const OPERATIONS_A_BYTE: u32 = 8;

/// A product of rows that edges read, and the factors between it and the edges.
struct Message {
    /// The rows that are multiplied.
    x: NodeId,
    /// What they are multiplied with.
    weight: NodeId,
    /// Factors of one column, of vertices.
    of_vertices: Vec<NodeId>,
    /// The same, of edges.
    of_edges: Vec<NodeId>,
}

/// The same graph, whose aggregations come before products where that is cheaper in a batch. Products with
/// the features stay where they are if their rows are `looked_up`.
///
/// # Errors
/// A bug in this pass.
pub(super) fn aggregate_first(graph: &Graph, looked_up: bool) -> Result<Graph, TypeError> {
    let users = users(graph);
    let mut out = graph.clone_without_nodes();
    let mut new: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let sums = if let Op::Gather(set, End::Dst, Reduce::Sum) | Op::GatherMean(set) = &node.op {
            Some(*set)
        } else {
            None
        };
        let message = sums.and_then(|_| message(graph, &users, node.inputs[0]));
        let is_features = |one: &Message| graph.node(one.x).op == Op::Input(Input::Features);
        let message = message.filter(|one| !(looked_up && is_features(one)));
        let (Some(set), Some(message)) = (sums, message) else {
            let inputs: Vec<NodeId> = node.inputs.iter().map(|i| new[i.0 as usize]).collect();
            new.push(out.add(node.op.clone(), &inputs, node.scope)?);
            continue;
        };
        let of = |id: &NodeId| new[id.0 as usize];
        let mut rows = of(&message.x);
        let times = Op::Binary(Binary::Mul);
        for factor in &message.of_vertices {
            rows = out.add(times.clone(), &[rows, of(factor)], node.scope)?;
        }
        let mut value = out.add(Op::Take(set, End::Src), &[rows], node.scope)?;
        for factor in &message.of_edges {
            value = out.add(times.clone(), &[value, of(factor)], node.scope)?;
        }
        let sum = out.add(node.op.clone(), &[value], node.scope)?;
        new.push(out.add(Op::MatMul, &[sum, of(&message.weight)], node.scope)?);
    }
    out.results = graph.results.iter().map(|r| new[r.0 as usize]).collect();
    Ok(gnnc_ir::graph::simplify::simplify(&out.pruned()))
}

/// Number of uses of each node.
fn users(graph: &Graph) -> Vec<u32> {
    let mut users = vec![0; graph.nodes.len()];
    let inputs = graph.nodes.iter().flat_map(|node| &node.inputs);
    for id in inputs.chain(&graph.results) {
        users[id.0 as usize] += 1;
    }
    users
}

/// The product that an edge tensor is the rows of at the sources of edges, times factors. `None` if
/// it is anything else, or if its product is needed anyway or narrow.
fn message(graph: &Graph, users: &[u32], id: NodeId) -> Option<Message> {
    let once = |id: NodeId| (users[id.0 as usize] == 1).then_some(id);
    let (mut of_edges, mut of_vertices) = (Vec::new(), Vec::new());
    let mut at = once(id)?;
    while graph.node(at).op == Op::Binary(Binary::Mul) {
        at = once(wide(graph, at, &mut of_edges)?)?;
    }
    let Op::Take(_, End::Src) = graph.node(at).op else {
        return None;
    };
    at = once(graph.node(at).inputs[0])?;
    while graph.node(at).op == Op::Binary(Binary::Mul) {
        at = once(wide(graph, at, &mut of_vertices)?)?;
    }
    let node = graph.node(at);
    let [x, weight] = node.inputs[..] else {
        return None;
    };
    let of_vertices_times_weight = node.op == Op::MatMul
        && graph.ty(x).rows == Rows::Vertices
        && graph.ty(x).heads == 1
        && matches!(graph.ty(weight).rows, Rows::Fixed(_));
    let pays = 2 * node.ty.columns() >= 4 * OPERATIONS_A_BYTE;
    (of_vertices_times_weight && pays).then_some(Message {
        x,
        weight,
        of_vertices,
        of_edges,
    })
}

/// Of a product of a wide tensor and one with a single column, the wide one; records the other.
fn wide(graph: &Graph, id: NodeId, narrow: &mut Vec<NodeId>) -> Option<NodeId> {
    let node = graph.node(id);
    let [a, b] = node.inputs[..] else {
        return None;
    };
    let (wide, factor) = match graph.ty(b).columns() {
        1 => (a, b),
        _ => (b, a),
    };
    let fits = graph.ty(factor).columns() == 1 && graph.ty(wide) == node.ty;
    narrow.push(factor);
    fits.then_some(wide)
}

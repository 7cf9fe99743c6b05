//! Moves weights after aggregations: `G(x W) = G(x) W`, so that a history holds embeddings rather
//! than products with an old weight (GNNPipe, section 8, choice 12).

use super::StaleError;
use super::blend::Depths;
use gnnc_ir::graph::op::{Input, Op};
use gnnc_ir::graph::{Graph, NodeId};
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::words::scalar::Binary;

/// Whether a graph aggregates its features, or what is computed from them without parameters.
pub fn sums_features(graph: &Graph) -> bool {
    let depths = Depths::new(graph);
    let mut of_features: Vec<bool> = Vec::with_capacity(graph.nodes.len());
    for (id, node) in graph.iter() {
        let features = matches!(node.op, Op::Input(Input::Features));
        let below = node
            .inputs
            .iter()
            .any(|input| of_features[input.0 as usize]);
        let found = !depths.learned(id) && (features || below);
        if found && sums(&node.op) {
            return true;
        }
        of_features.push(found);
    }
    false
}

/// Whether an operator adds up what edges bring to their destinations.
fn sums(op: &Op) -> bool {
    matches!(op, Op::Gather(_, End::Dst, Reduce::Sum) | Op::GatherMean(_))
}

/// The same function, in which aggregations do not read products with weights, where possible.
/// Products of features are left before their aggregation unless `features_first`.
pub fn weights_last(graph: &Graph, features_first: bool) -> Result<Graph, StaleError> {
    let depths = Depths::new(graph);
    let mut out = graph.clone_without_nodes();
    let mut new: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let of = |id: NodeId| new[id.0 as usize];
        let edges = node.inputs.first().filter(|_| sums(&node.op));
        let product = edges.and_then(|edges| message(graph, *edges));
        let id = match product {
            Some(found)
                if depths.of(found.x) > 0
                    || features_first && found.operands().all(|id| !depths.learned(id)) =>
            {
                let mut edges = out.add(found.take, &[of(found.x)], node.scope)?;
                for (op, other, first) in found.factors.into_iter().rev() {
                    let inputs = if first {
                        [edges, of(other)]
                    } else {
                        [of(other), edges]
                    };
                    edges = out.add(op, &inputs, node.scope)?;
                }
                let sum = out.add(node.op.clone(), &[edges], node.scope)?;
                out.add(Op::MatMul, &[sum, of(found.weight)], node.scope)?
            }
            _ => {
                let inputs: Vec<NodeId> = node.inputs.iter().map(|id| of(*id)).collect();
                out.add(node.op.clone(), &inputs, node.scope)?
            }
        };
        new.push(id);
    }
    out.results = graph.results.iter().map(|id| new[id.0 as usize]).collect();
    Ok(gnnc_ir::graph::simplify::simplify(&out))
}

/// Rows of a product at the sources of edges, times numbers of the edges.
struct Message {
    x: NodeId,
    weight: NodeId,
    take: Op,
    /// From outside to inside: the operator, the factor, and whether the message is its first
    /// operand.
    factors: Vec<(Op, NodeId, bool)>,
}

impl Message {
    /// All that edges bring but the weight.
    fn operands(&self) -> impl Iterator<Item = NodeId> {
        let factors = self.factors.iter().map(|(_, factor, _)| *factor);
        std::iter::once(self.x).chain(factors)
    }
}

fn message(graph: &Graph, mut id: NodeId) -> Option<Message> {
    let mut factors = Vec::new();
    loop {
        let node = graph.node(id);
        let number = |id: NodeId| graph.ty(id).columns() == 1;
        if let (Op::Take(_, End::Src), [product]) = (&node.op, &node.inputs[..]) {
            let product = graph.node(*product);
            let [x, weight] = product.inputs[..] else {
                return None;
            };
            return (product.op == Op::MatMul).then(|| Message {
                x,
                weight,
                take: node.op.clone(),
                factors,
            });
        }
        let (Op::Binary(f), [a, b]) = (&node.op, &node.inputs[..]) else {
            return None;
        };
        match f {
            Binary::Mul | Binary::Div if number(*b) => {
                factors.push((node.op.clone(), *b, true));
                id = *a;
            }
            Binary::Mul if number(*a) => {
                factors.push((node.op.clone(), *a, false));
                id = *b;
            }
            _ => return None,
        }
    }
}

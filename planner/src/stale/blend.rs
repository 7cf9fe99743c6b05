//! Which aggregations read histories.

use super::StaleError;
use gnnc_ir::Type;
use gnnc_ir::graph::{Graph, NodeId};
use gnnc_ir::kernel::End;
use gnnc_ir::op::{History, Input, Op};

/// How many aggregations lie on the longest way from the data to a node.
pub struct Depths {
    depth: Vec<u32>,
    /// Whether a parameter lies on some way.
    learned: Vec<bool>,
}

impl Depths {
    /// Those of a graph without loops.
    pub fn new(graph: &Graph) -> Self {
        let (mut depth, mut learned) = (Vec::new(), Vec::new());
        for node in &graph.nodes {
            let most = |list: &[u32]| node.inputs.iter().map(|i| list[i.0 as usize]).max();
            let sums = matches!(node.op, Op::Gather(_, End::Dst, _) | Op::GatherMean(_));
            depth.push(most(&depth).unwrap_or(0) + u32::from(sums));
            let any = node.inputs.iter().any(|i| learned[i.0 as usize]);
            learned.push(any || matches!(node.op, Op::Param(_)));
        }
        // What no parameter has a part in is the same in every epoch but for dropout, and not a layer's.
        for (depth, learned) in depth.iter_mut().zip(&learned) {
            *depth *= u32::from(*learned);
        }
        Self { depth, learned }
    }

    /// Aggregations before a node; 0 of what no parameter has a part in.
    pub fn of(&self, id: NodeId) -> u32 {
        self.depth[id.0 as usize]
    }

    /// Whether a node depends on a parameter.
    pub fn learned(&self, id: NodeId) -> bool {
        self.learned[id.0 as usize]
    }
}

/// The same graph in which arcs read blends of what was aggregated before. What comes before all
/// aggregations is known for all vertices at once: arcs read it as it is (layer 1 of the specification).
pub fn blended(graph: &Graph) -> Result<Graph, StaleError> {
    let depths = Depths::new(graph);
    let mut out = graph.clone_without_nodes();
    let mut new: Vec<NodeId> = Vec::with_capacity(graph.nodes.len());
    let mut blends: Vec<(NodeId, NodeId)> = Vec::new();
    for node in &graph.nodes {
        let mut inputs: Vec<NodeId> = node.inputs.iter().map(|id| new[id.0 as usize]).collect();
        if let Op::Take(_, End::Src) = node.op
            && depths.of(node.inputs[0]) > 0
        {
            let x = node.inputs[0];
            let known = blends
                .iter()
                .find(|(of, _)| *of == x)
                .map(|(_, blend)| *blend);
            inputs[0] = match known {
                Some(blend) => blend,
                None => {
                    let number = blends.len() as u32;
                    let blend = blend(graph, (x, node.scope), &new, &mut out, number)?;
                    blends.push((x, blend));
                    blend
                }
            };
        }
        new.push(out.add(node.op.clone(), &inputs, node.scope)?);
    }
    out.results = graph.results.iter().map(|id| new[id.0 as usize]).collect();
    Ok(out)
}

fn blend(
    graph: &Graph,
    (x, scope): (NodeId, u32),
    new: &[NodeId],
    out: &mut Graph,
    number: u32,
) -> Result<NodeId, StaleError> {
    // History is kept before dropout: whoever reads it applies the masks of its own epoch.
    let (mut kept, mut masks) = (x, Vec::new());
    while let Op::Dropout { .. } = graph.node(kept).op {
        masks.push(&graph.node(kept).op);
        kept = graph.node(kept).inputs[0];
    }
    let node = graph.node(kept);
    if product(graph, kept, scope) {
        let scope = graph.scopes.get(scope as usize);
        return Err(StaleError::OldWeight(scope.cloned().unwrap_or_default()));
    }
    let Type { heads, width, .. } = node.ty;
    let history = History {
        number,
        heads,
        width,
    };
    let history = out.add(Op::Input(Input::History(history)), &[], node.scope)?;
    let mut old = history;
    for mask in masks.into_iter().rev() {
        old = out.add(mask.clone(), &[old], node.scope)?;
    }
    let [x, kept] = [x, kept].map(|id| new[id.0 as usize]);
    Ok(out.add(Op::Blend, &[x, old, kept, history], node.scope)?)
}

/// Whether a tensor is a product with a weight of a layer, which `scope` names, or a part of one.
fn product(graph: &Graph, id: NodeId, scope: u32) -> bool {
    let node = graph.node(id);
    if node.scope != scope {
        return false;
    }
    match node.op {
        Op::MatMul => true,
        Op::Reshape { .. } | Op::SliceCols { .. } | Op::ReduceCols(..) | Op::Binary(_) => {
            node.inputs.iter().any(|id| product(graph, *id, scope))
        }
        _ => false,
    }
}

//! Inserts histories: decides which aggregations read them.

use super::StaleError;
use gnnc_ir::Type;
use gnnc_ir::graph::op::{History, Input, Op};
use gnnc_ir::graph::{Graph, NodeId};
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::words::scalar::{Binary, Unary};

/// The largest number of aggregations on any path from the data to each node.
pub struct Depths {
    depth: Vec<u32>,
    /// Whether a parameter lies on some path.
    learned: Vec<bool>,
}

impl Depths {
    /// The depths of a graph without loops.
    pub fn new(graph: &Graph) -> Self {
        let (mut depth, mut learned) = (Vec::new(), Vec::new());
        for node in &graph.nodes {
            let most = |list: &[u32]| node.inputs.iter().map(|i| list[i.0 as usize]).max();
            let sums = matches!(node.op, Op::Gather(_, End::Dst, _) | Op::GatherMean(_));
            depth.push(most(&depth).unwrap_or(0) + u32::from(sums));
            let any = node.inputs.iter().any(|i| learned[i.0 as usize]);
            learned.push(any || matches!(node.op, Op::Param(_)));
        }
        // Values without parameters are the same in every epoch except for dropout, and belong to
        // no layer.
        for (depth, learned) in depth.iter_mut().zip(&learned) {
            *depth *= u32::from(*learned);
        }
        Self { depth, learned }
    }

    /// Number of aggregations before a node; 0 if it does not depend on parameters.
    pub fn of(&self, id: NodeId) -> u32 {
        self.depth[id.0 as usize]
    }

    /// Whether a node depends on a parameter.
    pub fn learned(&self, id: NodeId) -> bool {
        self.learned[id.0 as usize]
    }
}

/// The same graph with edges that read blends of previously aggregated tensors. Tensors before all
/// aggregations are known for all vertices at once, so edges read them unchanged (layer 1 of the
/// specification).
pub fn blended(graph: &Graph) -> Result<Graph, StaleError> {
    let depths = Depths::new(graph);
    let mut blends = Blends {
        graph,
        depths: &depths,
        out: graph.clone_without_nodes(),
        new: Vec::with_capacity(graph.nodes.len()),
        known: Vec::new(),
        histories: Vec::new(),
    };
    for node in &graph.nodes {
        let mut inputs: Vec<NodeId> = node.inputs.iter().map(|id| blends.of(*id)).collect();
        if let Op::Take(_, End::Src) = node.op
            && depths.of(node.inputs[0]) > 0
        {
            inputs[0] = blends.blend(node.inputs[0], node.scope)?;
        }
        let id = blends.out.add(node.op.clone(), &inputs, node.scope)?;
        blends.new.push(id);
    }
    let results = graph.results.iter().map(|id| blends.of(*id));
    blends.out.results = results.collect();
    Ok(blends.out)
}

/// A graph during the insertion of blends.
struct Blends<'a> {
    graph: &'a Graph,
    depths: &'a Depths,
    out: Graph,
    /// By node of the original graph.
    new: Vec<NodeId>,
    /// Nodes that edges read, with their blends.
    known: Vec<(NodeId, NodeId)>,
    /// Kept nodes, with their histories.
    histories: Vec<(NodeId, NodeId)>,
}

/// Where a layer gets the tensor it aggregates.
struct Source<'a> {
    /// The layer's scope.
    layer: &'a str,
    /// Whether the layer aggregates a product with a weight, so that the tensor before the product
    /// is kept.
    product: bool,
    /// The kept tensor.
    kept: Option<NodeId>,
}

impl Blends<'_> {
    fn of(&self, id: NodeId) -> NodeId {
        self.new[id.0 as usize]
    }

    /// The blend of a node that a layer's edges read.
    fn blend(&mut self, x: NodeId, scope: u32) -> Result<NodeId, StaleError> {
        if let Some((_, blend)) = self.known.iter().find(|(of, _)| *of == x) {
            return Ok(*blend);
        }
        let graph = self.graph;
        let layer = graph.scopes.get(scope as usize);
        let layer = layer.map_or("", String::as_str);
        let mut source = Source {
            layer,
            product: product(graph, x, layer),
            kept: None,
        };
        let old = self.earlier(x, &mut source)?;
        let kept = source.kept.unwrap_or(x);
        let history = self.history(kept)?;
        let inputs = [self.of(x), old, self.of(kept), history];
        let blend = self.out.add(Op::Blend, &inputs, graph.node(x).scope)?;
        self.known.push((x, blend));
        Ok(blend)
    }

    /// The earlier value of a node with the current epoch's parameters and masks: histories hold
    /// embeddings before dropout and before products with weights of the layer that reads them.
    fn earlier(&mut self, id: NodeId, source: &mut Source) -> Result<NodeId, StaleError> {
        let graph = self.graph;
        let node = graph.node(id);
        if self.depths.of(id) == 0 {
            return Ok(self.of(id));
        }
        let linear = inside(graph, id, source.layer) && by_row(&node.op);
        let product = source.product && product(graph, id, source.layer);
        let of_one = source.product && self.only(id).is_some();
        if linear && (product || of_one) || self.masked(id, source.layer) {
            let mut inputs = Vec::with_capacity(node.inputs.len());
            for input in &node.inputs {
                inputs.push(self.earlier(*input, source)?);
            }
            return Ok(self.out.add(node.op.clone(), &inputs, node.scope)?);
        }
        if source.kept.is_some_and(|kept| kept != id) {
            return Err(StaleError::OldWeight(source.layer.to_owned()));
        }
        source.kept = Some(id);
        self.history(id)
    }

    /// The only operand of a node that was aggregated before, if there is exactly one.
    fn only(&self, id: NodeId) -> Option<NodeId> {
        let inputs = self.graph.node(id).inputs.iter();
        let mut deep = inputs.filter(|i| self.depths.of(**i) > 0);
        deep.next().copied().filter(|_| deep.next().is_none())
    }

    /// Whether a node is masked by dropout, or is a linear function, within the layer, of a single
    /// masked node.
    fn masked(&self, id: NodeId, layer: &str) -> bool {
        let op = &self.graph.node(id).op;
        let linear = inside(self.graph, id, layer) && by_row(op);
        let below = || self.only(id).is_some_and(|x| self.masked(x, layer));
        matches!(op, Op::Dropout { .. }) || linear && below()
    }

    /// The history of a node; histories are numbered in layer order.
    fn history(&mut self, kept: NodeId) -> Result<NodeId, StaleError> {
        if let Some((_, history)) = self.histories.iter().find(|(of, _)| *of == kept) {
            return Ok(*history);
        }
        let node = self.graph.node(kept);
        let Type { heads, width, .. } = node.ty;
        let history = History {
            number: self.histories.len() as u32,
            heads,
            width,
        };
        let input = Op::Input(Input::History(history));
        let history = self.out.add(input, &[], node.scope)?;
        self.histories.push((kept, history));
        Ok(history)
    }
}

/// Whether a tensor is a product with a weight of the layer, or computed from one row by row.
fn product(graph: &Graph, id: NodeId, layer: &str) -> bool {
    let node = graph.node(id);
    let mut inputs = node.inputs.iter();
    inside(graph, id, layer)
        && (node.op == Op::MatMul
            || (by_row(&node.op) || matches!(node.op, Op::Dropout { .. }))
                && inputs.any(|id| product(graph, *id, layer)))
}

/// Whether an operator is linear in each operand and maps each row to one row.
fn by_row(op: &Op) -> bool {
    matches!(
        op,
        Op::MatMul
            | Op::Reshape { .. }
            | Op::SliceCols { .. }
            | Op::PadCols { .. }
            | Op::Concat
            | Op::Broadcast(_)
            | Op::ReduceCols(_, Reduce::Sum)
            | Op::Unary(Unary::Neg)
            | Op::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div)
    )
}

/// Whether a node belongs to a layer, or to layers that it calls.
fn inside(graph: &Graph, id: NodeId, layer: &str) -> bool {
    let scope = graph.scopes.get(graph.node(id).scope as usize);
    let (name, turn) = split(scope.map_or("", String::as_str));
    let (layer, of_layer) = split(layer);
    let within = name.strip_prefix(layer).filter(|_| turn == of_layer);
    within.is_some_and(|rest| rest.is_empty() || !layer.is_empty() && rest.starts_with('/'))
}

/// The name of a layer, and its iteration if it was in a loop.
fn split(scope: &str) -> (&str, &str) {
    scope.split_once('[').unwrap_or((scope, ""))
}

//! The form of a model on sampled batches: every vertex tensor has rows of a level only.
//!
//! Level `L` are the seeds of a batch, and each level below adds the sources of the edges that were
//! kept for the level above. A tensor gets the lowest level at which a reader needs it; readers at
//! higher levels read its first rows. Layer `l` of edges leads from level `l - 1` into level `l`.
//! Loops are unrolled, since their iterations run on different levels.
//!
//! It computes a different function than the model, an unbiased estimate where sums allow it, so it
//! is used only where permitted (relaxation *sample*). Sums over edges count each kept edge as often
//! as edges of its type were drawn from, and means are such sums over the degree; so rewriting a
//! model does not change what a batch computes. Maxima and softmax run over the kept edges.

mod levels;
mod order;

use crate::stale::{StaleError, unrolled};
use gnnc_ir::graph::infer::TypeError;
use gnnc_ir::graph::op::{Input, Op, Sampled};
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::words::sampling::{Drawn, MAX_HOPS};
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::words::types::Level;
use gnnc_ir::{EdgeSet, Graph, Node, NodeId, Rows};
use levels::Levels;
use std::collections::BTreeMap;

/// Why a model cannot be trained on sampled batches.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SampledError {
    /// No neighbor is read.
    #[error("the model reads no neighbors, so there is nothing to sample")]
    NoHops,
    /// All neighbors are read beforehand.
    #[error(
        "every aggregation of the model depends on the data alone and would be computed beforehand, so there is nothing left to sample; leave out --static"
    )]
    AllBeforehand,
    /// No neighbors can be read beforehand.
    #[error(
        "no aggregation of the model depends on the data alone (dropout or a product with parameters comes first), so none can be computed beforehand; leave out --static"
    )]
    NotBeforehand,
    /// Too many aggregations one after another.
    #[error(
        "the model aggregates {0} times one after another, and a batch has at most {MAX_HOPS} hops; use a placement that trains on the whole graph"
    )]
    Hops(usize),
    /// A statistic over all vertices.
    #[error(
        "`{0}` needs a sum over all vertices, and a batch has only some of them; use layer_norm instead of a norm over the batch"
    )]
    Statistic(String),
    /// An aggregation over the edges out of a vertex.
    #[error(
        "`{0}` aggregates over edges out of a vertex, and a batch has edges into its vertices only"
    )]
    Outgoing(String),
    /// Layers over different sets of edges, as far from the loss as each other.
    #[error(
        "two layers of the model that are as far from the loss run over different sets of edges, and each hop of a batch is drawn from one set; use a placement that trains on the whole graph"
    )]
    MixedSets,
    /// A loop that cannot be unrolled.
    #[error("{0}")]
    Loop(StaleError),
    /// The form is inconsistent, which is a bug.
    #[error("bug in the form of sampled batches: {0}")]
    Type(#[from] TypeError),
}

/// A model for sampled batches.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledForm {
    /// The model on the levels of a batch.
    pub batch: Graph,
    /// The edges that each hop runs over, the hop next to the seeds first: plain ones, or a named set.
    pub hops: Vec<EdgeSet>,
}

/// The form of a forward graph, whose results are the loss and the logits. Edges of a graph with
/// types are `typed`. Aggregations that depend on nothing but the data, as a first one of features
/// without dropout does, are made `beforehand`: once, for all vertices, over all neighbors. A batch
/// then has one hop less. If the features are an identity matrix, products with them are rows that are
/// `looked_up` in the other factor, and cost less than wide rows that are aggregated first.
///
/// # Errors
/// Why there is no such form.
pub fn sampled(
    graph: &Graph,
    typed: bool,
    beforehand: bool,
    looked_up: bool,
) -> Result<SampledForm, SampledError> {
    let unrolled = unrolled(graph).map_err(SampledError::Loop)?;
    let whole = order::aggregate_first(&unrolled, looked_up)?;
    let levels = Levels::of(&whole, beforehand)?;
    let hops = levels.over.clone();
    let mut form = Form {
        out: whole.clone_without_nodes(),
        graph: &whole,
        levels,
        typed,
        whole: vec![None; whole.nodes.len()],
        rows: vec![None; whole.nodes.len()],
        prefixes: BTreeMap::new(),
        edges: BTreeMap::new(),
    };
    form.write()?;
    let batch = gnnc_ir::graph::simplify::simplify(&form.out);
    Ok(SampledForm { batch, hops })
}

/// A form being written.
struct Form<'a> {
    graph: &'a Graph,
    levels: Levels,
    typed: bool,
    out: Graph,
    /// Nodes on the whole graph, from which rows are fetched.
    whole: Vec<Option<NodeId>>,
    /// Vertex tensors at their levels, and tensors without rows of vertices.
    rows: Vec<Option<NodeId>>,
    /// First rows of vertex tensors, by level.
    prefixes: BTreeMap<(NodeId, u8), NodeId>,
    /// Edge tensors by layer.
    edges: BTreeMap<(NodeId, u8), NodeId>,
}

impl Form<'_> {
    fn write(&mut self) -> Result<(), SampledError> {
        let graph = self.graph;
        for (id, node) in graph.iter() {
            if self.levels.is_given(id) {
                self.on_whole(id)?;
            }
            match node.ty.rows {
                Rows::Vertices => {
                    if let Some(level) = self.levels.of_vertices(id) {
                        let new = self.vertices(id, level)?;
                        self.rows[id.0 as usize] = Some(new);
                    }
                }
                Rows::Edges(_) => {
                    for layer in self.levels.of_edges(id) {
                        let new = self.on_layer(id, layer)?;
                        self.edges.insert((id, layer), new);
                    }
                }
                _ => {
                    let new = self.copy(id, self.levels.hops, Rows::Fixed(1))?;
                    self.rows[id.0 as usize] = Some(new);
                }
            }
        }
        let results = &graph.results;
        let of = |id: &NodeId| self.rows[id.0 as usize].unwrap_or(*id);
        self.out.results = results.iter().map(of).collect();
        Ok(())
    }

    fn add(&mut self, op: Op, inputs: &[NodeId], of: &Node) -> Result<NodeId, SampledError> {
        Ok(self.out.add(op, inputs, of.scope)?)
    }

    /// A node that no parameter and no draw enters, on the whole graph.
    fn on_whole(&mut self, id: NodeId) -> Result<(), SampledError> {
        let node = self.graph.node(id);
        let inputs: Vec<NodeId> = node
            .inputs
            .iter()
            .filter_map(|input| self.whole[input.0 as usize])
            .collect();
        self.whole[id.0 as usize] = Some(self.add(node.op.clone(), &inputs, node)?);
        Ok(())
    }

    /// A vertex tensor at its level.
    fn vertices(&mut self, id: NodeId, level: u8) -> Result<NodeId, SampledError> {
        let node = self.graph.node(id);
        if let Op::Input(Input::InDegree(set)) = node.op {
            return self.degree((set, End::Dst), level, node);
        }
        if let Op::Input(Input::OutDegree(set)) = node.op {
            return self.degree((set, End::Src), level, node);
        }
        let fetched = self.levels.is_fetched(self.graph, id);
        let whole = self.whole[id.0 as usize].filter(|_| fetched);
        if let Some(whole) = whole {
            return self.add(
                Op::Sampled(Sampled::Fetch(Level::own(level))),
                &[whole],
                node,
            );
        }
        let Some(message) = node.inputs.first().copied() else {
            return self.copy(id, level, Rows::Level(Level::own(level)));
        };
        if let Op::GatherMean(set) = node.op {
            return self.mean(set, message, level, node);
        }
        if let Op::Gather(set, End::Dst, Reduce::Sum) = node.op
            && !normalized(self.graph, message)
        {
            return self.unbiased_sum(set, message, level, node);
        }
        self.copy(id, level, Rows::Level(Level::own(level)))
    }

    /// An unbiased sum over the degree. Of edges of one type, that is the mean over those kept.
    fn mean(
        &mut self,
        set: EdgeSet,
        message: NodeId,
        level: u8,
        of: &Node,
    ) -> Result<NodeId, SampledError> {
        let (sum, share) = if set != EdgeSet::Looped && !self.is_typed(set) {
            let value = self.edge_tensor(message, level);
            let gather = Op::Gather(set, End::Dst, Reduce::Sum);
            let sum = self.add(gather, &[value], of)?;
            (sum, self.inverse(Drawn::Kept(Level::own(level), set), of)?)
        } else {
            let sum = self.unbiased_sum(set, message, level, of)?;
            let degree = self.degree((set, End::Dst), level, of)?;
            (sum, self.add(Op::Unary(Unary::Recip), &[degree], of)?)
        };
        self.add(Op::Binary(Binary::Mul), &[sum, share], of)
    }

    /// A sum over edges in which each kept edge counts as often as edges of its type were drawn
    /// from.
    fn unbiased_sum(
        &mut self,
        set: EdgeSet,
        message: NodeId,
        level: u8,
        of: &Node,
    ) -> Result<NodeId, SampledError> {
        let value = self.edge_tensor(message, level);
        let gather = Op::Gather(set, End::Dst, Reduce::Sum);
        if set == EdgeSet::Looped || self.is_typed(set) {
            let scale = self.drawn(Drawn::Scale(Level::own(level), set), of)?;
            let value = self.add(Op::Binary(Binary::Mul), &[value, scale], of)?;
            return self.add(gather, &[value], of);
        }
        // All edges of a row count alike.
        let sum = self.add(gather, &[value], of)?;
        let degree = self.degree((set, End::Dst), level, of)?;
        let share = self.inverse(Drawn::Kept(Level::own(level), set), of)?;
        let scale = self.add(Op::Binary(Binary::Mul), &[degree, share], of)?;
        self.add(Op::Binary(Binary::Mul), &[sum, scale], of)
    }

    /// Whether the edges of a set have types.
    fn is_typed(&self, set: EdgeSet) -> bool {
        self.typed && EdgeSet::UNNAMED.contains(&set)
    }

    /// One over numbers of a batch; 0 where they are 0.
    fn inverse(&mut self, of: Drawn, node: &Node) -> Result<NodeId, SampledError> {
        let number = self.drawn(of, node)?;
        self.add(Op::Unary(Unary::Recip), &[number], node)
    }

    /// Degrees in the whole graph of a level's vertices.
    fn degree(
        &mut self,
        (set, end): (EdgeSet, End),
        level: u8,
        of: &Node,
    ) -> Result<NodeId, SampledError> {
        self.drawn(Drawn::Degree(Level::own(level), set, end), of)
    }

    fn drawn(&mut self, drawn: Drawn, of: &Node) -> Result<NodeId, SampledError> {
        self.add(Op::Input(Input::Drawn(drawn)), &[], of)
    }

    /// An edge tensor on the edges of a layer.
    fn on_layer(&mut self, id: NodeId, layer: u8) -> Result<NodeId, SampledError> {
        let node = self.graph.node(id);
        if let Op::Take(set, end) = node.op {
            let level = match end {
                End::Src => layer - 1,
                End::Dst => layer,
            };
            let x = self.at(node.inputs[0], level)?;
            return self.add(Op::Take(set, end), &[x], node);
        }
        if let Op::Input(Input::Relation(relations)) = node.op {
            return self.drawn(Drawn::Relation(Level::own(layer), relations.count), node);
        }
        if let Op::Input(Input::EdgeFeatures(columns)) = node.op {
            let drawn = Drawn::EdgeFeatures(Level::own(layer), columns.set, columns.count);
            return self.drawn(drawn, node);
        }
        if let Op::Input(Input::RelationDegree(relations)) = node.op {
            return self.drawn(
                Drawn::RelationDegree(Level::own(layer), relations.count),
                node,
            );
        }
        let rows = match node.ty.rows.edge_set() {
            Some(set) => Rows::LevelEdges(Level::own(layer), set),
            None => node.ty.rows,
        };
        self.copy(id, layer, rows)
    }

    /// The same operator on rows of a level, or on edges into it.
    fn copy(&mut self, id: NodeId, level: u8, rows: Rows) -> Result<NodeId, SampledError> {
        let node = self.graph.node(id);
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            inputs.push(self.at(*input, level)?);
        }
        let mut op = node.op.clone();
        if let Op::Broadcast(ty) = &mut op
            && !matches!(ty.rows, Rows::Fixed(_))
        {
            ty.rows = rows;
        }
        self.add(op, &inputs, node)
    }

    /// A tensor as readers at a level read it.
    fn at(&mut self, id: NodeId, level: u8) -> Result<NodeId, SampledError> {
        let node = self.graph.node(id);
        if node.ty.rows.edge_set().is_some() {
            return Ok(self.edge_tensor(id, level));
        }
        let own = self.rows[id.0 as usize].unwrap_or(id);
        if node.ty.rows != Rows::Vertices || self.levels.of_vertices(id) == Some(level) {
            return Ok(own);
        }
        if let Some(known) = self.prefixes.get(&(id, level)) {
            return Ok(*known);
        }
        let prefix = self.add(
            Op::Sampled(Sampled::Prefix(Level::own(level))),
            &[own],
            node,
        )?;
        self.prefixes.insert((id, level), prefix);
        Ok(prefix)
    }

    fn edge_tensor(&self, id: NodeId, layer: u8) -> NodeId {
        self.edges.get(&(id, layer)).copied().unwrap_or(id)
    }
}

/// Whether an edge tensor is weighted by a softmax over the edges into a vertex, so that a sum of it
/// is a mean.
fn normalized(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let of = |n: usize| normalized(graph, node.inputs[n]);
    match &node.op {
        Op::EdgeSoftmax(_) => true,
        Op::Dropout { .. } | Op::Broadcast(_) | Op::Reshape { .. } => of(0),
        Op::SliceCols { .. } | Op::PadCols { .. } | Op::ReduceCols(_, Reduce::Sum) => of(0),
        Op::PlaceHead(_) | Op::PickHead | Op::Unary(Unary::Neg) => of(0),
        Op::Binary(Binary::Mul) => of(0) || of(1),
        Op::Binary(Binary::Div) => of(0),
        Op::Binary(Binary::Add | Binary::Sub) => of(0) && of(1),
        Op::Concat => (0..node.inputs.len()).all(of),
        Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Table(_) | Op::Arg(_) => false,
        Op::Unary(_) | Op::Binary(Binary::Max | Binary::Eq) | Op::Take(..) => false,
        Op::Blend | Op::Sampled(_) | Op::Copies(..) | Op::Clip(..) | Op::Gather(..) => false,
        Op::GatherMean(_) | Op::Pick | Op::PickSum(_) | Op::MatMul | Op::MatMulNT => false,
        Op::MatMulTN | Op::SliceRows { .. } | Op::PadRows { .. } => false,
        Op::ReduceCols(_, Reduce::Max) | Op::SumRows | Op::Redistribute(_) => false,
        Op::SumRanks | Op::Loss(_) | Op::LossGrad(_) | Op::Scan(_) | Op::Out(_) => false,
    }
}

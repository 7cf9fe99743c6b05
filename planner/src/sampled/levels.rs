//! Which level each tensor of a model has.

use super::SampledError;
use crate::fixed::fixed;
use gnnc_ir::graph::op::{Input, Op};
use gnnc_ir::kernel::End;
use gnnc_ir::words::sampling::MAX_HOPS;
use gnnc_ir::{EdgeSet, Graph, Node, NodeId, Rows};
use std::collections::BTreeSet;

/// The levels of a model without loops.
pub(super) struct Levels {
    /// Hops, which is also the level of the seeds.
    pub(super) hops: u8,
    /// The edges that each hop runs over, the hop next to the seeds first.
    pub(super) over: Vec<EdgeSet>,
    /// Hops from the loss to where a vertex tensor is read that is furthest from it; `None` if
    /// nothing reads it.
    hops_below: Vec<Option<usize>>,
    /// Hops from the loss to the edges that an edge tensor is read on.
    edges: Vec<BTreeSet<usize>>,
    /// Whether a vertex tensor is the same in every step, and reads no edges unless these may be
    /// read beforehand, so that it is computed for all vertices and rows of it are fetched.
    given: Vec<bool>,
    /// Whether a tensor depends on degrees only. Every rank knows those of all vertices, so they are
    /// read by level instead of fetched.
    of_degrees: Vec<bool>,
}

impl Levels {
    /// Finds the levels. Aggregations that are the same in every step are made `beforehand`, for all
    /// vertices.
    ///
    /// # Errors
    /// Operators that need more than the rows of a batch; sets of edges whose hops have no order; no hops, or
    /// too many; nothing to aggregate beforehand.
    pub(super) fn of(graph: &Graph, beforehand: bool) -> Result<Self, SampledError> {
        let count = graph.nodes.len();
        let mut found = Self {
            hops: 0,
            over: Vec::new(),
            hops_below: vec![None; count],
            edges: vec![BTreeSet::new(); count],
            given: given(graph, beforehand),
            of_degrees: of_degrees(graph),
        };
        if beforehand && !found.aggregates_beforehand(graph) {
            return Err(SampledError::NotBeforehand);
        }
        let together = found.visit(graph, None)?;
        found.over = sequence(&together);
        let sequence = found.over.clone();
        if sequence.len() > together.len() {
            found.forget(count);
            found.visit(graph, Some(&sequence))?;
        }
        match sequence.len() {
            0 if beforehand => Err(SampledError::AllBeforehand),
            0 => Err(SampledError::NoHops),
            hops if hops > MAX_HOPS => Err(SampledError::Hops(hops)),
            hops => {
                found.hops = hops as u8;
                Ok(found)
            }
        }
    }

    fn forget(&mut self, count: usize) {
        self.hops_below = vec![None; count];
        self.edges = vec![BTreeSet::new(); count];
    }

    /// Finds how far from the loss each tensor is read, and over which sets of edges so many hops from it.
    /// With a `sequence` of hops, what is summed over the edges of a set waits for the next hop over it.
    fn visit(
        &mut self,
        graph: &Graph,
        sequence: Option<&[EdgeSet]>,
    ) -> Result<Vec<BTreeSet<EdgeSet>>, SampledError> {
        for id in &graph.results {
            self.reads(graph, *id, 0);
        }
        let mut together: Vec<BTreeSet<EdgeSet>> = Vec::new();
        for (id, node) in graph.iter().rev() {
            let n = id.0 as usize;
            match node.ty.rows {
                Rows::Vertices => {
                    let fetched = self.is_fetched(graph, id);
                    let Some(mut below) = self.hops_below[n].filter(|_| !fetched) else {
                        continue;
                    };
                    if matches!(node.op, Op::Gather(_, End::Src, _)) {
                        return Err(SampledError::Outgoing(node.op.to_string()));
                    }
                    let mut inputs = node.inputs.iter();
                    let set = inputs.find_map(|input| graph.ty(*input).rows.edge_set());
                    if let (Some(sequence), Some(set)) = (sequence, set) {
                        below = next(sequence, below, set).ok_or(SampledError::MixedSets)?;
                        self.hops_below[n] = Some(below);
                    }
                    node.inputs
                        .iter()
                        .for_each(|input| self.reads(graph, *input, below));
                }
                Rows::Edges(set) => {
                    for below in self.edges[n].clone() {
                        if together.len() <= below {
                            together.resize_with(below + 1, BTreeSet::new);
                        }
                        together[below].insert(set.stored());
                        let source = matches!(node.op, Op::Take(_, End::Src));
                        let at = below + usize::from(source);
                        node.inputs
                            .iter()
                            .for_each(|input| self.reads(graph, *input, at));
                    }
                }
                Rows::Fixed(_) => {
                    let whole = |input: &NodeId| !matches!(graph.ty(*input).rows, Rows::Fixed(_));
                    let of_rows = node.inputs.iter().any(whole);
                    if of_rows && !matches!(node.op, Op::Loss(_)) {
                        return Err(SampledError::Statistic(node.op.to_string()));
                    }
                    node.inputs
                        .iter()
                        .for_each(|input| self.reads(graph, *input, 0));
                }
                Rows::All | Rows::AllEdges(_) | Rows::Level(_) | Rows::LevelEdges(..) => {}
            }
        }
        Ok(together)
    }

    /// Records that a tensor is read so many hops from the loss.
    fn reads(&mut self, graph: &Graph, id: NodeId, below: usize) {
        let n = id.0 as usize;
        if graph.ty(id).rows.edge_set().is_some() {
            self.edges[n].insert(below);
        } else {
            self.hops_below[n] = self.hops_below[n].max(Some(below));
        }
    }

    /// The level of a vertex tensor; `None` if nothing reads it.
    pub(super) fn of_vertices(&self, id: NodeId) -> Option<u8> {
        self.hops_below[id.0 as usize].map(|below| self.hops - below as u8)
    }

    /// The layers whose edges an edge tensor is read on.
    pub(super) fn of_edges(&self, id: NodeId) -> Vec<u8> {
        let layers = self.edges[id.0 as usize].iter();
        layers.map(|below| self.hops - *below as u8).collect()
    }

    fn aggregates_beforehand(&self, graph: &Graph) -> bool {
        let aggregates = |node: &Node| matches!(node.op, Op::Gather(..) | Op::GatherMean(_));
        let mut nodes = graph.iter();
        nodes.any(|(id, node)| self.is_given(id) && aggregates(node))
    }

    /// Whether rows of a vertex tensor, which is computed for all vertices, are fetched. Columns of a tensor
    /// are taken of the fetched rows of it.
    pub(super) fn is_fetched(&self, graph: &Graph, id: NodeId) -> bool {
        let of_columns = matches!(graph.node(id).op, Op::SliceCols { .. } | Op::Reshape { .. });
        self.is_given(id) && !self.of_degrees[id.0 as usize] && !of_columns
    }

    /// Whether a tensor is computed for all vertices.
    pub(super) fn is_given(&self, id: NodeId) -> bool {
        self.given[id.0 as usize]
    }
}

/// The hops, by the sets of edges that layers as far from the loss as each other run over: a hop for each
/// set, one after another.
fn sequence(together: &[BTreeSet<EdgeSet>]) -> Vec<EdgeSet> {
    let of_sets = |sets: &BTreeSet<EdgeSet>| match sets.is_empty() {
        true => vec![EdgeSet::Plain],
        false => sets.iter().copied().collect(),
    };
    together.iter().flat_map(of_sets).collect()
}

/// The first hop over a set that is at least so far from the loss.
fn next(sequence: &[EdgeSet], below: usize, set: EdgeSet) -> Option<usize> {
    let mut rest = sequence.iter().enumerate().skip(below);
    rest.find_map(|(hop, of)| (*of == set.stored()).then_some(hop))
}

/// Vertex tensors that depend on nothing but degrees, and constants.
fn of_degrees(graph: &Graph) -> Vec<bool> {
    let mut found = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let operands = !node.inputs.is_empty() && node.inputs.iter().all(|i| found[i.0 as usize]);
        let of_vertices = matches!(node.ty.rows, Rows::Vertices | Rows::Fixed(_));
        let by_element = matches!(node.op, Op::Unary(_) | Op::Binary(_) | Op::Broadcast(_));
        let known = matches!(
            node.op,
            Op::Input(Input::InDegree(_) | Input::OutDegree(_)) | Op::Const(_)
        );
        found.push(known || of_vertices && by_element && operands);
    }
    found
}

/// Tensors that are the same in every step: vertex tensors, and what they are computed from. They
/// read no edges unless `edges` may be read. Batches of pairs leave out edges, so there degrees differ from
/// step to step.
fn given(graph: &Graph, edges: bool) -> Vec<bool> {
    let fixed = fixed(graph, &[]);
    let of_pairs = named_sets(graph) > 1;
    let mut given = Vec::with_capacity(graph.nodes.len());
    for (id, node) in graph.iter() {
        let is_degree = matches!(node.op, Op::Input(Input::InDegree(_) | Input::OutDegree(_)));
        let of_vertices = matches!(node.ty.rows, Rows::Vertices | Rows::Fixed(_));
        if of_pairs && is_degree {
            given.push(false);
            continue;
        }
        let operands = node.inputs.iter().all(|input| given[input.0 as usize]);
        given.push(fixed[id.0 as usize] && (of_vertices || edges) && operands);
    }
    given
}

/// How many named sets layers run over; the two ends of pairs are such sets.
fn named_sets(graph: &Graph) -> usize {
    let sets = graph
        .nodes
        .iter()
        .filter_map(|node| node.ty.rows.edge_set());
    let named = sets.filter(|set| matches!(set, EdgeSet::Named(_)));
    named.collect::<BTreeSet<_>>().len()
}

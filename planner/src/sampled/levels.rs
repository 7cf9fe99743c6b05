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
    /// Operators that need more than the rows of a batch; hops over several sets of edges; no hops, or too
    /// many; nothing to aggregate beforehand.
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
        for id in &graph.results {
            found.reads(graph, *id, 0);
        }
        let (mut hops, mut sets) = (0, Vec::new());
        for (id, node) in graph.iter().rev() {
            let n = id.0 as usize;
            match node.ty.rows {
                Rows::Vertices => {
                    let fetched = found.is_fetched(graph, id);
                    let Some(below) = found.hops_below[n].filter(|_| !fetched) else {
                        continue;
                    };
                    if matches!(node.op, Op::Gather(_, End::Src, _)) {
                        return Err(SampledError::Outgoing(node.op.to_string()));
                    }
                    node.inputs
                        .iter()
                        .for_each(|input| found.reads(graph, *input, below));
                }
                Rows::Edges(set) => {
                    for below in found.edges[n].clone() {
                        hops = hops.max(below + 1);
                        sets.push((below, set));
                        let source = matches!(node.op, Op::Take(_, End::Src));
                        let at = below + usize::from(source);
                        node.inputs
                            .iter()
                            .for_each(|input| found.reads(graph, *input, at));
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
                        .for_each(|input| found.reads(graph, *input, 0));
                }
                Rows::All | Rows::AllEdges(_) | Rows::Level(_) | Rows::LevelEdges(..) => {}
            }
        }
        match hops {
            0 if beforehand => Err(SampledError::AllBeforehand),
            0 => Err(SampledError::NoHops),
            hops if hops > MAX_HOPS => Err(SampledError::Hops(hops)),
            hops => {
                found.hops = hops as u8;
                found.over = over(hops, &sets)?;
                Ok(found)
            }
        }
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

/// The edges that each hop runs over, by the hops from the loss to the edges of each edge tensor.
///
/// # Errors
/// Hops over several sets.
fn over(hops: usize, sets: &[(usize, EdgeSet)]) -> Result<Vec<EdgeSet>, SampledError> {
    let mut over: Vec<Option<EdgeSet>> = vec![None; hops];
    for (below, set) in sets {
        let set = set.stored();
        if *over[*below].get_or_insert(set) != set {
            return Err(SampledError::MixedSets);
        }
    }
    let plain = |set: Option<EdgeSet>| set.unwrap_or(EdgeSet::Plain);
    Ok(over.into_iter().map(plain).collect())
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
/// read no edges unless `edges` may be read.
fn given(graph: &Graph, edges: bool) -> Vec<bool> {
    let fixed = fixed(graph, &[]);
    let mut given = Vec::with_capacity(graph.nodes.len());
    for (id, node) in graph.iter() {
        let of_vertices = matches!(node.ty.rows, Rows::Vertices | Rows::Fixed(_));
        let operands = node.inputs.iter().all(|input| given[input.0 as usize]);
        given.push(fixed[id.0 as usize] && (of_vertices || edges) && operands);
    }
    given
}

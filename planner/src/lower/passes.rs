//! Which sums over edges are computed together, in one edge pass ([`gnnc_ir::kernel::EdgePass`]).
//!
//! A number of each edge and head is expensive if it is a sum over columns, an exponential or a
//! random draw. A sum of wide rows that needs one becomes a pass, so that it is computed once per
//! head and not once per column; sums over the same edges that need the same number join, unless
//! one depends on another. A log-sum-exp and the sums that its softmax weights are one pass.

use crate::lower::attention::expensive;
use gnnc_ir::graph::op::Op;
use gnnc_ir::kernel::{Axis, End, Reduce};
use gnnc_ir::words::scalar::Pace;
use gnnc_ir::words::types::EdgeSet;
use gnnc_ir::{Graph, NodeId};
use search::Search;
use std::collections::BTreeSet;

mod emit;
mod search;

/// Most columns of a pass; its sums lie on the stack between blocks of edges.
const MOST_COLUMNS: u32 = 2048;

/// The passes of a region.
#[derive(Clone, Debug, Default)]
pub struct Passes {
    /// The passes.
    pub list: Vec<Pass>,
    /// The pass that computes each node's tensor: sums, log-sum-exps, edge tensors.
    pub of: Vec<Option<usize>>,
    /// Has no tensor: passes compute it wherever they need it.
    pub inlined: Vec<bool>,
}

/// Sums over edges that are computed together.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// The edges.
    pub set: EdgeSet,
    /// The vertex that edges are grouped by.
    pub to: End,
    /// Heads of all tensors.
    pub heads: u32,
    /// Columns of a head of the wide ones.
    pub width: u32,
    /// The softmax that weights the sums.
    pub softmax: Option<Softmax>,
    /// The sums.
    pub sums: Vec<NodeId>,
    /// Edge tensors that others need.
    pub edges: Vec<NodeId>,
    /// Nodes that depend on a result of the pass.
    pub followers: Vec<bool>,
}

/// The softmax of a pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Softmax {
    /// The scores.
    pub scores: NodeId,
    /// Their log-sum-exp.
    pub log_sum: NodeId,
    /// The weights, which the values of the sums have as a factor.
    pub weights: Option<NodeId>,
    /// Whether anything else reads the log-sum-exp.
    pub kept: bool,
}

/// Finds the passes of a region. `fixed` nodes are the same in every epoch; `excluded` sums are
/// not part of passes.
pub fn passes(graph: &Graph, fixed: &[bool], excluded: &dyn Fn(NodeId) -> bool) -> Passes {
    let count = graph.nodes.len();
    let mut found = Passes {
        list: Vec::new(),
        of: vec![None; count],
        inlined: vec![false; count],
    };
    let any = graph.iter().any(|(id, _)| expensive(graph, id));
    if !any {
        return found;
    }
    let mut search = Search {
        graph,
        fixed,
        users: graph.users(),
        args: args(graph),
        found: &mut found,
    };
    search.softmaxes();
    let sums: Vec<NodeId> = search.sums(excluded);
    let wide = |id: &NodeId| graph.ty(*id).width > 1;
    for sum in sums.iter().filter(|id| wide(id)) {
        search.place(*sum, true);
    }
    for sum in sums.iter().filter(|id| !wide(id)) {
        search.place(*sum, false);
    }
    search.edge_tensors();
    for number in 0..search.found.list.len() {
        let followers = search.follow(search.members(number));
        search.found.list[number].followers = followers;
    }
    found
}

impl Passes {
    /// Whether the epilogue of a pass may read a node, so that no two passes wait for each other.
    pub fn may_read(&self, number: usize, id: NodeId) -> bool {
        let n = id.0 as usize;
        let precedes = |other: &Pass| {
            let sums = self.list[number].sums.iter();
            sums.clone().all(|sum| other.followers[sum.0 as usize])
        };
        let others = self.list.iter().enumerate();
        others
            .filter(|(_, other)| other.followers[n])
            .all(|(other, pass)| other != number && precedes(pass))
            && self.of[n] != Some(number)
    }
}

/// The arguments of a region that each node depends on.
fn args(graph: &Graph) -> Vec<BTreeSet<u32>> {
    let mut args: Vec<BTreeSet<u32>> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let inputs = node.inputs.iter().flat_map(|id| &args[id.0 as usize]);
        let mut own: BTreeSet<u32> = inputs.copied().collect();
        if let Op::Arg(n) = node.op {
            own.insert(n);
        }
        args.push(own);
    }
    args
}

/// Whether a pass can compute a node at each edge, rather than load it.
pub fn inside(graph: &Graph, id: NodeId, fixed: &[bool]) -> bool {
    let node = graph.node(id);
    let computed = matches!(
        node.op,
        Op::Unary(_)
            | Op::Binary(_)
            | Op::Dropout { .. }
            | Op::Broadcast(_)
            | Op::ReduceCols(Axis::Width, Reduce::Sum)
    );
    computed && node.ty.rows.edge_set().is_some() && !fixed[id.0 as usize]
}

/// Whether a node is expensive to compute for each edge and head.
fn heavy(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let function = matches!(&node.op, Op::Unary(function) if function.pace() == Pace::Exponential);
    let slow = function || matches!(node.op, Op::ReduceCols(..) | Op::Dropout { .. });
    slow && node.ty.width == 1
}

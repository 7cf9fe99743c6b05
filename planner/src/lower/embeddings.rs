//! Which tensors are exchanged where exchanges may be left out, and what is computed from their copies.
//!
//! SANCUS (sections 2 and 5) keeps copies of embeddings and multiplies them with the weights of the epoch at
//! hand. So what lies between an embedding and the aggregation that reads it - dropout, a product with
//! weights, scores of an attention, whatever is linear in one tensor - is computed for halo rows too, from
//! halo rows of the embedding. In a pipeline the same is done with what lies between a history and the
//! aggregations that read it. The tensor that is exchanged is the first one before that which is not: the
//! end of a nonlinearity, an aggregate, a loop's carry, or a product of features stored as non-zeros, of
//! which a rank has only its own rows.

use super::analysis::{Analysis, view};
use super::canonical::features;
use super::copies::{Beside, number};
use super::region::{Region, Value};
use super::{LowerError, Lowerer};
use gnnc_ir::graph::op::{Copies, Op};
use gnnc_ir::kernel::Reduce;
use gnnc_ir::program::{Extent, Ref, Role, Skip, Skipping};
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::{Graph, NodeId, Rows};

/// What a region knows of its embeddings; nothing where no exchange may be left out.
#[derive(Clone, Debug, Default)]
pub struct Embeddings {
    /// Nodes of the forward pass, whose exchanges may be left out.
    pub forward: Vec<bool>,
    /// The tensors whose halo rows a node's halo rows are computed from; none if they are not computed.
    pub from: Vec<Vec<NodeId>>,
    /// Gradients by what is computed of copies, in halo rows too.
    pub gradient: Vec<bool>,
    /// Sums over edges whose halo rows are not sent at once.
    pub raw: Vec<bool>,
}

impl Embeddings {
    /// Whether a node's halo rows are computed from others.
    pub fn near(&self, id: NodeId) -> bool {
        self.from
            .get(id.0 as usize)
            .is_some_and(|from| !from.is_empty())
    }

    /// Whether a node's rows beside the own ones count where rows are summed.
    pub fn beside(&self, id: NodeId) -> bool {
        self.gradient.get(id.0 as usize).is_some_and(|g| *g)
    }

    /// Whether the exchange of a node may be left out.
    fn may_skip(&self, id: NodeId) -> bool {
        self.forward.get(id.0 as usize).is_some_and(|f| *f)
    }

    /// Finds them, and marks what is read at the source for their sake.
    fn find(graph: &Graph, facts: &mut Analysis, forward: Vec<bool>, sparse: bool) -> Self {
        let mut from = vec![Vec::new(); graph.nodes.len()];
        for (id, node) in graph.iter().rev() {
            let n = id.0 as usize;
            if !facts.read_at_source[n] || !forward[n] || facts.fixed[n] {
                continue;
            }
            // What copies are kept of is exchanged, whatever it is computed from.
            if matches!(node.op, Op::Copies(Copies::Kept, _)) {
                continue;
            }
            if view(&node.op) {
                facts.read_at_source[node.inputs[0].0 as usize] = true;
                continue;
            }
            let tree = Tree {
                graph,
                facts,
                sparse,
            };
            from[n] = tree.leaves(id).unwrap_or_default();
            for leaf in &from[n] {
                keep(graph, facts, *leaf);
                facts.read_at_source[leaf.0 as usize] = true;
            }
        }
        Self {
            forward,
            from,
            ..Self::default()
        }
    }
}

/// What lies between the tensors that blends keep and those that edges see: for each node the one that is
/// kept, or was.
fn between(graph: &Graph) -> Vec<Vec<NodeId>> {
    let mut from = vec![Vec::new(); graph.nodes.len()];
    for node in graph.nodes.iter().filter(|node| node.op == Op::Blend) {
        let [x, old, kept, history] = node.inputs[..] else {
            continue;
        };
        for (end, start) in [(x, kept), (old, history)] {
            let mut work = vec![end];
            while let Some(id) = work.pop() {
                let rows = graph.ty(id).rows == Rows::Vertices;
                let known = &mut from[id.0 as usize];
                if rows && id != start && !known.contains(&start) && depends(graph, id, start) {
                    known.push(start);
                    work.extend(&graph.node(id).inputs);
                }
            }
        }
    }
    from
}

/// Whether a node is computed of another.
fn depends(graph: &Graph, id: NodeId, on: NodeId) -> bool {
    id == on || id > on && graph.node(id).inputs.iter().any(|i| depends(graph, *i, on))
}

/// The nodes that a result depends on.
pub fn leading_to(graph: &Graph, result: NodeId) -> Vec<bool> {
    let mut found = vec![false; graph.nodes.len()];
    let mut work = vec![result];
    while let Some(id) = work.pop() {
        if !std::mem::replace(&mut found[id.0 as usize], true) {
            work.extend(&graph.node(id).inputs);
        }
    }
    found
}

/// Gives a node memory of its own, if it was to be computed in the course of another.
fn keep(graph: &Graph, facts: &mut Analysis, id: NodeId) {
    if std::mem::replace(&mut facts.stored[id.0 as usize], true) {
        return;
    }
    // The kernel that it is a step of now ends in it; what is left of the chain is computed from it.
    let users = graph.users();
    let mut last = id;
    while facts.host[last.0 as usize].is_none() {
        match users[last.0 as usize][..] {
            [next] if last == id || !facts.stored[last.0 as usize] => last = next,
            _ => return,
        }
    }
    if let Some(g) = facts.host[last.0 as usize].filter(|g| reaches(graph, facts, id, *g)) {
        facts.host[last.0 as usize] = None;
        facts.host[id.0 as usize] = (id != g).then_some(g);
    }
}

/// Whether a node is computed in the course of another, or is that.
fn reaches(graph: &Graph, facts: &Analysis, from: NodeId, to: NodeId) -> bool {
    let open = |id: &NodeId| *id == to || !facts.stored[id.0 as usize];
    let mut inputs = graph.node(from).inputs.iter().filter(|id| open(id));
    from == to || inputs.any(|id| reaches(graph, facts, *id, to))
}

/// What a stored node is computed from.
struct Tree<'a> {
    graph: &'a Graph,
    facts: &'a Analysis,
    sparse: bool,
}

impl Tree<'_> {
    /// The vertex tensors in memory that a node is computed from row by row, if only one of them changes
    /// from epoch to epoch and the node is linear in it.
    fn leaves(&self, id: NodeId) -> Option<Vec<NodeId>> {
        let mut leaves = Vec::new();
        self.visit(id, true, &mut leaves)?;
        leaves.sort_unstable();
        leaves.dedup();
        let changing = leaves
            .iter()
            .filter(|leaf| !self.facts.fixed[leaf.0 as usize]);
        (changing.count() <= 1).then_some(leaves)
    }

    fn visit(&self, id: NodeId, root: bool, leaves: &mut Vec<NodeId>) -> Option<()> {
        let node = self.graph.node(id);
        match node.ty.rows {
            Rows::Fixed(_) => return Some(()),
            Rows::Vertices => {}
            _ => return None,
        }
        if !root && self.facts.stored[id.0 as usize] {
            leaves.push(id);
            return Some(());
        }
        match &node.op {
            Op::MatMul if self.sparse && features(self.graph, node.inputs[0]) => return None,
            Op::MatMul if self.graph.ty(node.inputs[1]).rows == Rows::Vertices => return None,
            // What is dropped differs from epoch to epoch, so that no copy of it is worth anything.
            Op::Dropout { .. } => {
                let from = node.inputs[0];
                let stored = self.facts.stored[from.0 as usize];
                match self.leaves(from).filter(|_| !stored) {
                    Some(all) => leaves.extend(all),
                    None => leaves.push(from),
                }
                return Some(());
            }
            Op::MatMul
            | Op::Broadcast(_)
            | Op::Const(_)
            | Op::ReduceCols(_, Reduce::Sum)
            | Op::Unary(Unary::Neg)
            | Op::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div) => {}
            _ => return None,
        }
        node.inputs
            .iter()
            .try_for_each(|input| self.visit(*input, false, leaves))
    }
}

impl Region<'_> {
    /// Lets the exchanges of the nodes `forward` be left out, where the program has a rule for that.
    pub fn keep_embeddings(&mut self, lowerer: &Lowerer, forward: Vec<bool>) {
        let Some(skipping) = lowerer.skip else {
            return;
        };
        let (graph, sparse) = (self.graph, lowerer.sparse);
        self.embeddings = Embeddings::find(graph, &mut self.facts, forward, sparse);
        if skipping.stop {
            let beside = Beside::find(graph, &mut self.facts);
            self.embeddings = std::mem::take(&mut self.embeddings).with(beside);
        }
    }

    /// Lets what edges see of blends be computed for halo rows of what is kept, which travel.
    pub fn keep_blends(&mut self, lowerer: &Lowerer) {
        if lowerer.distributed {
            self.embeddings.from = between(self.graph);
            for (from, read) in self
                .embeddings
                .from
                .iter()
                .zip(&mut self.facts.read_at_source)
            {
                *read |= !from.is_empty();
            }
        }
    }

    /// Makes sure that a node whose halo rows are computed has those that they are computed from.
    pub fn fetch_embeddings(
        &mut self,
        lowerer: &mut Lowerer,
        id: NodeId,
    ) -> Result<(), LowerError> {
        let from = self.embeddings.from.get(id.0 as usize).cloned();
        from.iter()
            .flatten()
            .try_for_each(|leaf| self.fetch_halo(lowerer, *leaf))
    }

    /// How the exchange of a node's tensor may be left out, if it may.
    pub fn skip(&self, lowerer: &mut Lowerer, id: NodeId, value: Value) -> Option<Skip> {
        let Skipping { rule, stop, .. } = lowerer.skip?;
        let marked = number(self.graph, id);
        let may = match stop {
            true => marked.is_some(),
            false => self.embeddings.may_skip(id),
        };
        if !may {
            return None;
        }
        let buffer = lowerer.program.buffer(value.at.buffer);
        let (name, columns) = (format!("{}.copies", buffer.name), buffer.columns);
        // What was sent last is needed only to compare with it.
        let extent = match rule.limit() {
            Some(_) => Extent::Local,
            None => Extent::Halo,
        };
        let known = lowerer.program.buffers.iter();
        let number = known.filter(|b| matches!(b.role, Role::History(_))).count();
        let role = Role::History(number as u32);
        let copies = Ref {
            buffer: lowerer.buffer(name, extent, columns, self.iterations, role),
            base: 0,
            in_loop: self.in_loop,
        };
        let skip = Skip { rule, copies };
        if let Some(marked) = marked {
            lowerer.skips.insert(marked, skip);
        }
        Some(skip)
    }
}

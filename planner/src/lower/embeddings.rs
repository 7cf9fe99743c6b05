//! Which tensors are exchanged if exchanges may be left out, and which values are computed from
//! their copies.
//!
//! SANCUS (sections 2 and 5) keeps copies of embeddings and multiplies them with the current
//! epoch's weights. So everything between an embedding and the aggregation that reads it (dropout,
//! a product with weights, attention scores, anything linear in one tensor) is computed for halo
//! rows too, from halo rows of the embedding. A pipeline does the same between a history and the
//! aggregations that read it. Going back from the aggregation, the exchanged tensor is the first
//! one that is not linear like this: the end of a nonlinearity, an aggregate, a loop's carry, or a
//! product of features stored as nonzeros, since a rank has only its own rows of those.

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

/// A region's embeddings; empty if no exchange may be left out.
#[derive(Clone, Debug, Default)]
pub struct Embeddings {
    /// Nodes of the forward pass, whose exchanges may be left out.
    pub forward: Vec<bool>,
    /// The tensors whose halo rows a node's halo rows are computed from; empty if they are not
    /// computed.
    pub from: Vec<Vec<NodeId>>,
    /// Gradients of values computed from copies, which also have halo rows.
    pub gradient: Vec<bool>,
    /// Sums over edges whose halo rows are not sent immediately.
    pub raw: Vec<bool>,
}

impl Embeddings {
    /// Whether a node's halo rows are computed from other halo rows.
    pub fn near(&self, id: NodeId) -> bool {
        self.from
            .get(id.0 as usize)
            .is_some_and(|from| !from.is_empty())
    }

    /// Whether sums over a node's rows include its halo rows.
    pub fn beside(&self, id: NodeId) -> bool {
        self.gradient.get(id.0 as usize).is_some_and(|g| *g)
    }

    /// Whether the exchange of a node may be left out.
    fn may_skip(&self, id: NodeId) -> bool {
        self.forward.get(id.0 as usize).is_some_and(|f| *f)
    }

    /// Finds the embeddings, and marks the tensors they read at the source.
    fn find(graph: &Graph, facts: &mut Analysis, forward: Vec<bool>, sparse: bool) -> Self {
        let mut from = vec![Vec::new(); graph.nodes.len()];
        for (id, node) in graph.iter().rev() {
            let n = id.0 as usize;
            if !facts.read_at_source[n] || !forward[n] || facts.fixed[n] {
                continue;
            }
            // A tensor with copies is exchanged itself, whatever it is computed from.
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

/// The nodes between the tensors that blends keep and those that edges see: for each, the tensor
/// that is kept, or its history.
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

/// Whether a node is computed from another.
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

/// Gives a node its own memory if it was to be computed within another node's kernel.
fn keep(graph: &Graph, facts: &mut Analysis, id: NodeId) {
    if std::mem::replace(&mut facts.stored[id.0 as usize], true) {
        return;
    }
    // The kernel that computes it now ends in it; the rest of the chain is computed from it.
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

/// Whether `from` computes `to` within its kernel, or is the same node.
fn reaches(graph: &Graph, facts: &Analysis, from: NodeId, to: NodeId) -> bool {
    let open = |id: &NodeId| *id == to || !facts.stored[id.0 as usize];
    let mut inputs = graph.node(from).inputs.iter().filter(|id| open(id));
    from == to || inputs.any(|id| reaches(graph, facts, *id, to))
}

/// The operands of a stored node, through nodes without memory.
struct Tree<'a> {
    graph: &'a Graph,
    facts: &'a Analysis,
    sparse: bool,
}

impl Tree<'_> {
    /// The vertex tensors in memory that a node is computed from row by row, if only one of them
    /// changes between epochs and the node is linear in it.
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
        // A dropout changes every epoch, so a copy of its result is worthless.
        if matches!(node.op, Op::Dropout { .. }) {
            let from = node.inputs[0];
            let stored = self.facts.stored[from.0 as usize];
            match self.leaves(from).filter(|_| !stored) {
                Some(all) => leaves.extend(all),
                None => leaves.push(from),
            }
            return Some(());
        }
        let by_row = match node.op == Op::MatMul {
            true => {
                let nonzeros = self.sparse && features(self.graph, node.inputs[0]);
                !nonzeros && self.graph.ty(node.inputs[1]).rows != Rows::Vertices
            }
            false => matches!(
                node.op,
                Op::Broadcast(_)
                    | Op::Const(_)
                    | Op::ReduceCols(_, Reduce::Sum)
                    | Op::Unary(Unary::Neg)
                    | Op::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div)
            ),
        };
        if !by_row {
            return None;
        }
        node.inputs
            .iter()
            .try_for_each(|input| self.visit(*input, false, leaves))
    }
}

impl Region<'_> {
    /// Allows the exchanges of the nodes `forward` to be left out, if the program has a rule for
    /// that.
    pub fn keep_embeddings(&mut self, lowerer: &Lowerer, forward: Vec<bool>) {
        let Some(skipping) = lowerer.skip else {
            return;
        };
        let (graph, sparse) = (self.graph, lowerer.sparse);
        self.embeddings = Embeddings::find(graph, &mut self.facts, forward, sparse);
        if self.has_marks(skipping) {
            let beside = Beside::find(graph, &mut self.facts);
            self.embeddings = std::mem::take(&mut self.embeddings).with(beside);
        }
    }

    /// Whether the embeddings were marked before differentiation.
    fn has_marks(&self, skipping: Skipping) -> bool {
        skipping.stop || self.in_loop
    }

    /// Computes the values that edges see of blends for halo rows too; the kept tensors are
    /// exchanged.
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

    /// Fetches the halo rows that a node's halo rows are computed from.
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
    ///
    /// # Errors
    /// If a backward pass would exchange rows whose copies the forward pass read.
    pub fn skip(
        &self,
        lowerer: &mut Lowerer,
        id: NodeId,
        value: Value,
    ) -> Result<Option<Skip>, LowerError> {
        let Some(skipping) = lowerer.skip else {
            return Ok(None);
        };
        let (rule, forward) = (skipping.rule, self.embeddings.may_skip(id));
        let marked = number(self.graph, id);
        if marked.is_some() && !forward {
            return Err(LowerError::Internal(format!("{id} has lost its copies")));
        }
        if !forward || self.has_marks(skipping) && marked.is_none() {
            return Ok(None);
        }
        let buffer = lowerer.program.buffer(value.at.buffer);
        let (name, columns) = (format!("{}.copies", buffer.name), buffer.columns);
        // The rows sent last are needed only for comparison.
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
        Ok(Some(skip))
    }
}

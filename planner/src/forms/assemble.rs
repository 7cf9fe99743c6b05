//! Assembles the forms of regions into a graph.

use super::{Placed, RegionForm, Symbol, is_opaque};
use gnnc_ir::graph::infer::TypeError;
use gnnc_ir::graph::{Node, NodeId};
use gnnc_ir::{Graph, Op};
use std::collections::{BTreeMap, BTreeSet};

/// A value to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Want {
    /// A node of the original graph.
    Node(NodeId),
    /// A node of a part's form.
    Part(usize, usize),
}

struct Assembler<'a> {
    graph: &'a Graph,
    parts: &'a [(Placed, RegionForm)],
    /// Scope of every node of every form.
    scopes: Vec<Vec<u32>>,
    /// Where each result of a part is computed.
    results: BTreeMap<NodeId, Want>,
    out: Graph,
    written: BTreeMap<Want, NodeId>,
    /// Nodes by what they compute, so that equal values of different parts are computed once.
    same: BTreeMap<(Symbol, Vec<NodeId>), NodeId>,
}

/// The graph that computes the results of `graph` with the forms of its parts, written by a walk
/// from the results.
pub(super) fn assemble(graph: &Graph, parts: &[(Placed, RegionForm)]) -> Result<Graph, TypeError> {
    let mut results = BTreeMap::new();
    for (part, (placed, form)) in parts.iter().enumerate() {
        let Some(root) = form.term.as_ref().last() else {
            continue;
        };
        for (node, id) in placed.results.iter().zip(&root.kids) {
            results.insert(*node, Want::Part(part, usize::from(*id)));
        }
    }
    let mut assembler = Assembler {
        graph,
        parts,
        scopes: parts
            .iter()
            .map(|(placed, form)| scopes(graph, placed, form))
            .collect(),
        results,
        out: graph.clone_without_nodes(),
        written: BTreeMap::new(),
        same: BTreeMap::new(),
    };
    for result in &graph.results {
        let id = assembler.write(Want::Node(*result))?;
        assembler.out.results.push(id);
    }
    Ok(by_scope(&assembler.out))
}

/// The same graph with nodes ordered by scope, as far as operands allow.
fn by_scope(graph: &Graph) -> Graph {
    let users = graph.users();
    let distinct = |node: &Node| node.inputs.iter().collect::<BTreeSet<_>>().len();
    let mut missing: Vec<usize> = graph.nodes.iter().map(distinct).collect();
    let key = |id: NodeId| (graph.node(id).scope, id);
    let mut ready: BTreeSet<(u32, NodeId)> = graph
        .iter()
        .filter(|(_, node)| node.inputs.is_empty())
        .map(|(id, _)| key(id))
        .collect();
    let mut place = vec![NodeId(0); graph.nodes.len()];
    let mut out = graph.clone_without_nodes();
    while let Some((_, id)) = ready.pop_first() {
        let node = graph.node(id);
        place[id.0 as usize] = NodeId(out.nodes.len() as u32);
        let inputs = node
            .inputs
            .iter()
            .map(|input| place[input.0 as usize])
            .collect();
        out.nodes.push(Node {
            inputs,
            ..node.clone()
        });
        for user in &users[id.0 as usize] {
            missing[user.0 as usize] -= 1;
            if missing[user.0 as usize] == 0 {
                ready.insert(key(*user));
            }
        }
    }
    out.results = graph
        .results
        .iter()
        .map(|id| place[id.0 as usize])
        .collect();
    out
}

/// The scope of every node of a form: that of the original node for the same value, otherwise that
/// of its first user.
fn scopes(graph: &Graph, placed: &Placed, form: &RegionForm) -> Vec<u32> {
    let nodes = form.term.as_ref();
    let before = |i: usize| form.origin[i].map(|at| graph.node(placed.nodes[at]).scope);
    let mut scopes = vec![placed.scope; nodes.len()];
    for i in (0..nodes.len()).rev() {
        let scope = before(i).unwrap_or(scopes[i]);
        scopes[i] = scope;
        // Users come later in a term, so the first user is the last to write here.
        nodes[i]
            .kids
            .iter()
            .for_each(|kid| scopes[usize::from(*kid)] = scope);
    }
    scopes
}

impl Assembler<'_> {
    fn write(&mut self, want: Want) -> Result<NodeId, TypeError> {
        let mut stack = vec![want];
        while let Some(top) = stack.last().copied() {
            let operands = self.operands(top);
            let missing: Vec<Want> = operands
                .iter()
                .rev()
                .filter(|w| !self.written.contains_key(w))
                .copied()
                .collect();
            if !missing.is_empty() {
                stack.extend(missing);
                continue;
            }
            stack.pop();
            if !self.written.contains_key(&top) {
                let inputs: Vec<NodeId> = operands.iter().map(|w| self.written[w]).collect();
                let id = self.node(top, &inputs)?;
                self.written.insert(top, id);
            }
        }
        Ok(self.written[&want])
    }

    fn operands(&self, want: Want) -> Vec<Want> {
        match want {
            Want::Node(id) => match self.results.get(&id) {
                Some(result) => vec![*result],
                None => self
                    .graph
                    .node(id)
                    .inputs
                    .iter()
                    .copied()
                    .map(Want::Node)
                    .collect(),
            },
            Want::Part(part, i) => {
                let (placed, form) = &self.parts[part];
                let node = &form.term.as_ref()[i];
                match node.symbol {
                    Symbol::Leaf(n) => vec![Want::Node(placed.leaves[n as usize])],
                    _ => node
                        .kids
                        .iter()
                        .map(|kid| Want::Part(part, usize::from(*kid)))
                        .collect(),
                }
            }
        }
    }

    /// Writes a value; its operands have been written already.
    fn node(&mut self, want: Want, inputs: &[NodeId]) -> Result<NodeId, TypeError> {
        let (op, scope) = match want {
            Want::Node(id) if self.results.contains_key(&id) => return Ok(inputs[0]),
            Want::Node(id) => (self.graph.node(id).op.clone(), self.graph.node(id).scope),
            Want::Part(part, i) => {
                let (placed, form) = &self.parts[part];
                match &form.term.as_ref()[i].symbol {
                    Symbol::Op(op) => {
                        let mut op = op.clone();
                        if let Op::Dropout { site, .. } = &mut op {
                            *site = placed.sites[site.number as usize];
                        }
                        (op, self.scopes[part][i])
                    }
                    Symbol::Leaf(_) | Symbol::Results => return Ok(inputs[0]),
                }
            }
        };
        let shared = !is_opaque(&op) || matches!(op, Op::Param(_) | Op::Arg(_));
        let key = (Symbol::Op(op.clone()), inputs.to_vec());
        if let Some(id) = self.same.get(&key).filter(|_| shared) {
            return Ok(*id);
        }
        let id = self.out.add(op, inputs, scope)?;
        if shared {
            self.same.insert(key, id);
        }
        Ok(id)
    }
}

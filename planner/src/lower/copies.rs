//! Marks of embeddings, and gradients that stop at copies (SANCUS, section 5: `stale_grad`).
//!
//! Before a model is differentiated, the exchanged embeddings ([`Copies::Kept`]) and the tensors
//! that edges see are marked. The operators between them are linear in the embedding, row by row,
//! so ranks can apply them to copies too.
//!
//! The backward pass of a loop is a loop of its own. It takes marked embeddings with their copies
//! from the forward pass, and computes what lies between from those. If gradients go through to
//! the owners of all rows ([`Copies::Through`]), only loop bodies have marks: elsewhere the
//! backward pass reads the memory of the forward pass.
//!
//! If gradients stop at copies ([`Copies::Seen`]), these operators are differentiated twice: for
//! own rows, with the gradients that came back; and for copies, which get no gradient themselves,
//! while the parameters between copies and edges do. The latter runs over all rows of a rank;
//! gradients are 0 except in blocks that were left out.

use super::canonical::{canonical, features};
use super::embeddings::Embeddings;
use super::region::{Region, Value};
use super::{LowerError, Lowerer};
use crate::fixed::fixed;
use crate::lower::analysis::Analysis;
use gnnc_ir::graph::Node;
use gnnc_ir::graph::op::{Copies, Op};
use gnnc_ir::kernel::{End, Reduce};
use gnnc_ir::program::instr;
use gnnc_ir::program::{Extent, Instr, Returned};
use gnnc_ir::words::scalar::{Binary, Unary};
use gnnc_ir::{Graph, NodeId, Rows};
use std::collections::BTreeMap;
use std::ops::Range;

/// A model with marked embeddings. If gradients `stop` at copies, all are marked; otherwise those
/// of loop bodies, so that the backward pass reads the rows that the forward pass read.
///
/// # Errors
/// If a program cannot express the model.
pub fn marked(form: &Graph, sparse: bool, stop: bool) -> Result<Graph, LowerError> {
    let mut marking = Marking {
        sparse,
        stop,
        next: 0,
    };
    marking.within(&canonical(form, sparse)?, None)
}

/// The marking of a model and its loop bodies.
struct Marking {
    sparse: bool,
    /// Whether gradients stop at copies.
    stop: bool,
    /// The number of the next embedding.
    next: u32,
}

/// What is known of the arguments of a loop body.
struct Arguments {
    /// Which are the same in every iteration.
    consts: Range<u32>,
    /// Which are the same in every epoch.
    fixed: Vec<bool>,
}

impl Marking {
    /// Marks the embeddings of a model or (with `args`) of a loop body.
    fn within(&mut self, graph: &Graph, args: Option<Arguments>) -> Result<Graph, LowerError> {
        let fixed = fixed(graph, args.as_ref().map_or(&[], |args| &args.fixed));
        let of = match self.stop || args.is_some() {
            true => embeddings(graph, &fixed, self.sparse),
            false => vec![None; graph.nodes.len()],
        };
        let mut marks = Marks {
            graph,
            of,
            between: vec![false; graph.nodes.len()],
            stop: self.stop,
            consts: args.map_or(0..0, |args| args.consts),
            out: graph.clone_without_nodes(),
            new: Vec::with_capacity(graph.nodes.len()),
            kept: BTreeMap::new(),
        };
        for node in graph.nodes.iter().filter(|node| at_source(node)) {
            marks.lead(node.inputs[0]);
        }
        for (id, node) in graph.iter() {
            let mut op = node.op.clone();
            if let Op::Scan(scan) = &mut op {
                let consts = scan.carries..scan.carries + scan.consts;
                let inputs = (0..).zip(&node.inputs);
                let fixed = inputs
                    .map(|(n, input)| consts.contains(&n) && fixed[input.0 as usize])
                    .collect();
                scan.body = self.within(&scan.body, Some(Arguments { consts, fixed }))?;
            }
            let mut inputs = Vec::with_capacity(node.inputs.len());
            for input in &node.inputs {
                inputs.push(marks.read(id, *input, &mut self.next)?);
            }
            let id = marks.add(op, &inputs, node.scope)?;
            marks.new.push(id);
        }
        marks.out.results = graph.results.iter().map(|id| marks.of(*id)).collect();
        Ok(marks.out)
    }
}

/// A graph during marking.
struct Marks<'a> {
    graph: &'a Graph,
    /// The embedding that each vertex tensor is computed from, row by row; an embedding's own is
    /// itself.
    of: Vec<Option<NodeId>>,
    /// Whether a node is computed from an embedding, and edges see it or a value computed from it.
    between: Vec<bool>,
    /// Whether gradients stop at copies.
    stop: bool,
    /// The arguments of a loop body that are the same in every iteration.
    consts: Range<u32>,
    out: Graph,
    new: Vec<NodeId>,
    /// Embeddings with their numbers and marks.
    kept: BTreeMap<NodeId, (u32, NodeId)>,
}

impl Marks<'_> {
    fn of(&self, id: NodeId) -> NodeId {
        self.new[id.0 as usize]
    }

    fn add(&mut self, op: Op, inputs: &[NodeId], scope: u32) -> Result<NodeId, LowerError> {
        let bug = |e| LowerError::Internal(format!("marks of copies: {e}"));
        self.out.add(op, inputs, scope).map_err(bug)
    }

    /// Marks the nodes from an embedding to a tensor that edges see.
    fn lead(&mut self, seen: NodeId) {
        let mut work = vec![seen];
        while let Some(id) = work.pop() {
            let n = id.0 as usize;
            let inside = self.of[n].is_some_and(|embedding| embedding != id);
            if inside && !std::mem::replace(&mut self.between[n], true) {
                let inputs = self.graph.node(id).inputs.iter();
                work.extend(inputs.filter(|i| self.of[i.0 as usize].is_some()));
            }
        }
    }

    /// The node that `by` reads instead of its operand.
    fn read(&mut self, by: NodeId, id: NodeId, next: &mut u32) -> Result<NodeId, LowerError> {
        let node = self.graph.node(by);
        let Some(embedding) = self.of[id.0 as usize] else {
            return Ok(self.of(id));
        };
        let seen = at_source(node);
        let leads = self.between[by.0 as usize] && embedding == id;
        if !seen && !leads {
            return Ok(self.of(id));
        }
        let (number, kept) = self.keep(embedding, next)?;
        let x = match embedding == id {
            true => kept,
            false => self.of(id),
        };
        match seen {
            true => {
                let mark = match self.stop {
                    true => Copies::Seen,
                    false => Copies::Through,
                };
                self.add(Op::Copies(mark, number), &[x], node.scope)
            }
            false => Ok(x),
        }
    }

    fn keep(&mut self, id: NodeId, next: &mut u32) -> Result<(u32, NodeId), LowerError> {
        if let Some(known) = self.kept.get(&id) {
            return Ok(*known);
        }
        let number = *next;
        *next += 1;
        let node = self.graph.node(id);
        let before = matches!(&node.op, Op::Arg(n) if self.consts.contains(n));
        let kept = if before && !self.stop {
            // Its exchange stands before the loop.
            self.of(id)
        } else {
            self.add(Op::Copies(Copies::Kept, number), &[self.of(id)], node.scope)?
        };
        self.kept.insert(id, (number, kept));
        Ok((number, kept))
    }
}

/// Whether a node is the value that edges read at their source.
fn at_source(node: &Node) -> bool {
    matches!(node.op, Op::Take(_, End::Src)) && matches!(node.ty.rows, Rows::Edges(_))
}

/// The embedding that each vertex tensor is computed from, row by row. `None` for values that are
/// the same in every epoch, apart from parameters and dropout.
fn embeddings(graph: &Graph, fixed: &[bool], sparse: bool) -> Vec<Option<NodeId>> {
    let mut of: Vec<Option<NodeId>> = Vec::with_capacity(graph.nodes.len());
    for (id, node) in graph.iter() {
        let embedding = match node.ty.rows {
            Rows::Vertices if !fixed[id.0 as usize] => {
                let mut all: Vec<NodeId> =
                    (node.inputs.iter().filter_map(|i| of[i.0 as usize])).collect();
                all.dedup();
                match all[..] {
                    _ if !by_row(graph, node, sparse) => Some(id),
                    [] => None,
                    [one] => Some(one),
                    _ => Some(id),
                }
            }
            _ => None,
        };
        of.push(embedding);
    }
    of
}

/// Whether an operator maps each row of its operand to one row, linearly.
fn by_row(graph: &Graph, node: &Node, sparse: bool) -> bool {
    if node.op == Op::MatMul {
        // Of features stored as nonzeros, a rank has only its own rows.
        let [left, right] = [node.inputs[0], node.inputs[1]];
        return !(sparse && features(graph, left)) && graph.ty(right).rows != Rows::Vertices;
    }
    matches!(
        node.op,
        Op::Dropout { .. }
            | Op::Broadcast(_)
            | Op::Reshape { .. }
            | Op::SliceCols { .. }
            | Op::ReduceCols(_, Reduce::Sum)
            | Op::Unary(Unary::Neg)
            | Op::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div)
    )
}

/// Which nodes have rows of other ranks, in a graph with marked embeddings.
pub struct Beside {
    /// Gradients of values computed from copies.
    pub gradient: Vec<bool>,
    /// Sums over edges whose halo rows are not sent immediately.
    pub raw: Vec<bool>,
    /// The tensors whose halo rows a node's halo rows are computed from; empty if they are not
    /// computed.
    pub from: Vec<Vec<NodeId>>,
}

impl Beside {
    /// Finds these nodes, and marks the tensors they read at the source.
    pub fn find(graph: &Graph, facts: &mut Analysis) -> Self {
        let gradient = gradients(graph);
        let raw = raw(graph);
        let mut need = gradient.clone();
        for (id, node) in graph.iter().rev() {
            let n = id.0 as usize;
            need[n] |= raw[n];
            let seen = matches!(node.op, Op::Copies(Copies::Seen | Copies::Through, _));
            let sums = node.inputs.iter().any(|i| gradient[i.0 as usize]);
            if seen || sums || need[n] && !ends(node, facts, id) {
                for input in node.inputs.iter().filter(|i| vertices(graph, **i)) {
                    need[input.0 as usize] = true;
                }
            }
        }
        let mut from = vec![Vec::new(); graph.nodes.len()];
        for (id, node) in graph.iter() {
            let n = id.0 as usize;
            facts.read_at_source[n] |= need[n];
            if need[n] && facts.stored[n] && !ends(node, facts, id) {
                stored(graph, facts, id, &mut from[n]);
            }
        }
        Self {
            gradient,
            raw,
            from,
        }
    }
}

fn vertices(graph: &Graph, id: NodeId) -> bool {
    graph.ty(id).rows == Rows::Vertices
}

/// Gradients of values computed from copies.
fn gradients(graph: &Graph) -> Vec<bool> {
    let mut found: Vec<bool> = Vec::with_capacity(graph.nodes.len());
    for (id, node) in graph.iter() {
        let left = matches!(node.op, Op::Copies(Copies::Left, _));
        let any = node.inputs.iter().any(|i| found[i.0 as usize]);
        found.push(vertices(graph, id) && (left || any));
    }
    found
}

/// Sums over edges whose halo rows are still needed.
fn raw(graph: &Graph) -> Vec<bool> {
    let mut raw = vec![false; graph.nodes.len()];
    for (id, node) in graph.iter().rev() {
        let back = matches!(node.op, Op::Copies(Copies::Back | Copies::Left, _));
        if back || raw[id.0 as usize] && node.op == Op::Binary(Binary::Add) {
            node.inputs.iter().for_each(|i| raw[i.0 as usize] = true);
        }
    }
    raw
}

/// Whether a node's halo rows come from somewhere other than its operands' halo rows.
fn ends(node: &Node, facts: &Analysis, id: NodeId) -> bool {
    let n = id.0 as usize;
    let given = matches!(
        node.op,
        Op::Arg(_) | Op::Input(_) | Op::Scan(_) | Op::Out(_) | Op::Gather(..)
    ) || matches!(node.op, Op::Copies(what, _) if !matches!(what, Copies::Seen | Copies::Through));
    given || facts.fixed[n] && facts.stored[n]
}

/// The vertex tensors in memory that a node is computed from.
fn stored(graph: &Graph, facts: &Analysis, id: NodeId, found: &mut Vec<NodeId>) {
    for input in graph
        .node(id)
        .inputs
        .iter()
        .filter(|i| vertices(graph, **i))
    {
        match facts.stored[input.0 as usize] {
            true if found.contains(input) => {}
            true => found.push(*input),
            false => stored(graph, facts, *input, found),
        }
    }
}

/// The number of the exchange a tensor is marked with.
pub fn number(graph: &Graph, id: NodeId) -> Option<u32> {
    let Op::Copies(Copies::Kept | Copies::Seen | Copies::Through, number) = graph.node(id).op
    else {
        return None;
    };
    Some(number)
}

impl Region<'_> {
    /// Returns the gradients that edges bring to the owners of rows that were sent, and keeps the
    /// other gradients if something needs them.
    pub fn hand_back(&mut self, lowerer: &mut Lowerer, id: NodeId) -> Result<(), LowerError> {
        let graph = self.graph;
        let node = graph.node(id);
        let (Op::Copies(_, number), [sum]) = (&node.op, &node.inputs[..]) else {
            return Err(LowerError::Internal(format!("{id} is nothing of copies")));
        };
        let all = graph.iter().filter(|(_, other)| other.inputs == [*sum]);
        let (mut back, mut left) = (None, None);
        for (other, node) in all {
            if node.op == Op::Copies(Copies::Back, *number) {
                back = Some(other);
            } else if node.op == Op::Copies(Copies::Left, *number) {
                left = Some(other);
            } else {
                return Err(LowerError::Unsupported(
                    "a gradient that goes back to copies of several tensors".to_owned(),
                ));
            }
        }
        let of = lowerer.skips.get(number).copied();
        let of = of.ok_or_else(|| LowerError::Internal(format!("{id} is of no exchange")))?;
        let value = self.stored(*sum)?;
        let left_out = left.map(|left| Value {
            halo: true,
            ..self.target(lowerer, left, Extent::Local)
        });
        self.code.push(Instr::HaloReduce(instr::HaloReduce {
            skip: Some(Returned {
                of,
                left: left_out.map(|value| value.at),
            }),
            ..instr::HaloReduce::of(value.at)
        }));
        let own = Value {
            halo: false,
            ..value
        };
        for (node, value) in [(back, Some(own)), (left, left_out)] {
            if let Some(node) = node {
                self.values[node.0 as usize] = value;
            }
        }
        Ok(())
    }
}

impl Embeddings {
    /// Also computes halo rows from those of other tensors, as `beside` says.
    pub fn with(mut self, beside: Beside) -> Self {
        self.from.resize(beside.from.len(), Vec::new());
        for (from, more) in self.from.iter_mut().zip(beside.from) {
            if !more.is_empty() {
                *from = more;
            }
        }
        Self {
            gradient: beside.gradient,
            raw: beside.raw,
            ..self
        }
    }
}

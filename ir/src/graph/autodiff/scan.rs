//! The derivative of a scan: a scan in the opposite direction.
//!
//! The backward body is derived from the forward body by the same rules. Forward values that it
//! reads are recomputed where that is cheap; the forward scan returns the others as additional
//! `ys`.

use super::{AutodiffError, Tape, arg_of, needs_grad, scan_needs};
use crate::graph::op::{Copies, Op, Scan};
use crate::graph::{Graph, Node, NodeId};
use crate::words::types::Rows;
use std::collections::BTreeMap;

/// What binds an argument of the backward body, in the order of a scan's operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Carry,
    Const,
    Xs,
}

/// One operand of the backward scan.
struct Slot {
    kind: Kind,
    /// Node in the enclosing graph.
    operand: NodeId,
}

impl Tape {
    /// Propagates the gradients of a scan's results to its operands.
    pub(super) fn scan(&mut self, id: NodeId) -> Result<(), AutodiffError> {
        let node = self.graph.node(id).clone();
        let Op::Scan(scan) = &node.op else {
            return Ok(());
        };
        let carries = scan.carries as usize;
        let first_x = carries + scan.consts as usize;
        let wanted: Vec<bool> = node.inputs.iter().map(|i| self.wants(*i)).collect();
        let (wanted_args, result_needs) = scan_needs(scan, &wanted);
        let seeds: Vec<Option<NodeId>> = (0..scan.body.results.len())
            .map(|n| {
                self.scan_grads
                    .remove(&(id, n as u32))
                    .filter(|_| result_needs[n])
            })
            .collect();
        if seeds.iter().all(Option::is_none) {
            return Ok(());
        }

        // Differentiate a copy of the body. It gets one more argument for each incoming
        // gradient and each carried sum.
        let needs = needs_grad(&scan.body, &wanted_args);
        let (live, reached) = flow(scan, &needs, &seeds);
        let mut tape = Tape::new(scan.body.clone(), &wanted_args);
        let mut slots = Vec::new();
        for (n, result) in scan
            .body
            .results
            .iter()
            .enumerate()
            .filter(|(n, _)| live[*n])
        {
            let ty = scan.body.ty(*result);
            let slot = match seeds[n] {
                Some(operand) if n < carries => Slot {
                    kind: Kind::Carry,
                    operand,
                },
                Some(operand) => Slot {
                    kind: Kind::Xs,
                    operand,
                },
                None => Slot {
                    kind: Kind::Carry,
                    operand: self.zeros(ty)?,
                },
            };
            slots.push(slot);
            let seed = tape.argument(ty)?;
            tape.add(*result, seed)?;
        }
        tape.run()?;
        let args = tape.leaf_grads(scan.body.args.len(), arg_of)?;
        let mut results = Vec::new();
        // Each operand's gradient is returned as a carry or as one of the ys.
        let mut targets = Vec::new();
        let mut ys = Vec::new();
        for (n, grad) in args.into_iter().enumerate() {
            let ty = scan.body.args[n];
            match grad {
                _ if n < carries && !live[n] => {}
                Some(grad) if n < carries => results.push((n, grad)),
                None if n < carries => results.push((n, tape.zeros(ty)?)),
                Some(grad) if n < first_x && wanted[n] && reached[n] => {
                    slots.push(Slot {
                        kind: Kind::Carry,
                        operand: self.zeros(ty)?,
                    });
                    let sum = tape.argument(ty)?;
                    results.push((n, tape.binary(crate::Binary::Add, sum, grad)?));
                }
                Some(grad) if n >= first_x && wanted[n] && reached[n] => ys.push((n, grad)),
                _ => {}
            }
        }
        let sums = results.len();
        targets.extend(results.iter().chain(&ys).map(|(n, _)| *n));
        let roots: Vec<NodeId> = results.iter().chain(&ys).map(|(_, grad)| *grad).collect();

        let backward = self.cut(id, scan, &node.inputs, &tape, slots, &roots, sums)?;
        // Carries for the body's own use lie between the sums and the ys.
        let Op::Scan(inner) = &self.graph.node(backward).op else {
            return Ok(());
        };
        let kept = inner.carries as usize - sums;
        for (i, n) in targets.into_iter().enumerate() {
            if wanted[n] {
                let result = if i < sums { i } else { i + kept };
                let grad = self.emit(Op::Out(result as u32), &[backward])?;
                self.add(node.inputs[n], grad)?;
            }
        }
        Ok(())
    }

    /// Adds an argument.
    pub(super) fn argument(&mut self, ty: crate::Type) -> Result<NodeId, AutodiffError> {
        self.graph.args.push(ty);
        self.emit(Op::Arg(self.graph.args.len() as u32 - 1), &[])
    }

    /// Cuts the backward body out of a differentiated body, makes the forward scan return the
    /// values that cross the cut, and emits the backward scan.
    ///
    /// `slots` bind the additional arguments of `tape`'s graph. The first `sums` of `roots` are
    /// the new values of carries; the others are `ys`.
    fn cut(
        &mut self,
        id: NodeId,
        scan: &Scan,
        operands: &[NodeId],
        tape: &Tape,
        mut slots: Vec<Slot>,
        roots: &[NodeId],
        sums: usize,
    ) -> Result<NodeId, AutodiffError> {
        let body = &tape.graph;
        let plan = Recompute::plan(scan, tape, roots);
        let carries = scan.carries as usize;

        // Forward values as operands of the backward scan.
        let mut forward = scan.clone();
        let mut bound: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut saved: Vec<(NodeId, u32)> = Vec::new();
        let mut shifted: Vec<(NodeId, NodeId)> = Vec::new();
        for (v, node) in body.iter().filter(|(v, _)| plan.is_bound(*v)) {
            let n = arg_of(node).map_or(usize::MAX, |n| n as usize);
            let ys = &forward.body.results[carries..];
            let known = ys.iter().position(|y| *y == v);
            // The result of a carry is its argument one iteration later, which is one iteration
            // earlier in the backward scan.
            let shift = scan.body.results[..carries]
                .iter()
                .enumerate()
                .find_map(|(i, r)| {
                    let arg = plan.bound_arg(body, i as u32)?;
                    (*r == v && arg != v && !plan.copied[v.0 as usize]).then_some((i, arg))
                });
            let slot = match (known, shift) {
                _ if n >= carries && n < operands.len() => {
                    let is_const = n < carries + scan.consts as usize;
                    let kind = if is_const { Kind::Const } else { Kind::Xs };
                    Slot {
                        kind,
                        operand: operands[n],
                    }
                }
                (Some(y), _) => {
                    saved.push((v, (carries + y) as u32));
                    continue;
                }
                (None, Some((i, arg))) => {
                    shifted.push((v, arg));
                    let last = self.emit(Op::Out(i as u32), &[id])?;
                    Slot {
                        kind: Kind::Carry,
                        operand: last,
                    }
                }
                (None, None) if node.ty.stack != 0 => {
                    return Err(AutodiffError::StackedCarry {
                        carry: n as u32,
                        ty: node.ty,
                    });
                }
                (None, None) => {
                    forward.body.results.push(v);
                    saved.push((v, forward.body.results.len() as u32 - 1));
                    continue;
                }
            };
            bound.insert(v, slots.len());
            slots.push(slot);
        }
        self.graph.nodes[id.0 as usize].ty = forward
            .result_types()
            .first()
            .copied()
            .unwrap_or(crate::Type::SCALAR);
        self.graph.nodes[id.0 as usize].op = Op::Scan(Box::new(forward));
        for (v, y) in saved {
            let operand = self.emit(Op::Out(y), &[id])?;
            bound.insert(v, slots.len());
            slots.push(Slot {
                kind: Kind::Xs,
                operand,
            });
        }

        // A scan's operands are ordered by kind.
        let mut order: Vec<usize> = (0..slots.len()).collect();
        order.sort_by_key(|s| slots[*s].kind);
        let mut place = vec![0u32; slots.len()];
        for (position, slot) in order.iter().enumerate() {
            place[*slot] = position as u32;
        }
        let arg_ty = |s: usize| {
            let ty = self.graph.ty(slots[s].operand);
            if slots[s].kind == Kind::Xs {
                ty.unstacked()
            } else {
                ty
            }
        };
        let mut out = Graph {
            args: order.iter().map(|s| arg_ty(*s)).collect(),
            params: Vec::new(),
            ..body.clone_without_nodes()
        };
        let mut new_id = vec![NodeId(0); body.nodes.len()];
        for (v, node) in body.iter().filter(|(v, _)| plan.needed[v.0 as usize]) {
            let slot = bound.get(&v).copied();
            let slot = slot.or_else(|| arg_of(node).map(|n| n as usize - operands.len()));
            let (op, inputs) = match slot {
                Some(slot) => (Op::Arg(place[slot]), Vec::new()),
                None => {
                    let inputs = node.inputs.iter().map(|i| new_id[i.0 as usize]);
                    (node.op.clone(), inputs.collect())
                }
            };
            new_id[v.0 as usize] = NodeId(out.nodes.len() as u32);
            out.nodes.push(Node {
                op,
                inputs,
                ty: node.ty,
                scope: node.scope,
            });
        }
        let new = |v: &NodeId| new_id[v.0 as usize];
        out.results = roots[..sums].iter().map(new).collect();
        out.results.extend(shifted.iter().map(|(_, arg)| new(arg)));
        out.results.extend(roots[sums..].iter().map(new));

        let count_of = |kind| slots.iter().filter(|s| s.kind == kind).count() as u32;
        let backward = Scan {
            count: scan.count,
            reverse: !scan.reverse,
            carries: count_of(Kind::Carry),
            consts: count_of(Kind::Const),
            xs: count_of(Kind::Xs),
            body: out,
        };
        let inputs: Vec<NodeId> = order.iter().map(|s| slots[*s].operand).collect();
        self.emit(Op::Scan(Box::new(backward)), &inputs)
    }
}

/// Which results of the body bring in a gradient, and which arguments receive one.
fn flow(scan: &Scan, needs: &[bool], seeds: &[Option<NodeId>]) -> (Vec<bool>, Vec<bool>) {
    let body = &scan.body;
    let mut live: Vec<bool> = seeds.iter().map(Option::is_some).collect();
    loop {
        let mut marked = vec![false; body.nodes.len()];
        for (result, _) in body.results.iter().zip(&live).filter(|(_, live)| **live) {
            marked[result.0 as usize] = true;
        }
        let mut reached = vec![false; body.args.len()];
        for id in (0..body.nodes.len()).rev().filter(|id| needs[*id]) {
            if !marked[id] {
                continue;
            }
            if let Op::Arg(n) = body.nodes[id].op {
                reached[n as usize] = true;
            }
            for input in &body.nodes[id].inputs {
                marked[input.0 as usize] = true;
            }
        }
        let before = live.clone();
        for (live, reached) in live.iter_mut().zip(&reached).take(scan.carries as usize) {
            *live |= *reached;
        }
        if live == before {
            return (live, reached);
        }
    }
}

/// Which nodes of a differentiated body the backward body computes.
struct Recompute {
    /// Whether the backward body has the node, computed or as an argument.
    needed: Vec<bool>,
    /// Whether it computes the node.
    computed: Vec<bool>,
    /// Whether the node has copied rows: copies of it are kept, or edges see values computed from
    /// copies. Carries have no copied rows.
    copied: Vec<bool>,
}

impl Recompute {
    fn plan(scan: &Scan, tape: &Tape, roots: &[NodeId]) -> Self {
        let (body, forward) = (&tape.graph, tape.forward);
        let len = body.nodes.len();
        let first_x = scan.carries + scan.consts;
        // Free nodes depend on no carry and are loop-invariant or small.
        let (mut invariant, mut free) = (vec![false; len], vec![false; len]);
        let (kept, copied) = copies(body);
        let mut computed = vec![true; len];
        for (v, node) in body.iter().take(forward) {
            let all = |list: &[bool]| node.inputs.iter().all(|i| list[i.0 as usize]);
            let v = v.0 as usize;
            let work = Again::of(&node.op);
            (invariant[v], free[v]) = match work {
                Again::Arg(n) => (n >= scan.carries && n < first_x, n >= scan.carries),
                Again::Draw => (false, all(&free)),
                Again::Loop => (false, false),
                Again::Elements | Again::Moves | Again::Slices | Again::Sums => {
                    let cheap = match work {
                        Again::Elements => matches!(node.ty.rows, Rows::Fixed(_)),
                        _ => work != Again::Sums,
                    };
                    (all(&invariant), all(&invariant) || (all(&free) && cheap))
                }
            };
            computed[v] = match work {
                Again::Arg(_) => false,
                _ if kept[v] => false,
                Again::Loop | Again::Draw | Again::Moves => true,
                Again::Elements if matches!(node.ty.rows, Rows::Edges(_)) => true,
                // A slice would be saved without its copied rows.
                Again::Slices if copied[v] => true,
                Again::Elements | Again::Slices | Again::Sums => free[v] || node.ty.stack != 0,
            };
        }
        let mut plan = Self {
            needed: mark(body, &computed, roots),
            computed,
            copied,
        };
        // Element-wise functions of available values are recomputed, not kept.
        for (v, node) in body.iter().take(forward) {
            let there = |i: &NodeId| plan.needed[i.0 as usize] || free[i.0 as usize];
            let again = Again::of(&node.op) == Again::Elements && !kept[v.0 as usize];
            if plan.is_bound(v) && again {
                plan.computed[v.0 as usize] = node.inputs.iter().all(there);
            }
        }
        plan.needed = mark(body, &plan.computed, roots);
        plan
    }

    /// Whether the backward body has the node as an argument.
    fn is_bound(&self, v: NodeId) -> bool {
        self.needed[v.0 as usize] && !self.computed[v.0 as usize]
    }

    /// The node of carry `n`'s argument, if the backward body has it as an argument.
    fn bound_arg(&self, body: &Graph, n: u32) -> Option<NodeId> {
        let is_arg = |node: &Node| matches!(node.op, Op::Arg(m) if m == n);
        body.iter()
            .find(|(v, node)| is_arg(node) && self.is_bound(*v))
            .map(|(v, _)| v)
    }
}

/// The nodes whose copies are kept, and all nodes with copied rows: these and what lies between
/// them and the tensors that edges see.
fn copies(body: &Graph) -> (Vec<bool>, Vec<bool>) {
    let mut kept = vec![false; body.nodes.len()];
    let mut copied = vec![false; body.nodes.len()];
    for (id, node) in body.iter().rev() {
        let marked = matches!(
            node.op,
            Op::Copies(Copies::Kept | Copies::Seen | Copies::Through, _)
        );
        if matches!(node.op, Op::Copies(Copies::Kept, _)) {
            kept[node.inputs[0].0 as usize] = true;
        }
        let here = marked || copied[id.0 as usize] && !kept[id.0 as usize];
        let rows = |input: &&NodeId| body.ty(**input).rows == Rows::Vertices;
        for input in node.inputs.iter().filter(|input| here && rows(input)) {
            copied[input.0 as usize] = true;
        }
    }
    (kept, copied)
}

/// The nodes that `roots` need, given the nodes that are not `computed`.
fn mark(body: &Graph, computed: &[bool], roots: &[NodeId]) -> Vec<bool> {
    let mut needed = vec![false; body.nodes.len()];
    for root in roots {
        needed[root.0 as usize] = true;
    }
    for v in (0..body.nodes.len()).rev().filter(|v| computed[*v]) {
        if needed[v] {
            for input in &body.nodes[v].inputs {
                needed[input.0 as usize] = true;
            }
        }
    }
    needed
}

/// What it takes to compute a value again.
#[derive(Clone, Copy, PartialEq)]
enum Again {
    /// An argument, which is there.
    Arg(u32),
    /// A draw of random numbers.
    Draw,
    /// A loop.
    Loop,
    /// A function of single elements.
    Elements,
    /// It only moves or repeats values.
    Moves,
    /// It drops values, so that its result is smaller than its operand.
    Slices,
    /// Anything else.
    Sums,
}

impl Again {
    fn of(op: &Op) -> Self {
        match op {
            Op::Arg(n) => Self::Arg(*n),
            Op::Dropout { .. } => Self::Draw,
            Op::Scan(_) => Self::Loop,
            Op::Unary(_) | Op::Binary(_) => Self::Elements,
            Op::Broadcast(_) | Op::Copies(..) | Op::Clip(..) | Op::Take(..) => Self::Moves,
            Op::Pick | Op::PickHead | Op::Reshape { .. } | Op::Concat => Self::Moves,
            Op::PadCols { .. } | Op::PadRows { .. } => Self::Moves,
            Op::SliceCols { .. } | Op::SliceRows { .. } => Self::Slices,
            Op::Input(_) | Op::Param(_) | Op::Const(_) | Op::Table(_) | Op::Out(_) => Self::Sums,
            Op::Blend | Op::Gather(..) | Op::GatherMean(_) | Op::EdgeSoftmax(_) => Self::Sums,
            Op::PickSum(_) | Op::PlaceHead(_) | Op::MatMul | Op::MatMulNT => Self::Sums,
            Op::MatMulTN | Op::ReduceCols(..) | Op::SumRows | Op::Redistribute(_) => Self::Sums,
            Op::SumRanks | Op::Loss(_) | Op::LossGrad(_) | Op::Sampled(_) => Self::Sums,
        }
    }
}

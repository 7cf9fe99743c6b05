//! The instructions of an epoch of a stage in four lists: before, over the chunks forward, over the chunks
//! backward, and after (GNNPipe, section 3.1).
//!
//! Whatever works row by row goes with the chunks. What arcs read of other vertices must be there: rows of a
//! blend are histories until their chunk's turn, and gradients that arcs with fresh values bring are 0
//! until theirs, which is what an arc adds that does not count. So no kernel knows which arcs are fresh. What
//! arcs read otherwise is computed before, for all rows, and what the backward pass has to collect from
//! all arcs is computed after. Where the backward pass reads once more what arcs saw, a chunk's rows are made
//! histories again at the end of its turn: the order is reversed, so that each chunk finds what it found forward;
//! and what becomes history waits until nothing reads the one before it. Sums over rows wait until after: the backward chunks do only what the stage
//! before waits for, so the last stages work on weights while the first ones still get gradients.

use crate::lower::kernel::Builder;
use crate::lower::region::{Value, launch_rows, over};
use crate::lower::{LowerError, Lowerer};
use crate::stale::StaleError;
use gnnc_ir::expr::{Expr, Value as Scalar};
use gnnc_ir::kernel::{At, Body, End};
use gnnc_ir::program::{
    BufferId, Extent, Instr, Launch, Neighbour, Passage, Product, Program, Ref,
};
use gnnc_ir::{Rows, Type};
use std::collections::BTreeSet;

/// The tensors that a stage gets and hands over.
#[derive(Clone, Debug, Default)]
pub struct Borders {
    /// From the stage before.
    pub received: Vec<Ref>,
    /// Gradients by what is sent, from the next stage.
    pub gradients: Vec<Ref>,
    /// To the next stage.
    pub sent: Vec<Ref>,
    /// Gradients by what was received, to the stage before.
    pub returned: Vec<Ref>,
}

/// When an instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Before,
    Forward,
    Backward,
    After,
}

/// How an instruction reads a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// The rows that it writes.
    Own,
    /// Rows of other vertices.
    Across,
    /// All rows.
    Whole,
}

/// Puts the instructions of an epoch in order. `before` fills blends with histories; `fresh` are the places
/// in `code` of kernels that collect what fresh arcs bring.
///
/// # Errors
/// A layer that needs a sum over all vertices, or rows that have no history.
pub fn arrange(
    lowerer: &mut Lowerer,
    before: Vec<Instr>,
    code: Vec<Instr>,
    fresh: &[usize],
    borders: &Borders,
) -> Result<Vec<Instr>, LowerError> {
    let blends: BTreeSet<BufferId> = before.iter().flat_map(writes).collect();
    let code = split_loss(code, fresh);
    let mut order = Order {
        phases: vec![Phase::Forward; code.len()],
        instrs: code
            .iter()
            .map(|(instr, fresh)| Facts::new(instr, *fresh, &lowerer.program))
            .collect(),
        blends,
        zeroed: BTreeSet::new(),
    };
    order.backward(borders);
    order.before(borders, &before);
    order.after(borders)?;
    order.late(borders);
    order.check(borders)?;

    let zeros: Vec<BufferId> = order.zeroed.iter().copied().collect();
    let seen = order.seen_again();
    let again = before
        .iter()
        .filter(|fill| writes(fill).iter().any(|at| seen.contains(at)));
    let again: Vec<Instr> = again.cloned().collect();
    let needed = order.read_late(&again);
    let mut lists: [Vec<Instr>; 4] = Default::default();
    let mut kept = Vec::new();
    for ((instr, _), phase) in code.into_iter().zip(&order.phases) {
        match &instr {
            Instr::Remember { history, .. } if needed.contains(&history.buffer) => kept.push(instr),
            _ => lists[*phase as usize].push(instr),
        }
    }
    let [mut step, forward, backward, after] = lists;
    step.extend(before);
    let chunks = |reverse, first: Vec<Ref>, with, body: Vec<Instr>, last: Vec<Ref>, to| {
        let passage =
            |with, tensors: Vec<Ref>| (!tensors.is_empty()).then_some(Passage { with, tensors });
        let receive = passage(with, first).map(Instr::Receive);
        let send = passage(to, last).map(Instr::Send);
        let body = receive.into_iter().chain(body).chain(send);
        // The next stage does not wait for what is put back.
        let again = again.iter().filter(|_| reverse).cloned();
        let body = body.chain(again).collect();
        Instr::Chunks { reverse, body }
    };
    let Borders {
        received,
        gradients,
        sent,
        returned,
    } = borders.clone();
    let (next, previous) = (Neighbour::Next, Neighbour::Previous);
    step.push(chunks(false, received, previous, forward, sent, next));
    for buffer in zeros {
        step.push(zero(lowerer, buffer)?);
    }
    step.push(chunks(true, gradients, next, backward, returned, previous));
    step.extend(after);
    if !kept.is_empty() {
        let (reverse, body) = (false, kept);
        step.push(Instr::Chunks { reverse, body });
    }
    Ok(step)
}

/// Instructions with whether they collect what fresh arcs bring. A loss becomes two: its derivative row by
/// row, and the number, which is a sum.
fn split_loss(code: Vec<Instr>, fresh: &[usize]) -> Vec<(Instr, bool)> {
    let mut out = Vec::with_capacity(code.len() + 1);
    for (n, instr) in code.into_iter().enumerate() {
        if let Instr::Loss {
            loss,
            logits,
            out: number,
            grad,
            classes,
        } = instr
        {
            let part = |out, grad| Instr::Loss {
                loss,
                logits,
                out,
                grad,
                classes,
            };
            out.extend(grad.map(|grad| (part(None, Some(grad)), false)));
            out.extend(number.map(|number| (part(Some(number), None), false)));
            continue;
        }
        out.push((instr, fresh.contains(&n)));
    }
    out
}

/// What matters of an instruction.
struct Facts {
    reads: Vec<(BufferId, Reading)>,
    writes: Vec<BufferId>,
    /// Whether it gives a row for each vertex or arc, each from its own neighbourhood.
    by_row: bool,
    /// Whether it begins the backward pass.
    gradient: bool,
    fresh: bool,
    name: String,
}

fn reads(instr: &Instr) -> Vec<BufferId> {
    instr.accesses().0.iter().map(|at| at.buffer).collect()
}

fn writes(instr: &Instr) -> Vec<BufferId> {
    instr.accesses().1.iter().map(|at| at.buffer).collect()
}

impl Facts {
    fn new(instr: &Instr, fresh: bool, program: &Program) -> Self {
        let (reads, by_row) = match instr {
            Instr::Launch(launch) => launched(launch, program),
            Instr::MatMul {
                product,
                a,
                b,
                finish,
                ..
            } => {
                let of_a = match product {
                    Product::Tn => Reading::Whole,
                    Product::Nn | Product::Nt => Reading::Own,
                };
                let mut reads = vec![(a.at.buffer, of_a), (b.at.buffer, Reading::Whole)];
                reads.extend(finish.iter().flat_map(|launch| launched(launch, program).0));
                (
                    reads,
                    *product != Product::Tn && rowed(program, a.at.buffer),
                )
            }
            Instr::SparseMatMul {
                product, values, b, ..
            } => {
                let by_row = *product == Product::Nn;
                let of_values = if by_row { Reading::Own } else { Reading::Whole };
                let reads = vec![(values.buffer, of_values), (b.at.buffer, Reading::Whole)];
                (reads, by_row)
            }
            Instr::Loss { logits, grad, .. } => match grad {
                Some(_) => (vec![(logits.buffer, Reading::Own)], true),
                None => (vec![(logits.buffer, Reading::Whole)], false),
            },
            // When its history is written is not decided by who reads it.
            Instr::Remember { from, .. } => (vec![(from.buffer, Reading::Own)], true),
            _ => {
                let own = |at: &Ref| (at.buffer, Reading::Own);
                let reads = instr.accesses().0.iter().map(own).collect();
                (reads, !matches!(instr, Instr::AllReduce { .. }))
            }
        };
        // What an instruction writes itself, it does not wait for; but exchanges and reductions complete
        // what others wrote.
        let completes = matches!(instr, Instr::HaloExchange { .. } | Instr::HaloReduce { .. });
        let written = writes(instr);
        let named = written
            .first()
            .map(|id| program.buffer(*id).name.clone())
            .unwrap_or_default();
        let writes = match instr {
            Instr::Remember { .. } => Vec::new(),
            _ => written,
        };
        let reads = reads.into_iter();
        let reads = reads.filter(|(buffer, _)| completes || !writes.contains(buffer));
        Self {
            reads: reads.collect(),
            writes,
            by_row,
            gradient: matches!(instr, Instr::Loss { grad: Some(_), .. }),
            fresh,
            name: named,
        }
    }
}

/// Whether a buffer has a row for each vertex or arc.
fn rowed(program: &Program, buffer: BufferId) -> bool {
    !matches!(program.buffer(buffer).extent, Extent::Fixed(_))
}

fn launched(launch: &Launch, program: &Program) -> (Vec<(BufferId, Reading)>, bool) {
    let kernel = program.kernel(launch.kernel);
    let column = kernel.body.sums_rows();
    let to_source = matches!(kernel.body, Body::Gather { to: End::Src, .. });
    let operands = launch.inputs.iter().zip(&kernel.inputs);
    let reads = operands.map(|(at, operand)| {
        let across = match operand.at {
            At::Src => !to_source,
            At::Dst | At::Edge => to_source,
            At::Row | At::One | At::List => false,
        };
        let reading = match (column || !rowed(program, at.buffer), across) {
            (true, _) => Reading::Whole,
            (false, true) => Reading::Across,
            (false, false) => Reading::Own,
        };
        (at.buffer, reading)
    });
    let by_row = !column && !matches!(launch.rows, Extent::Fixed(_));
    (reads.collect(), by_row)
}

struct Order {
    phases: Vec<Phase>,
    instrs: Vec<Facts>,
    blends: BTreeSet<BufferId>,
    zeroed: BTreeSet<BufferId>,
}

impl Order {
    /// Marks what depends on a gradient.
    fn backward(&mut self, borders: &Borders) {
        let mut gradients: BTreeSet<BufferId> =
            borders.gradients.iter().map(|at| at.buffer).collect();
        for (facts, phase) in self.instrs.iter().zip(&mut self.phases) {
            let follows = facts
                .reads
                .iter()
                .any(|(buffer, _)| gradients.contains(buffer));
            if facts.gradient || follows {
                *phase = Phase::Backward;
                gradients.extend(&facts.writes);
            }
        }
    }

    /// Moves before the chunks what arcs read and is no blend, what blends are filled with, and what is no row,
    /// with all that they need.
    fn before(&mut self, borders: &Borders, fills: &[Instr]) {
        let mut wanted: BTreeSet<BufferId> = fills.iter().flat_map(reads).collect();
        for (facts, phase) in self.instrs.iter().zip(&self.phases) {
            if *phase == Phase::Forward {
                let across = facts
                    .reads
                    .iter()
                    .filter(|(_, reading)| *reading == Reading::Across);
                wanted.extend(across.map(|(buffer, _)| *buffer));
            }
        }
        wanted.retain(|buffer| !self.blends.contains(buffer));
        for n in (0..self.instrs.len()).rev() {
            let facts = &self.instrs[n];
            let needed = facts.writes.iter().any(|buffer| wanted.contains(buffer));
            if self.phases[n] == Phase::Forward && needed {
                self.phases[n] = Phase::Before;
                wanted.extend(facts.reads.iter().map(|(buffer, _)| *buffer));
            }
        }
        // Parameters' own expressions need no vertex.
        let mut early: BTreeSet<BufferId> = BTreeSet::new();
        let received = borders.received.iter().map(|at| at.buffer);
        let mut late: BTreeSet<BufferId> = self.blends.iter().copied().chain(received).collect();
        for (n, facts) in self.instrs.iter().enumerate() {
            match self.phases[n] {
                Phase::Before => early.extend(&facts.writes),
                Phase::Forward if !facts.by_row => {
                    let waits = facts.reads.iter().any(|(buffer, _)| late.contains(buffer));
                    self.phases[n] = if waits { Phase::After } else { Phase::Before };
                    late.extend(facts.writes.iter().filter(|_| waits));
                }
                Phase::Forward => late.extend(&facts.writes),
                Phase::Backward | Phase::After => {}
            }
        }
    }

    /// Moves after the chunks what sums over rows or collects from all arcs, and what depends on it.
    fn after(&mut self, borders: &Borders) -> Result<(), LowerError> {
        let mut late: BTreeSet<BufferId> = BTreeSet::new();
        let mut backward: BTreeSet<BufferId> =
            borders.gradients.iter().map(|at| at.buffer).collect();
        for (n, facts) in self.instrs.iter().enumerate() {
            match self.phases[n] {
                Phase::Before => continue,
                Phase::After => {
                    late.extend(&facts.writes);
                    continue;
                }
                Phase::Forward => {
                    if facts.reads.iter().any(|(buffer, _)| late.contains(buffer)) {
                        return Err(StaleError::Batch(facts.name.clone()).into());
                    }
                    continue;
                }
                Phase::Backward => {}
            }
            let across = |(buffer, reading): &&(BufferId, Reading)| {
                *reading == Reading::Across && backward.contains(buffer)
            };
            let collects: Vec<BufferId> =
                facts.reads.iter().filter(across).map(|(b, _)| *b).collect();
            let waits = facts.reads.iter().any(|(buffer, _)| late.contains(buffer));
            if !facts.by_row || waits || (!collects.is_empty() && !facts.fresh) {
                self.phases[n] = Phase::After;
                late.extend(&facts.writes);
            } else {
                self.zeroed.extend(collects);
                backward.extend(&facts.writes);
            }
        }
        Ok(())
    }

    /// Moves from the backward chunks to after them what nothing in them needs.
    fn late(&mut self, borders: &Borders) {
        let mut needed: BTreeSet<BufferId> = borders.returned.iter().map(|at| at.buffer).collect();
        for n in (0..self.instrs.len()).rev() {
            if self.phases[n] != Phase::Backward {
                continue;
            }
            let facts = &self.instrs[n];
            // What fresh arcs bring, and what arcs saw, can only be told apart while the chunks take turns.
            let apart = facts.fresh || self.sees(facts);
            if apart || facts.writes.iter().any(|buffer| needed.contains(buffer)) {
                needed.extend(facts.reads.iter().map(|(buffer, _)| *buffer));
            } else {
                self.phases[n] = Phase::After;
            }
        }
    }

    /// Whether an instruction reads what arcs saw.
    fn sees(&self, facts: &Facts) -> bool {
        let blend = |(buffer, reading): &(BufferId, Reading)| {
            *reading == Reading::Across && self.blends.contains(buffer)
        };
        facts.reads.iter().any(blend)
    }

    /// The blends that the backward pass reads across.
    fn seen_again(&self) -> BTreeSet<BufferId> {
        let backward = self.instrs.iter().zip(&self.phases);
        let backward = backward.filter(|(_, phase)| **phase == Phase::Backward);
        let across = backward.flat_map(|(facts, _)| &facts.reads);
        let across = across.filter(|(_, reading)| *reading == Reading::Across);
        let buffers = across.map(|(buffer, _)| *buffer);
        buffers
            .filter(|buffer| self.blends.contains(buffer))
            .collect()
    }

    /// All that is read after the forward chunks, histories among it; `again` is what fills blends once more.
    fn read_late(&self, again: &[Instr]) -> BTreeSet<BufferId> {
        let late = self.instrs.iter().zip(&self.phases);
        let late = late.filter(|(_, phase)| **phase >= Phase::Backward);
        let found = late.flat_map(|(facts, _)| facts.reads.iter().map(|(buffer, _)| *buffer));
        found.chain(again.iter().flat_map(reads)).collect()
    }

    /// Makes sure that chunks find what they read.
    fn check(&self, borders: &Borders) -> Result<(), LowerError> {
        for (n, facts) in self.instrs.iter().enumerate() {
            for (buffer, reading) in &facts.reads {
                let writers = |phase| {
                    let wrote = |m: &usize| {
                        self.phases[*m] == phase && self.instrs[*m].writes.contains(buffer)
                    };
                    (0..self.instrs.len()).filter(wrote).count() > 0
                };
                let later = match self.phases[n] {
                    Phase::Before => {
                        writers(Phase::Forward)
                            || borders.received.iter().any(|at| at.buffer == *buffer)
                    }
                    Phase::Forward => *reading == Reading::Whole && writers(Phase::Forward),
                    Phase::Backward => false,
                    Phase::After => self.blends.contains(buffer),
                };
                if later {
                    return Err(StaleError::Chunks(facts.name.clone()).into());
                }
            }
        }
        Ok(())
    }
}

/// A kernel that fills a buffer with zeros.
fn zero(lowerer: &mut Lowerer, buffer: BufferId) -> Result<Instr, LowerError> {
    let found = lowerer.program.buffer(buffer);
    let rows = match found.extent {
        Extent::Inner | Extent::Local => Rows::Vertices,
        Extent::Edges(set) => Rows::Edges(set),
        other => {
            let why = format!("rows of `{}` ({other:?}) do not go with chunks", found.name);
            return Err(LowerError::Internal(why));
        }
    };
    let extent = found.extent;
    let ty = Type::new(rows, 1, found.columns);
    let out = Value::whole(Ref::first(buffer), ty);
    let body = Body::Map {
        over: over(ty),
        values: vec![Expr::leaf(Scalar::Const(0.0))],
    };
    let rows = match extent {
        Extent::Local => Extent::Local,
        _ => launch_rows(ty),
    };
    let builder = Builder::new(ty);
    let launch = builder.launch(
        &mut lowerer.program,
        body,
        rows,
        vec![(out.operand(At::Row), out.at)],
    );
    Ok(Instr::Launch(launch))
}

//! Assigns each instruction of a run of layers to a phase, based on who reads what, and how.

use super::Borders;
use crate::error::LowerError;
use crate::stale::StaleError;
use gnnc_ir::kernel::{At, Walk};
use gnnc_ir::program::instr;
use gnnc_ir::program::{BufferId, Extent, Instr, Launch, Product, Program, Ref};
use std::collections::BTreeSet;

/// When an instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Before,
    Forward,
    Backward,
    After,
}

/// How an instruction reads a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// The same rows that it writes.
    Own,
    /// Rows of other vertices.
    Across,
    /// All rows.
    Whole,
}

/// The relevant facts about an instruction.
struct Facts {
    reads: Vec<(BufferId, Reading)>,
    writes: Vec<BufferId>,
    /// Whether it computes one row per vertex or edge, from that row's neighborhood.
    by_row: bool,
    /// Whether it starts the backward pass.
    gradient: bool,
    fresh: bool,
    name: String,
}

pub(super) fn reads(instr: &Instr) -> Vec<BufferId> {
    instr.accesses().0.iter().map(|at| at.buffer).collect()
}

pub(super) fn writes(instr: &Instr) -> Vec<BufferId> {
    instr.accesses().1.iter().map(|at| at.buffer).collect()
}

impl Facts {
    fn new(instr: &Instr, fresh: bool, program: &Program) -> Self {
        let (reads, by_row) = match instr {
            Instr::Launch(launch) => launched(launch, program),
            Instr::MatMul(instr::MatMul {
                product,
                a,
                b,
                finish,
                ..
            }) => {
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
            Instr::SparseMatMul(instr::SparseMatMul {
                product, values, b, ..
            }) => {
                let by_row = *product == Product::Nn;
                let of_values = if by_row { Reading::Own } else { Reading::Whole };
                let reads = vec![(values.buffer, of_values), (b.at.buffer, Reading::Whole)];
                (reads, by_row)
            }
            Instr::Loss(instr::Loss { logits, grad, .. }) => match grad {
                Some(_) => (vec![(logits.buffer, Reading::Own)], true),
                None => (vec![(logits.buffer, Reading::Whole)], false),
            },
            // Its readers do not decide when a history is written.
            Instr::Remember(instr::Remember { from, .. }) => {
                (vec![(from.buffer, Reading::Own)], true)
            }
            Instr::SparseDropout(_)
            | Instr::Densify(_)
            | Instr::HaloExchange(_)
            | Instr::HaloReduce(_)
            | Instr::AllReduce(_)
            | Instr::Redistribute(_)
            | Instr::Begin(_)
            | Instr::Finish(_)
            | Instr::Metrics(_)
            | Instr::Repeat(_)
            | Instr::Chunks(_)
            | Instr::Batches(_)
            | Instr::Lag(_)
            | Instr::Sets(_)
            | Instr::Shift(_)
            | Instr::Sample(_)
            | Instr::Numbers(_)
            | Instr::FetchRows(_)
            | Instr::AddRows(_)
            | Instr::PushRows(_)
            | Instr::PutRows(_)
            | Instr::DrawEdges(_)
            | Instr::AskRows(_)
            | Instr::ShareLevels(_)
            | Instr::ServeRows(_)
            | Instr::CacheRows(_)
            | Instr::Send(_)
            | Instr::Receive(_)
            | Instr::Move(_) => {
                let own = |at: &Ref| (at.buffer, Reading::Own);
                let reads = instr.accesses().0.iter().map(own).collect();
                (reads, !matches!(instr, Instr::AllReduce(_)))
            }
        };
        // An instruction does not wait for what it writes itself; but exchanges and reductions
        // complete what others wrote.
        let completes = matches!(instr, Instr::HaloExchange(_) | Instr::HaloReduce(_));
        let written = writes(instr);
        let named = written
            .first()
            .map(|id| program.buffer(*id).name.clone())
            .unwrap_or_default();
        let writes = if matches!(instr, Instr::Remember(_)) {
            Vec::new()
        } else {
            written
        };
        let reads = reads.into_iter();
        let reads = reads.filter(|(buffer, _)| completes || !writes.contains(buffer));
        Self {
            reads: reads.collect(),
            writes,
            by_row,
            gradient: matches!(instr, Instr::Loss(instr::Loss { grad: Some(_), .. })),
            fresh,
            name: named,
        }
    }
}

/// Whether a buffer has one row per vertex or edge.
fn rowed(program: &Program, buffer: BufferId) -> bool {
    !matches!(program.buffer(buffer).extent, Extent::Fixed(_))
}

fn launched(launch: &Launch, program: &Program) -> (Vec<(BufferId, Reading)>, bool) {
    let kernel = program.kernel(launch.kernel);
    let column = kernel.body.sums_rows();
    let to_source = Walk::of(&kernel.body) == Walk::EdgesBySource;
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

/// The instructions of a run of layers with their phases.
pub(super) struct Order {
    pub(super) phases: Vec<Phase>,
    instrs: Vec<Facts>,
    blends: BTreeSet<BufferId>,
    /// Buffers that sum gradients of fresh edges; they start as zeros.
    pub(super) zeroed: BTreeSet<BufferId>,
}

impl Order {
    /// Assigns phases. `code` has each instruction with whether it collects gradients of fresh
    /// edges; `fills` are the instructions that fill blends.
    ///
    /// # Errors
    /// If a layer needs a sum over all vertices, or rows that have no history.
    pub(super) fn new(
        code: &[(Instr, bool)],
        fills: &[Instr],
        borders: &Borders,
        program: &Program,
    ) -> Result<Self, LowerError> {
        let facts = |(instr, fresh): &(Instr, bool)| Facts::new(instr, *fresh, program);
        let mut order = Self {
            phases: vec![Phase::Forward; code.len()],
            instrs: code.iter().map(facts).collect(),
            blends: fills.iter().flat_map(writes).collect(),
            zeroed: BTreeSet::new(),
        };
        order.backward(borders);
        order.before(borders, fills);
        order.after(borders)?;
        order.late(borders);
        order.check(borders)?;
        Ok(order)
    }

    /// Marks everything that depends on a gradient.
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

    /// Moves before the chunks, with all dependencies: tensors other than blends that edges read,
    /// operands that fill blends, and tensors without rows.
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
        // Expressions of parameters alone need no vertex.
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

    /// Moves after the chunks whatever sums over rows or collects from all edges, and everything
    /// that depends on it.
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

    /// Moves from the backward chunks to after them whatever nothing in the chunks needs.
    fn late(&mut self, borders: &Borders) {
        let mut needed: BTreeSet<BufferId> = borders.returned.iter().map(|at| at.buffer).collect();
        for n in (0..self.instrs.len()).rev() {
            if self.phases[n] != Phase::Backward {
                continue;
            }
            let facts = &self.instrs[n];
            // Gradients of fresh edges, and rows that edges saw, can be told apart only while the
            // chunks take turns.
            let apart = facts.fresh || self.sees(facts);
            if apart || facts.writes.iter().any(|buffer| needed.contains(buffer)) {
                needed.extend(facts.reads.iter().map(|(buffer, _)| *buffer));
            } else {
                self.phases[n] = Phase::After;
            }
        }
    }

    /// Whether an instruction reads the rows that edges saw.
    fn sees(&self, facts: &Facts) -> bool {
        let blend = |(buffer, reading): &(BufferId, Reading)| {
            *reading == Reading::Across && self.blends.contains(buffer)
        };
        facts.reads.iter().any(blend)
    }

    /// All buffers that instructions read.
    pub(super) fn all_read(&self) -> impl Iterator<Item = BufferId> + '_ {
        let all = self.instrs.iter().flat_map(|facts| &facts.reads);
        all.map(|(buffer, _)| *buffer)
    }

    /// The blends that the backward pass reads across vertices.
    pub(super) fn seen_again(&self) -> BTreeSet<BufferId> {
        let backward = self.instrs.iter().zip(&self.phases);
        let backward = backward.filter(|(_, phase)| **phase == Phase::Backward);
        let across = backward.flat_map(|(facts, _)| &facts.reads);
        let across = across.filter(|(_, reading)| *reading == Reading::Across);
        let buffers = across.map(|(buffer, _)| *buffer);
        buffers
            .filter(|buffer| self.blends.contains(buffer))
            .collect()
    }

    /// Everything read after the forward chunks, including histories; `again` are the instructions
    /// that refill blends.
    pub(super) fn read_late(&self, again: &[Instr]) -> BTreeSet<BufferId> {
        let late = self.instrs.iter().zip(&self.phases);
        let late = late.filter(|(_, phase)| **phase >= Phase::Backward);
        let found = late.flat_map(|(facts, _)| facts.reads.iter().map(|(buffer, _)| *buffer));
        found.chain(again.iter().flat_map(reads)).collect()
    }

    /// Checks that chunks find everything they read.
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

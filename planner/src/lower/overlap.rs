//! Communication beside computing: instructions in an order in which messages are under way while
//! something else runs.
//!
//! A communication is cut into its halves. Then every list, loop bodies too, is put in a new order
//! among those that keep what is read before it is overwritten: what leads to the next message comes
//! first, what nothing waits for is left for the time when messages are under way, and a rank waits
//! only when it has nothing else to do. Numbers and bytes stay the same, since every instruction does
//! what it did before; only lifetimes may become longer. The order depends on the instructions alone,
//! not on widths, so that all ranks have the same.

use gnnc_ir::access::{Access, accesses};
use gnnc_ir::program::{Instr, Program, Transfer};
use gnnc_ir::trace::Phase;
use std::collections::{BTreeSet, VecDeque};

/// Overlaps the communications of a program with its computing.
pub fn overlap(mut program: Program) -> Program {
    let mut tag = Transfer::WHOLE;
    for phase in Phase::ALL {
        let instrs = std::mem::take(program.list_mut(phase));
        *program.list_mut(phase) = list(instrs, &program, &mut tag);
    }
    program
}

fn list(mut instrs: Vec<Instr>, program: &Program, tag: &mut u32) -> Vec<Instr> {
    for instr in &mut instrs {
        if let Instr::Repeat { body, .. } = instr {
            *body = list(std::mem::take(body), program, tag);
        }
    }
    if !instrs.iter().any(Instr::communicates) {
        return instrs;
    }
    let order = Scheduler::new(&instrs, program).order();
    emit(instrs, &order, tag)
}

/// One place in the new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// An instruction that does not communicate.
    Run(usize),
    /// The first half of one that does.
    Begin(usize),
    /// Its second half.
    Finish(usize),
}

/// The instructions in their new order; halves with nothing in between are one again.
fn emit(instrs: Vec<Instr>, order: &[Slot], tag: &mut u32) -> Vec<Instr> {
    let mut left: Vec<Option<Instr>> = instrs.into_iter().map(Some).collect();
    let mut halves: Vec<Option<Transfer>> = vec![None; left.len()];
    let mut out = Vec::with_capacity(order.len());
    for (n, slot) in order.iter().enumerate() {
        match *slot {
            Slot::Run(i) => out.extend(left[i].take()),
            Slot::Begin(i) if order.get(n + 1) == Some(&Slot::Finish(i)) => {
                out.extend(left[i].take());
            }
            Slot::Begin(i) => {
                if let Some(what) = left[i].take() {
                    *tag += 1;
                    let transfer = Transfer {
                        tag: *tag,
                        what: Box::new(what),
                    };
                    halves[i] = Some(transfer.clone());
                    out.push(Instr::Begin(transfer));
                }
            }
            Slot::Finish(i) => out.extend(halves[i].take().map(Instr::Finish)),
        }
    }
    out
}

/// What has to come before what.
struct Scheduler {
    /// Instructions that have to wait for instruction `i`.
    after: Vec<Vec<usize>>,
    /// How many instructions `i` has to wait for.
    before: Vec<usize>,
    communicates: Vec<bool>,
    /// The first communication, in the old order, that waits for `i`; none is last.
    leads_to: Vec<usize>,
}

impl Scheduler {
    fn new(instrs: &[Instr], program: &Program) -> Self {
        let count = instrs.len();
        let uses: Vec<Vec<Access>> = instrs.iter().map(|i| accesses(i, program)).collect();
        let mut earlier: Vec<Vec<(usize, Access)>> = vec![Vec::new(); program.buffers.len()];
        let (mut after, mut before) = (vec![Vec::new(); count], vec![0; count]);
        for (i, uses) in uses.iter().enumerate() {
            let mut waits = BTreeSet::new();
            for access in uses {
                let Some(known) = earlier.get(access.buffer.0 as usize) else {
                    continue;
                };
                let meets = known
                    .iter()
                    .filter(|(_, known)| known.meets(access, program));
                waits.extend(meets.map(|(j, _)| *j));
            }
            before[i] = waits.len();
            waits.into_iter().for_each(|j: usize| after[j].push(i));
            for access in uses {
                if let Some(known) = earlier.get_mut(access.buffer.0 as usize) {
                    known.push((i, *access));
                }
            }
        }
        let communicates: Vec<bool> = instrs.iter().map(Instr::communicates).collect();
        let mut leads_to = vec![usize::MAX; count];
        for i in (0..count).rev() {
            let reached = after[i].iter().map(|&j| match communicates[j] {
                true => j,
                false => leads_to[j],
            });
            leads_to[i] = reached.min().unwrap_or(usize::MAX);
        }
        Self {
            after,
            before,
            communicates,
            leads_to,
        }
    }

    fn order(mut self) -> Vec<Slot> {
        let mut order = Vec::with_capacity(self.before.len());
        // Communications that can begin; other instructions that can run, the most urgent first.
        let (mut begins, mut runs) = (BTreeSet::new(), BTreeSet::new());
        let mut under_way = VecDeque::new();
        let mut ready: Vec<usize> = (0..self.before.len())
            .filter(|&i| self.before[i] == 0)
            .collect();
        loop {
            for i in ready.drain(..) {
                match self.communicates[i] {
                    true => begins.insert(i),
                    false => runs.insert((self.leads_to[i], i)),
                };
            }
            if let Some(i) = begins.pop_first() {
                order.push(Slot::Begin(i));
                under_way.push_back(i);
                continue;
            }
            let done = if let Some((_, i)) = runs.pop_first() {
                order.push(Slot::Run(i));
                i
            } else if let Some(i) = under_way.pop_front() {
                order.push(Slot::Finish(i));
                i
            } else {
                return order;
            };
            for &j in &self.after[done] {
                self.before[j] -= 1;
                if self.before[j] == 0 {
                    ready.push(j);
                }
            }
        }
    }
}

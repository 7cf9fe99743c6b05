//! Overlaps communication with computation: reorders instructions so that messages are in flight
//! while something else runs.
//!
//! Each communication is cut into halves. Then every list, including loop bodies, is reordered
//! among the orders that read everything before it is overwritten: instructions that lead to the
//! next message come first, instructions that nothing waits for run while messages are in flight,
//! and a rank waits only when it has nothing else to do. Numbers and bytes stay the same, because
//! every instruction does the same as before; only lifetimes may grow. The order depends on the
//! instructions alone, not on widths, so all ranks have the same.

use gnnc_ir::program::access::{Access, accesses, halves};
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Instr, Program, Transfer};
use std::collections::BTreeSet;

/// Overlaps the communications of a program with its computation.
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
        if let Instr::Repeat(instr::Repeat { body, .. }) = instr {
            *body = list(std::mem::take(body), program, tag);
        }
    }
    if !instrs.iter().any(is_cut) {
        return instrs;
    }
    let order = Scheduler::new(&instrs, program).order();
    emit(instrs, &order, tag)
}

/// Whether something may run between the halves of a communication.
fn is_cut(instr: &Instr) -> bool {
    instr.communicates() && instr.has_halves()
}

/// One position in the new order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// An instruction that does not communicate.
    Run(usize),
    /// The first half of a communication.
    Begin(usize),
    /// Its second half.
    Finish(usize),
}

/// The instructions in their new order; adjacent halves are merged again.
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

/// The constraints on the order.
struct Scheduler {
    /// The slots, in the old order.
    slots: Vec<Slot>,
    /// For each slot, the slots that have to wait for it.
    after: Vec<Vec<usize>>,
    /// For each slot, the number of slots it has to wait for.
    before: Vec<usize>,
    /// For each slot, the first communication in the old order that waits for it; slots without one
    /// come last.
    leads_to: Vec<usize>,
}

impl Scheduler {
    fn new(instrs: &[Instr], program: &Program) -> Self {
        let (mut slots, mut uses) = (Vec::new(), Vec::new());
        for (i, instr) in instrs.iter().enumerate() {
            if is_cut(instr) {
                slots.extend([Slot::Begin(i), Slot::Finish(i)]);
                uses.extend(halves(instr, program));
            } else {
                slots.push(Slot::Run(i));
                uses.push(accesses(instr, program));
            }
        }
        let count = slots.len();
        let mut earlier: Vec<Vec<(usize, Access)>> = vec![Vec::new(); program.buffers.len()];
        let (mut after, mut before) = (vec![Vec::new(); count], vec![0; count]);
        for (n, uses) in uses.iter().enumerate() {
            let mut waits = Vec::new();
            if let Slot::Finish(_) = slots[n] {
                waits.push(n - 1);
            }
            for access in uses {
                let Some(known) = earlier.get(access.buffer.0 as usize) else {
                    continue;
                };
                let meets = known
                    .iter()
                    .filter(|(_, known)| known.meets(access, program));
                waits.extend(meets.map(|(m, _)| *m));
            }
            waits.sort_unstable();
            waits.dedup();
            before[n] = waits.len();
            waits.into_iter().for_each(|m: usize| after[m].push(n));
            for access in uses {
                if let Some(known) = earlier.get_mut(access.buffer.0 as usize) {
                    known.push((n, *access));
                }
            }
        }
        let mut leads_to = vec![usize::MAX; count];
        for n in (0..count).rev() {
            let reached = after[n].iter().map(|&m| match slots[m] {
                Slot::Begin(_) => m,
                _ => leads_to[m],
            });
            leads_to[n] = reached.min().unwrap_or(usize::MAX);
        }
        Self {
            slots,
            after,
            before,
            leads_to,
        }
    }

    fn order(mut self) -> Vec<Slot> {
        let mut order = Vec::with_capacity(self.slots.len());
        // Communications that can begin; other instructions that can run, most urgent first.
        let (mut begins, mut runs) = (BTreeSet::new(), BTreeSet::new());
        // The second halves of communications that have begun.
        let mut under_way: Vec<usize> = Vec::new();
        let mut ready: Vec<usize> = (0..self.slots.len())
            .filter(|&n| self.before[n] == 0)
            .collect();
        loop {
            for n in ready.drain(..) {
                match self.slots[n] {
                    Slot::Begin(_) => begins.insert(n),
                    Slot::Run(_) => runs.insert((self.leads_to[n], n)),
                    Slot::Finish(_) => false,
                };
            }
            let can_end = |n: &usize| self.before[*n] == 0;
            let done = if let Some(n) = begins.pop_first() {
                under_way.push(n + 1);
                n
            } else if let Some((_, n)) = runs.pop_first() {
                n
            } else if let Some(first) = under_way.iter().position(can_end) {
                under_way.remove(first)
            } else {
                return order;
            };
            order.push(self.slots[done]);
            for &m in &self.after[done] {
                self.before[m] -= 1;
                if self.before[m] == 0 {
                    ready.push(m);
                }
            }
        }
    }
}

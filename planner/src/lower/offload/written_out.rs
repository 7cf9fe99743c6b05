//! Loops over layers written out, so that tensors may rest between their iterations, and kernels inside of
//! them may run in chunks.

use super::add;
use super::ring::last_tag;
use gnnc_ir::program::access::accesses;
use gnnc_ir::program::instr;
use gnnc_ir::program::memory::positions;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Buffer, BufferId, Extent, Instr, Program, Ref, Role};
use std::collections::BTreeMap;

/// Most instructions of the loops of a program when they are written out.
const MOST: u32 = 512;

/// The programs without loops over layers; `None` if they have none, or one that stays: it is too long, in a loop
/// itself, sums a stack of tensors over ranks, or leaves exchanges out.
pub(super) fn written_out(programs: &[Program]) -> Option<Vec<Program>> {
    programs.iter().map(one).collect()
}

fn one(program: &Program) -> Option<Program> {
    let (mut found, mut instrs) = (false, 0u32);
    for phase in Phase::ALL {
        for instr in program.list(phase) {
            let Instr::Repeat(instr::Repeat { count, body, .. }) = instr else {
                // Other loops are those of stages and batches.
                if instr.body().is_some() {
                    return None;
                }
                continue;
            };
            if !body.iter().all(|instr| stands_alone(instr, program)) {
                return None;
            }
            found = true;
            instrs = instrs.saturating_add(count.saturating_mul(positions(body)));
        }
    }
    if !found || instrs > MOST {
        return None;
    }
    let mut out = program.clone();
    let mut tag = last_tag(program);
    for phase in Phase::ALL {
        let list = std::mem::take(out.list_mut(phase));
        let mut new = Vec::with_capacity(list.len());
        for instr in list {
            if let Instr::Repeat(repeat) = instr {
                iterations(&repeat, &mut tag, &mut new);
            } else {
                new.push(instr);
            }
        }
        *out.list_mut(phase) = new;
    }
    split_slots(&mut out);
    Some(out)
}

/// Whether an instruction of a loop does the same outside of it, with the slots of an iteration.
fn stands_alone(instr: &Instr, program: &Program) -> bool {
    if let Instr::HaloExchange(exchange) = instr.whole()
        && exchange.skip.is_some()
    {
        // Its copies are a stack with a slot for each iteration of its loop.
        return false;
    }
    if let Instr::AllReduce(reduce) = instr.whole() {
        // Outside of loops it takes all slots.
        let mut buffers = reduce.buffers.iter();
        return buffers.all(|at| program.buffer(at.buffer).slots == 1);
    }
    instr.body().is_none()
}

/// Appends the iterations of a loop.
fn iterations(repeat: &instr::Repeat, tag: &mut u32, out: &mut Vec<Instr>) {
    for n in 0..repeat.count {
        let iteration = if repeat.reverse {
            repeat.count - 1 - n
        } else {
            n
        };
        let mut tags: BTreeMap<u32, u32> = BTreeMap::new();
        for instr in &repeat.body {
            let mut instr = instr.clone();
            instr.each_ref(&mut |at| {
                if std::mem::take(&mut at.in_loop) {
                    at.base += iteration;
                }
            });
            if let Some(launch) = instr.launch_mut() {
                for site in &mut launch.sites {
                    site.iteration += iteration;
                }
            }
            if let Instr::SparseDropout(dropout) = &mut instr {
                dropout.site.iteration += iteration;
            }
            if let Instr::Begin(transfer) | Instr::Finish(transfer) = &mut instr {
                transfer.tag = *tags.entry(transfer.tag).or_insert_with(|| {
                    *tag += 1;
                    *tag
                });
            }
            out.push(instr);
        }
    }
}

/// Gives each slot of a stack of rows a buffer of its own, where every instruction uses one slot.
fn split_slots(program: &mut Program) {
    let by_rows = |buffer: &Buffer| {
        let fixed = matches!(buffer.extent, Extent::Fixed(_));
        buffer.slots > 1 && buffer.role == Role::Temp && !fixed
    };
    let mut splits: Vec<bool> = program.buffers.iter().map(by_rows).collect();
    let whole = [
        program.logits.map(|at| at.buffer),
        program.loss,
        program.metrics,
    ];
    for BufferId(id) in whole.into_iter().flatten() {
        splits[id as usize] = false;
    }
    for phase in Phase::ALL {
        for instr in program.list(phase) {
            for access in accesses(instr, program) {
                splits[access.buffer.0 as usize] &= access.slot.is_some();
            }
        }
    }
    let ids = (0..program.buffers.len() as u32).map(BufferId);
    let split: Vec<BufferId> = ids.filter(|id| splits[id.0 as usize]).collect();
    let mut first: BTreeMap<BufferId, (BufferId, u32)> = BTreeMap::new();
    for id in split {
        let stack = program.buffer(id).clone();
        for slot in 0..stack.slots {
            let one = Buffer {
                name: format!("{}.{slot}", stack.name),
                slots: 1,
                ..stack.clone()
            };
            let new = add(program, one, false);
            first.entry(id).or_insert((new, stack.slots));
        }
    }
    for phase in Phase::ALL {
        for instr in program.list_mut(phase) {
            instr.each_ref(&mut |at| {
                if let Some((BufferId(new), slots)) = first.get(&at.buffer) {
                    *at = Ref::first(BufferId(new + at.base % slots));
                }
            });
        }
    }
}

//! Overlaps copies with computation: their halves are as far apart as memory allows.

use super::fit::{fits, most_beyond};
use super::uses::each;
use super::{MemoryBudget, ring::last_tag};
use gnnc_ir::program::access::{accesses, ordered};
use gnnc_ir::program::instr;
use gnnc_ir::program::memory::Lives;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Instr, Program, Transfer};

/// Fractions of the possible distance to try, in order, as divisors.
const TRIES: [usize; 4] = [1, 2, 4, 16];

/// Number of budgets to check for every half: those with the least memory to spare.
const TIGHTEST: usize = 2;

/// Cuts moves into halves: fetches begin earlier, stores finish later.
pub(super) fn widen(
    programs: Vec<Program>,
    budgets: &[MemoryBudget],
    looks: &mut u32,
) -> Vec<Program> {
    let Some(first) = programs.first() else {
        return programs;
    };
    let lives = Lives::of(first);
    let spare = |budget: &MemoryBudget| {
        let used = lives.layout(&budget.capacity).total_bytes;
        budget.bytes.saturating_sub(used)
    };
    let mut by_spare: Vec<(u64, MemoryBudget)> = budgets.iter().map(|r| (spare(r), *r)).collect();
    by_spare.sort_by_key(|(spare, _)| *spare);
    let tight: Vec<MemoryBudget> = by_spare.iter().take(TIGHTEST).map(|(_, r)| *r).collect();
    let mut wide = programs.clone();
    let mut tag = last_tag(first);
    for phase in Phase::ALL {
        let mut place = 0;
        while place < wide[0].list(phase).len() {
            place = cut(&mut wide, phase, place, &tight, (&mut tag, looks));
        }
    }
    match most_beyond(&Lives::of(&wide[0]), budgets) {
        0 => wide,
        _ => programs,
    }
}

/// Cuts the move at a position, if there is one and its halves fit. Returns where to continue.
fn cut(
    programs: &mut [Program],
    phase: Phase,
    place: usize,
    budgets: &[MemoryBudget],
    (tag, looks): (&mut u32, &mut u32),
) -> usize {
    let program = &programs[0];
    let list = program.list(phase);
    // Moves of chunks already have halves if there is room for them.
    let Instr::Move(instr::Move {
        from, chunk: None, ..
    }) = &list[place]
    else {
        return place + 1;
    };
    let fetched = program.is_hosted(from.buffer);
    let own = accesses(&list[place], program);
    let free = |instr: &&Instr| {
        let mut near = false;
        each(instr, &mut |at, _| {
            near |= own.iter().any(|own| own.buffer == at.buffer)
        });
        !near || !ordered(&own, &accesses(instr, program), program)
    };
    let way = match fetched {
        true => list[..place].iter().rev().take_while(free).count(),
        false => list[place + 1..].iter().take_while(free).count(),
    };
    let mut tried = 0;
    for distance in TRIES.map(|part| way / part) {
        if distance == 0 || distance == tried {
            break;
        }
        tried = distance;
        let way = (fetched, distance);
        halve(&mut programs[0], phase, place, way, *tag + 1);
        *looks += 1;
        let lives = Lives::of(&programs[0]);
        if !budgets.iter().all(|budget| fits(&lives, budget)) {
            join(&mut programs[0], phase, place, way);
            continue;
        }
        for program in &mut programs[1..] {
            halve(program, phase, place, way, *tag + 1);
        }
        *tag += 1;
        return place + if fetched { 2 } else { 1 };
    }
    place + 1
}

/// Places the halves of a move `distance` instructions apart.
fn halve(
    program: &mut Program,
    phase: Phase,
    place: usize,
    (fetched, distance): (bool, usize),
    tag: u32,
) {
    let list = program.list_mut(phase);
    let what = Box::new(list[place].clone());
    let transfer = Transfer { tag, what };
    let (begin, finish) = (Instr::Begin(transfer.clone()), Instr::Finish(transfer));
    if fetched {
        list[place] = finish;
        list.insert(place - distance, begin);
    } else {
        list[place] = begin;
        list.insert(place + distance + 1, finish);
    }
}

/// Undoes [`halve`].
fn join(program: &mut Program, phase: Phase, place: usize, (fetched, distance): (bool, usize)) {
    let list = program.list_mut(phase);
    let removed = match fetched {
        true => list.remove(place - distance),
        false => list.remove(place + distance + 1),
    };
    if let Instr::Begin(transfer) | Instr::Finish(transfer) = removed {
        list[place] = *transfer.what;
    }
}

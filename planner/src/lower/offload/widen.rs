//! Copies beside computing: halves as far apart as the memory allows.

use super::{Room, beyond, ring::last_tag};
use gnnc_ir::access::{Access, accesses, ordered};
use gnnc_ir::program::{Instr, Program, Transfer};
use gnnc_ir::trace::Phase;

/// How much of the way that a half could go is tried, in the order of trying, as divisors.
const TRIES: [usize; 4] = [1, 2, 4, 16];

/// Rooms that are looked at for every half: those with the least to spare.
const TIGHTEST: usize = 2;

/// Cuts moves of lists into halves: what is fetched begins earlier, what is stored ends later.
pub(super) fn widen(programs: Vec<Program>, rooms: &[Room]) -> Vec<Program> {
    let Some(first) = programs.first() else {
        return programs;
    };
    let spare = |room: &Room| {
        let used = gnnc_ir::memory::layout(first, &room.sizes).total_bytes;
        room.bytes.saturating_sub(used)
    };
    let mut by_spare: Vec<(u64, Room)> = rooms.iter().map(|r| (spare(r), *r)).collect();
    by_spare.sort_by_key(|(spare, _)| *spare);
    let tight: Vec<Room> = by_spare.iter().take(TIGHTEST).map(|(_, r)| *r).collect();
    let mut wide = programs.clone();
    let mut tag = last_tag(first);
    for phase in Phase::ALL {
        let mut place = 0;
        while place < wide[0].list(phase).len() {
            place = cut(&mut wide, phase, place, &tight, &mut tag);
        }
    }
    match rooms.iter().all(|room| beyond(&wide[0], room) == 0) {
        true => wide,
        false => programs,
    }
}

/// Cuts the move at a place, if there is one and its halves fit; where to go on.
fn cut(
    programs: &mut [Program],
    phase: Phase,
    place: usize,
    rooms: &[Room],
    tag: &mut u32,
) -> usize {
    let program = &programs[0];
    let list = program.list(phase);
    // Those of chunks have halves already, where there is room for them.
    let Instr::Move {
        from, chunk: None, ..
    } = &list[place]
    else {
        return place + 1;
    };
    let fetched = program.is_hosted(from.buffer);
    let own = accesses(&list[place], program);
    let free = |instr: &&Instr| {
        let uses: Vec<Access> = accesses(instr, program);
        !ordered(&own, &uses, program)
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
        let before = programs[0].list(phase).to_vec();
        halve(
            &mut programs[0],
            phase,
            place,
            (fetched, distance),
            *tag + 1,
        );
        if rooms.iter().any(|room| beyond(&programs[0], room) > 0) {
            *programs[0].list_mut(phase) = before;
            continue;
        }
        for program in &mut programs[1..] {
            halve(program, phase, place, (fetched, distance), *tag + 1);
        }
        *tag += 1;
        return place + if fetched { 2 } else { 1 };
    }
    place + 1
}

/// Puts the halves of a move so many instructions apart.
fn halve(
    program: &mut Program,
    phase: Phase,
    place: usize,
    (fetched, distance): (bool, usize),
    tag: u32,
) {
    let list = program.list_mut(phase);
    let what = Box::new(list.remove(place));
    let transfer = Transfer { tag, what };
    let (begin, finish) = (Instr::Begin(transfer.clone()), Instr::Finish(transfer));
    let (first, last) = match fetched {
        true => (place - distance, place + 1),
        false => (place, place + distance + 1),
    };
    list.insert(first, begin);
    list.insert(last, finish);
}

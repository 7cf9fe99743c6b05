//! The uses of a buffer in lists.

use gnnc_ir::program::access::{Access, Touched, accesses};
use gnnc_ir::program::instr;
use gnnc_ir::program::{BufferId, Instr, Program, Ref, Transfer, Vertices};

/// The positions in a list that touch each buffer, including those in loops.
pub(super) struct Index {
    /// By buffer: the start of its positions.
    first: Vec<usize>,
    /// Positions, ascending for each buffer.
    places: Vec<usize>,
}

impl Index {
    pub(super) fn of(list: &[Instr]) -> Self {
        // First the number of positions of each buffer, then their end, then their start.
        let mut first: Vec<usize> = Vec::new();
        each_once(list, &mut |id, _| {
            first.resize(first.len().max(id + 2), 0);
            first[id] += 1;
        });
        let mut end = 0;
        for touched in &mut first {
            end += *touched;
            *touched = end;
        }
        let mut places = vec![0; end];
        each_once(list, &mut |id, place| {
            first[id] -= 1;
            places[first[id]] = place;
        });
        Self { first, places }
    }

    /// The positions that touch a buffer, ascending.
    pub(super) fn places(&self, id: BufferId) -> &[usize] {
        let id = id.0 as usize;
        let ends = self.first.get(id).zip(self.first.get(id + 1));
        let places = ends.and_then(|(first, end)| self.places.get(*first..*end));
        places.unwrap_or(&[])
    }
}

/// Visits the buffers each instruction of a list touches, from the last instruction to the first.
fn each_once(list: &[Instr], visit: &mut dyn FnMut(usize, usize)) {
    let mut ids: Vec<usize> = Vec::new();
    for (place, instr) in list.iter().enumerate().rev() {
        ids.clear();
        each(instr, &mut |at, _| ids.push(at.buffer.0 as usize));
        ids.sort_unstable();
        ids.dedup();
        ids.iter().for_each(|id| visit(*id, place));
    }
}

/// Visits the reads of an instruction, then its writes (`true`), or those of the instructions in a
/// loop.
pub(super) fn each(instr: &Instr, visit: &mut dyn FnMut(&Ref, bool)) {
    match instr {
        Instr::Repeat(instr::Repeat { body, .. }) | Instr::Chunks(instr::Chunks { body, .. }) => {
            body.iter().for_each(|instr| each(instr, visit));
        }
        instr => instr.each_access(visit),
    }
}

/// The first and last position of each use of a buffer: an instruction, or two halves with
/// everything in between.
pub(super) fn uses(list: &[Instr], id: BufferId) -> Vec<[usize; 2]> {
    let places = list.iter().enumerate();
    let places = places.filter(|(_, instr)| touches(instr, id));
    joined(list, places.map(|(place, _)| place))
}

/// The same for a list with a known index.
pub(super) fn indexed(list: &[Instr], index: &Index, id: BufferId) -> Vec<[usize; 2]> {
    joined(list, index.places(id).iter().copied())
}

fn joined(list: &[Instr], places: impl Iterator<Item = usize>) -> Vec<[usize; 2]> {
    let mut found: Vec<[usize; 2]> = Vec::new();
    for place in places {
        let end = match &list[place] {
            Instr::Begin(transfer) => finish(list, place, transfer),
            _ => place,
        };
        match found.last_mut() {
            Some(last) if place <= last[1] => last[1] = last[1].max(end),
            _ => found.push([place, end]),
        }
    }
    found
}

/// The position where the transfer that begins at `begin` finishes.
fn finish(list: &[Instr], begin: usize, transfer: &Transfer) -> usize {
    let ends = |instr: &Instr| matches!(instr, Instr::Finish(other) if other.tag == transfer.tag);
    let behind = list[begin..].iter().position(ends);
    behind.map_or(begin, |steps| begin + steps)
}

/// Whether an instruction uses a buffer, including in loops.
pub(super) fn touches(instr: &Instr, id: BufferId) -> bool {
    let mut found = false;
    each(instr, &mut |at, _| found |= at.buffer == id);
    found
}

/// Whether an instruction writes a buffer, including in loops.
pub(super) fn writes(instr: &Instr, id: BufferId) -> bool {
    let mut found = false;
    each(instr, &mut |at, write| found |= write && at.buffer == id);
    found
}

/// An instruction's uses of a buffer, in order: the epilogue of a product may read what the product
/// writes.
pub(super) fn of(instr: &Instr, program: &Program, id: BufferId) -> Vec<Access> {
    let mut found = accesses(instr, program);
    found.retain(|access| access.buffer == id);
    found
}

/// Whether the rows used may include halo rows.
pub(super) fn halo(rows: Touched) -> bool {
    match rows {
        Touched::Own => false,
        // A loop runs all its chunks.
        Touched::Rows(chunk) => chunk.even.map(|even| even.rows) != Some(Vertices::Inner),
        _ => true,
    }
}

/// Whether the first of these uses reads existing data. With `halo_alone`, only uses of halo rows
/// count.
pub(super) fn reads_first<'a>(
    mut uses: impl Iterator<Item = &'a Access>,
    halo_alone: bool,
) -> bool {
    let first = uses.find(|access| !halo_alone || halo(access.rows));
    first.is_some_and(|access| !access.writes)
}

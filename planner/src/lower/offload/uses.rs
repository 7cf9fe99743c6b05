//! Where lists use a buffer.

use gnnc_ir::access::{Access, Touched, accesses};
use gnnc_ir::program::{BufferId, Instr, Program, Transfer, Vertices};

/// The buffers that each instruction of a list touches, loops included, in order.
pub(super) struct Index(Vec<Vec<BufferId>>);

impl Index {
    pub(super) fn of(list: &[Instr]) -> Self {
        let ids = |instr: &Instr| {
            let mut ids = Vec::new();
            touched(instr, &mut ids);
            ids.sort_unstable();
            ids.dedup();
            ids
        };
        Self(list.iter().map(ids).collect())
    }

    /// Whether the instruction at a place touches a buffer.
    pub(super) fn has(&self, place: usize, id: BufferId) -> bool {
        let ids = self.0.get(place);
        ids.is_some_and(|ids| ids.binary_search(&id).is_ok())
    }
}

fn touched(instr: &Instr, ids: &mut Vec<BufferId>) {
    if let Instr::Repeat { body, .. } | Instr::Chunks { body, .. } = instr {
        return body.iter().for_each(|instr| touched(instr, ids));
    }
    let (reads, writes) = instr.accesses();
    ids.extend(reads.iter().chain(&writes).map(|at| at.buffer));
}

/// The first and last place of each use of a buffer: an instruction, or two halves with what is in between.
pub(super) fn uses(list: &[Instr], id: BufferId) -> Vec<[usize; 2]> {
    indexed(list, &Index::of(list), id)
}

/// The same of a list whose index is known.
pub(super) fn indexed(list: &[Instr], index: &Index, id: BufferId) -> Vec<[usize; 2]> {
    let mut found: Vec<[usize; 2]> = Vec::new();
    for (place, instr) in list.iter().enumerate() {
        if !index.has(place, id) {
            continue;
        }
        let end = match instr {
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

/// The place where what begins at one ends.
fn finish(list: &[Instr], begin: usize, transfer: &Transfer) -> usize {
    let ends = |instr: &Instr| matches!(instr, Instr::Finish(other) if other.tag == transfer.tag);
    let behind = list[begin..].iter().position(ends);
    behind.map_or(begin, |steps| begin + steps)
}

/// Whether an instruction uses a buffer, loops included.
pub(super) fn touches(instr: &Instr, id: BufferId) -> bool {
    let mut ids = Vec::new();
    touched(instr, &mut ids);
    ids.contains(&id)
}

/// Whether a list writes a buffer.
pub(super) fn writes(list: &[Instr], program: &Program, id: BufferId) -> bool {
    let mut all = list.iter().flat_map(|instr| of(instr, program, id));
    all.any(|access| access.writes)
}

/// The uses of a buffer by an instruction, in order: what a product writes, its end may read.
pub(super) fn of(instr: &Instr, program: &Program, id: BufferId) -> Vec<Access> {
    let mut found = accesses(instr, program);
    found.retain(|access| access.buffer == id);
    found
}

/// Whether rows behind the own ones may be among those that are used.
pub(super) fn halo(rows: Touched) -> bool {
    match rows {
        Touched::Own => false,
        // All chunks of a loop are run.
        Touched::Rows(chunk) => chunk.even.map(|even| even.rows) != Some(Vertices::Inner),
        _ => true,
    }
}

/// Whether what uses of a slot come first, in order, is to read what was there; of halo rows alone, if only
/// these count.
pub(super) fn reads_first<'a>(
    mut uses: impl Iterator<Item = &'a Access>,
    halo_alone: bool,
) -> bool {
    let first = uses.find(|access| !halo_alone || halo(access.rows));
    first.is_some_and(|access| !access.writes)
}

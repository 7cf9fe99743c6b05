//! The uses of a buffer in lists.

use gnnc_ir::program::access::{Access, Touched, accesses};
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
        // By buffer: one more than the last position seen, and the number of positions.
        let (mut seen, mut first): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut touched: Vec<(usize, usize)> = Vec::with_capacity(4 * list.len());
        for (place, instr) in list.iter().enumerate() {
            each(instr, &mut |at, _| {
                let id = at.buffer.0 as usize;
                if seen.len() <= id {
                    seen.resize(id + 1, 0);
                    first.resize(id + 2, 0);
                }
                if std::mem::replace(&mut seen[id], place + 1) <= place {
                    first[id] += 1;
                    touched.push((id, place));
                }
            });
        }
        // First the number of positions of each buffer, then their end, then their start.
        let mut end = 0;
        for count in &mut first {
            end += *count;
            *count = end;
        }
        let mut places = vec![0; end];
        for (id, place) in touched.into_iter().rev() {
            first[id] -= 1;
            places[first[id]] = place;
        }
        Self { first, places }
    }

    /// The positions that touch a buffer, ascending.
    pub(super) fn places(&self, id: BufferId) -> &[usize] {
        let id = id.0 as usize;
        let ends = self.first.get(id).zip(self.first.get(id + 1));
        let places = ends.and_then(|(first, end)| self.places.get(*first..*end));
        places.unwrap_or(&[])
    }

    /// Whether a buffer is touched before a position and behind it, but not there.
    pub(super) fn rests(&self, id: BufferId, place: usize) -> bool {
        let places = self.places(id);
        let before = places.partition_point(|other| *other < place);
        before > 0 && places.get(before).is_some_and(|next| *next > place)
    }
}

/// Visits the reads of an instruction, then its writes (`true`), or those of the instructions in a
/// loop.
pub(super) fn each(instr: &Instr, visit: &mut dyn FnMut(&Ref, bool)) {
    match instr.body() {
        Some(body) => body.iter().for_each(|instr| each(instr, visit)),
        None => instr.each_access(visit),
    }
}

/// The first and last position of each use of a buffer: an instruction, or two halves with
/// everything in between.
pub(super) fn uses(list: &[Instr], id: BufferId) -> Vec<[usize; 2]> {
    joined(list, places(list, id).into_iter())
}

/// The positions in a list that touch a buffer, ascending.
pub(super) fn places(list: &[Instr], id: BufferId) -> Vec<usize> {
    let places = list.iter().enumerate();
    let places = places.filter(|(_, instr)| touches(instr, id));
    places.map(|(place, _)| place).collect()
}

/// The same for a list with a known index.
pub(super) fn indexed(list: &[Instr], index: &Index, id: BufferId) -> Vec<[usize; 2]> {
    joined(list, index.places(id).iter().copied())
}

fn joined(list: &[Instr], places: impl Iterator<Item = usize>) -> Vec<[usize; 2]> {
    let mut found: Vec<[usize; 2]> = Vec::new();
    for place in places {
        let end = if let Instr::Begin(transfer) = &list[place] {
            finish(list, place, transfer)
        } else {
            place
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

/// Whether all that a list does with a buffer is to fetch rows of it for batches, which can be read
/// where they are.
pub(super) fn only_fetches(list: &[Instr], id: BufferId) -> bool {
    list.iter().all(|instr| match instr.body() {
        Some(body) => only_fetches(body, id),
        None => fetches(instr, id) || !touches(instr, id),
    })
}

/// Whether an instruction fetches rows of a buffer for a batch.
pub(super) fn fetches(instr: &Instr, id: BufferId) -> bool {
    matches!(instr, Instr::FetchRows(fetch) if fetch.from.buffer == id)
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
    if !touches(instr, id) {
        return Vec::new();
    }
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

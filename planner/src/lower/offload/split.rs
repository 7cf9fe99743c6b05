//! Tensors offloaded to the host between two uses.

use super::ring::narrow;
use super::uses::{halo, of, places, reads_first, touches, writes};
use super::{add, copy, twin};
use gnnc_ir::program::access::Access;
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Buffer, BufferId, Instr, Program, Ref};

/// The host buffer with the same contents as a buffer of a list, if the buffer was fetched from
/// there and never changed; `places` gives the positions that touch a buffer, ascending.
pub(super) fn clean(
    list: &[Instr],
    places: impl Fn(BufferId) -> Vec<usize>,
    program: &Program,
    id: BufferId,
) -> Option<BufferId> {
    let mut fetched = None;
    for place in places(id) {
        if let Instr::Move(instr::Move { from, to, .. }) = &list[place]
            && to.buffer == id
            && fetched.is_none()
        {
            fetched = Some((place, from.buffer));
        } else if writes(&list[place], id) {
            return None;
        }
    }
    let (fetch, home) = fetched?;
    // Later stores overwrite the host buffer.
    let mut later = places(home).into_iter().filter(|place| *place > fetch);
    if later.any(|place| writes(&list[place], home)) {
        return None;
    }
    let kept = program.is_hosted(home) && program.buffer(home).slots == 1;
    kept.then_some(home)
}

/// Offloads a tensor between two uses, which end and begin at these positions of a list.
pub(super) fn split(program: &mut Program, phase: Phase, id: BufferId, [end, begin]: [usize; 2]) {
    let list = program.list(phase);
    let home = clean(list, |id| places(list, id), program, id);
    let later: Vec<Access> = list[begin..]
        .iter()
        .flat_map(|instr| of(instr, program, id))
        .collect();
    let old = program.buffer(id).clone();
    let extent = |with_halo: bool| narrow(old.extent, with_halo);
    // A write of one chunk does not write all rows.
    let by_chunks = |instr: &Instr| matches!(instr, Instr::Chunks(_)) && touches(instr, id);
    let pieces = program.pipeline.is_some() && list[begin..].iter().any(by_chunks);
    let stored = extent(pieces || reads_first(later.iter(), true));
    let used = extent(pieces || later.iter().any(|access| halo(access.rows)));
    let again = Buffer {
        extent: used,
        ..old.clone()
    };
    let again = add(program, again, false);
    let host = match home {
        Some(home) => home,
        None => add(program, twin(&old, stored), true),
    };
    let list = program.list_mut(phase);
    for instr in &mut list[begin..] {
        rename(instr, id, again);
    }
    list.insert(begin, copy(Ref::first(host), Ref::first(again)));
    if home.is_none() {
        list.insert(end + 1, copy(Ref::first(id), Ref::first(host)));
    }
}

/// Renames a buffer in an instruction.
pub(super) fn rename(instr: &mut Instr, from: BufferId, to: BufferId) {
    if touches(instr, from) {
        instr.each_ref(&mut |at| {
            if at.buffer == from {
                at.buffer = to;
            }
        });
    }
}

//! Parameters and optimizer states of which ranks have some rows: whole ones are joined from them, as
//! checkpoints hold them, and cut for them.

use crate::executor::Rank;
use gnnc_ir::graph::Shard;
use gnnc_ir::program::{BufferId, Role};

/// Writes what a rank has of a parameter or state to its place in the whole.
pub(crate) fn join(rank: &Rank, role: Role, whole: &mut [f32]) {
    each_row(rank, role, whole.len(), |own, at| {
        whole[at..at + own.len()].copy_from_slice(own);
    });
}

/// Gives a rank what it has of a whole parameter or state.
pub(crate) fn cut(rank: &Rank, role: Role, whole: &[f32]) {
    each_row(rank, role, whole.len(), |own, at| {
        own.copy_from_slice(&whole[at..at + own.len()]);
    });
}

/// Visits the rows of a rank's buffer of a role, or all of it at once if it is whole, with the place
/// of its first float in the whole, which has `floats`.
fn each_row(rank: &Rank, role: Role, floats: usize, mut visit: impl FnMut(&mut [f32], usize)) {
    let (program, n) = match role {
        Role::Param(n) | Role::State(n, _) => (&rank.program, n as usize),
        _ => return,
    };
    let Some(at) = program.buffers.iter().position(|b| b.role == role) else {
        return;
    };
    let buffer = &program.buffers[at];
    // SAFETY: the rank is locked and does not run.
    let own = unsafe { rank.buffer(BufferId(at as u32)).write() };
    let Some(shard) = program.params[n].shard else {
        return visit(own, 0);
    };
    let Shard { blocks, slice } = shard;
    let (columns, slots) = (buffer.columns as usize, buffer.slots as usize);
    let (rows, whole) = ((blocks * slice.len) as usize, floats / slots.max(1));
    for (n, row) in own.chunks_exact_mut(columns.max(1)).enumerate() {
        let (slot, row_number) = (n / rows, (n % rows) as u32);
        if let Some(place) = shard.whole_row(row_number) {
            visit(row, slot * whole + place as usize * columns);
        }
    }
}

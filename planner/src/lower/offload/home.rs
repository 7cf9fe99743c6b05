//! Tensors that live on the host as long as the program. Lists that only fetch rows of one for batches
//! read them there.

use super::split::rename;
use super::uses::{of, only_fetches, reads_first, uses, writes};
use super::{add, copy};
use gnnc_ir::program::access::Access;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Buffer, BufferId, Program, Ref, Role};

/// Moves a tensor's home to the host. Every list that uses it gets a copy from the first use to the
/// last; returns these copies.
pub(super) fn home(program: &mut Program, id: BufferId) -> Vec<(Phase, BufferId)> {
    let mut copies = Vec::new();
    for phase in Phase::ALL {
        let list = program.list(phase);
        if only_fetches(list, id) {
            continue;
        }
        let found = uses(list, id);
        let (Some([first, _]), Some([_, last])) = (found.first().copied(), found.last().copied())
        else {
            continue;
        };
        let used = &list[first..=last];
        let all: Vec<Access> = used
            .iter()
            .flat_map(|instr| of(instr, program, id))
            .collect();
        let (fetched, stored) = (
            reads_first(all.iter(), false),
            used.iter().any(|instr| writes(instr, id)),
        );
        let here = Buffer {
            role: Role::Temp,
            ..program.buffer(id).clone()
        };
        let here = Ref::first(add(program, here, false));
        copies.push((phase, here.buffer));
        let list = program.list_mut(phase);
        for instr in &mut list[first..=last] {
            rename(instr, id, here.buffer);
        }
        let home = Ref::first(id);
        if stored {
            let store = copy(here, home);
            list.insert(last + 1, store);
        }
        if fetched {
            let fetch = copy(home, here);
            list.insert(first, fetch);
        }
    }
    let place = program.hosted.partition_point(|other| *other < id);
    program.hosted.insert(place, id);
    copies
}

//! Detects programs that cannot fit, whatever is moved.

use super::fit::lacking;
use super::stream::{self, chunked, window};
use super::uses::{each, fetches};
use super::{Means, MemoryBudget, has_home};
use gnnc_ir::program::memory::{Lifetime, lifetimes};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Buffer, BufferId, Capacity, Extent, Instr, Program};

/// Whether some instruction uses more memory than a budget has, whatever is moved with these means.
pub(super) fn hopeless(program: &Program, budgets: &[MemoryBudget], means: Means) -> bool {
    let always: Vec<bool> = lifetimes(program)
        .iter()
        .zip(&program.buffers)
        .map(|(life, buffer)| *life == Lifetime::Always && !has_home(buffer))
        .collect();
    let needs = needs(program, &always, means);
    budgets.iter().any(|budget| {
        let staying = program.buffers.iter().zip(&always);
        let staying = staying.filter(|(_, always)| **always);
        let staying = staying.map(|(buffer, _)| buffer.words(&budget.capacity));
        let staying = staying.fold(0, u64::saturating_add);
        let used = needs.iter().map(|uses| {
            let words = uses.iter().map(|one| one.words(program, &budget.capacity));
            words.fold(staying, u64::saturating_add)
        });
        let most = used.max().unwrap_or(staying);
        lacking(most.saturating_mul(4), budget) > 0
    })
}

/// A buffer that an instruction uses.
struct Need {
    id: BufferId,
    /// Its rows and slots that are present if it is present a chunk at a time.
    chunk: Option<(Extent, u32)>,
}

impl Need {
    /// Its words that are present while the instruction runs.
    fn words(&self, program: &Program, capacity: &Capacity) -> u64 {
        let buffer = program.buffer(self.id);
        let of = |extent: Extent| Buffer {
            name: String::new(),
            extent,
            ..*buffer
        };
        // At least one slot of a stack is used; halo rows may not be needed.
        let whole = of(buffer.extent.without_halo()).slot_words(capacity);
        let chunk = self.chunk.map(|(extent, slots)| {
            let words = of(extent).slot_words(capacity);
            words.saturating_mul(u64::from(slots))
        });
        chunk.map_or(whole, |chunk| chunk.min(whole))
    }
}

/// The buffers each instruction uses, except those that are `always` present or on the host.
fn needs(program: &Program, always: &[bool], means: Means) -> Vec<Vec<Need>> {
    let mut found = Vec::new();
    for phase in Phase::ALL {
        for instr in program.list(phase) {
            let chunk = chunked(instr, program, means);
            leaves(instr, &mut |leaf| {
                let mut ids: Vec<BufferId> = Vec::new();
                each(leaf, &mut |at, _| ids.push(at.buffer));
                ids.sort_unstable();
                ids.dedup();
                ids.retain(|id| {
                    !program.is_hosted(*id) && !always[id.0 as usize] && !fetches(leaf, *id)
                });
                let need = |id| Need {
                    id,
                    chunk: chunk.as_ref().and_then(|(worker, chunk)| {
                        let even = chunk.even?;
                        let fits = stream::by_chunks(worker, program, id, *chunk);
                        let extent = window(program.buffer(id).extent, even, chunk.of);
                        fits.then_some((extent, means.slots()))
                    }),
                };
                found.push(ids.into_iter().map(need).collect());
            });
        }
    }
    found
}

/// Visits an instruction, or the instructions inside a loop.
fn leaves<'a>(instr: &'a Instr, visit: &mut dyn FnMut(&'a Instr)) {
    match instr.body() {
        Some(body) => body.iter().for_each(|instr| leaves(instr, visit)),
        None => visit(instr),
    }
}

//! Room for batches that are larger than those before.

use super::Rank;
use crate::fault::Fault;
use crate::step_context::StepContext;
use gnnc_graph::sample::At;
use gnnc_ir::program::memory::{Layout, layout};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{BatchSizes, BufferId, Capacity, Instr, Program, RankSizes, Role};
use std::collections::BTreeSet;

/// Memory laid out anew.
pub(crate) struct Growth {
    pub(crate) capacity: Capacity,
    pub(crate) layout: Layout,
    /// What buffers keep. Nothing else of them is read before it is written.
    pub(crate) kept: Vec<Kept>,
}

/// Words that move to a new place.
#[derive(Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) words: usize,
}

impl Rank {
    /// The batch that is drawn next.
    pub(crate) fn next_batch(&self, step_context: &StepContext) -> Result<At, Fault> {
        let epoch = u32::try_from(step_context.epoch);
        let number = self.place.batch.unwrap_or(0);
        Ok(match self.place.phase {
            Some(Phase::Eval) => At::evaluation(number),
            Some(Phase::Setup | Phase::Step) | None => At {
                epoch: epoch.map_err(|_| Fault::Missing("that many epochs"))?,
                batch: number,
                step: step_context.draw,
            },
        })
    }

    /// Goes on with a batch of these sizes while `instr` runs. If it does not fit, returns the new layout and what
    /// moves to it.
    ///
    /// # Errors
    /// If no batch is at hand.
    pub(crate) fn fit(
        &mut self,
        sizes: BatchSizes,
        instr: &Instr,
    ) -> Result<Option<Growth>, Fault> {
        self.part.sizes.batch = sizes;
        if sizes.within(&self.capacity.most().batch) {
            return Ok(None);
        }
        let batch = self.part.batches.at_hand_mut();
        let batch = batch.ok_or(Fault::Missing("batches"))?;
        batch.grown += 1;
        let most = self.capacity.most();
        let sizes = RankSizes {
            batch: most.batch.max(&batch.room(sizes)),
            ..*most
        };
        let capacity = Capacity::of(sizes);
        let layout = layout(&self.program, &capacity);
        // Buffers that live as long as the program come first in both, and have the same sizes.
        let mut kept = vec![Kept {
            from: 0,
            to: 0,
            words: (layout.persistent_bytes / 4) as usize,
        }];
        let phase = self.place.phase.unwrap_or(Phase::Step);
        for id in live(&self.program, phase, instr) {
            let buffer = self.program.buffer(id);
            let words = |capacity| buffer.slot_words(capacity) as usize;
            let (before, after) = (words(&self.capacity), words(&capacity));
            for slot in 0..buffer.slots as usize {
                kept.push(Kept {
                    from: self.layout.offsets[id.0 as usize] as usize + slot * before,
                    to: layout.offsets[id.0 as usize] as usize + slot * after,
                    words: before,
                });
            }
        }
        Ok(Some(Growth {
            capacity,
            layout,
            kept,
        }))
    }
}

/// Temporary buffers that hold something while an instruction of a loop over batches runs: those used
/// before and after it, those that a batch reads before it writes them, and those with a slot for each
/// batch under way. No other buffer that is used then shares their memory.
fn live(program: &Program, phase: Phase, at: &Instr) -> BTreeSet<BufferId> {
    let is_temporary = |id: BufferId| program.buffer(id).role == Role::Temp;
    let (mut seen, mut before, mut live) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut passed = false;
    for instr in program.list(phase) {
        let in_batches = instr.body().is_some();
        for instr in inside(instr).iter().flat_map(inside) {
            passed |= instr == at;
            instr.each_access(&mut |used, writes| {
                let id = used.buffer;
                let read_first = seen.insert(id) && in_batches && !writes;
                if !passed {
                    before.insert(id);
                }
                let across = passed && before.contains(&id);
                if is_temporary(id) && (read_first || used.in_loop || across) {
                    live.insert(id);
                }
            });
        }
    }
    live
}

/// What a loop runs, or else the instruction itself.
fn inside(instr: &Instr) -> &[Instr] {
    instr.body().unwrap_or(std::slice::from_ref(instr))
}

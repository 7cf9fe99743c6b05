//! What training needs apart from evaluations, which may be on the whole graph where batches are not.

use gnnc_ir::program::{BufferId, Program, Role};
use std::collections::BTreeSet;

/// A program that only trains, and computes beforehand only what training reads.
pub(super) fn alone(program: &Program) -> Program {
    let mut read = BTreeSet::new();
    let in_loops = program
        .step
        .iter()
        .flat_map(|instr| instr.body().unwrap_or_default());
    for instr in in_loops.chain(&program.step) {
        read.extend(instr.accesses().0.iter().map(|at| at.buffer));
    }
    let mut setup = Vec::new();
    for instr in program.setup.iter().rev() {
        let (needs, writes) = instr.accesses();
        if writes.iter().any(|at| read.contains(&at.buffer)) {
            read.extend(needs.iter().map(|at| at.buffer));
            setup.push(instr.clone());
        }
    }
    setup.reverse();
    let mut buffers = program.buffers.clone();
    for (id, buffer) in (0..).map(BufferId).zip(&mut buffers) {
        if buffer.role == Role::Static && !read.contains(&id) {
            // A temporary buffer that nothing uses has no memory.
            buffer.role = Role::Temp;
        }
    }
    Program {
        setup,
        buffers,
        eval: Vec::new(),
        metrics: None,
        logits: None,
        ..program.clone()
    }
}

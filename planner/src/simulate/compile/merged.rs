//! Launches that a GPU merges into one.

use super::lines::Line;
use super::{Compiler, Step};
use gnnc_ir::cluster::DeviceKind;
use gnnc_ir::program::{Instr, together};

impl Compiler<'_> {
    /// If a GPU merges several instructions, assigns the first one the time of one launch per
    /// kernel, and the others none. Measured costs are unchanged.
    pub(super) fn merge(&self, instrs: &[Instr], lines: &[Line], steps: &mut [Step]) {
        if self.cluster.device.kind != DeviceKind::Gpu || self.costs.is_some() {
            return;
        }
        for found in together(instrs, self.program) {
            let kernels = found.by_kernel();
            let of_class = |class: usize| -> f64 {
                let busy = |at: usize| {
                    let line = &lines[at];
                    let counts = &line.body.first().unwrap_or(line).counts;
                    self.busy(counts, class).unwrap_or(0.0)
                };
                let kernel = |at: &mut dyn Iterator<Item = usize>| -> f64 {
                    let all: f64 = at.map(busy).sum();
                    all.max(self.cluster.launch_floor())
                };
                let kernels = kernels.iter();
                kernels
                    .map(|same| kernel(&mut same.iter().map(|once| once.at)))
                    .sum()
            };
            // They have the same rows on every rank.
            let all = vec![of_class(0); self.shares.len()];
            for (n, step) in steps[found.instrs].iter_mut().enumerate() {
                let share = if n == 0 { 1.0 } else { 0.0 };
                set(step, &all, share);
            }
        }
    }
}

/// Sets the seconds of a computation to `share` times `all`; for a loop, the seconds of all its
/// iterations together.
fn set(step: &mut Step, all: &[f64], share: f64) {
    match step {
        Step::Compute { seconds, .. } => {
            *seconds = all.iter().map(|seconds| share * seconds).collect();
        }
        Step::Loop { count, body, .. } => {
            let share = share / f64::from((*count).max(1));
            body.iter_mut().for_each(|step| set(step, all, share));
        }
        Step::Draw { .. }
        | Step::Transfer { .. }
        | Step::Move { .. }
        | Step::Chunks { .. }
        | Step::Batches { .. }
        | Step::StageMessage { .. } => {}
    }
}

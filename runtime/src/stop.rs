//! Requests to end a long run.

use gnnc_ir::program::{Instr, Program, Role};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// A request to stop training. Clones are the same request.
///
/// Ranks check it between instructions. After an abandoned epoch, what a checkpoint holds is as
/// before. As soon as one rank begins to change that, all ranks finish the epoch. An epoch on sampled
/// batches changes it in every batch and may take long, so it can be abandoned at any time; the
/// session puts back what was there.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether a run checks for the request.
    heard: AtomicBool,
    asked: AtomicBool,
    epoch: AtomicU8,
}

/// The current epoch can still be abandoned.
const OPEN: u8 = 0;
/// A rank has begun to change what checkpoints hold.
const COMMITTED: u8 = 1;
/// The epoch was abandoned.
const STOPPED: u8 = 2;

impl Stop {
    /// Requests a stop.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
    }

    /// Whether a stop was requested.
    pub fn is_asked(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }

    /// Declares that a run checks for the request from now on.
    pub fn listen(&self) {
        self.0.heard.store(true, Ordering::SeqCst);
    }

    /// Whether a run checks for the request.
    pub fn is_heard(&self) -> bool {
        self.0.heard.load(Ordering::SeqCst)
    }

    /// Begins an epoch.
    pub(crate) fn begin(&self) {
        self.0.epoch.store(OPEN, Ordering::SeqCst);
    }

    /// Whether the current epoch was abandoned.
    pub(crate) fn is_given_up(&self) -> bool {
        self.0.epoch.load(Ordering::SeqCst) == STOPPED
    }

    /// Whether a rank may run its next instruction. `changes`: the instruction changes what
    /// checkpoints hold.
    pub(crate) fn goes_on(&self, changes: bool) -> bool {
        if !changes && !self.is_asked() {
            return true;
        }
        let wanted = if changes { COMMITTED } else { STOPPED };
        let state = &self.0.epoch;
        let found = match state.compare_exchange(OPEN, wanted, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => wanted,
            Err(found) => found,
        };
        found == COMMITTED
    }
}

/// Index in `step` of the first instruction that changes what a checkpoint holds, itself or in its
/// body, and that is not taken back if the epoch is abandoned.
pub(crate) fn first_change(program: &Program) -> usize {
    if program.sampling.is_some() {
        return usize::MAX;
    }
    let list = &program.step;
    let place = list.iter().position(|instr| changes(instr, program));
    place.unwrap_or(list.len())
}

fn changes(instr: &Instr, program: &Program) -> bool {
    let mut found = false;
    instr.each_access(&mut |at, write| {
        let role = program.buffer(at.buffer).role;
        found |= write && matches!(role, Role::Param(_) | Role::State(..) | Role::History(_));
    });
    let body = instr.body().unwrap_or_default();
    found || body.iter().any(|instr| changes(instr, program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_all_ranks_change_their_parameters_or_none() {
        let stop = Stop::default();
        assert!(stop.goes_on(false) && stop.goes_on(true));
        stop.ask();
        assert!(stop.goes_on(false), "another rank has begun");
        assert!(stop.goes_on(true) && !stop.is_given_up());
        stop.begin();
        assert!(!stop.goes_on(false) && stop.is_given_up());
        assert!(!stop.goes_on(true), "another rank has given up");
        let late = Stop::default();
        late.begin();
        late.ask();
        assert!(late.goes_on(true) && late.goes_on(false));
    }
}

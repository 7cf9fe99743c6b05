//! Requests to end a long run.

use gnnc_ir::program::{Instr, Program, Role};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// A request to stop training: after the current epoch, or at once. Clones are the same request.
///
/// Ranks check between instructions whether to stop at once. After an abandoned epoch, what a checkpoint holds is as
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
    at_once: AtomicBool,
    /// Number of the current epoch, from 1.
    number: AtomicU64,
    epoch: AtomicU8,
}

/// The current epoch can still be abandoned.
const OPEN: u8 = 0;
/// A rank has begun to change what checkpoints hold.
const COMMITTED: u8 = 1;
/// The epoch was abandoned.
const STOPPED: u8 = 2;

impl Stop {
    /// Requests a stop after the current epoch.
    pub fn ask(&self) {
        self.0.asked.store(true, Ordering::SeqCst);
    }

    /// Requests a stop at once, which may abandon the current epoch.
    pub fn ask_at_once(&self) {
        self.0.at_once.store(true, Ordering::SeqCst);
        self.ask();
    }

    /// Whether a stop at once was requested.
    pub fn is_at_once(&self) -> bool {
        self.0.at_once.load(Ordering::Relaxed)
    }

    /// The number of the current epoch, from 1; 0 before the first.
    pub fn epoch(&self) -> u64 {
        self.0.number.load(Ordering::Relaxed)
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

    /// Begins an epoch of this number, from 1.
    pub(crate) fn begin(&self, number: u64) {
        self.0.number.store(number, Ordering::Relaxed);
        self.0.epoch.store(OPEN, Ordering::SeqCst);
    }

    /// Whether the current epoch was abandoned.
    pub(crate) fn is_given_up(&self) -> bool {
        self.0.epoch.load(Ordering::SeqCst) == STOPPED
    }

    /// Whether a rank may run its next instruction. `changes`: the instruction changes what
    /// checkpoints hold.
    pub(crate) fn goes_on(&self, changes: bool) -> bool {
        if !changes && !self.is_at_once() {
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
        stop.ask_at_once();
        assert!(stop.goes_on(false), "another rank has begun");
        assert!(stop.goes_on(true) && !stop.is_given_up());
        stop.begin(2);
        assert!(!stop.goes_on(false) && stop.is_given_up());
        assert!(!stop.goes_on(true), "another rank has given up");
        let late = Stop::default();
        late.begin(1);
        late.ask_at_once();
        assert!(late.goes_on(true) && late.goes_on(false));
    }

    #[test]
    fn the_first_request_lets_the_epoch_finish_and_the_second_does_not() {
        let stop = Stop::default();
        stop.begin(7);
        stop.ask();
        assert!(stop.is_asked() && stop.goes_on(false) && !stop.is_given_up());
        assert_eq!(stop.epoch(), 7);
        stop.ask_at_once();
        assert!(!stop.goes_on(false) && stop.is_given_up());
    }
}

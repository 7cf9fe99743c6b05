//! Threads that draw batches while a rank trains.

use super::Run;
use std::collections::VecDeque;

/// Batches for each thread that are drawn or wait, besides the one that the rank is trained on (`Launch::Fixed`).
const ASKED: usize = 2;

/// When batches were drawn and taken.
#[derive(Clone, Default)]
pub(super) struct Draws {
    /// When the last batch was drawn, by class.
    done: Vec<f64>,
    /// When the last batches were taken, by class.
    taken: VecDeque<Vec<f64>>,
}

impl Run<'_> {
    /// Takes the next batch, which takes a thread so many seconds to draw, by class. Threads draw the next
    /// batches as soon as they are asked for; the first one is drawn when it is needed, and counts as if one thread drew it. What a rank waits for
    /// counts as computing.
    pub(super) fn draw(&mut self, (name, at): (usize, &str), seconds: &[f64], samplers: u32) {
        let most = 1 + ASKED * samplers as usize;
        let draws = &mut self.state.draws;
        let asked = match draws.taken.len() >= most {
            true => draws.taken.pop_front(),
            false => None,
        };
        let first = draws.done.is_empty();
        let mut ends = Vec::with_capacity(seconds.len());
        for (class, seconds) in seconds.iter().enumerate() {
            let clock = self.state.clock[class];
            let asked = asked.as_ref().map_or(0.0, |times| times[class]);
            let free = draws.done.get(class).copied().unwrap_or(clock);
            let one = if first {
                *seconds
            } else {
                seconds / f64::from(samplers)
            };
            ends.push(free.max(asked) + one);
        }
        draws.done.clone_from(&ends);
        let taken = ends.iter().zip(&self.state.clock);
        let taken: Vec<f64> = taken.map(|(end, clock)| end.max(*clock)).collect();
        draws.taken.push_back(taken.clone());
        self.state.kinds[name].0 += 1;
        for (class, taken) in taken.into_iter().enumerate() {
            let waited = taken - self.state.clock[class];
            self.state.compute[class] += waited;
            self.finish(class, name, at, waited, taken, 0);
        }
    }
}

impl Draws {
    /// Moves all times on by as much as clocks advance, by class.
    pub(super) fn advance(&mut self, by: &[f64]) {
        for times in self.taken.iter_mut().chain([&mut self.done]) {
            times.iter_mut().zip(by).for_each(|(time, by)| *time += by);
        }
    }
}

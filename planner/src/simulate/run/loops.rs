//! Loops: runs iterations until all further ones are alike.

use super::{Run, SAME, State};
use crate::simulate::compile::Step;

impl Run<'_> {
    /// Runs a loop. Durations do not depend on the iteration, so all further iterations are equal
    /// once all clocks advance alike, or if no rank waits for another.
    pub(super) fn repeat(&mut self, count: u32, reverse: bool, body: &[Step]) {
        let outer = self.iteration;
        let mut previous: Option<Vec<f64>> = None;
        let alone = !body.iter().any(Step::communicates);
        for done in 0..count {
            let before = self.state.clone();
            let index = if reverse { count - 1 - done } else { done };
            self.iteration = outer * count + index;
            self.all(body);
            let advance: Vec<f64> = self
                .state
                .clock
                .iter()
                .zip(&before.clock)
                .map(|(after, before)| after - before)
                .collect();
            let steady = alone
                || previous
                    .as_ref()
                    .is_some_and(|previous| alike(previous, &advance));
            if steady && self.events.is_none() {
                self.state.add(&before, count - 1 - done);
                break;
            }
            previous = Some(advance);
        }
        self.iteration = outer;
    }

    /// Runs batches, of which several are under way: in a period, steps with a lag work on the batch so
    /// many periods earlier, if there is one.
    pub(super) fn batches(&mut self, count: u32, phases: &[(u32, Vec<Step>)]) {
        let last = phases.iter().map(|(lag, _)| *lag).max().unwrap_or(0);
        let outer = self.iteration;
        let mut previous: Option<Vec<f64>> = None;
        let mut period = 0;
        while period < count + last {
            let before = self.state.clone();
            for (lag, steps) in phases {
                if let Some(batch) = period.checked_sub(*lag).filter(|batch| *batch < count) {
                    self.iteration = outer + batch;
                    self.all(steps);
                }
            }
            period += 1;
            // Periods with a batch in every phase are alike, once all clocks advance alike.
            if period > last && period < count && self.events.is_none() {
                let now = self.state.clock.iter().zip(&before.clock);
                let advance: Vec<f64> = now.map(|(after, before)| after - before).collect();
                if (previous.as_ref()).is_some_and(|previous| alike(previous, &advance)) {
                    self.state.add(&before, count - period);
                    period = count;
                }
                previous = Some(advance);
            }
        }
        self.iteration = outer;
    }
}

impl State {
    /// Adds `times` times the change since `before`.
    fn add(&mut self, before: &Self, times: u32) {
        let times = f64::from(times);
        let more = |now: &mut [f64], before: &[f64]| {
            for (now, before) in now.iter_mut().zip(before) {
                *now += (*now - before) * times;
            }
        };
        // Those that iterations do not touch were sent before.
        let sent = self.flights.iter_mut();
        let sent = sent.filter(|(tag, flights)| before.flights.get(tag) != Some(flights));
        for flight in sent.flat_map(|(_, flights)| flights) {
            for at in [&mut flight.arrived, &mut flight.ready, &mut flight.end] {
                let advance = self.clock.iter().zip(&before.clock);
                for (at, (now, before)) in at.iter_mut().zip(advance) {
                    *at += (now - before) * times;
                }
            }
        }
        let advance = self.clock.iter().zip(&before.clock);
        let advance: Vec<f64> = advance
            .map(|(now, before)| (now - before) * times)
            .collect();
        self.draws.advance(&advance);
        more(&mut self.clock, &before.clock);
        more(&mut self.compute, &before.compute);
        more(&mut self.floor, &before.floor);
        more(&mut self.communication, &before.communication);
        more(&mut self.network, &before.network);
        for (now, before) in self.host.iter_mut().zip(&before.host) {
            more(now, before);
        }
        for (now, before) in self.kinds.iter_mut().zip(&before.kinds) {
            now.0 += (now.0 - before.0) * times as u64;
            now.1 += (now.1 - before.1) * times;
        }
    }
}

/// Whether every clock advanced by the same amount as in the previous iteration.
fn alike(previous: &[f64], advance: &[f64]) -> bool {
    let first = advance.first().copied().unwrap_or(0.0);
    let near = |x: &f64| (x - first).abs() <= SAME * first.abs();
    previous.iter().chain(advance).all(near)
}

//! Clocks of ranks, advanced instruction by instruction.

use super::PhaseCost;
use super::compile::{ExchangeCost, Name, Step};
use super::fabric::Fabric;
use gnnc_ir::cluster::SharedBy;
use gnnc_ir::plan::KindCost;
use gnnc_ir::trace::{Event, Phase};
use gnnc_ir::units::Seconds;

/// Relative difference below which two iterations of a loop took the same time.
const SAME: f64 = 1e-9;

/// The clocks, and what they were spent on.
pub(super) struct Run<'a> {
    fabric: &'a Fabric,
    names: Vec<Name>,
    state: State,
    events: Option<Tracing>,
    iteration: u32,
}

#[derive(Clone)]
struct State {
    /// By class.
    clock: Vec<f64>,
    /// By class.
    compute: Vec<f64>,
    /// By class.
    communication: Vec<f64>,
    /// By name: instructions of a rank, and seconds summed over the ranks.
    kinds: Vec<(u64, f64)>,
}

/// Events that are kept.
struct Tracing {
    events: Vec<Event>,
    phase: Phase,
    /// Events of the ranks below are kept.
    ranks: u32,
}

impl<'a> Run<'a> {
    pub fn new(fabric: &'a Fabric, names: Vec<Name>) -> Self {
        let zeros = vec![0.0; fabric.classes.len()];
        let state = State {
            clock: zeros.clone(),
            compute: zeros.clone(),
            communication: zeros,
            kinds: vec![(0, 0.0); names.len()],
        };
        Self {
            fabric,
            names,
            state,
            events: None,
            iteration: 0,
        }
    }

    pub fn tracing(fabric: &'a Fabric, names: Vec<Name>, phase: Phase, ranks: u32) -> Self {
        let events = Vec::new();
        Self {
            events: Some(Tracing {
                events,
                phase,
                ranks,
            }),
            ..Self::new(fabric, names)
        }
    }

    /// Lets all ranks wait.
    pub fn wait(&mut self, seconds: f64) {
        self.state
            .clock
            .iter_mut()
            .for_each(|clock| *clock += seconds);
    }

    pub fn all(&mut self, steps: &[Step]) {
        for step in steps {
            self.one(step);
        }
    }

    /// The events, rank after rank.
    pub fn into_events(self) -> Vec<Event> {
        let mut events = self.events.map_or_else(Vec::new, |tracing| tracing.events);
        events.sort_by_key(|event| event.rank);
        events
    }

    pub fn cost(&self) -> PhaseCost {
        let ranks = f64::from(self.fabric.ranks);
        let mean = |by_class: &[f64]| -> f64 {
            let weighted = by_class.iter().zip(&self.fabric.classes);
            weighted
                .map(|(seconds, class)| seconds * class.ranks.len() as f64)
                .sum::<f64>()
                / ranks
        };
        let end = self.state.clock.iter().copied().fold(0.0, f64::max);
        let (compute, communication) = (mean(&self.state.compute), mean(&self.state.communication));
        let mut breakdown: Vec<KindCost> = (self.names.iter().zip(&self.state.kinds))
            .filter(|(_, (count, _))| *count > 0)
            .map(|(name, (count, seconds))| KindCost {
                name: name.text.to_owned(),
                count: *count,
                seconds: Seconds(seconds / ranks),
            })
            .collect();
        breakdown.sort_by(|a, b| {
            b.seconds
                .0
                .total_cmp(&a.seconds.0)
                .then_with(|| a.name.cmp(&b.name))
        });
        PhaseCost {
            seconds: Seconds(end),
            compute_seconds: Seconds(compute),
            exposed_communication_seconds: Seconds(communication),
            bubble_seconds: Seconds((end - compute - communication).max(0.0)),
            breakdown,
            ..PhaseCost::default()
        }
    }

    fn one(&mut self, step: &Step) {
        match step {
            Step::Compute { at, name, seconds } => {
                self.state.kinds[*name].0 += 1;
                for (class, &seconds) in seconds.iter().enumerate() {
                    let end = self.state.clock[class] + seconds;
                    self.state.compute[class] += seconds;
                    self.finish(class, *name, at, seconds, end, 0);
                }
            }
            Step::Exchange {
                at,
                name,
                costs,
                shared,
            } => {
                self.state.kinds[*name].0 += 1;
                for (class, (begin, end)) in self.exchange(costs, shared).into_iter().enumerate() {
                    let ExchangeCost {
                        before,
                        after,
                        bytes_sent,
                        ..
                    } = costs[class];
                    let busy = before + (end - begin) + after;
                    self.state.communication[class] += busy;
                    self.finish(class, *name, at, busy, end + after, bytes_sent);
                }
            }
            Step::Collective {
                at,
                name,
                seconds,
                bytes_sent,
            } => {
                self.state.kinds[*name].0 += 1;
                if *seconds > 0.0 {
                    let end = self.state.clock.iter().copied().fold(0.0, f64::max) + seconds;
                    for class in 0..self.state.clock.len() {
                        self.state.communication[class] += seconds;
                        self.finish(class, *name, at, *seconds, end, *bytes_sent);
                    }
                }
            }
            Step::Loop {
                count,
                reverse,
                body,
            } => self.repeat(*count, *reverse, body),
        }
    }

    /// Begin and end of the messages of an exchange, by class. An exchange begins for a rank
    /// when it and all ranks that it exchanges rows with have arrived.
    fn exchange(&self, costs: &[ExchangeCost], shared: &[SharedBy; 2]) -> Vec<(f64, f64)> {
        let classes = &self.fabric.classes;
        let arrived: Vec<f64> = self
            .state
            .clock
            .iter()
            .zip(costs)
            .map(|(t, c)| t + c.before)
            .collect();
        let latest = arrived.iter().copied().fold(0.0, f64::max);
        let begin: Vec<f64> = (0..classes.len())
            .map(|class| match &classes[class].peers[..] {
                _ if !costs[class].active => arrived[class],
                [] => latest,
                peers => peers
                    .iter()
                    .map(|&p| arrived[p])
                    .fold(arrived[class], f64::max),
            })
            .collect();
        // When the links have passed on what a rank sends, and what it receives.
        let drained = |direction: usize| -> Vec<f64> {
            let ready = |class: usize| begin[class] + costs[class].latency;
            let mut ends: Vec<f64> = (0..classes.len()).map(ready).collect();
            for (level, shared) in shared.iter().enumerate() {
                let busy = |class: usize| match level {
                    0 => costs[class].inside[direction],
                    _ => costs[class].between[direction],
                };
                match shared {
                    SharedBy::Rank => {
                        for (class, end) in ends.iter_mut().enumerate() {
                            *end = end.max(ready(class) + busy(class));
                        }
                    }
                    SharedBy::Node => {
                        for node in &self.fabric.nodes {
                            let end = last_served(&node.members, &ready, &busy);
                            for &(class, _) in
                                node.members.iter().filter(|(class, _)| busy(*class) > 0.0)
                            {
                                ends[class] = ends[class].max(end);
                            }
                        }
                    }
                }
            }
            ends
        };
        let (sent, received) = (drained(0), drained(1));
        let last_sent = sent.iter().copied().fold(0.0, f64::max);
        let end = |class: usize| {
            if !costs[class].active {
                return begin[class];
            }
            // A message is there when its sender's link has passed it on.
            let from_others = match &classes[class].peers[..] {
                [] => last_sent,
                peers => peers.iter().map(|&p| sent[p]).fold(0.0, f64::max),
            };
            sent[class].max(received[class]).max(from_others)
        };
        (0..classes.len())
            .map(|class| (begin[class], end(class)))
            .collect()
    }

    /// Runs a loop. Durations do not depend on the iteration, so every further iteration is the
    /// same once all clocks advance alike, or if no rank waits for another.
    fn repeat(&mut self, count: u32, reverse: bool, body: &[Step]) {
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

    /// Ends an instruction on the ranks of a class; `busy` is what it took without waiting.
    fn finish(
        &mut self,
        class: usize,
        name: usize,
        at: &str,
        busy: f64,
        end: f64,
        bytes_sent: u64,
    ) {
        let begin = std::mem::replace(&mut self.state.clock[class], end);
        let ranks = &self.fabric.classes[class].ranks;
        self.state.kinds[name].1 += busy * ranks.len() as f64;
        let (iteration, name) = (self.iteration, self.names[name]);
        if let Some(Tracing {
            events,
            phase,
            ranks: limit,
        }) = &mut self.events
        {
            let phase = *phase;
            events.extend(
                ranks
                    .iter()
                    .filter(|rank| *rank < limit)
                    .map(|&rank| Event {
                        rank,
                        phase,
                        epoch: u64::from(phase != Phase::Setup),
                        at: at.to_owned(),
                        iteration,
                        name: name.text.to_owned(),
                        resource: name.resource,
                        begin_us: begin * 1e6,
                        end_us: end * 1e6,
                        bytes_sent,
                    }),
            );
        }
    }
}

impl State {
    /// Adds `times` times what changed since `before`.
    fn add(&mut self, before: &Self, times: u32) {
        let times = f64::from(times);
        let more = |now: &mut [f64], before: &[f64]| {
            for (now, before) in now.iter_mut().zip(before) {
                *now += (*now - before) * times;
            }
        };
        more(&mut self.clock, &before.clock);
        more(&mut self.compute, &before.compute);
        more(&mut self.communication, &before.communication);
        for (now, before) in self.kinds.iter_mut().zip(&before.kinds) {
            now.0 += (now.0 - before.0) * times as u64;
            now.1 += (now.1 - before.1) * times;
        }
    }
}

/// When a shared link has served all ranks of a node, in the order in which they are ready.
fn last_served(
    members: &[(usize, u32)],
    ready: &impl Fn(usize) -> f64,
    busy: &impl Fn(usize) -> f64,
) -> f64 {
    let using = || members.iter().filter(|(class, _)| busy(*class) > 0.0);
    let from = |start: f64| -> f64 {
        let later = using().filter(|(class, _)| ready(*class) >= start);
        start
            + later
                .map(|(class, count)| busy(*class) * f64::from(*count))
                .sum::<f64>()
    };
    using()
        .map(|(class, _)| from(ready(*class)))
        .fold(0.0, f64::max)
}

/// Whether every clock advanced by the same, and by as much as in the iteration before.
fn alike(previous: &[f64], advance: &[f64]) -> bool {
    let first = advance.first().copied().unwrap_or(0.0);
    let near = |x: &f64| (x - first).abs() <= SAME * first.abs();
    previous.iter().chain(advance).all(near)
}

//! Clocks of ranks, advanced instruction by instruction.

mod draws;
mod loops;

use super::PhaseCost;
use super::compile::{Half, Name, Step, TransferCost};
use super::fabric::Fabric;
use super::network::{Flight, begin};
use draws::Draws;
use gnnc_ir::plan::KindCost;
use gnnc_ir::program::trace::{Event, Peer, Phase};
use gnnc_ir::words::units::Seconds;
use std::collections::{BTreeMap, VecDeque};

/// Relative difference below which two iterations of a loop count as equally long.
const SAME: f64 = 1e-9;

/// The clocks, and how their time was spent.
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
    /// What of that are kernels that take no longer than to start them, by class.
    floor: Vec<f64>,
    /// By class.
    communication: Vec<f64>,
    /// When the links of a class have delivered everything sent, by class.
    network: Vec<f64>,
    /// When the links to and from the host are free, by class.
    host: [Vec<f64>; 2],
    /// When copies in flight between rank and host are done, by tag and class.
    copies: BTreeMap<u32, Vec<f64>>,
    /// What the threads that draw batches do.
    draws: Draws,
    /// Messages in flight, by tag.
    flights: BTreeMap<u32, VecDeque<Flight>>,
    /// By name: instructions per rank, and seconds summed over ranks.
    kinds: Vec<(u64, f64)>,
}

/// Recorded events.
struct Tracing {
    events: Vec<Event>,
    phase: Phase,
    /// Only events of lower ranks are recorded.
    ranks: u32,
    /// The ranks' stage.
    stage: u32,
    /// The stage at the other end of the current message, and whether this one sends it.
    other: Option<(u32, bool)>,
}

/// The rest of a time, of which so much was spent on something; nothing if it is as small as rounding.
pub(super) fn waited(end: f64, busy: f64) -> Seconds {
    let rest = end - busy;
    Seconds(if rest > SAME * end { rest } else { 0.0 })
}

impl<'a> Run<'a> {
    pub fn new(fabric: &'a Fabric, names: Vec<Name>) -> Self {
        let zeros = vec![0.0; fabric.classes.len()];
        let state = State {
            clock: zeros.clone(),
            compute: zeros.clone(),
            floor: zeros.clone(),
            communication: zeros.clone(),
            host: [zeros.clone(), zeros.clone()],
            copies: BTreeMap::new(),
            draws: Draws::default(),
            network: zeros,
            flights: BTreeMap::new(),
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

    /// Records the events of ranks below `ranks`; the run is that of the ranks of `stage`.
    pub fn tracing(
        fabric: &'a Fabric,
        names: Vec<Name>,
        phase: Phase,
        ranks: u32,
        stage: u32,
    ) -> Self {
        let events = Vec::new();
        Self {
            events: Some(Tracing {
                events,
                phase,
                ranks,
                stage,
                other: None,
            }),
            ..Self::new(fabric, names)
        }
    }

    /// Advances all clocks.
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

    /// The events, sorted by rank.
    pub fn into_events(self) -> Vec<Event> {
        let mut events = self.events.map_or_else(Vec::new, |tracing| tracing.events);
        events.sort_by_key(|event| event.rank);
        events
    }

    /// When the last rank has finished.
    pub fn seconds(&self) -> f64 {
        self.state.clock.iter().copied().fold(0.0, f64::max)
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
        let end = self.seconds();
        let (compute, communication) = (mean(&self.state.compute), mean(&self.state.communication));
        let floor = mean(&self.state.floor);
        // Both halves of a communication have the same name.
        let mut kinds: BTreeMap<&str, (u64, f64)> = BTreeMap::new();
        for (name, (count, seconds)) in self.names.iter().zip(&self.state.kinds) {
            let kind = kinds.entry(name.text).or_default();
            *kind = (kind.0 + count, kind.1 + seconds);
        }
        let mut breakdown: Vec<KindCost> = kinds
            .into_iter()
            .filter(|(_, (count, _))| *count > 0)
            .map(|(name, (count, seconds))| KindCost {
                name: name.to_owned(),
                count,
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
            floor_seconds: Seconds(floor),
            exposed_communication_seconds: Seconds(communication),
            bubble_seconds: waited(end, compute + communication),
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
                    if seconds <= self.fabric.floor {
                        self.state.floor[class] += seconds;
                    }
                    self.finish(class, *name, at, seconds, end, 0);
                }
            }
            Step::Transfer {
                at,
                name,
                half,
                cost,
            } => match half {
                Half::Whole => {
                    let flight = self.begin(cost);
                    self.state.kinds[*name].0 += 1;
                    self.land(&flight, cost, (*name, at), true);
                }
                Half::Begin(tag) => {
                    let flight = self.begin(cost);
                    for class in 0..self.state.clock.len() {
                        let handling = cost.handling(class);
                        let busy = cost.before(class) + handling;
                        let end = flight.arrived[class] + handling;
                        self.state.communication[class] += busy;
                        self.finish(class, *name, at, busy, end, cost.bytes_sent(class)[0]);
                    }
                    let flights = self.state.flights.entry(*tag).or_default();
                    flights.push_back(flight);
                }
                Half::Finish(tag) => {
                    self.state.kinds[*name].0 += 1;
                    let flights = self.state.flights.get_mut(tag);
                    if let Some(flight) = flights.and_then(VecDeque::pop_front) {
                        self.land(&flight, cost, (*name, at), false);
                    }
                }
            },
            Step::Move {
                at,
                name,
                half,
                out,
                seconds,
            } => self.copy((*name, at), *half, usize::from(*out), seconds),
            Step::Draw {
                at,
                name,
                seconds,
                samplers,
            } => self.draw((*name, at), seconds, *samplers),
            Step::Loop {
                count,
                reverse,
                body,
            } => self.repeat(*count, *reverse, body),
            Step::Batches { count, phases } => self.batches(*count, phases),
            Step::Chunks { count, bodies } => match &bodies[..] {
                [body] => self.repeat(*count, false, body),
                bodies => bodies.iter().for_each(|body| self.all(body)),
            },
            // Between stages: see `stages`.
            Step::StageMessage { .. } => {}
        }
    }

    /// Copies between ranks and hosts. Each direction runs one copy after another, concurrently
    /// with everything else.
    fn copy(&mut self, (name, at): (usize, &str), half: Half, way: usize, seconds: &[f64]) {
        if !matches!(half, Half::Begin(_)) {
            self.state.kinds[name].0 += 1;
        }
        let known = match half {
            Half::Finish(tag) => self.state.copies.remove(&tag),
            Half::Whole | Half::Begin(_) => None,
        };
        let mut ends = Vec::with_capacity(seconds.len());
        for (class, &seconds) in seconds.iter().enumerate() {
            let clock = self.state.clock[class];
            let end = match &known {
                Some(ends) => ends[class],
                None => {
                    let free = &mut self.state.host[way][class];
                    *free = clock.max(*free) + seconds;
                    *free
                }
            };
            ends.push(end);
            if let Half::Begin(_) = half {
                self.event(class, name, at, (clock, end), 0);
                continue;
            }
            let waited = (end - clock).max(0.0);
            self.state.communication[class] += waited;
            self.finish(class, name, at, waited, clock + waited, 0);
        }
        if let Half::Begin(tag) = half {
            self.state.copies.insert(tag, ends);
        }
    }

    /// Sends the messages of a communication.
    fn begin(&mut self, cost: &TransferCost) -> Flight {
        let State { clock, network, .. } = &mut self.state;
        begin(self.fabric, cost, clock, network)
    }

    /// Waits for the messages of a communication and unpacks them; `whole` if the same instruction
    /// includes packing.
    fn land(
        &mut self,
        flight: &Flight,
        cost: &TransferCost,
        (name, at): (usize, &str),
        whole: bool,
    ) {
        let classes = 0..self.state.clock.len();
        let here = |clock: f64, class: usize| match whole {
            true => flight.arrived[class],
            false => clock,
        };
        let landed: Vec<f64> = classes
            .clone()
            .map(|class| here(self.state.clock[class], class).max(flight.end[class]))
            .collect();
        let last = landed.iter().copied().fold(0.0, f64::max);
        if cost.together() {
            let end = last + cost.after(0);
            self.state.network.iter_mut().for_each(|t| *t = t.max(end));
        }
        for class in classes {
            let here = here(self.state.clock[class], class);
            let exposed = (landed[class] - here.max(flight.ready[class])).max(0.0);
            let (packing, [first, second]) = match whole {
                true => (cost.before(class), cost.bytes_sent(class)),
                false => (0.0, [0, cost.bytes_sent(class)[1]]),
            };
            let busy = packing + exposed + cost.after(class);
            self.state.communication[class] += busy;
            let end = if cost.together() { last } else { landed[class] };
            self.finish(
                class,
                name,
                at,
                busy,
                end + cost.after(class),
                first + second,
            );
        }
    }

    /// Runs one step in an iteration.
    pub fn step(&mut self, step: &Step, iteration: u32) {
        let outer = std::mem::replace(&mut self.iteration, iteration);
        self.one(step);
        self.iteration = outer;
    }

    /// Packs rows for another stage without waiting, or unpacks rows from one. `arrived` has, for
    /// each class, when the rows were sent and when they arrived; rows that arrived earlier take
    /// the second of the two times. `handling` are seconds of the processor for what crosses while it computes. Returns when
    /// the rows of the classes are packed or unpacked.
    pub fn stage_message(
        &mut self,
        (name, at): (usize, &str),
        with: u32,
        iteration: u32,
        packing: &[[f64; 2]],
        [handling, bytes]: [&[f64]; 2],
        arrived: Option<&[[f64; 2]]>,
    ) -> Vec<f64> {
        let outer = std::mem::replace(&mut self.iteration, iteration);
        self.state.kinds[name].0 += 1;
        self.other(Some((with, arrived.is_none())));
        let mut ends = Vec::with_capacity(packing.len());
        for (class, &[fresh, lain]) in packing.iter().enumerate() {
            let clock = self.state.clock[class];
            let [sent, there] = arrived.map_or([clock; 2], |arrived| arrived[class]);
            let late = arrived.is_some() && there > clock;
            let waits = arrived.is_none() || late;
            let packing = if waits { fresh } else { lain };
            let handling = if late { 0.0 } else { handling[class] };
            let exposed = (there - clock.max(sent)).max(0.0);
            let busy = exposed + packing + handling;
            self.state.communication[class] += busy;
            let sends = if arrived.is_none() { bytes[class] } else { 0.0 };
            let end = clock.max(there) + packing;
            ends.push(end);
            let end = end + handling;
            self.finish(class, name, at, busy, end, sends.round() as u64);
        }
        self.iteration = outer;
        self.other(None);
        ends
    }

    fn other(&mut self, other: Option<(u32, bool)>) {
        if let Some(tracing) = &mut self.events {
            tracing.other = other;
        }
    }

    /// Ends an instruction on the ranks of a class; `busy` is its time without waiting.
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
        let ranks = self.fabric.classes[class].ranks.len();
        self.state.kinds[name].1 += busy * ranks as f64;
        self.event(class, name, at, (begin, end), bytes_sent);
    }

    /// Records an event of the ranks of a class.
    fn event(
        &mut self,
        class: usize,
        name: usize,
        at: &str,
        (begin, end): (f64, f64),
        bytes_sent: u64,
    ) {
        let ranks = &self.fabric.classes[class].ranks;
        let (iteration, name) = (self.iteration, self.names[name]);
        if let Some(Tracing {
            events,
            phase,
            ranks: limit,
            stage,
            other,
        }) = &mut self.events
        {
            let (phase, stage, width) = (*phase, *stage, self.fabric.ranks);
            let peer = |rank: u32| {
                let (other, sends) = (*other)?;
                let peer = other * width + rank % width.max(1);
                Some(match sends {
                    true => Peer::To(peer),
                    false => Peer::From(peer),
                })
            };
            events.extend(
                ranks
                    .iter()
                    .map(|rank| rank + stage * width)
                    .filter(|rank| rank < limit)
                    .map(|rank| Event {
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
                        stage,
                        peer: peer(rank),
                        // Decisions based on values are unknown before a run.
                        decision: None,
                    }),
            );
        }
    }
}

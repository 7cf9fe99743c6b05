//! Runs instruction lists: ranks in turns, each until it needs a message that no rank has sent yet, so that
//! events are recorded before anything waits for them.

use super::communicate::Act;
use super::driver::{Captured, DriverError, Event, Stream};
use super::gpu::Gpu;
use super::launch::Stop;
use super::mail::Mail;
use super::moments::Moments;
use super::station::Station;
use crate::Failure;
use crate::moment::Moment;
use crate::rank::Run;
use crate::steps::{Step, Steps};
use gnnc_ir::program::{Instr, Program};
use gnnc_ir::trace::Phase;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// All ranks of a device.
pub(super) struct Device {
    pub(super) gpu: Gpu,
    pub(super) stations: Vec<Station>,
    pub(super) moments: Moments,
    pub(super) mail: Mail,
    /// Where ranks begin.
    pub(super) fork: Event,
    /// Where each stream of the ranks ends, in order of the ranks.
    pub(super) joins: Vec<Event>,
    pub(super) began: Instant,
    /// Timed events, used again in every run.
    pub(super) timed: Vec<Event>,
    pub(super) lists: BTreeMap<&'static str, List>,
    pub(super) failed: Option<Failure>,
}

/// An instruction list that was run.
#[derive(Default)]
pub(super) struct List {
    captured: Option<Captured>,
    /// What each rank sends, and copies from and to its host, in a run.
    sent: Vec<[u64; 2]>,
    ran: bool,
}

/// A rank on its way through a list.
struct Turn<'a> {
    steps: Steps<'a>,
    at_hand: Option<Step<'a>>,
    acts: VecDeque<Act>,
    begun: Option<(Event, u64)>,
    done: bool,
    phase: Phase,
    /// The place in the list up to which instructions were launched together.
    merged: usize,
    times: Vec<Timed<'a>>,
}

/// How far a piece of a communication went.
enum Done {
    /// It waits.
    Not(Box<Act>),
    /// It is done; these come next.
    Then(Vec<Act>),
}

/// An instruction between two timed events.
struct Timed<'a> {
    step: Step<'a>,
    path: Vec<usize>,
    begin: Event,
    end: Event,
    sent: u64,
}

/// Whether a list is put on the streams in the same way in every epoch.
fn same_always(program: &Program, list: &[Instr]) -> bool {
    let mut skips = false;
    gnnc_ir::traffic::for_each_skip(list, &mut |_, _, _| skips = true);
    program.pipeline.is_none() && !skips
}

impl Device {
    /// Runs a list on all ranks and waits for it.
    ///
    /// # Errors
    /// The first failure, now and in all later calls.
    pub(super) fn run(&mut self, phase: Phase, moment: &Moment) -> Result<(), Failure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        let outcome = self.phase(phase, moment);
        self.failed = outcome.as_ref().err().cloned();
        outcome
    }

    /// Lets every process have what the one with rank `from` has.
    pub(super) fn tell(&mut self, from: u32, floats: &mut [f32]) -> Result<(), Failure> {
        let ranks = self.stations.first().map_or(0, |s| s.own.program.ranks);
        if self.stations.len() == ranks as usize {
            return Ok(());
        }
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        let Self { gpu, mail, .. } = self;
        let told = mail.spread(gpu, from, ranks, floats);
        told.map_err(|error| {
            let failure = self.failure(Phase::Step, error);
            self.failed = Some(failure.clone());
            failure
        })
    }

    fn phase(&mut self, phase: Phase, moment: &Moment) -> Result<(), Failure> {
        let mut stale = Vec::with_capacity(self.stations.len());
        for station in &mut self.stations {
            station.flagged.clear();
            let begun = station.own.begin(phase, moment);
            stale.push(begun.map_err(|fault| station.own.failure(fault.to_string()))?);
        }
        self.begin(moment)
            .map_err(|error| self.failure(phase, error))?;
        let name = phase_name(phase);
        let captured = self.lists.get(name).and_then(|list| list.captured);
        match captured {
            Some(captured) => {
                let main = self.gpu.main;
                let replayed = self.gpu.driver.replay(main, captured);
                replayed.map_err(|error| self.failure(phase, error))?;
                let sent = self.lists.get(name).map_or(&[][..], |list| &list.sent[..]);
                for (station, [sent, moved]) in self.stations.iter_mut().zip(sent) {
                    station.sent += sent;
                    station.own.moved += moved;
                }
                self.finish(phase)?;
            }
            None => self.enqueue(phase, moment, name)?,
        }
        for (station, stale) in self.stations.iter_mut().zip(&stale) {
            station.own.staleness.add(stale);
        }
        Ok(())
    }

    /// Copies what kernels read anew.
    fn begin(&mut self, moment: &Moment) -> Result<(), DriverError> {
        self.mail.begin();
        let Self { gpu, moments, .. } = self;
        moments.upload(&mut *gpu.driver, gpu.main, moment)
    }

    /// Puts a list on the streams, and keeps it for the next time if it is always the same. It is run once
    /// before that, since libraries may not be used for the first time while work is captured.
    fn enqueue(
        &mut self,
        phase: Phase,
        moment: &Moment,
        name: &'static str,
    ) -> Result<(), Failure> {
        let programs: Vec<Arc<Program>> = self
            .stations
            .iter()
            .map(|station| station.own.program.shared().clone())
            .collect();
        let traced = self.stations.iter().any(|s| s.own.events.is_some());
        let ran = self.lists.get(name).is_some_and(|list| list.ran);
        let same = programs.iter().all(|p| same_always(p, p.list(phase)));
        let captures = ran && same && !traced && phase != Phase::Setup;
        let bytes = |station: &Station| [station.sent, station.own.moved];
        let before: Vec<[u64; 2]> = self.stations.iter().map(bytes).collect();
        let (main, offset) = (self.gpu.main, self.began.elapsed().as_secs_f64() * 1e6);
        let failed = |device: &Self, error| device.failure(phase, error);
        if captures {
            let begun = self.gpu.driver.capture(main);
            begun.map_err(|error| failed(self, error))?;
        }
        let start = match traced {
            true => Some(self.timed(0).map_err(|error| failed(self, error))?),
            false => None,
        };
        self.fork(start).map_err(|error| failed(self, error))?;
        let times = self.turns(&programs, phase, moment, traced)?;
        self.join().map_err(|error| failed(self, error))?;
        let mut captured = None;
        if captures {
            let ended = self.gpu.driver.captured(main);
            let work = ended.map_err(|error| failed(self, error))?;
            let replayed = self.gpu.driver.replay(main, work);
            replayed.map_err(|error| failed(self, error))?;
            captured = Some(work);
        }
        self.finish(phase)?;
        if let Some(start) = start {
            let noted = self.note(times, (start, offset), moment);
            noted.map_err(|error| failed(self, error))?;
        }
        let after = self.stations.iter().zip(before);
        let sent = after.map(|(station, before)| {
            let [sent, moved] = bytes(station);
            [sent - before[0], moved - before[1]]
        });
        let list = List {
            captured,
            sent: sent.collect(),
            ran: true,
        };
        self.lists.insert(name, list);
        Ok(())
    }

    /// Lets all streams begin after the one that ranks share.
    fn fork(&mut self, start: Option<Event>) -> Result<(), DriverError> {
        let Gpu { driver, main, .. } = &mut self.gpu;
        if let Some(start) = start {
            driver.record(start, *main)?;
        }
        for station in &self.stations {
            if station.flag_bytes > 0 {
                driver.clear(*main, station.flags, station.flag_bytes)?;
            }
        }
        driver.record(self.fork, *main)?;
        for stream in streams(&self.stations) {
            driver.wait(stream, self.fork)?;
        }
        Ok(())
    }

    /// Lets the stream that ranks share wait for all others.
    fn join(&mut self) -> Result<(), DriverError> {
        let Gpu { driver, main, .. } = &mut self.gpu;
        for (stream, event) in streams(&self.stations).zip(&self.joins) {
            driver.record(*event, stream)?;
            driver.wait(*main, *event)?;
        }
        Ok(())
    }

    /// Waits for everything, and looks for what kernels found wrong.
    fn finish(&mut self, phase: Phase) -> Result<(), Failure> {
        let main = self.gpu.main;
        let over = self.gpu.driver.synchronize(main);
        over.map_err(|error| self.failure(phase, error))?;
        for place in 0..self.stations.len() {
            let station = &self.stations[place];
            let mut flags = vec![0; 4 * station.flagged.len()];
            if flags.is_empty() {
                continue;
            }
            let read = self.gpu.driver.download(main, station.flags, &mut flags);
            read.map_err(|error| self.failure(phase, error))?;
            let raised = flags.chunks_exact(4).position(|flag| flag != [0; 4]);
            let flagged = &self.stations[place].flagged;
            if let Some(failure) = raised.and_then(|n| flagged.get(n)) {
                return Err(failure.clone());
            }
        }
        Ok(())
    }

    /// Lets ranks take turns until all are at the end.
    fn turns<'a>(
        &mut self,
        programs: &'a [Arc<Program>],
        phase: Phase,
        moment: &Moment,
        traced: bool,
    ) -> Result<Vec<Vec<Timed<'a>>>, Failure> {
        let begin = |(station, program): (&Station, &'a Arc<Program>)| Turn {
            steps: station.own.steps(program, phase),
            at_hand: None,
            acts: VecDeque::new(),
            begun: None,
            done: false,
            phase,
            merged: 0,
            times: Vec::new(),
        };
        let mut turns: Vec<Turn> = self.stations.iter().zip(programs).map(begin).collect();
        let mut used = 1;
        while turns.iter().any(|turn| !turn.done) {
            let mut moved = false;
            for (place, turn) in turns.iter_mut().enumerate() {
                let went = self.turn(place, turn, moment, traced.then_some(&mut used));
                moved |= went.map_err(|stop| self.stations[place].own.failure(stop.to_string()))?;
            }
            if !moved {
                let waits = turns.iter().position(|turn| !turn.done).unwrap_or(0);
                let reason =
                    "it waits for a message that no rank sends; the ranks run other programs";
                return Err(self.stations[waits].own.failure(reason.to_owned()));
            }
        }
        if !self.mail.is_empty() {
            let reason = "messages are left over that no rank takes; the ranks run other programs";
            return Err(self.stations[0].own.failure(reason.to_owned()));
        }
        Ok(turns.into_iter().map(|turn| turn.times).collect())
    }

    /// Goes on with a rank as far as it can; whether it did anything.
    fn turn(
        &mut self,
        place: usize,
        turn: &mut Turn,
        moment: &Moment,
        mut timed: Option<&mut usize>,
    ) -> Result<bool, Stop> {
        let mut moved = false;
        loop {
            if let Some(step) = turn.at_hand {
                while let Some(act) = turn.acts.pop_front() {
                    match self.act(place, act)? {
                        Done::Not(act) => {
                            turn.acts.push_front(*act);
                            return Ok(moved);
                        }
                        Done::Then(acts) => {
                            acts.into_iter()
                                .rev()
                                .for_each(|act| turn.acts.push_front(act));
                        }
                    }
                    moved = true;
                }
                if let (Some(used), Some((begin, sent))) = (&mut timed, turn.begun.take()) {
                    let on = self.stations[place].stream_of(step.instr);
                    let end = self.mark(used, on)?;
                    turn.times.push(Timed {
                        step,
                        path: turn.steps.path().collect(),
                        begin,
                        end,
                        sent: self.stations[place].sent - sent,
                    });
                }
                turn.at_hand = None;
            }
            let Some(step) = turn.steps.next() else {
                moved |= !turn.done;
                turn.done = true;
                return Ok(moved);
            };
            moved = true;
            turn.at_hand = Some(step);
            let station = &mut self.stations[place];
            station.own.at(&step, turn.steps.path());
            let (on, sent) = (station.streams.compute, station.sent);
            if let Some(used) = &mut timed {
                turn.begun = Some((self.mark(used, on)?, sent));
            }
            let Self {
                gpu,
                stations,
                moments,
                ..
            } = self;
            let station = &mut stations[place];
            let at = turn.steps.path().next().unwrap_or(0);
            if at < turn.merged {
                continue;
            }
            if let Some(end) = station.launch_merged(gpu, (turn.phase, at), moments)? {
                turn.merged = end;
                continue;
            }
            match station.acts(gpu, &step, moment)? {
                Some(acts) => turn.acts = acts.into(),
                None => station.compute(gpu, &step, moment, moments)?,
            }
        }
    }

    /// Does a piece of a communication, unless it needs what no rank has sent yet.
    fn act(&mut self, place: usize, act: Act) -> Result<Done, Stop> {
        let Self {
            gpu,
            stations,
            mail,
            ..
        } = self;
        let station = &mut stations[place];
        let (rank, streams) = (station.own.number, station.streams);
        let mut then = Vec::new();
        match act {
            Act::Send(round) => {
                let from = (rank, streams, station.computed);
                station.sent += mail.send(gpu, from, &round)?;
                let packed = station.packed(gpu, round.tag)?;
                gpu.driver.record(packed, streams.messages)?;
            }
            Act::Packed(tag) => {
                let packed = station.packed(gpu, tag)?;
                gpu.driver.wait(streams.compute, packed)?;
            }
            Act::Land(landing) => {
                if !mail.land(gpu, (rank, streams.compute), &landing)? {
                    return Ok(Done::Not(Box::new(Act::Land(landing))));
                }
            }
            Act::Put(from, to, write) => gpu.put(streams.compute, &from, &to, write)?,
            Act::Tell(tag, to, number) => {
                mail.tell(rank, to, tag, number);
                station.sent += 4;
            }
            Act::Hear(hearing) => match mail.hear(hearing.from, rank, hearing.tag) {
                Some(told) => then = station.heard(hearing, told)?,
                None => return Ok(Done::Not(Box::new(Act::Hear(hearing)))),
            },
        }
        Ok(Done::Then(then))
    }

    /// Records the next timed event.
    fn mark(&mut self, used: &mut usize, on: Stream) -> Result<Event, DriverError> {
        let event = self.timed(*used)?;
        *used += 1;
        self.gpu.driver.record(event, on)?;
        Ok(event)
    }

    fn timed(&mut self, place: usize) -> Result<Event, DriverError> {
        while self.timed.len() <= place {
            self.timed.push(self.gpu.driver.event(true)?);
        }
        Ok(self.timed[place])
    }

    /// Writes down when instructions were run.
    fn note(
        &mut self,
        times: Vec<Vec<Timed>>,
        (start, offset): (Event, f64),
        moment: &Moment,
    ) -> Result<(), DriverError> {
        for (station, times) in self.stations.iter_mut().zip(times) {
            for timed in times {
                let mut after = |event| -> Result<f64, DriverError> {
                    Ok(offset + 1e6 * self.gpu.driver.seconds(start, event)?)
                };
                let run = Run {
                    begin_us: after(timed.begin)?,
                    end_us: after(timed.end)?,
                    bytes_sent: timed.sent,
                };
                station.own.at(&timed.step, timed.path.into_iter());
                let event = station.own.event(&timed.step, moment, run);
                station.own.events.get_or_insert_default().push(event);
            }
        }
        Ok(())
    }

    /// What to say of a failure that belongs to no instruction.
    fn failure(&self, phase: Phase, error: DriverError) -> Failure {
        Failure {
            rank: self.stations.first().map_or(0, |s| s.own.number),
            instruction: phase.to_string(),
            reason: error.to_string(),
        }
    }
}

pub(super) fn streams(stations: &[Station]) -> impl Iterator<Item = Stream> + '_ {
    let all = |station: &Station| {
        let both = [station.streams.compute, station.streams.messages];
        both.into_iter().chain(station.copies.into_iter().flatten())
    };
    stations.iter().flat_map(all)
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Setup => "setup",
        Phase::Step => "step",
        Phase::Eval => "eval",
    }
}

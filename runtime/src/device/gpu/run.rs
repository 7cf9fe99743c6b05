//! Runs instruction lists. Ranks take turns; each runs until it needs a message that no rank has
//! sent yet, so that events are recorded before anything waits for them.

use super::asking::tells;
use super::device_rank::DeviceRank;
use super::driver::{Captured, DriverError, Event, Stream};
use super::launch::Stop;
use super::mail::Mail;
use super::state::Gpu;
use super::step_contexts::Moments;
use crate::Failure;
use crate::communication::CommSteps;
use crate::rank::Run;
use crate::step_context::StepContext;
use crate::steps::{Step, Steps};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Instr, Program};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// All ranks of a device.
pub(super) struct Device {
    pub(super) gpu: Gpu,
    pub(super) device_ranks: Vec<DeviceRank>,
    pub(super) step_contexts: Moments,
    pub(super) mail: Mail,
    /// Recorded where the ranks begin.
    pub(super) fork: Event,
    /// Recorded at the end of each stream of the ranks, in rank order.
    pub(super) joins: Vec<Event>,
    pub(super) began: Instant,
    /// Timed events, reused in every run.
    pub(super) timed: Vec<Event>,
    pub(super) lists: BTreeMap<&'static str, List>,
    pub(super) failed: Option<Failure>,
}

/// The state of an instruction list that has run.
#[derive(Default)]
pub(super) struct List {
    captured: Option<Captured>,
    /// What each rank counts in a run.
    bytes: Vec<Bytes>,
    ran: bool,
}

/// Bytes that a rank counts.
#[derive(Clone, Copy)]
struct Bytes {
    /// Sent to other ranks.
    sent: u64,
    /// Copied from and to the host.
    moved: u64,
    /// Of halo rows, sent to other nodes.
    crossed: u64,
}

impl Bytes {
    /// So far.
    fn of(device_rank: &DeviceRank) -> Self {
        Self {
            sent: device_rank.sent,
            moved: device_rank.own.moved,
            crossed: device_rank.own.crossed,
        }
    }

    /// Since an earlier count.
    fn since(self, before: Self) -> Self {
        Self {
            sent: self.sent - before.sent,
            moved: self.moved - before.moved,
            crossed: self.crossed - before.crossed,
        }
    }
}

/// A rank's progress through a list.
struct Turn<'a> {
    steps: Steps<'a>,
    at_hand: Option<Step<'a>>,
    comm_steps: CommSteps,
    /// Index of the next of them.
    next: usize,
    /// Whether the instruction at hand waits for lists of other ranks, and has told its own.
    waits: bool,
    told: bool,
    begun: Option<(Event, u64)>,
    done: bool,
    phase: Phase,
    /// Index in the list up to which merged launches have covered the instructions.
    merged: usize,
    times: Vec<Timed<'a>>,
}

/// An instruction between two timed events.
struct Timed<'a> {
    step: Step<'a>,
    path: Vec<usize>,
    begin: Event,
    end: Event,
    sent: u64,
}

/// Whether a list enqueues the same work in every epoch, on the same memory.
fn same_always(program: &Program, list: &[Instr]) -> bool {
    let mut skips = false;
    gnnc_ir::program::traffic::for_each_skip(list, &mut |_, _, _| skips = true);
    program.pipeline.is_none() && !program.samples() && !skips
}

impl Device {
    /// Runs a list on all ranks and waits for it.
    ///
    /// # Errors
    /// The first failure, in this call and in all later ones.
    pub(super) fn run(&mut self, phase: Phase, step_context: &StepContext) -> Result<(), Failure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        let outcome = self.phase(phase, step_context);
        self.failed = outcome.as_ref().err().cloned();
        outcome
    }

    /// Broadcasts `floats` from the process of rank `from`.
    pub(super) fn tell(&mut self, from: u32, floats: &mut [f32]) -> Result<(), Failure> {
        let ranks = self.device_ranks.first().map_or(0, |s| s.own.program.ranks);
        if self.device_ranks.len() == ranks as usize {
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

    fn phase(&mut self, phase: Phase, step_context: &StepContext) -> Result<(), Failure> {
        let mut stale = Vec::with_capacity(self.device_ranks.len());
        for device_rank in &mut self.device_ranks {
            device_rank.flagged.clear();
            device_rank.begin_batches();
            let begun = device_rank.own.begin(phase, step_context);
            stale.push(begun.map_err(|fault| device_rank.own.failure(fault.to_string()))?);
        }
        self.begin(step_context)
            .map_err(|error| self.failure(phase, error))?;
        let name = phase_name(phase);
        let captured = self.lists.get(name).and_then(|list| list.captured);
        match captured {
            Some(captured) => {
                let main = self.gpu.main;
                let replayed = self.gpu.driver.replay(main, captured);
                replayed.map_err(|error| self.failure(phase, error))?;
                let counts = self.lists.get(name).map_or(&[][..], |list| &list.bytes[..]);
                for (device_rank, bytes) in self.device_ranks.iter_mut().zip(counts) {
                    device_rank.sent += bytes.sent;
                    device_rank.own.moved += bytes.moved;
                    device_rank.own.crossed += bytes.crossed;
                }
                self.finish(phase)?;
            }
            None => self.enqueue(phase, step_context, name)?,
        }
        for (device_rank, stale) in self.device_ranks.iter_mut().zip(&stale) {
            device_rank.own.staleness.add(stale);
        }
        Ok(())
    }

    /// Copies the numbers that kernels read anew in every run.
    fn begin(&mut self, step_context: &StepContext) -> Result<(), DriverError> {
        self.mail.begin();
        let Self {
            gpu, step_contexts, ..
        } = self;
        step_contexts.upload(&mut *gpu.driver, gpu.main, step_context)
    }

    /// Enqueues a list, and captures it for later runs if it is always the same. The first run is
    /// never captured, because libraries must not be used for the first time during a capture.
    fn enqueue(
        &mut self,
        phase: Phase,
        step_context: &StepContext,
        name: &'static str,
    ) -> Result<(), Failure> {
        let programs: Vec<Arc<Program>> = self
            .device_ranks
            .iter()
            .map(|device_rank| device_rank.own.program.shared().clone())
            .collect();
        let traced = self.device_ranks.iter().any(|s| s.own.events.is_some());
        let ran = self.lists.get(name).is_some_and(|list| list.ran);
        let same = programs.iter().all(|p| same_always(p, p.list(phase)));
        let captures = ran && same && !traced && phase != Phase::Setup;
        let before: Vec<Bytes> = self.device_ranks.iter().map(Bytes::of).collect();
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
        let times = self.turns(&programs, phase, step_context, traced)?;
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
            let noted = self.note(times, (start, offset), step_context);
            noted.map_err(|error| failed(self, error))?;
        }
        let after = self.device_ranks.iter().zip(before);
        let bytes = after.map(|(device_rank, before)| Bytes::of(device_rank).since(before));
        let list = List {
            captured,
            bytes: bytes.collect(),
            ran: true,
        };
        self.lists.insert(name, list);
        Ok(())
    }

    /// Makes all streams start after the main stream.
    fn fork(&mut self, start: Option<Event>) -> Result<(), DriverError> {
        let Gpu { driver, main, .. } = &mut self.gpu;
        if let Some(start) = start {
            driver.record(start, *main)?;
        }
        for device_rank in &self.device_ranks {
            if device_rank.flag_bytes > 0 {
                driver.clear(*main, device_rank.flags, device_rank.flag_bytes)?;
            }
        }
        driver.record(self.fork, *main)?;
        for stream in streams(&self.device_ranks) {
            driver.wait(stream, self.fork)?;
        }
        Ok(())
    }

    /// Makes the main stream wait for all others.
    fn join(&mut self) -> Result<(), DriverError> {
        let Gpu { driver, main, .. } = &mut self.gpu;
        for (stream, event) in streams(&self.device_ranks).zip(&self.joins) {
            driver.record(*event, stream)?;
            driver.wait(*main, *event)?;
        }
        Ok(())
    }

    /// Waits for all work, and checks what kernels reported.
    fn finish(&mut self, phase: Phase) -> Result<(), Failure> {
        let main = self.gpu.main;
        let over = self.gpu.driver.synchronize(main);
        over.map_err(|error| self.failure(phase, error))?;
        for place in 0..self.device_ranks.len() {
            let device_rank = &self.device_ranks[place];
            let mut flags = vec![0; 4 * device_rank.flagged.len()];
            if flags.is_empty() {
                continue;
            }
            let read = self
                .gpu
                .driver
                .download(main, device_rank.flags, &mut flags);
            read.map_err(|error| self.failure(phase, error))?;
            let raised = flags.chunks_exact(4).position(|flag| flag != [0; 4]);
            let flagged = &self.device_ranks[place].flagged;
            if let Some(failure) = raised.and_then(|n| flagged.get(n)) {
                return Err(failure.clone());
            }
        }
        Ok(())
    }

    /// Lets the ranks take turns until all are done.
    fn turns<'a>(
        &mut self,
        programs: &'a [Arc<Program>],
        phase: Phase,
        step_context: &StepContext,
        traced: bool,
    ) -> Result<Vec<Vec<Timed<'a>>>, Failure> {
        let begin = |(device_rank, program): (&DeviceRank, &'a Arc<Program>)| Turn {
            steps: device_rank.own.steps(program, phase),
            at_hand: None,
            comm_steps: CommSteps::default(),
            next: 0,
            waits: false,
            told: false,
            begun: None,
            done: false,
            phase,
            merged: 0,
            times: Vec::new(),
        };
        let mut turns: Vec<Turn> = self.device_ranks.iter().zip(programs).map(begin).collect();
        let mut used = 1;
        while turns.iter().any(|turn| !turn.done) {
            let mut moved = false;
            for (place, turn) in turns.iter_mut().enumerate() {
                let went = self.turn(place, turn, step_context, traced.then_some(&mut used));
                moved |=
                    went.map_err(|stop| self.device_ranks[place].own.failure(stop.to_string()))?;
            }
            if !moved {
                let waits = turns.iter().position(|turn| !turn.done).unwrap_or(0);
                let reason =
                    "it waits for a message that no rank sends; the ranks run different programs";
                return Err(self.device_ranks[waits].own.failure(reason.to_owned()));
            }
        }
        if !self.mail.is_empty() {
            let reason = "no rank takes some of the messages; the ranks run different programs";
            return Err(self.device_ranks[0].own.failure(reason.to_owned()));
        }
        Ok(turns.into_iter().map(|turn| turn.times).collect())
    }

    /// Advances a rank as far as possible; returns whether it did anything.
    fn turn(
        &mut self,
        place: usize,
        turn: &mut Turn,
        step_context: &StepContext,
        mut timed: Option<&mut usize>,
    ) -> Result<bool, Stop> {
        let mut moved = false;
        loop {
            if let Some(step) = turn.at_hand {
                if turn.waits {
                    if !self.tell_lists(place, &step, &mut turn.told)? {
                        return Ok(moved);
                    }
                    (turn.waits, moved) = (false, true);
                    self.issue(place, turn, &step, step_context)?;
                }
                while turn.comm_steps.get(turn.next).is_some() {
                    if !self.comm_step(place, &turn.comm_steps, &mut turn.next)? {
                        return Ok(moved);
                    }
                    moved = true;
                }
                if let (Some(used), Some((begin, sent))) = (&mut timed, turn.begun.take()) {
                    let on = self.device_ranks[place].stream_of(step.instr);
                    let end = self.mark(used, on)?;
                    turn.times.push(Timed {
                        step,
                        path: turn.steps.path().collect(),
                        begin,
                        end,
                        sent: self.device_ranks[place].sent - sent,
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
            let device_rank = &mut self.device_ranks[place];
            device_rank.own.at(&step, turn.steps.path());
            let (on, sent) = (device_rank.streams.compute, device_rank.sent);
            if let Some(used) = &mut timed {
                turn.begun = Some((self.mark(used, on)?, sent));
            }
            (turn.waits, turn.told) = (tells(step.instr), false);
            if turn.waits {
                continue;
            }
            let at = turn.steps.path().next().unwrap_or(0);
            if at < turn.merged {
                continue;
            }
            let (gpu, moments) = (&mut self.gpu, &self.step_contexts);
            let device_rank = &self.device_ranks[place];
            if let Some(end) = device_rank.launch_merged(gpu, (turn.phase, at), moments)? {
                turn.merged = end;
                continue;
            }
            self.issue(place, turn, &step, step_context)?;
        }
    }

    /// Lists the steps of an instruction that communicates, or enqueues it.
    fn issue(
        &mut self,
        place: usize,
        turn: &mut Turn,
        step: &Step,
        step_context: &StepContext,
    ) -> Result<(), Stop> {
        let Self {
            gpu,
            device_ranks,
            step_contexts,
            ..
        } = self;
        let device_rank = &mut device_ranks[place];
        turn.next = 0;
        let planned = device_rank.plan(gpu, step, step_context, &mut turn.comm_steps)?;
        if !planned && !tells(step.instr) {
            device_rank.compute(gpu, step, step_context, step_contexts)?;
        }
        Ok(())
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

    /// Adds trace events for the instructions.
    fn note(
        &mut self,
        times: Vec<Vec<Timed>>,
        (start, offset): (Event, f64),
        step_context: &StepContext,
    ) -> Result<(), DriverError> {
        for (device_rank, times) in self.device_ranks.iter_mut().zip(times) {
            for timed in times {
                let mut after = |event| -> Result<f64, DriverError> {
                    Ok(offset + 1e6 * self.gpu.driver.seconds(start, event)?)
                };
                let run = Run {
                    begin_us: after(timed.begin)?,
                    end_us: after(timed.end)?,
                    bytes_sent: timed.sent,
                };
                device_rank.own.at(&timed.step, timed.path.into_iter());
                let event = device_rank.own.event(&timed.step, step_context, run);
                device_rank.own.events.get_or_insert_default().push(event);
            }
        }
        Ok(())
    }

    /// A failure that belongs to no instruction.
    fn failure(&self, phase: Phase, error: DriverError) -> Failure {
        Failure {
            rank: self.device_ranks.first().map_or(0, |s| s.own.number),
            instruction: phase.to_string(),
            reason: error.to_string(),
        }
    }
}

pub(super) fn streams(device_ranks: &[DeviceRank]) -> impl Iterator<Item = Stream> + '_ {
    let all = |device_rank: &DeviceRank| {
        let both = [device_rank.streams.compute, device_rank.streams.messages];
        both.into_iter()
            .chain(device_rank.copies.into_iter().flatten())
    };
    device_ranks.iter().flat_map(all)
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Setup => "setup",
        Phase::Step => "step",
        Phase::Eval => "eval",
    }
}

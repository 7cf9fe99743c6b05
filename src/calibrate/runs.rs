//! Training runs that are measured, instruction by instruction.

use super::{CalibrateOptions, Measurement};
use crate::{Compiled, Error, Loaded, TrainOptions, Trainer, place};
use gnnc_ir::plan::Placement;
use gnnc_ir::program::{Instr, Program};
use gnnc_ir::trace::{Event, Phase, Resource, Trace, median};
use gnnc_ir::work::demand;
use gnnc_planner::placement::Flow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a model is trained before it is measured: until caches, predicted branches and the clock are as they are
/// in a run that goes on.
const WARM: Duration = Duration::from_millis(20);

/// What was measured with a number of ranks at once.
pub struct Heap {
    /// How many.
    pub ranks: u32,
    /// By what was trained on what.
    runs: BTreeMap<String, Run>,
}

/// Epochs of one model on one graph.
#[derive(Default)]
struct Run {
    epochs: Vec<Epoch>,
    /// Instructions by rank and place, without their times.
    instructions: BTreeMap<Place, Measurement>,
}

/// The rank and the place of an instruction.
type Place = (u32, String);

/// Times of one epoch in seconds.
struct Epoch {
    /// From its begin to its end.
    wall: f64,
    /// Before the first and after the last instruction.
    around: f64,
    /// Of a rank for the others, before instructions that communicate; the mean over ranks.
    waiting: f64,
    /// Of instructions, without waiting.
    instructions: BTreeMap<Place, f64>,
}

impl Heap {
    /// Nothing yet.
    pub fn new(ranks: u32) -> Self {
        Self {
            ranks,
            runs: BTreeMap::new(),
        }
    }

    /// Trains some epochs. One rank is the same on every placement.
    pub fn measure(
        &mut self,
        placement: Placement,
        what: &str,
        (loaded, compiled): (&Loaded, &Compiled),
        epochs: usize,
        options: &CalibrateOptions,
    ) -> Result<(), Error> {
        if self.ranks == 1 && placement != Placement::Graph {
            return Ok(());
        }
        let run = TrainOptions {
            workers: self.ranks,
            placement,
            device: options.device.clone(),
            cache_dir: options.cache_dir.clone(),
            // Names are random, so that a range is as good as any other part, and quick to make.
            partitioner: "range".to_owned(),
            trace: true,
            // Instructions are measured whole.
            flow: Flow {
                overlap: false,
                ..Flow::default()
            },
            ..TrainOptions::default()
        };
        let mut trainer = Trainer::new(loaded, compiled, &run)?;
        let begun = Instant::now();
        loop {
            trainer.epoch()?;
            trainer.session.take_trace();
            if begun.elapsed() >= WARM {
                break;
            }
        }
        let program = compiled.program(&place(loaded, compiled, &run)?)?;
        let sizes = trainer.session.sizes();
        let what = format!("{what}, {placement}");
        let run = self.runs.entry(what.clone()).or_default();
        for _ in 0..epochs {
            let wall = trainer.epoch()?.seconds;
            let trace = trainer.session.take_trace();
            let mut instructions = BTreeMap::new();
            for (event, seconds) in times(&trace) {
                let Some(instr) = find(&program, &event.at) else {
                    continue;
                };
                let place = (event.rank, event.at.clone());
                instructions.insert(place.clone(), seconds);
                run.instructions.entry(place).or_insert_with(|| {
                    let sizes = &sizes[event.rank as usize];
                    let demand = demand(&program, instr, sizes, sizes);
                    let group = demand.as_ref().map_or(event.name.as_str(), |d| d.group);
                    Measurement {
                        ranks: self.ranks,
                        what: what.clone(),
                        at: event.at.clone(),
                        group: group.to_owned(),
                        terms: demand.map_or_else(Vec::new, |d| d.terms.to_vec()),
                        bytes: event.bytes_sent,
                        seconds: 0.0,
                        predicted: 0.0,
                    }
                });
            }
            run.epochs.push(Epoch {
                wall,
                around: around(&trace, wall),
                waiting: waiting(&trace) / f64::from(self.ranks),
                instructions,
            });
        }
        Ok(())
    }

    /// What all epochs have in common, and what each instruction takes.
    pub fn conclude(self) -> Concluded {
        let (mut arounds, mut waits, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for run in self.runs.into_values() {
            let quiet = quiet(run.epochs);
            arounds.extend(quiet.iter().map(|epoch| epoch.around));
            waits.extend(quiet.iter().map(|epoch| {
                let busy: f64 = epoch.instructions.values().sum();
                epoch.waiting * f64::from(self.ranks) / busy.max(1e-9)
            }));
            for (place, measurement) in run.instructions {
                let times = quiet.iter().filter_map(|e| e.instructions.get(&place));
                found.push(Measurement {
                    seconds: median(&times.copied().collect::<Vec<f64>>()),
                    ..measurement
                });
            }
        }
        Concluded {
            around: median(&arounds),
            waiting: median(&waits),
            found,
        }
    }
}

/// What was measured with a number of ranks at once.
pub struct Concluded {
    /// Seconds before and after the instructions of an epoch.
    pub around: f64,
    /// What a rank waits for ranks that have as much to do, over what it is busy.
    pub waiting: f64,
    /// The instructions.
    pub found: Vec<Measurement>,
}

/// The fastest quarter of epochs: a machine that others share is slow for seconds at a time, and what
/// is meant to be predicted is the epoch that nothing disturbs. Whole epochs are chosen, since ranks
/// disturb each other: an instruction that is fast because the others wait is not to be had every time.
fn quiet(mut epochs: Vec<Epoch>) -> Vec<Epoch> {
    epochs.sort_by(|a, b| a.wall.total_cmp(&b.wall));
    epochs.truncate(epochs.len().div_ceil(4));
    epochs
}

/// The instruction at a place of the step; none inside of loops.
fn find<'a>(program: &'a Program, at: &str) -> Option<&'a Instr> {
    program.step.get(at.parse::<usize>().ok()?)
}

/// When the last rank began each instruction of an epoch, in microseconds.
fn arrived(trace: &Trace) -> BTreeMap<&str, f64> {
    let mut arrived: BTreeMap<&str, f64> = BTreeMap::new();
    for event in trace.events.iter().filter(|e| e.phase == Phase::Step) {
        let last = arrived.entry(&event.at).or_insert(0.0);
        *last = event.begin_us.max(*last);
    }
    arrived
}

/// Seconds that ranks wait for others before they communicate, of all ranks together.
fn waiting(trace: &Trace) -> f64 {
    let arrived = arrived(trace);
    let wait = |event: &Event| {
        arrived
            .get(event.at.as_str())
            .map(|last| last - event.begin_us)
    };
    let step = trace.events.iter().filter(|e| e.phase == Phase::Step);
    let meets = step.filter(|event| event.resource == Resource::Network);
    // Without any the sum is 0, not -0.
    meets.filter_map(wait).fold(0.0, |sum, us| sum + us) / 1e6
}

/// The instructions of an epoch with their times in seconds, without waiting.
fn times(trace: &Trace) -> Vec<(&Event, f64)> {
    let step = || trace.events.iter().filter(|e| e.phase == Phase::Step);
    let arrived = arrived(trace);
    let time = |event: &Event| {
        let all_there = arrived.get(event.at.as_str());
        let begin = match event.resource {
            Resource::Network => all_there.copied().unwrap_or(event.begin_us),
            Resource::Compute | Resource::Copy | Resource::Host => event.begin_us,
        };
        (event.end_us - begin).max(0.01) / 1e6
    };
    step().map(|event| (event, time(event))).collect()
}

/// Seconds of an epoch that no instruction takes.
fn around(trace: &Trace, wall: f64) -> f64 {
    let step = || trace.events.iter().filter(|e| e.phase == Phase::Step);
    let begin = step().map(|e| e.begin_us).fold(f64::INFINITY, f64::min);
    let end = step().map(|e| e.end_us).fold(0.0, f64::max);
    (wall - (end - begin).max(0.0) / 1e6).max(0.0)
}

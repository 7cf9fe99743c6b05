//! Training runs that are measured, instruction by instruction.

use super::{CalibrateOptions, Measurement};
use crate::{Compiled, Error, Loaded, TrainOptions, Trainer, place};
use gnnc_ir::model::Relaxation;
use gnnc_ir::plan::Placement;
use gnnc_ir::program::{Instr, Program, RankSizes};
use gnnc_ir::trace::{Event, Phase, Trace, Wait, median, waits};
use gnnc_ir::work::{Demand, MESSAGES, demand, strips};
use gnnc_planner::placement::{Flow, Stages};
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

/// The rank, the place and the iteration of an instruction, and whether it waited for another stage.
type Place = (u32, String, u32, bool);

/// Times of one epoch in seconds.
struct Epoch {
    /// From its begin to its end.
    wall: f64,
    /// None of stages, which have not equally much to do.
    whole: Option<Whole>,
    /// Of instructions, without waiting.
    instructions: BTreeMap<Place, f64>,
}

/// What is left of an epoch of ranks that have equally much to do.
struct Whole {
    /// Before the first and after the last instruction.
    around: f64,
    /// Of a rank for the others, before instructions that communicate; the mean over ranks.
    waiting: f64,
}

impl Heap {
    /// Nothing yet.
    pub fn new(ranks: u32) -> Self {
        Self {
            ranks,
            runs: BTreeMap::new(),
        }
    }

    /// Trains some epochs, a pipeline with so many chunks. One rank is the same on every placement.
    pub fn measure(
        &mut self,
        (placement, chunks): (Placement, u32),
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
            allow: vec![Relaxation::Stale],
            // Messages of all epochs are of the same sizes.
            stages: (placement == Placement::Pipeline).then(|| Stages {
                chunks,
                shuffle: false,
                ..Stages::new(self.ranks)
            }),
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
        let staged = run.stages.is_some();
        let program = match staged {
            true => None,
            false => Some(compiled.program(&place(loaded, compiled, &run)?)?),
        };
        let sizes = trainer.session.sizes();
        let what = format!("{what}, {placement}");
        let run = self.runs.entry(what.clone()).or_default();
        for _ in 0..epochs {
            let wall = trainer.epoch()?.seconds;
            let trace = trainer.session.take_trace();
            let mut instructions = BTreeMap::new();
            for (event, wait) in steps(&trace) {
                let measurement = match &program {
                    Some(program) => instruction(event, program, &sizes[event.rank as usize]),
                    None => passage(event, &wait),
                };
                let Some(measurement) = measurement else {
                    continue;
                };
                let waited = wait.sender.is_some() && wait.micros > 0.0;
                let place = (event.rank, event.at.clone(), event.iteration, waited);
                instructions.insert(place.clone(), seconds(event, &wait));
                run.instructions.entry(place).or_insert(Measurement {
                    ranks: self.ranks,
                    what: what.clone(),
                    ..measurement
                });
            }
            run.epochs.push(Epoch {
                wall,
                whole: (!staged).then(|| Whole {
                    around: around(&trace, wall),
                    waiting: waiting(&trace) / f64::from(self.ranks),
                }),
                instructions,
            });
        }
        Ok(())
    }

    /// What all epochs have in common, and what each instruction takes.
    pub fn conclude(self) -> Concluded {
        let (mut arounds, mut waits, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for run in self.runs.into_values() {
            if run.epochs.iter().all(|epoch| epoch.whole.is_none()) {
                found.extend(passed(run));
                continue;
            }
            let quiet = quiet(run.epochs);
            for epoch in &quiet {
                let Some(Whole { around, waiting }) = epoch.whole else {
                    continue;
                };
                arounds.push(around);
                let busy: f64 = epoch.instructions.values().sum();
                waits.push(waiting * f64::from(self.ranks) / busy.max(1e-9));
            }
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

/// What stages sent and received. How long that takes depends on who sleeps and what is in caches, and an epoch has some of each: so it
/// is the mean of all epochs, but for the slowest eighth of what is alike, which others disturbed.
fn passed(run: Run) -> Vec<Measurement> {
    let mut alike: BTreeMap<_, (Measurement, Vec<f64>)> = BTreeMap::new();
    for (place, measurement) in run.instructions {
        let key = (
            measurement.group.clone(),
            measurement.terms.map(f64::to_bits),
        );
        let times = run.epochs.iter().filter_map(|e| e.instructions.get(&place));
        let (_, all) = alike.entry(key).or_insert((measurement, Vec::new()));
        all.extend(times.copied());
    }
    let mean = |(measurement, mut times): (Measurement, Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        times.truncate(times.len() - times.len() / 8);
        Measurement {
            seconds: times.iter().sum::<f64>() / times.len().max(1) as f64,
            ..measurement
        }
    };
    alike.into_values().map(mean).collect()
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

/// What is known of an instruction before it is measured; nothing of those inside of loops, and of what nobody prices.
fn instruction(event: &Event, program: &Program, sizes: &RankSizes) -> Option<Measurement> {
    let instr = find(program, &event.at)?;
    let bytes = event.bytes_sent;
    let message = || message(event, bytes, strips(program, instr, bytes), true);
    let demand = demand(program, instr, sizes, sizes).or_else(message)?;
    Some(unmeasured(event, &demand, bytes))
}

/// The same of one that sends rows to another stage or receives them; nothing of others.
fn passage(event: &Event, wait: &Wait) -> Option<Measurement> {
    event.peer?;
    let bytes = wait.sender.unwrap_or(event).bytes_sent;
    let demand = message(event, bytes, 0, wait.sender.is_none() || wait.micros > 0.0)?;
    Some(unmeasured(event, &demand, bytes))
}

fn unmeasured(event: &Event, demand: &Demand, bytes: u64) -> Measurement {
    Measurement {
        at: event.at.clone(),
        group: demand.group.to_owned(),
        terms: demand.terms,
        bytes,
        ..Measurement::default()
    }
}

fn message(event: &Event, bytes: u64, strips: u64, launch: bool) -> Option<Demand> {
    let group = MESSAGES.into_iter().find(|name| *name == event.name)?;
    Some(Demand::message(group, bytes, strips as f64, launch))
}

/// The instruction at a place of the step; none inside of loops.
fn find<'a>(program: &'a Program, at: &str) -> Option<&'a Instr> {
    program.step.get(at.parse::<usize>().ok()?)
}

/// The instructions of an epoch with what they waited for.
fn steps(trace: &Trace) -> impl Iterator<Item = (&Event, Wait<'_>)> {
    let all = trace.events.iter().zip(waits(&trace.events));
    all.filter(|(event, _)| event.phase == Phase::Step)
}

/// Seconds that ranks wait for others before they communicate, of all ranks together.
fn waiting(trace: &Trace) -> f64 {
    // Without any the sum is 0, not -0.
    steps(trace).fold(0.0, |sum, (_, wait)| sum + wait.micros) / 1e6
}

/// What an event takes in seconds without waiting.
fn seconds(event: &Event, wait: &Wait) -> f64 {
    (event.end_us - event.begin_us - wait.micros).max(0.01) / 1e6
}

/// Seconds of an epoch that no instruction takes.
fn around(trace: &Trace, wall: f64) -> f64 {
    let step = || trace.events.iter().filter(|e| e.phase == Phase::Step);
    let begin = step().map(|e| e.begin_us).fold(f64::INFINITY, f64::min);
    let end = step().map(|e| e.end_us).fold(0.0, f64::max);
    (wall - (end - begin).max(0.0) / 1e6).max(0.0)
}

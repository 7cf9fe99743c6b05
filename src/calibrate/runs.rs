//! Measured training runs, instruction by instruction.

use super::{CalibrateOptions, Measurement};
use crate::{Compiled, Error, Loaded, TrainOptions, Trainer};
use gnnc_ir::graph::model::Relaxation;
use gnnc_ir::plan::{Knobs, Partitioner, Placement};
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::{Event, Phase, Trace, Wait, median, waits};
use gnnc_ir::program::work::{Demand, MESSAGES, demand, strips};
use gnnc_ir::program::{BatchSizes, Instr, Program, RankSizes};
use gnnc_ir::words::sampling::{Fanout, SamplingSettings};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::workload::Reuse;
use gnnc_planner::parts::Degrees;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long to train before measuring: until caches, branch predictors and the clock are as in a long run.
const WARM: Duration = Duration::from_millis(20);

/// Batches of an epoch; more if they would have more than so many seeds.
const BATCHES: u32 = 3;
const LARGEST_BATCH: u32 = 4_096;
/// Fanouts of batches.
const FANOUTS: [u32; 2] = [10, 5];

/// The measurements with one number of ranks at once.
pub struct Heap {
    /// Number of ranks.
    pub ranks: u32,
    /// Runs by name of the case.
    runs: BTreeMap<String, Run>,
}

/// Epochs of one model on one graph.
#[derive(Default)]
struct Run {
    /// Whether ranks have unequal work, and only messages between stages are measured.
    staged: bool,
    epochs: Vec<Epoch>,
    /// Instructions by place, without their times.
    instructions: BTreeMap<Place, Measurement>,
}

/// The rank, the place and the iteration or the batch of an instruction, and whether it waited for another stage.
type Place = (u32, String, u32, bool);

/// Times of one epoch in seconds.
struct Epoch {
    /// The round of all cases that the epoch belongs to.
    round: usize,
    /// From start to end.
    wall: f64,
    /// `None` for stages and batches, whose ranks have unequal work.
    whole: Option<Whole>,
    /// Times of instructions, without waiting.
    instructions: BTreeMap<Place, f64>,
}

/// How much to measure at a time.
#[derive(Clone, Copy)]
pub struct Times {
    /// Number of epochs.
    pub epochs: usize,
    /// The round of all cases, from 0.
    pub round: usize,
}

/// Which rounds to evaluate.
#[derive(Clone, Copy)]
pub enum Rounds {
    /// All rounds.
    All,
    /// Every second round, from the first.
    Even,
    /// The other rounds.
    Odd,
}

impl Rounds {
    fn has(self, round: usize) -> bool {
        match self {
            Self::All => true,
            Self::Even => round.is_multiple_of(2),
            Self::Odd => !round.is_multiple_of(2),
        }
    }
}

/// Time of an epoch outside instructions, for ranks with equal work.
struct Whole {
    /// Before the first and after the last instruction.
    around: f64,
    /// Time a rank waits for others before instructions that communicate; the mean over ranks.
    waiting: f64,
}

impl Heap {
    /// No measurements yet.
    pub fn new(ranks: u32) -> Self {
        Self {
            ranks,
            runs: BTreeMap::new(),
        }
    }

    /// Trains some epochs; a pipeline with `chunks` chunks. With one rank, all placements are the same.
    pub fn measure(
        &mut self,
        (placement, chunks): (Placement, u32),
        what: &str,
        (loaded, compiled): (&Loaded, &Compiled),
        Times { epochs, round }: Times,
        options: &CalibrateOptions,
    ) -> Result<(), Error> {
        if self.ranks == 1 && !matches!(placement, Placement::Graph | Placement::Minibatch) {
            return Ok(());
        }
        let staged = placement == Placement::Pipeline;
        let run = TrainOptions {
            workers: self.ranks,
            placement,
            device: options.device.clone(),
            cache: options.cache.clone(),
            allow: vec![Relaxation::Stale, Relaxation::Sample],
            trace: true,
            knobs: Knobs {
                // Vertex numbers are random, so ranges are as good as any other parts, and fast to make.
                partitioner: Some(Partitioner::Range),
                // Messages have the same sizes in all epochs.
                shuffle: staged.then_some(false),
                chunks: staged.then_some(chunks),
                // Instructions are not split or overlapped, so each is measured whole.
                overlap: (!staged).then_some(false),
                sampling: match placement == Placement::Minibatch {
                    true => batches(loaded),
                    false => SamplingSettings::default(),
                },
                ..Knobs::default()
            },
            ..TrainOptions::default()
        };
        let mut trainer = Trainer::new(loaded, compiled, &run)?;
        let begun = Instant::now();
        loop {
            trainer.epoch()?;
            trainer.session.take_trace()?;
            if begun.elapsed() >= WARM {
                break;
            }
        }
        let degrees = Degrees::of(&loaded.workload);
        let (programs, sizes) = (trainer.session.programs(), trainer.session.sizes());
        let what = match staged {
            true => format!("{what}, {placement} with {}", counted(chunks, "chunk")),
            false => format!("{what}, {placement}"),
        };
        let run = self.runs.entry(what.clone()).or_default();
        run.staged = staged;
        for _ in 0..epochs {
            let wall = trainer.epoch()?.seconds;
            let trace = trainer.session.take_trace()?;
            let sent = stage_messages(&trace);
            let drawn = trainer.session.drawn(Phase::Step)?;
            let mut instructions = BTreeMap::new();
            let mut batches: BTreeMap<(u32, &str), u32> = BTreeMap::new();
            for (event, wait) in steps(&trace) {
                let rank = event.rank as usize;
                // An instruction of batches runs once for each of them, in their order.
                let batch = batches.entry((event.rank, &event.at)).or_default();
                let number = if drawn.is_empty() {
                    event.iteration
                } else {
                    *batch
                };
                *batch += 1;
                let measurement = match staged {
                    false => {
                        let of_rank = drawn.get(rank);
                        let batch = of_rank.and_then(|all| all.get(number as usize));
                        let sizes = RankSizes {
                            batch: batch.copied().unwrap_or(BatchSizes::NONE),
                            ..sizes[rank]
                        };
                        instruction(event, &programs[rank], &sizes, degrees.reuse())
                    }
                    true => stage_message(event, &wait, &sent),
                };
                let Some(measurement) = measurement else {
                    continue;
                };
                let waited = wait.sender.is_some() && wait.micros > 0.0;
                let place = (event.rank, event.at.clone(), number, waited);
                instructions.insert(place.clone(), seconds(event, &wait));
                run.instructions.entry(place).or_insert(Measurement {
                    ranks: self.ranks,
                    what: what.clone(),
                    edges: loaded.workload.edges,
                    ..measurement
                });
            }
            run.epochs.push(Epoch {
                round,
                wall,
                whole: (!staged && drawn.is_empty()).then(|| Whole {
                    around: around(&trace, wall),
                    waiting: waiting(&trace) / f64::from(self.ranks),
                }),
                instructions,
            });
        }
        Ok(())
    }

    /// Combines the epochs of the given rounds: what all epochs share, and the time of each instruction. The order of
    /// instructions does not depend on the rounds.
    pub fn conclude(&self, rounds: Rounds) -> Concluded {
        let (mut arounds, mut waits, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for run in self.runs.values() {
            let epochs = run.epochs.iter();
            let epochs: Vec<&Epoch> = epochs.filter(|epoch| rounds.has(epoch.round)).collect();
            if run.staged {
                found.extend(passed(run, &epochs));
                continue;
            }
            let quiet = quiet(epochs);
            for epoch in &quiet {
                let Some(Whole { around, waiting }) = epoch.whole else {
                    continue;
                };
                arounds.push(around);
                let busy: f64 = epoch.instructions.values().sum();
                waits.push(waiting * f64::from(self.ranks) / busy.max(1e-9));
            }
            for (place, measurement) in &run.instructions {
                let times = quiet.iter().filter_map(|e| e.instructions.get(place));
                found.push(Measurement {
                    seconds: median(&times.copied().collect::<Vec<f64>>()),
                    ..measurement.clone()
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

/// A few batches of an epoch. Those of other epochs have other seeds, and about the same sizes.
fn batches(loaded: &Loaded) -> SamplingSettings {
    let trained = loaded.workload.split[0] as u32;
    SamplingSettings {
        batch: Some((trained / BATCHES).clamp(1, LARGEST_BATCH)),
        fanouts: FANOUTS.map(Fanout::Each).to_vec(),
        ..SamplingSettings::default()
    }
}

/// The messages that stages sent and received. In every epoch a few messages take much longer than the others, so
/// equal messages count with their mean over an epoch, and the median of that over epochs.
fn passed(run: &Run, epochs: &[&Epoch]) -> Vec<Measurement> {
    let alike = |measurement: &Measurement| {
        let bits = measurement.terms.map(f64::to_bits);
        (measurement.group.clone(), bits)
    };
    let mut means: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    for epoch in epochs {
        let mut sums: BTreeMap<_, (f64, f64)> = BTreeMap::new();
        for (place, seconds) in &epoch.instructions {
            let (sum, count) = sums.entry(alike(&run.instructions[place])).or_default();
            (*sum, *count) = (*sum + seconds, *count + 1.0);
        }
        for (key, (sum, count)) in sums {
            means.entry(key).or_default().push(sum / count);
        }
    }
    let mut found = BTreeMap::new();
    for measurement in run.instructions.values() {
        let key = alike(measurement);
        let seconds = means.get(&key).map_or(0.0, |means| median(means));
        found.entry(key).or_insert(Measurement {
            seconds,
            ..measurement.clone()
        });
    }
    found.into_values().collect()
}

/// The result of the measurements with one number of ranks at once.
pub struct Concluded {
    /// Seconds before and after the instructions of an epoch.
    pub around: f64,
    /// Time a rank waits for ranks with equal work, divided by its busy time.
    pub waiting: f64,
    /// The instructions.
    pub found: Vec<Measurement>,
}

/// The fastest quarter of the epochs. A shared machine is slow for seconds at a time, and the costs shall predict
/// undisturbed epochs. Whole epochs are kept, because ranks disturb each other: an instruction that was fast
/// because the other ranks waited is not typical.
fn quiet(mut epochs: Vec<&Epoch>) -> Vec<&Epoch> {
    epochs.sort_by(|a, b| a.wall.total_cmp(&b.wall));
    epochs.truncate(epochs.len().div_ceil(4));
    epochs
}

/// The known facts of an instruction before it is measured; `None` for instructions over a chunk and for unpriced ones.
fn instruction(
    event: &Event,
    program: &Program,
    sizes: &RankSizes,
    reuse: &Reuse,
) -> Option<Measurement> {
    let instr = find(program, &event.at)?;
    let bytes = event.bytes_sent;
    let strips = || strips(program, instr, bytes);
    let message = || message(event, bytes, strips(), true, None);
    let demand = demand(program, instr, sizes, sizes, reuse).or_else(message)?;
    Some(unmeasured(event, &demand, bytes))
}

/// Bytes sent to another stage in an epoch, by rank and place of the instruction.
type Passages<'a> = BTreeMap<(u32, &'a str), u64>;

fn stage_messages(trace: &Trace) -> Passages<'_> {
    let mut sent = Passages::new();
    for (event, _) in steps(trace).filter(|(event, _)| event.peer.is_some()) {
        *sent.entry((event.rank, &event.at)).or_default() += event.bytes_sent;
    }
    sent
}

/// The known facts of an instruction that sends rows to another stage or receives them; `None` for others.
fn stage_message(event: &Event, wait: &Wait, sent: &Passages) -> Option<Measurement> {
    event.peer?;
    let bytes = wait.sender.unwrap_or(event).bytes_sent;
    let before = wait.sender.filter(|_| wait.micros <= 0.0);
    let lay = before.and_then(|sender| sent.get(&(sender.rank, &sender.at)).copied());
    let demand = message(event, bytes, 0, before.is_none(), lay)?;
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

fn message(
    event: &Event,
    bytes: u64,
    strips: u64,
    launch: bool,
    lay: Option<u64>,
) -> Option<Demand> {
    let group = MESSAGES.into_iter().find(|name| *name == event.name)?;
    Some(Demand::message(group, bytes, strips as f64, launch, lay))
}

/// The instruction at a place of the step; `None` if it runs over a chunk.
fn find<'a>(program: &'a Program, at: &str) -> Option<&'a Instr> {
    let mut places = at.split('.').map(str::parse::<usize>);
    let mut instr = program.step.get(places.next()?.ok()?)?;
    for place in places {
        let (Instr::Repeat(instr::Repeat { body, .. }) | Instr::Batches(instr::Batches { body })) =
            instr
        else {
            return None;
        };
        instr = body.get(place.ok()?)?;
    }
    Some(instr)
}

/// The instructions of an epoch, with their waits.
fn steps(trace: &Trace) -> impl Iterator<Item = (&Event, Wait<'_>)> {
    let all = trace.events.iter().zip(waits(&trace.events));
    all.filter(|(event, _)| event.phase == Phase::Step)
}

/// Seconds that ranks wait for others before communicating, summed over ranks.
fn waiting(trace: &Trace) -> f64 {
    // An empty `sum` would be -0.
    steps(trace).fold(0.0, |sum, (_, wait)| sum + wait.micros) / 1e6
}

/// Duration of an event in seconds, without waiting.
fn seconds(event: &Event, wait: &Wait) -> f64 {
    (event.end_us - event.begin_us - wait.micros).max(0.01) / 1e6
}

/// Seconds of an epoch outside all instructions.
fn around(trace: &Trace, wall: f64) -> f64 {
    let step = || trace.events.iter().filter(|e| e.phase == Phase::Step);
    let begin = step().map(|e| e.begin_us).fold(f64::INFINITY, f64::min);
    let end = step().map(|e| e.end_us).fold(0.0, f64::max);
    (wall - (end - begin).max(0.0) / 1e6).max(0.0)
}

//! Stages that pass chunks to each other.
//!
//! The ranks of a stage run like those of any program. A stage waits when it needs rows of another
//! one; sending never waits. So stages run in turn, each up to the rows it does not have yet.

use super::alike::{Alike, Kind};
use super::bound::{Bound, bound};
use super::compile::{Compiler, Listing, Name, Step};
use super::condense::condensed;
use super::fabric::Fabric;
use super::run::{Run, waited};
use super::{Estimate, PhaseCost, SimulateError, estimate, memory, simulate, timeline};
use crate::parts::Parts;
use gnnc_ir::cluster::{Cluster, SharedBy};
use gnnc_ir::plan::KindCost;
use gnnc_ir::program::trace::{Event, Phase};
use gnnc_ir::program::traffic::{Traffic, traffic};
use gnnc_ir::program::{Neighbour, Program};
use gnnc_ir::words::units::{Bytes, Seconds};
use std::collections::{BTreeMap, VecDeque};

/// Chunks that tell how much longer a pipeline takes with other costs.
const FEW_CHUNKS: u32 = 8;

/// As [`simulate`], for one program that represents all ranks, or one per stage of a pipeline,
/// where `parts` are those of a group.
///
/// # Errors
/// As [`simulate`]; or stages that wait for each other.
pub fn simulate_all(
    programs: &[Program],
    cluster: &Cluster,
    parts: &Parts,
) -> Result<Estimate, SimulateError> {
    let [program] = programs else {
        return staged(programs, cluster, parts);
    };
    match program.pipeline {
        Some(_) => staged(programs, cluster, parts),
        None => simulate(program, cluster, parts),
    }
}

fn staged(
    programs: &[Program],
    cluster: &Cluster,
    parts: &Parts,
) -> Result<Estimate, SimulateError> {
    check(programs, cluster, parts)?;
    let alike = Alike::of(programs, cluster, parts);
    let phase = |phase| {
        let lists = compiled(&alike, &listings(&alike, phase), cluster, parts);
        let stages = run(&alike, &lists, cluster, parts, Show::Costs)?;
        Ok(cost(stages, &alike, parts, phase))
    };
    let (setup, epoch, eval) = (
        phase(Phase::Setup)?,
        phase(Phase::Step)?,
        phase(Phase::Eval)?,
    );
    let kinds = alike.kinds.iter();
    let peaks = kinds.map(|kind| memory::peak(kind.program, cluster, parts));
    let peak = peaks.max().unwrap_or(Bytes(0));
    Ok(estimate([setup, epoch, eval], peak, cluster, parts))
}

/// As [`timeline`], for one program or one per stage.
///
/// # Errors
/// As [`simulate_all`].
pub fn timeline_all(
    programs: &[Program],
    cluster: &Cluster,
    parts: &Parts,
    phase: Phase,
    ranks: u32,
) -> Result<Vec<Event>, SimulateError> {
    match programs {
        [program] if program.pipeline.is_none() => timeline(program, cluster, parts, phase, ranks),
        _ => {
            check(programs, cluster, parts)?;
            let alike = Alike::of(programs, cluster, parts);
            let lists = compiled(&alike, &listings(&alike, phase), cluster, parts);
            let stages = run(
                &alike,
                &lists,
                cluster,
                parts,
                Show::Events { phase, ranks },
            )?;
            Ok(stages.into_iter().flat_map(|stage| stage.events).collect())
        }
    }
}

/// As [`bound`], for one program or one per stage.
///
/// # Errors
/// As [`simulate_all`].
pub fn bound_all(
    programs: &[Program],
    cluster: &Cluster,
    parts: &Parts,
) -> Result<Bound, SimulateError> {
    match programs {
        [program] if program.pipeline.is_none() => bound(program, cluster, parts),
        _ => {
            check(programs, cluster, parts)?;
            let (mut seconds, mut bytes) = (0.0f64, 0);
            for found in Alike::of(programs, cluster, parts).bounds(cluster, parts) {
                seconds = seconds.max(found.seconds.0);
                bytes += found.bytes.0;
            }
            Ok(Bound {
                seconds: Seconds(seconds),
                bytes: Bytes(bytes),
            })
        }
    }
}

/// Seconds until the last stage has run a list of a few chunks. What more of them take depends on the same costs.
///
/// # Errors
/// If stages wait for each other.
pub(super) fn seconds(
    alike: &Alike,
    lists: &[Listing],
    cluster: &Cluster,
    parts: &Parts,
) -> Result<f64, SimulateError> {
    let mut lists = compiled(alike, lists, cluster, parts);
    for list in &mut lists {
        list.steps = condensed(std::mem::take(&mut list.steps), FEW_CHUNKS);
    }
    let stages = run(alike, &lists, cluster, parts, Show::Costs)?;
    let ends = stages.iter().map(|stage| stage.cost.seconds.0);
    Ok(ends.fold(0.0, f64::max))
}

/// Busy seconds of each stage's busiest rank or its links, ignoring waits.
pub fn busy_seconds(programs: &[Program], cluster: &Cluster, parts: &Parts) -> Vec<f64> {
    let bounds = Alike::of(programs, cluster, parts).bounds(cluster, parts);
    bounds.iter().map(|bound| bound.seconds.0).collect()
}

pub(super) fn check(
    programs: &[Program],
    cluster: &Cluster,
    parts: &Parts,
) -> Result<(), SimulateError> {
    let ranks = programs.first().map_or(0, |program| program.ranks);
    let held = programs.len() * parts.sizes.len();
    if ranks as usize != held {
        return Err(SimulateError::OtherRanks {
            program: ranks,
            parts: held,
        });
    }
    if ranks > cluster.devices() {
        return Err(SimulateError::TooFewDevices {
            ranks,
            devices: cluster.devices(),
        });
    }
    Ok(())
}

/// A message to another stage: for each part, when it was sent and when it arrived.
type Mail = Vec<[f64; 2]>;

/// Messages sent and not yet received, by the receiving stage and the sender relative to it.
type Mails = BTreeMap<(usize, Neighbour), VecDeque<Mail>>;

/// A finished stage.
struct Finished {
    cost: PhaseCost,
    events: Vec<Event>,
}

/// A running stage.
struct Stage<'a> {
    fabric: &'a Fabric,
    run: Run<'a>,
    /// Remaining steps, with the position of the chunk in the epoch's order.
    steps: std::vec::IntoIter<(u32, &'a Step)>,
    waiting: Option<(u32, &'a Step)>,
    /// When each part's links to the next and the previous stage are free.
    free: [Vec<f64>; 2],
}

/// What is to be known of a run.
#[derive(Clone, Copy)]
enum Show {
    /// What it costs.
    Costs,
    /// The events of the first so many ranks.
    Events { phase: Phase, ranks: u32 },
}

/// The list of a stage as steps.
struct Compiled {
    steps: Vec<Step>,
    names: Vec<Name>,
    /// Overhead besides its instructions.
    around: f64,
}

/// The list of each kind of stages.
pub(super) fn listings<'a>(alike: &Alike<'a>, phase: Phase) -> Vec<Listing<'a>> {
    let kinds = alike.kinds.iter();
    kinds.map(|kind| Listing::of(kind.program, phase)).collect()
}

/// The steps of each kind of stages.
fn compiled(alike: &Alike, lists: &[Listing], cluster: &Cluster, parts: &Parts) -> Vec<Compiled> {
    let kinds = alike.kinds.iter().zip(lists).map(|(kind, list)| {
        let compiler = Compiler::new(kind.program, cluster, &kind.fabric, parts);
        let around = compiler.around();
        let (steps, names) = compiler.compile_list(list);
        Compiled {
            steps,
            names,
            around,
        }
    });
    kinds.collect()
}

fn run(
    alike: &Alike,
    lists: &[Compiled],
    cluster: &Cluster,
    parts: &Parts,
    show: Show,
) -> Result<Vec<Finished>, SimulateError> {
    let width = parts.sizes.len();
    let mut stages = Vec::with_capacity(alike.stages.len());
    for (&kind, number) in alike.stages.iter().zip(0..) {
        let fabric = &alike.kinds[kind].fabric;
        let Compiled {
            steps,
            names,
            around,
        } = &lists[kind];
        let mut run = match show {
            Show::Costs => Run::new(fabric, names.clone()),
            Show::Events { phase, ranks } => {
                Run::tracing(fabric, names.clone(), phase, ranks, number)
            }
        };
        run.wait(*around);
        let mut flat = Vec::new();
        flatten(steps, 0, &mut flat);
        stages.push(Stage {
            fabric,
            run,
            steps: flat.into_iter(),
            waiting: None,
            free: [vec![0.0; width], vec![0.0; width]],
        });
    }
    let mut mail: Mails = BTreeMap::new();
    let measured = cluster.calibration.measured.as_ref();
    let costs = measured.and_then(|measured| measured.of((width * alike.stages.len()) as u32));
    let links = Links {
        cluster,
        measured: costs.and_then(|costs| costs.launch("receive")),
        width,
        stages: alike.stages.len() as u32,
    };
    loop {
        let mut moved = false;
        for number in 0..stages.len() {
            moved |= stages[number].advance(number, &links, &mut mail);
        }
        if !moved {
            break;
        }
    }
    if stages.iter().any(|stage| stage.waiting.is_some()) {
        return Err(SimulateError::Waiting);
    }
    let finished = stages.into_iter().map(|stage| Finished {
        cost: stage.run.cost(),
        events: stage.run.into_events(),
    });
    Ok(finished.collect())
}

/// Writes out loops over chunks.
fn flatten<'a>(steps: &'a [Step], iteration: u32, out: &mut Vec<(u32, &'a Step)>) {
    for step in steps {
        match step {
            Step::Chunks { count, bodies } => {
                let bodies = bodies.iter().cycle();
                (0..*count)
                    .zip(bodies)
                    .for_each(|(place, body)| flatten(body, place, out));
            }
            step => out.push((iteration, step)),
        }
    }
}

impl Stage<'_> {
    /// Runs up to rows that nobody has sent yet; returns whether anything was done.
    fn advance(&mut self, number: usize, links: &Links, mails: &mut Mails) -> bool {
        let mut moved = false;
        while let Some((place, step)) = self.waiting.take().or_else(|| self.steps.next()) {
            let Step::StageMessage {
                at,
                name,
                sends,
                with,
                bytes,
                packing,
            } = step
            else {
                self.run.step(step, place);
                moved = true;
                continue;
            };
            let other = with.of(number as u32, links.stages).unwrap_or_default();
            let classes = self.fabric.classes.iter().zip(bytes);
            let handling = classes.map(|(class, bytes)| {
                let part = class.ranks.first().copied().unwrap_or_default();
                bytes * links.handling([number, other as usize], part)
            });
            let handling: Vec<f64> = handling.collect();
            let (name, costs) = ((*name, &**at), [&handling[..], bytes]);
            if *sends {
                let clock = self
                    .run
                    .stage_message(name, other, place, packing, costs, None);
                let (from, free) = match with {
                    Neighbour::Next => (Neighbour::Previous, &mut self.free[0]),
                    Neighbour::Previous => (Neighbour::Next, &mut self.free[1]),
                };
                let to = other as usize;
                let mut mail = vec![[0.0; 2]; links.width];
                for (class, members) in self.fabric.classes.iter().enumerate() {
                    for &part in &members.ranks {
                        let sent = clock[class];
                        let (latency, seconds) = links.passing([number, to], part, bytes[class]);
                        let free = &mut free[part as usize];
                        *free = sent.max(*free) + seconds;
                        mail[part as usize] = [sent, *free + latency];
                    }
                }
                mails.entry((to, from)).or_default().push_back(mail);
            } else {
                let found = mails
                    .get_mut(&(number, *with))
                    .and_then(VecDeque::pop_front);
                let Some(mail) = found else {
                    self.waiting = Some((place, step));
                    return moved;
                };
                let latest = |ranks: &Vec<u32>| {
                    let each = ranks.iter().map(|&part| mail[part as usize]);
                    each.fold([0.0f64; 2], |all, one| {
                        [all[0].max(one[0]), all[1].max(one[1])]
                    })
                };
                let arrived: Vec<[f64; 2]> = self
                    .fabric
                    .classes
                    .iter()
                    .map(|class| latest(&class.ranks))
                    .collect();
                self.run
                    .stage_message(name, other, place, packing, costs, Some(&arrived));
            }
            moved = true;
        }
        moved
    }
}

/// The links between ranks of the same part in adjacent stages.
struct Links<'a> {
    cluster: &'a Cluster,
    /// Measured latency within a node, if any.
    measured: Option<f64>,
    width: usize,
    stages: u32,
}

impl Links<'_> {
    /// The node of a stage's rank for a part.
    fn node(&self, stage: usize, part: u32) -> u32 {
        self.cluster.node_of((stage * self.width) as u32 + part)
    }

    /// Seconds of a rank's processor for each byte between two stages that crosses while it computes.
    fn handling(&self, [from, to]: [usize; 2], part: u32) -> f64 {
        let leaves = self.node(from, part) != self.node(to, part);
        match (leaves, self.measured) {
            (true, _) => self.cluster.handling_of(&self.cluster.between),
            (false, Some(_)) => 0.0,
            (false, None) => self.cluster.handling_of(&self.cluster.inside),
        }
    }

    /// Latency, and busy time of a part's link, for sending `bytes` bytes from one stage to
    /// another. If ranks of a node share a link, all of them that send out of the node do so at
    /// once.
    fn passing(&self, [from, to]: [usize; 2], part: u32, bytes: f64) -> (f64, f64) {
        let node = |stage, part| self.node(stage, part);
        let leaves = |part: &u32| node(from, *part) != node(to, *part);
        let link = match (leaves(&part), self.measured) {
            (true, _) => &self.cluster.between,
            // Stages copy the data they send and receive themselves.
            (false, Some(latency)) => return (latency, 0.0),
            (false, None) => &self.cluster.inside,
        };
        let with =
            |other: &u32| node(from, *other) == node(from, part) && leaves(other) == leaves(&part);
        let sharing = match link.shared_by {
            SharedBy::Rank => 1,
            SharedBy::Node => (0..self.width as u32).filter(with).count(),
        };
        let bandwidth = link.bandwidth * self.cluster.calibration.link_efficiency;
        let latency = self.cluster.latency_of(link);
        (latency, sharing as f64 * bytes / bandwidth)
    }
}

/// The cost of all stages together; times are means over the ranks.
fn cost(stages: Vec<Finished>, alike: &Alike, parts: &Parts, phase: Phase) -> PhaseCost {
    let sent = alike.kinds.iter().map(|Kind { program, .. }| {
        traffic(program.list(phase), program, &parts.reads(), &parts.sizes)
    });
    let sent: Vec<Traffic> = sent.collect();
    let count = stages.len().max(1) as f64;
    let mut all = PhaseCost::default();
    let mut kinds: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    for (stage, kind) in stages.into_iter().zip(&alike.stages) {
        let cost = stage.cost;
        all.seconds = Seconds(all.seconds.0.max(cost.seconds.0));
        all.compute_seconds.0 += cost.compute_seconds.0 / count;
        all.floor_seconds.0 += cost.floor_seconds.0 / count;
        all.exposed_communication_seconds.0 += cost.exposed_communication_seconds.0 / count;
        for kind in cost.breakdown {
            let known = kinds.entry(kind.name).or_default();
            *known = (known.0.max(kind.count), known.1 + kind.seconds.0 / count);
        }
        all.traffic.include(sent[*kind]);
    }
    let busy = all.compute_seconds.0 + all.exposed_communication_seconds.0;
    all.bubble_seconds = waited(all.seconds.0, busy);
    all.bytes = Bytes(all.traffic.total_bytes);
    all.breakdown = kinds
        .into_iter()
        .map(|(name, (count, seconds))| KindCost {
            name,
            count,
            seconds: Seconds(seconds),
        })
        .collect();
    all.breakdown.sort_by(|a, b| {
        b.seconds
            .0
            .total_cmp(&a.seconds.0)
            .then_with(|| a.name.cmp(&b.name))
    });
    all
}

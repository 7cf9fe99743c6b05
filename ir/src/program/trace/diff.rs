//! Comparison of two traces.

use super::wait::{list, waits};
use super::{Event, Phase, Resource, Trace};
use crate::words::units::Seconds;
use serde::Serialize;
use std::collections::BTreeMap;

/// One instruction in both traces. Times are per rank (mean over ranks) and per run of the list
/// (median over epochs), over all iterations, without waiting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The instruction list.
    pub phase: Phase,
    /// Position in the list.
    pub at: String,
    /// The instruction's name.
    pub name: String,
    /// The resource that it occupies.
    pub resource: Resource,
    /// Runs per rank.
    pub runs: u64,
    /// Time in each trace; `None` if it is missing there.
    pub seconds: [Option<Seconds>; 2],
    /// Bytes sent by all ranks, in each trace.
    pub bytes: [u64; 2],
}

/// Time of one run of an instruction list, in both traces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Total {
    /// The instruction list.
    pub phase: Phase,
    /// Runs of the list (epochs) in each trace.
    pub runs: [u64; 2],
    /// From the first start to the last end.
    pub seconds: [Seconds; 2],
    /// Time per resource, in the order of [`Resource::ALL`], without waiting.
    pub resources: [[Seconds; 2]; 4],
    /// Time waiting for other ranks in instructions that communicate.
    pub waiting: [Seconds; 2],
    /// Time between instructions: from the end of one to the start of the next.
    pub between: [Seconds; 2],
    /// Bytes sent by all ranks.
    pub bytes: [u64; 2],
}

/// The differences of two traces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TraceDiff {
    /// By list.
    pub totals: Vec<Total>,
    /// By instruction, largest difference first.
    pub rows: Vec<Row>,
}

impl Row {
    /// Time in the second trace minus time in the first; a missing time counts as 0.
    pub fn beyond(&self) -> f64 {
        let [a, b] = self.seconds.map(|s| s.map_or(0.0, |s| s.0));
        b - a
    }
}

/// Compares two traces.
pub fn diff(a: &Trace, b: &Trace) -> TraceDiff {
    let sides = [Side::new(a), Side::new(b)];
    let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
    for (i, side) in sides.iter().enumerate() {
        for (key, found) in &side.instructions {
            let row = rows.entry(*key).or_insert_with(|| Row {
                phase: key.0,
                at: key.1.to_owned(),
                name: key.2.to_owned(),
                resource: found.resource,
                runs: 0,
                seconds: [None; 2],
                bytes: [0; 2],
            });
            let ranks = side.ranks.max(1);
            let lists = side.lists.get(&key.0).map_or(1, Vec::len) as u64;
            row.runs = row.runs.max(found.runs / (ranks * lists).max(1));
            row.seconds[i] = Some(Seconds(found.busy.median(ranks)));
            row.bytes[i] = found.bytes / lists.max(1);
        }
    }
    let mut rows: Vec<Row> = rows.into_values().collect();
    rows.sort_by(|a, b| b.beyond().abs().total_cmp(&a.beyond().abs()));
    let totals = Phase::ALL
        .into_iter()
        .filter_map(|phase| total(phase, &sides));
    TraceDiff {
        totals: totals.collect(),
        rows,
    }
}

fn total(phase: Phase, sides: &[Side; 2]) -> Option<Total> {
    if sides.iter().all(|side| !side.lists.contains_key(&phase)) {
        return None;
    }
    let empty = Phased::default();
    let of = |side: &Side| side.phases.get(&phase).unwrap_or(&empty).clone();
    let found = sides.each_ref().map(of);
    let ranks = sides.each_ref().map(|side| side.ranks.max(1));
    let typical =
        |part: fn(&Phased) -> &Sums| [0, 1].map(|i| Seconds(part(&found[i]).median(ranks[i])));
    let walls = sides
        .each_ref()
        .map(|side| side.lists.get(&phase).cloned().unwrap_or_default());
    Some(Total {
        phase,
        runs: walls.each_ref().map(|walls| walls.len() as u64),
        seconds: walls.each_ref().map(|walls| Seconds(median(walls))),
        resources: [
            typical(|p| &p.busy[0]),
            typical(|p| &p.busy[1]),
            typical(|p| &p.busy[2]),
            typical(|p| &p.busy[3]),
        ],
        waiting: typical(|p| &p.waiting),
        between: typical(|p| &p.between),
        bytes: [0, 1].map(|i| found[i].bytes / walls[i].len().max(1) as u64),
    })
}

/// List, position and name.
type Key<'a> = (Phase, &'a str, &'a str);

/// Seconds by epoch, summed over ranks.
#[derive(Clone, Debug, Default)]
struct Sums(BTreeMap<u64, f64>);

impl Sums {
    fn add(&mut self, epoch: u64, seconds: f64) {
        *self.0.entry(epoch).or_default() += seconds;
    }

    /// The median over epochs of the mean over ranks.
    fn median(&self, ranks: u64) -> f64 {
        let means: Vec<f64> = self.0.values().map(|s| s / ranks as f64).collect();
        median(&means)
    }
}

struct Instruction {
    resource: Resource,
    runs: u64,
    busy: Sums,
    bytes: u64,
}

#[derive(Clone, Debug, Default)]
struct Phased {
    /// By resource.
    busy: [Sums; 4],
    waiting: Sums,
    between: Sums,
    bytes: u64,
}

/// One trace, summed up.
struct Side<'a> {
    ranks: u64,
    /// Wall times of the runs of each list, in seconds.
    lists: BTreeMap<Phase, Vec<f64>>,
    phases: BTreeMap<Phase, Phased>,
    instructions: BTreeMap<Key<'a>, Instruction>,
}

impl<'a> Side<'a> {
    fn new(trace: &'a Trace) -> Self {
        let mut ranks: Vec<u32> = trace.events.iter().map(|e| e.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let mut side = Self {
            ranks: ranks.len() as u64,
            lists: walls(&trace.events),
            phases: BTreeMap::new(),
            instructions: BTreeMap::new(),
        };
        let mut last: Option<&Event> = None;
        for (event, wait) in trace.events.iter().zip(waits(&trace.events)) {
            let before = last.filter(|l| list(l) == list(event) && l.rank == event.rank);
            let between = before.map_or(0.0, |l| (event.begin_us - l.end_us).max(0.0));
            side.add(event, wait.micros / 1e6, between / 1e6);
            last = Some(event);
        }
        side
    }

    fn add(&mut self, event: &'a Event, waiting: f64, between: f64) {
        let busy = (event.end_us - event.begin_us) / 1e6 - waiting;
        let phase = self.phases.entry(event.phase).or_default();
        phase.busy[event.resource as usize].add(event.epoch, busy);
        phase.waiting.add(event.epoch, waiting);
        phase.between.add(event.epoch, between);
        phase.bytes += event.bytes_sent;
        let key = (event.phase, event.at.as_str(), event.name.as_str());
        let found = self.instructions.entry(key).or_insert_with(|| Instruction {
            resource: event.resource,
            runs: 0,
            busy: Sums::default(),
            bytes: 0,
        });
        found.runs += 1;
        found.bytes += event.bytes_sent;
        found.busy.add(event.epoch, busy);
    }
}

/// Wall times of the runs of each list, in seconds.
fn walls(events: &[Event]) -> BTreeMap<Phase, Vec<f64>> {
    let mut spans: BTreeMap<(Phase, u64), (f64, f64)> = BTreeMap::new();
    for event in events {
        let span = spans.entry(list(event)).or_insert((f64::INFINITY, 0.0));
        *span = (span.0.min(event.begin_us), span.1.max(event.end_us));
    }
    let mut walls: BTreeMap<Phase, Vec<f64>> = BTreeMap::new();
    for ((phase, _), (begin, end)) in spans {
        walls.entry(phase).or_default().push((end - begin) / 1e6);
    }
    walls
}

/// The median; 0 if there are no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

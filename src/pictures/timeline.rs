//! Timelines in few bytes: ranks with equal events share them, and numbers are whole nanoseconds.

use gnnc_ir::program::trace::{Event, Kind, Phase, Resource, Trace};
use gnnc_ir::words::units::Seconds;
use serde::Serialize;
use std::collections::BTreeMap;

/// Most events in a timeline.
const MOST_EVENTS: usize = 60_000;
/// Different ranks that are shown even if their events have to be cut off in time.
const FEW_LANES: usize = 8;
/// Numbers of an event: what it is, nanoseconds from the beginning of the one before to its own, nanoseconds that it
/// takes, the iteration, and the bytes that it sends.
const NUMBERS: usize = 5;

/// What ranks do, and when.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timeline {
    /// Whether it is measured or predicted.
    pub kind: Kind,
    /// Ranks of the program.
    pub ranks: u32,
    /// What events are: the phase, the stage, the place in its list, the name of the instruction, and the resource.
    pub instructions: Vec<(Phase, u32, String, String, Resource)>,
    /// Ranks with their events.
    pub lanes: Vec<Lane>,
    /// When each phase begins and ends, in nanoseconds, over all ranks.
    pub phases: Vec<(Phase, u64, u64)>,
    /// The epoch that is shown, if it was measured.
    pub epoch: Option<u64>,
}

/// Ranks that do the same at the same times.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lane {
    /// The ranks.
    pub ranks: Vec<u32>,
    /// Five numbers for each event, in the order in which they begin.
    pub events: Vec<u64>,
}

/// An event in numbers.
type Numbers = [u64; NUMBERS];

impl Timeline {
    /// The timeline of a trace, and what was left out of it.
    pub fn of(trace: &Trace) -> (Self, Vec<String>) {
        let first = trace.events.iter().map(|e| e.begin_us);
        let first = first.fold(f64::INFINITY, f64::min);
        let since = |us: f64| ((us - first).max(0.0) * 1e3).round() as u64;
        let mut known = BTreeMap::new();
        let mut instructions = Vec::new();
        let mut phases: BTreeMap<Phase, (u64, u64)> = BTreeMap::new();
        let mut ranks: BTreeMap<u32, Vec<Numbers>> = BTreeMap::new();
        for event in &trace.events {
            let (begin, end) = (since(event.begin_us), since(event.end_us));
            let span = phases.entry(event.phase).or_insert((begin, end));
            *span = (span.0.min(begin), span.1.max(end));
            let own = (
                event.phase,
                event.stage,
                event.at.as_str(),
                event.name.as_str(),
            );
            let resource = event.resource;
            let number = *known.entry((own, resource)).or_insert_with(|| {
                let (at, name) = (event.at.clone(), event.name.clone());
                instructions.push((event.phase, event.stage, at, name, resource));
                instructions.len() as u64 - 1
            });
            let numbers = [
                number,
                begin,
                end.saturating_sub(begin),
                event.iteration.into(),
                event.bytes_sent,
            ];
            ranks.entry(event.rank).or_default().push(numbers);
        }
        let traced = ranks.len();
        let mut lanes: BTreeMap<Vec<Numbers>, Vec<u32>> = BTreeMap::new();
        for (rank, mut events) in ranks {
            events.sort_by_key(|event| event[1]);
            lanes.entry(events).or_default().push(rank);
        }
        let mut lanes: Vec<_> = lanes.into_iter().collect();
        lanes.sort_by_key(|(_, ranks)| ranks.first().copied());
        let end = few(&mut lanes);
        let mut left_out = Vec::new();
        let shown: usize = lanes.iter().map(|(_, ranks)| ranks.len()).sum();
        if shown < trace.ranks as usize {
            left_out.push(format!(
                "The timeline shows {shown} of {} ranks{}.",
                trace.ranks,
                match traced < trace.ranks as usize {
                    true => ", from the first ones",
                    false => ", evenly spread",
                }
            ));
        }
        if let Some(end) = end {
            phases.retain(|_, (begin, _)| *begin < end);
            phases
                .values_mut()
                .for_each(|span| span.1 = span.1.min(end));
            left_out.push(format!(
                "The timeline has the events of the first {}; later ones are left out.",
                Seconds(end as f64 / 1e9)
            ));
        }
        let lane = |(events, ranks): (Vec<Numbers>, Vec<u32>)| {
            let mut last = 0;
            let mut flat = Vec::with_capacity(events.len() * NUMBERS);
            for [what, begin, takes, iteration, bytes] in events {
                flat.extend([what, begin - last, takes, iteration, bytes]);
                last = begin;
            }
            Lane {
                ranks,
                events: flat,
            }
        };
        let measured = trace.kind == Kind::Measured;
        let steps = trace.events.iter().filter(|e| e.phase == Phase::Step);
        let timeline = Self {
            kind: trace.kind,
            ranks: trace.ranks,
            instructions,
            lanes: lanes.into_iter().map(lane).collect(),
            phases: phases.into_iter().map(|(p, (a, b))| (p, a, b)).collect(),
            epoch: steps.map(|e| e.epoch).max().filter(|_| measured),
        };
        (timeline, left_out)
    }
}

/// Keeps at most [`MOST_EVENTS`]: of evenly spread ranks, and if these still have more, those that begin before a time,
/// which it returns.
fn few(lanes: &mut Vec<(Vec<Numbers>, Vec<u32>)>) -> Option<u64> {
    let count = |lanes: &[(Vec<Numbers>, Vec<u32>)]| -> usize {
        lanes.iter().map(|(events, _)| events.len()).sum()
    };
    let all = count(lanes);
    if all <= MOST_EVENTS {
        return None;
    }
    let room = lanes.len() * MOST_EVENTS / all;
    let keep = room.clamp(FEW_LANES.min(lanes.len()), lanes.len());
    let of = lanes.len();
    let mut number = 0;
    lanes.retain(|_| {
        number += 1;
        (number - 1) * keep / of != number * keep / of
    });
    let mut begins: Vec<u64> = lanes
        .iter()
        .flat_map(|(events, _)| events.iter().map(|event| event[1]))
        .collect();
    if begins.len() <= MOST_EVENTS {
        return None;
    }
    begins.sort_unstable();
    let end = begins[MOST_EVENTS];
    for (events, _) in lanes.iter_mut() {
        events.retain(|event| event[1] < end);
    }
    Some(end)
}

/// The events before the first epoch, and those of the epoch that took the median time, with its evaluation.
///
/// `epochs` are the last ones, which the trace has whole.
pub fn median_epoch(events: &[Event]) -> Vec<Event> {
    let mut spans: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for event in events.iter().filter(|e| e.phase == Phase::Step) {
        let span = spans
            .entry(event.epoch)
            .or_insert((event.begin_us, event.end_us));
        *span = (span.0.min(event.begin_us), span.1.max(event.end_us));
    }
    let mut epochs: Vec<(f64, u64)> = spans.iter().map(|(n, (a, b))| (b - a, *n)).collect();
    epochs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let Some((_, median)) = epochs.get((epochs.len().saturating_sub(1)) / 2) else {
        return events.to_vec();
    };
    let kept = |event: &&Event| event.phase == Phase::Setup || event.epoch == *median;
    events.iter().filter(kept).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trace of ranks with so many events of a microsecond, with a pause that differs by rank if they are `uneven`.
    fn trace(ranks: u32, events: usize, uneven: bool) -> Trace {
        let event = |rank: u32, n: usize| Event {
            rank,
            phase: Phase::Step,
            epoch: 1,
            at: (n % 3).to_string(),
            iteration: 0,
            name: "map".to_owned(),
            resource: Resource::Compute,
            begin_us: 2.0 * n as f64 + if uneven { f64::from(rank) / 1e3 } else { 0.0 },
            end_us: 2.0 * n as f64 + 1.0,
            bytes_sent: 7,
            stage: 0,
            peer: None,
            decision: None,
        };
        let all = (0..ranks).flat_map(|rank| (0..events).map(move |n| (rank, n)));
        Trace {
            kind: Kind::Predicted,
            ranks,
            events: all.map(|(rank, n)| event(rank, n)).collect(),
            ..Trace::default()
        }
    }

    fn stored(timeline: &Timeline) -> usize {
        let lanes = timeline.lanes.iter();
        lanes.map(|lane| lane.events.len() / NUMBERS).sum()
    }

    #[test]
    fn ranks_that_do_the_same_share_their_events() {
        let (timeline, lacks) = Timeline::of(&trace(300, 500, false));
        assert_eq!((timeline.lanes.len(), stored(&timeline)), (1, 500));
        assert_eq!(timeline.lanes[0].ranks, (0..300).collect::<Vec<_>>());
        assert_eq!(
            timeline.lanes[0].events[..10],
            [0, 0, 1000, 0, 7, 1, 2000, 1000, 0, 7]
        );
        assert_eq!(timeline.instructions.len(), 3);
        assert_eq!(timeline.phases, [(Phase::Step, 0, 999_000)]);
        assert!(lacks.is_empty());
    }

    #[test]
    fn of_many_ranks_some_are_kept_and_it_says_which() {
        let (timeline, lacks) = Timeline::of(&trace(300, 500, true));
        assert!((FEW_LANES..=120).contains(&timeline.lanes.len()));
        assert!(stored(&timeline) <= MOST_EVENTS);
        let last = timeline.lanes.last().map(|lane| lane.ranks[0]);
        assert_eq!(last, Some(299));
        let says = format!(
            "The timeline shows {} of 300 ranks, evenly spread.",
            timeline.lanes.len()
        );
        assert_eq!(lacks, [says]);
    }

    #[test]
    fn of_many_events_the_first_are_kept_and_it_says_until_when() {
        let (timeline, lacks) = Timeline::of(&trace(2, 50_000, true));
        assert_eq!((timeline.lanes.len(), stored(&timeline)), (2, MOST_EVENTS));
        let says = "The timeline has the events of the first 60.00 ms; later ones are left out.";
        assert_eq!(lacks, [says]);
    }

    #[test]
    fn the_median_of_few_epochs_is_shown() {
        let mut all = Vec::new();
        for (epoch, takes) in [(4, 9.0), (5, 1.0), (6, 5.0)] {
            for mut event in trace(1, 1, false).events {
                (event.epoch, event.end_us) = (epoch, event.begin_us + takes);
                all.push(event);
            }
        }
        let kept: Vec<u64> = median_epoch(&all).iter().map(|e| e.epoch).collect();
        assert_eq!(kept, [6]);
    }
}

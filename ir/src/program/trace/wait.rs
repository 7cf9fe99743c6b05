//! Waiting times of the events of a trace.

use super::{Event, Peer, Phase, Resource};
use std::collections::{BTreeMap, VecDeque};

/// The time that an event spends waiting for other ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Wait<'a> {
    /// Microseconds from its start until the last rank of its stage starts the same
    /// instruction, or until another stage has sent the rows; 0 for events without
    /// communication.
    pub micros: f64,
    /// The event that sent the rows, if it receives them from another stage.
    pub sender: Option<&'a Event>,
}

/// The wait of each event.
pub fn waits(events: &[Event]) -> Vec<Wait<'_>> {
    let (arrivals, mut senders) = (arrivals(events), senders(events));
    let of = |event: &Event| {
        if event.resource != Resource::Network {
            return Wait::default();
        }
        let sender = match event.peer {
            Some(Peer::From(peer)) => senders
                .get_mut(&(list(event), peer, event.rank))
                .and_then(VecDeque::pop_front),
            Some(Peer::To(_)) | None => None,
        };
        let there = match event.peer {
            None => arrivals.get(&run(event)).copied(),
            Some(_) => sender.map(|sender| sender.end_us),
        };
        let there = there.unwrap_or(event.begin_us);
        Wait {
            micros: (there.min(event.end_us) - event.begin_us).max(0.0),
            sender,
        }
    };
    events.iter().map(of).collect()
}

/// The run of a list that an event belongs to.
pub(super) fn list(event: &Event) -> (Phase, u64) {
    (event.phase, event.epoch)
}

/// The run of an instruction that an event belongs to, the same on all ranks of a stage.
fn run(event: &Event) -> (Phase, u64, u32, &str, u32) {
    let Event { stage, at, .. } = event;
    (event.phase, event.epoch, *stage, at, event.iteration)
}

/// The events that send messages between stages, by list, sender and receiver.
type Senders<'a> = BTreeMap<((Phase, u64), u32, u32), VecDeque<&'a Event>>;

fn senders(events: &[Event]) -> Senders<'_> {
    let mut found = Senders::new();
    for event in events {
        if let Some(Peer::To(peer)) = event.peer {
            let key = (list(event), event.rank, peer);
            found.entry(key).or_default().push_back(event);
        }
    }
    found
}

/// When the last rank of a stage starts each instruction that communicates.
fn arrivals(events: &[Event]) -> BTreeMap<(Phase, u64, u32, &str, u32), f64> {
    let mut arrivals = BTreeMap::new();
    let meets = |e: &&Event| e.resource == Resource::Network && e.peer.is_none();
    for event in events.iter().filter(meets) {
        let last = arrivals.entry(run(event)).or_insert(event.begin_us);
        *last = event.begin_us.max(*last);
    }
    arrivals
}

//! What every rank does when: predicted by the simulator or measured by the executor, in one
//! form, so that both can be looked at with the same tools and laid side by side.

mod chrome;
mod diff;
mod wait;

pub use chrome::TraceError;
pub use diff::{Row, Total, TraceDiff, diff, median};
pub use wait::{Wait, waits};

use crate::program::work::{KernelClass, work};
use crate::program::{Instr, Program, RankSizes};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The instruction list that a rank runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Once, before the first epoch.
    Setup,
    /// A training epoch.
    Step,
    /// A forward pass for the metrics.
    Eval,
}

/// What an instruction keeps busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// Arithmetic and the memory it reads.
    Compute,
    /// Copies within a rank.
    Copy,
    /// Messages between ranks, their packing included.
    Network,
    /// Copies between a rank and its host. The first half of one that is cut in halves lasts until the copy
    /// is over, whatever else runs meanwhile; the second is the wait for it.
    Host,
}

/// Where the times of a trace come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A clock.
    #[default]
    Measured,
    /// The simulator.
    Predicted,
}

/// One instruction on one rank. Waiting for other ranks is part of an instruction that
/// communicates. One that is cut in halves is two events of one name: a copy, which sends, and then,
/// on the network, the wait and the unpacking; in between its messages are under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The rank.
    pub rank: u32,
    /// The instruction list.
    pub phase: Phase,
    /// The epoch, from 1; that of the last one for `eval`.
    pub epoch: u64,
    /// Place in the list, through loop bodies: `3.1`.
    pub at: String,
    /// Iteration of the enclosing loops, counted through; 0 outside.
    pub iteration: u32,
    /// The instruction's name.
    pub name: String,
    /// What it keeps busy.
    pub resource: Resource,
    /// Begin in microseconds since the trace began.
    pub begin_us: f64,
    /// End in microseconds since the trace began.
    pub end_us: f64,
    /// Payload bytes that it sent.
    pub bytes_sent: u64,
    /// The stage of the rank; 0 where there are none. Ranks of a stage run the same list.
    pub stage: u32,
    /// The rank of another stage that rows go to or come from; the n-th message that a rank waits for
    /// is the n-th that the other sends to it.
    pub peer: Option<Peer>,
    /// Why it sent its block, or left it out, where values decide.
    pub decision: Option<Decision>,
}

/// What a rule by distance decided of a rank's own block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Whether the block was sent.
    pub sent: bool,
    /// How far it was from what was sent last; none if nothing was.
    pub gap: Option<f32>,
    /// How far it may be.
    pub bound: f64,
}

/// The other end of a message from stage to stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// The rank that it goes to.
    To(u32),
    /// The rank that it comes from.
    From(u32),
}

/// Events in the order in which they began on each rank, rank after rank.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Whether they happened or are expected to.
    pub kind: Kind,
    /// Name of the model.
    pub model: String,
    /// Name of the data graph.
    pub graph: String,
    /// Ranks of the program; events of the first ones alone may have been kept.
    pub ranks: u32,
    /// The events.
    pub events: Vec<Event>,
}

impl Phase {
    /// Every phase, in the order in which they run.
    pub const ALL: [Self; 3] = [Self::Setup, Self::Step, Self::Eval];

    /// The name in traces and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Step => "step",
            Self::Eval => "eval",
        }
    }
}

impl Resource {
    /// Every resource, in the order of their lines in a trace.
    pub const ALL: [Self; 4] = [Self::Compute, Self::Copy, Self::Network, Self::Host];

    /// What an instruction keeps busy: the network if it is no work of its rank alone. Of the halves of
    /// a communication, the first only packs.
    pub fn of(instr: &Instr, program: &Program) -> Self {
        match instr {
            Instr::Move(_) => return Self::Host,
            Instr::Begin(half) | Instr::Finish(half) if !half.what.communicates() => {
                return Self::Host;
            }
            Instr::Begin(_) => return Self::Copy,
            _ => {}
        }
        match work(program, instr, &RankSizes::default()) {
            None => Self::Network,
            Some(work) if work.class == KernelClass::Copy => Self::Copy,
            Some(_) => Self::Compute,
        }
    }

    /// The name in traces and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Copy => "copy",
            Self::Network => "network",
            Self::Host => "host",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Measured => "measured",
            Self::Predicted => "predicted",
        })
    }
}

#[cfg(test)]
mod tests;

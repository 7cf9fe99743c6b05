//! Traces: what every rank does, and when. Predictions of the simulator and measurements of the
//! executor share one form, so the same tools show them and compare them.

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
    /// Runs once, before the first epoch.
    Setup,
    /// A training epoch.
    Step,
    /// A forward pass for the metrics.
    Eval,
}

/// A resource that an instruction occupies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// Computation, including its memory accesses.
    Compute,
    /// Copies within a rank.
    Copy,
    /// Messages between ranks, including packing.
    Network,
    /// Copies between a rank and its host. The first half of a split copy lasts until the copy
    /// is complete, whatever runs meanwhile; the second half is the wait for it.
    Host,
}

/// Source of a trace's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Measured by a clock.
    #[default]
    Measured,
    /// Predicted by the simulator.
    Predicted,
}

/// One instruction on one rank. An instruction that communicates includes waiting for other
/// ranks. A split one is two events with one name: a copy, which sends, and then a network
/// event, which waits and unpacks. Its messages are in flight in between.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The rank.
    pub rank: u32,
    /// The instruction list.
    pub phase: Phase,
    /// The epoch, from 1; for `eval`, the epoch before it.
    pub epoch: u64,
    /// Position in the list, including loop bodies: `3.1`.
    pub at: String,
    /// Iteration over all enclosing loops; 0 outside loops.
    pub iteration: u32,
    /// The instruction's name.
    pub name: String,
    /// The resource that it occupies.
    pub resource: Resource,
    /// Start in microseconds since the start of the trace.
    pub begin_us: f64,
    /// End in microseconds since the start of the trace.
    pub end_us: f64,
    /// Payload bytes that it sent.
    pub bytes_sent: u64,
    /// The stage of the rank; 0 without stages. Ranks of a stage run the same list.
    pub stage: u32,
    /// The rank of another stage that receives or sends the rows. The n-th message that a rank
    /// waits for is the n-th that the other sends to it.
    pub peer: Option<Peer>,
    /// Why it sent or skipped its block, if values decide.
    pub decision: Option<Decision>,
}

/// A decision about a rank's own block, by a rule by distance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// Whether the block was sent.
    pub sent: bool,
    /// Distance from what was sent last; `None` if nothing was.
    pub gap: Option<f32>,
    /// Largest distance that need not be sent.
    pub bound: f64,
}

/// The other end of a message from stage to stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peer {
    /// The receiving rank.
    To(u32),
    /// The sending rank.
    From(u32),
}

/// Events by rank, then in the order in which they started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Whether times are measured or predicted.
    pub kind: Kind,
    /// Name of the model.
    pub model: String,
    /// Name of the data graph.
    pub graph: String,
    /// Ranks of the program; the trace may hold events of only the first ones.
    pub ranks: u32,
    /// The events.
    pub events: Vec<Event>,
}

impl Phase {
    /// Every phase, in run order.
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
    /// Every resource, in the order of their rows in a trace viewer.
    pub const ALL: [Self; 4] = [Self::Compute, Self::Copy, Self::Network, Self::Host];

    /// The resource that an instruction occupies: the network if it involves other ranks. The
    /// first half of a communication only packs, so it is a copy.
    pub fn of(instr: &Instr, program: &Program) -> Self {
        if matches!(instr.whole(), Instr::Move(_)) {
            return Self::Host;
        }
        if let Instr::FetchRows(fetch) = instr
            && fetch.is_from_host(program)
        {
            return Self::Host;
        }
        if matches!(instr, Instr::Begin(_)) {
            return Self::Copy;
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

//! What every rank did when.

use serde::{Deserialize, Serialize};

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

/// One instruction on one rank.
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
    /// Iteration of the enclosing loop, 0 outside.
    pub iteration: u32,
    /// The instruction's name.
    pub name: String,
    /// Begin in microseconds since the session was built.
    pub begin_us: f64,
    /// End in microseconds since the session was built.
    pub end_us: f64,
    /// Payload bytes that it sent.
    pub bytes_sent: u64,
}

/// Events in the order in which they began on each rank, rank after rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The events.
    pub events: Vec<Event>,
}

impl Trace {
    /// The trace in the Trace Event Format that Chrome and Perfetto read; ranks are threads.
    pub fn chrome_json(&self) -> String {
        let events: Vec<serde_json::Value> = self
            .events
            .iter()
            .map(|e| {
                serde_json::json!({
                    "name": e.name,
                    "cat": e.phase,
                    "ph": "X",
                    "pid": 0,
                    "tid": e.rank,
                    "ts": e.begin_us,
                    "dur": e.end_us - e.begin_us,
                    "args": {
                        "at": e.at,
                        "epoch": e.epoch,
                        "iteration": e.iteration,
                        "bytes_sent": e.bytes_sent,
                    },
                })
            })
            .collect();
        serde_json::json!({ "traceEvents": events, "displayTimeUnit": "ms" }).to_string()
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Setup => "setup",
            Self::Step => "step",
            Self::Eval => "eval",
        })
    }
}

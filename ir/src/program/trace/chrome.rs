//! Trace files in the Trace Event Format, which Chrome and Perfetto display.
//!
//! Each rank is a process, and each resource one of its threads. `otherData` identifies the
//! file, so that it can be read back; data added by other tools is ignored.

use super::{Decision, Event, Kind, Peer, Phase, Resource, Trace};
use crate::words::json::explain;
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

/// Version of trace files.
const VERSION: u64 = 1;
const FORMAT: &str = "gnnc-trace";
/// Remedy for a file that is not a trace.
const REMEDY: &str =
    "make one with `gnnc train MODEL --trace FILE` or `gnnc plan MODEL --trace FILE`";

/// A file that is not a trace of gnnc.
#[derive(Debug, Error)]
pub enum TraceError {
    /// Not JSON.
    #[error("the trace is not JSON: {0}; {REMEDY}")]
    Json(#[from] serde_json::Error),
    /// JSON that is not a trace of gnnc.
    #[error("the file is not a trace of gnnc: `otherData.format` is not \"{FORMAT}\"; {REMEDY}")]
    Foreign,
    /// A trace of another version.
    #[error("the trace has version {found}, this gnnc reads version {VERSION}; {REMEDY}")]
    Version {
        /// The version that was found.
        found: String,
    },
    /// An incomplete head or event.
    #[error("{place} of the trace: {message}; {REMEDY}")]
    Event {
        /// The entry.
        place: String,
        /// What is wrong with it.
        message: String,
    },
}

#[derive(Deserialize)]
struct Head {
    kind: Kind,
    model: String,
    graph: String,
    ranks: u32,
}

/// A `traceEvents` entry with `ph = "X"`.
#[derive(Deserialize)]
struct Entry {
    name: String,
    cat: Phase,
    pid: u32,
    ts: f64,
    dur: f64,
    args: Args,
}

#[derive(Deserialize)]
struct Args {
    at: String,
    epoch: u64,
    iteration: u32,
    resource: Resource,
    bytes_sent: u64,
    #[serde(default)]
    stage: u32,
    #[serde(default)]
    peer: Option<Peer>,
    #[serde(default)]
    decision: Option<Decision>,
}

impl Trace {
    /// Prints the trace in the Trace Event Format. Equal traces give equal bytes.
    pub fn chrome_json(&self) -> String {
        let mut entries = self.names();
        entries.extend(self.events.iter().map(|event| {
            let mut entry = json!({
                "name": event.name,
                "cat": event.phase,
                "ph": "X",
                "pid": event.rank,
                "tid": event.resource as u32,
                "ts": event.begin_us,
                "dur": event.end_us - event.begin_us,
                "args": {
                    "at": event.at,
                    "epoch": event.epoch,
                    "iteration": event.iteration,
                    "resource": event.resource,
                    "bytes_sent": event.bytes_sent,
                    "stage": event.stage,
                    "peer": event.peer,
                },
            });
            if let Some(decision) = event.decision {
                entry["args"]["decision"] = json!(decision);
            }
            entry
        }));
        let head = json!({
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "model": self.model,
            "graph": self.graph,
            "ranks": self.ranks,
        });
        let file = json!({ "displayTimeUnit": "ms", "otherData": head, "traceEvents": entries });
        format!("{file}\n")
    }

    /// Names of ranks and resources, for display tools.
    fn names(&self) -> Vec<Value> {
        let mut ranks: Vec<u32> = self.events.iter().map(|e| e.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        let mut entries = Vec::new();
        for rank in ranks {
            let named = |what: &str, thread: u32, name: String| json!({ "name": what, "ph": "M", "pid": rank, "tid": thread, "args": { "name": name } });
            let kind = self.kind;
            entries.push(named("process_name", 0, format!("rank {rank}, {kind}")));
            for resource in Resource::ALL {
                let name = resource.name().to_owned();
                entries.push(named("thread_name", resource as u32, name));
            }
        }
        entries
    }

    /// Reads a trace that [`Trace::chrome_json`] wrote.
    ///
    /// # Errors
    /// If the text is not JSON, is a file of another program or version, lacks what gnnc writes
    /// in an entry, or has times that are not numbers or run backwards.
    pub fn from_chrome_json(text: &str) -> Result<Self, TraceError> {
        let mut file: Value = serde_json::from_str(text)?;
        let head = file.get("otherData").cloned().unwrap_or_default();
        if head.get("format").and_then(Value::as_str) != Some(FORMAT) {
            return Err(TraceError::Foreign);
        }
        let version = head.get("version").cloned().unwrap_or_default();
        if version.as_u64() != Some(VERSION) {
            let found = version.to_string();
            return Err(TraceError::Version { found });
        }
        let wrong = |place: String, message: String| TraceError::Event { place, message };
        let head: Head = serde_json::from_value(head)
            .map_err(|e| wrong("`otherData`".to_owned(), explain(&e)))?;
        let Some(Value::Array(entries)) = file.get_mut("traceEvents").map(Value::take) else {
            let message = "found none, expected an array".to_owned();
            return Err(wrong("`traceEvents`".to_owned(), message));
        };
        let mut events = Vec::with_capacity(entries.len());
        for (index, entry) in entries.into_iter().enumerate() {
            if entry.get("ph").and_then(Value::as_str) != Some("X") {
                continue;
            }
            let read = serde_json::from_value::<Entry>(entry).map_err(|e| explain(&e));
            let event = read.and_then(|entry| event(entry, head.ranks));
            events.push(event.map_err(|e| wrong(format!("entry {index}"), e))?);
        }
        events.sort_by(|a, b| {
            let begins = a.begin_us.total_cmp(&b.begin_us);
            a.rank.cmp(&b.rank).then(begins)
        });
        Ok(Self {
            kind: head.kind,
            model: head.model,
            graph: head.graph,
            ranks: head.ranks,
            events,
        })
    }
}

fn event(entry: Entry, ranks: u32) -> Result<Event, String> {
    let Entry { ts, dur, pid, .. } = entry;
    if !(ts.is_finite() && (0.0..f64::INFINITY).contains(&dur)) {
        return Err(format!(
            "found `ts` {ts} and `dur` {dur}, expected numbers, with `dur` at least 0"
        ));
    }
    if pid >= ranks {
        return Err(format!("found `pid` {pid}, expected a rank below {ranks}"));
    }
    Ok(Event {
        rank: pid,
        phase: entry.cat,
        epoch: entry.args.epoch,
        at: entry.args.at,
        iteration: entry.args.iteration,
        name: entry.name,
        resource: entry.args.resource,
        begin_us: ts,
        end_us: ts + dur,
        bytes_sent: entry.args.bytes_sent,
        stage: entry.args.stage,
        peer: entry.args.peer,
        decision: entry.args.decision,
    })
}

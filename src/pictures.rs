//! What the pages of `--html` show of a candidate beside its row in the plan: its timeline, memory, messages and parts.

mod memory;
mod sent;
mod timeline;

pub use memory::Memory;
pub use sent::Sent;
pub use timeline::{Timeline, median_epoch};

use crate::provenance::times;
use crate::{Error, Planner};
use gnnc_ir::plan::Candidate;
use gnnc_ir::program::trace::{Phase, Trace};
use gnnc_ir::program::{Instr, Program, RankSizes};
use gnnc_ir::words::spelling::counted;
use gnnc_planner::parts::Parts;
use gnnc_planner::search::PlacementSpec;
use serde::Serialize;

/// Most events that the simulator is asked for. More take seconds, and gigabytes of memory.
const MOST_SIMULATED: u64 = 2_000_000;
/// Most parts that are listed.
const MOST_PARTS: usize = 1024;

/// A candidate in detail.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pictured {
    /// Its name in reports.
    pub candidate: String,
    /// What each rank does, and when, as predicted.
    pub timeline: Option<Timeline>,
    /// The memory of the rank that needs most.
    pub memory: Option<Memory>,
    /// What ranks send each other in an epoch.
    pub sent: Option<Sent>,
    /// What each rank holds of the graph.
    pub parts: Vec<Part>,
    /// What is not shown, and why, in sentences.
    pub left_out: Vec<String>,
    /// The events of the timeline.
    #[serde(skip)]
    pub trace: Option<Trace>,
}

/// What a rank holds of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// Own vertices.
    pub own: u64,
    /// Vertices of other ranks that it reads.
    pub halo: u64,
    /// Edges into own vertices.
    pub edges: u64,
    /// Training vertices among the own ones.
    pub train: u64,
}

/// A candidate of a plan in detail.
///
/// # Errors
/// A candidate without a program.
pub fn pictured(planner: &Planner, candidate: &Candidate) -> Result<Pictured, Error> {
    let spec = PlacementSpec::of(candidate);
    let (programs, parts) = planner.priced(&spec)?;
    let mut left_out = Vec::new();
    let ranks = traced(&programs, &parts, &spec);
    let trace = match ranks {
        0 => None,
        ranks => Some(planner.timeline(candidate, ranks)?),
    };
    let timeline = trace.as_ref().map(|trace| {
        let (timeline, lacks) = Timeline::of(trace);
        left_out.extend(lacks);
        timeline
    });
    if timeline.is_none() {
        let why = "The timeline is left out: an epoch has too many instructions to draw.";
        left_out.push(why.to_owned());
    }
    let memory = Memory::of(&programs, &parts, planner.cluster(), candidate);
    if let Some(memory) = &memory {
        left_out.extend(memory.lacks());
    }
    let sent = Sent::of(planner, &programs, &parts, candidate);
    if sent.is_none() && spec.ranks > 1 {
        left_out.push(format!(
            "The bytes between ranks are left out: {} are too many.",
            counted(spec.ranks, "rank")
        ));
    }
    if parts.sizes.len() > MOST_PARTS {
        left_out.push(format!(
            "Part sizes are those of the first {MOST_PARTS} of {} parts.",
            parts.sizes.len()
        ));
    }
    let part = |sizes: &RankSizes| Part {
        own: sizes.inner,
        halo: sizes.halo,
        edges: sizes.edges,
        train: sizes.train,
    };
    Ok(Pictured {
        candidate: candidate.name(),
        timeline,
        memory,
        sent,
        parts: parts.sizes.iter().take(MOST_PARTS).map(part).collect(),
        left_out,
        trace,
    })
}

/// How many of the first ranks the simulator can trace.
fn traced(programs: &[Program], parts: &Parts, spec: &PlacementSpec) -> u32 {
    let chunks = u64::from(spec.chunks().max(1));
    let of_program = |program: &Program| {
        let lists = Phase::ALL.map(|phase| events(program.list(phase), parts, chunks));
        lists.into_iter().fold(0, u64::saturating_add)
    };
    let most = programs.iter().map(of_program).max().unwrap_or(0).max(1);
    let ranks = (MOST_SIMULATED / most).min(u64::from(spec.ranks));
    u32::try_from(ranks).unwrap_or(spec.ranks)
}

/// Events of a run of a list.
fn events(list: &[Instr], parts: &Parts, chunks: u64) -> u64 {
    let of = |instr: &Instr| match instr.body() {
        None => 1,
        Some(body) => {
            let turns = match matches!(instr, Instr::Chunks(_)) {
                true => chunks,
                false => times(instr, parts),
            };
            events(body, parts, chunks).saturating_mul(turns)
        }
    };
    list.iter().map(of).fold(0, u64::saturating_add)
}

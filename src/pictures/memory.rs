//! The memory of the rank that needs most, over the instructions of setup, an epoch and an evaluation.

use gnnc_ir::cluster::Cluster;
use gnnc_ir::plan::Candidate;
use gnnc_ir::program::memory::{ALIGN, Lifetime, Lives, begins, lifetimes, positions};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Buffer, BufferId, Capacity, Instr, Program, Role};
use gnnc_ir::words::units::Bytes;
use gnnc_planner::parts::Parts;
use gnnc_planner::simulate::{Room, budgets};
use serde::Serialize;

/// Most tensors that are listed, the largest ones.
const MOST_TENSORS: usize = 3000;

/// The memory of a rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Memory {
    /// Memory of its device.
    pub limit_bytes: u64,
    /// Peak memory, as in the plan.
    pub peak_bytes: u64,
    /// What of that are tensors and partial sums, side by side as they lie.
    pub tensor_bytes: u64,
    /// What of that are partial sums.
    pub scratch_bytes: u64,
    /// What of the peak is neither: edges, labels, lists of rows, messages.
    pub other_bytes: u64,
    /// The stage of the rank, if there are several.
    pub stage: Option<usize>,
    /// The instructions: the phase, the place in its list and the name. Bodies of loops are there once.
    pub instructions: Vec<(Phase, String, &'static str)>,
    /// The tensors, the largest first.
    pub tensors: Vec<Tensor>,
    /// How many smaller ones are left out.
    pub more_tensors: usize,
}

/// A tensor in memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: &'static str,
    /// Bytes, with all its slots.
    pub bytes: u64,
    /// The first and the last instruction of each time in which it takes memory; none if it rests on the host.
    pub lives: Vec<(usize, usize)>,
}

impl Memory {
    /// That of the rank that needs most, for one program or one per stage.
    pub(super) fn of(
        programs: &[Program],
        parts: &Parts,
        cluster: &Cluster,
        candidate: &Candidate,
    ) -> Option<Self> {
        let without_limit = Room {
            kind: cluster.device.kind,
            bytes: Bytes(u64::MAX / 2),
        };
        let ranks = programs.iter().enumerate().flat_map(|(stage, program)| {
            let lives = Lives::of(program);
            let ranks = budgets(program, parts, without_limit).into_iter();
            ranks.map(move |budget| {
                let other = without_limit.bytes.0.saturating_sub(budget.bytes);
                let needs = lives.least(&budget.capacity).saturating_add(other);
                (needs, stage, program, budget.capacity)
            })
        });
        let (_, stage, program, capacity) = ranks.max_by_key(|(needs, ..)| *needs)?;
        let layout = Lives::of(program).layout(&capacity);
        let mut tensors = tensors(program, &capacity);
        let more_tensors = tensors.len().saturating_sub(MOST_TENSORS);
        tensors.truncate(MOST_TENSORS);
        let peak_bytes = candidate.peak_memory_bytes.0;
        let mut instructions = Vec::new();
        for phase in Phase::ALL {
            list(phase, "", program.list(phase), program, &mut instructions);
        }
        Some(Self {
            limit_bytes: cluster.device.memory.0,
            peak_bytes,
            tensor_bytes: layout.total_bytes,
            scratch_bytes: layout.total_bytes.saturating_sub(layout.scratch * 4),
            other_bytes: peak_bytes.saturating_sub(layout.total_bytes),
            stage: Some(stage).filter(|_| programs.len() > 1),
            instructions,
            tensors,
            more_tensors,
        })
    }

    /// What is not listed.
    pub(super) fn lacks(&self) -> Option<String> {
        (self.more_tensors > 0).then(|| {
            format!(
                "The memory chart has the {MOST_TENSORS} largest tensors; {} smaller ones are left out.",
                self.more_tensors
            )
        })
    }
}

/// Appends the instructions of a list, bodies in place of loops.
fn list(
    phase: Phase,
    above: &str,
    instrs: &[Instr],
    program: &Program,
    found: &mut Vec<(Phase, String, &'static str)>,
) {
    for (n, instr) in instrs.iter().enumerate() {
        let at = match above {
            "" => n.to_string(),
            above => format!("{above}.{n}"),
        };
        match instr.body() {
            Some(body) => list(phase, &at, body, program, found),
            None => found.push((phase, at, instr.name(program))),
        }
    }
}

/// The tensors of a program on a rank, the largest first.
fn tensors(program: &Program, capacity: &Capacity) -> Vec<Tensor> {
    let mut before = 0;
    let mut spans = Vec::new();
    for (phase, begin) in Phase::ALL.into_iter().zip(begins(program)) {
        let count = positions(program.list(phase));
        spans.push((begin, before, count));
        before += count as usize;
    }
    let within = |phase: usize, at: u32| {
        let (begin, before, count) = spans[phase];
        // What is kept to the end of a list lives one position longer.
        let at = at.saturating_sub(begin).min(count.saturating_sub(1));
        before + at as usize
    };
    let lives = |lifetime: &Lifetime| -> Vec<(usize, usize)> {
        match lifetime {
            Lifetime::Always if before > 0 => vec![(0, before - 1)],
            Lifetime::Always => Vec::new(),
            Lifetime::During(stretches) => {
                let stretches = stretches.iter().enumerate();
                let of = |(phase, stretch): (usize, &Option<(u32, u32)>)| {
                    let (first, last) = (*stretch)?;
                    (spans[phase].2 > 0).then(|| (within(phase, first), within(phase, last)))
                };
                stretches.filter_map(of).collect()
            }
        }
    };
    let buffers = (0..).zip(&program.buffers).zip(lifetimes(program));
    let of = |((id, buffer), lifetime): ((u32, &Buffer), Lifetime)| {
        let words = buffer.words(capacity);
        let words = words.checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX);
        let lives = lives(&lifetime);
        let hosted = program.is_hosted(BufferId(id));
        (words > 0 && (hosted || !lives.is_empty())).then(|| Tensor {
            name: buffer.name.clone(),
            role: match hosted {
                true => "on the host",
                false => role(&buffer.role),
            },
            bytes: words.saturating_mul(4),
            lives,
        })
    };
    let mut found: Vec<Tensor> = buffers.filter_map(of).collect();
    found.sort_by_key(|tensor| std::cmp::Reverse(tensor.bytes));
    found
}

/// What a buffer is for.
fn role(role: &Role) -> &'static str {
    match role {
        Role::Features | Role::FeatureValues => "features",
        Role::Degree(..)
        | Role::EdgeEnds(_)
        | Role::EdgePlaces(_)
        | Role::Relation(_)
        | Role::RelationDegree(_)
        | Role::EdgeFeatures(_)
        | Role::Table(_) => "graph",
        Role::Param(_) => "parameters",
        Role::State(..) => "optimizer state",
        Role::Static | Role::History(_) => "kept between epochs",
        Role::Result => "results",
        Role::Temp => "activations and gradients",
    }
}

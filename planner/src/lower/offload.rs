//! Offloads tensors to host memory if a rank's own is too small (NeutronTP, section 3.4: data that
//! is not in use lives in host memory).
//!
//! This pass works on finished lists and is independent of placements. As long as the buffers do
//! not fit, it looks for the point where the most bytes are live. Among the buffers not used there,
//! it moves the one that frees the most memory for the longest time: bytes times instructions until
//! the next use, divided by the copies this takes. There are three ways:
//!
//! - a tensor that rests between two uses is stored after one and fetched before the other, into
//!   new memory (`split`); if it was fetched and not changed, it need not be stored again;
//! - a tensor that lives as long as the program, such as features or optimizer state, has its home
//!   on the host and is fetched for its uses; rows that batches fetch are read there (`home`);
//! - a stack that loops fill and read slot by slot stays on the host, and every loop has a ring of
//!   a few slots for its iterations; during an iteration, the next slot is fetched and the previous
//!   one stored (`ring`).
//!
//! If the operands of a single instruction do not fit, it runs over one chunk of its rows after
//! another, with as few chunks as possible, and only a chunk of each tensor that it uses by rows is
//! present (`stream`). Tensors from which edges pick rows stay whole. If that is not enough, the
//! ends of edges move to the host too, and every kernel that walks them fetches those of a chunk
//! (`topology`). If even that is not enough, loops over layers are written out, and everything is tried
//! again (`written_out`).
//!
//! Finally, copies are cut into halves as far apart as memory allows (`widen`). Nothing else
//! changes, so every number is computed as before.

mod bound;
mod fit;
mod home;
mod ring;
mod split;
mod stream;
mod topology;
mod tries;
mod uses;
mod widen;
mod written_out;

use super::checked::check;
use gnnc_ir::program::instr;
use gnnc_ir::program::memory::{Lives, begins, positions};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Buffer, BufferId, Capacity, Extent, Instr, Program, Ref, Role};
use std::cmp::Ordering;
use tries::Tries;

/// A rank's memory for the buffers of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// The most rows of its share of the data.
    pub capacity: Capacity,
    /// Bytes of memory available for buffers.
    pub bytes: u64,
    /// Bytes missing for data other than buffers, if nothing is available.
    pub lacking: u64,
    /// Whether the ends of edges take additional memory, which buffers may use if the ends are
    /// fetched.
    pub lists: bool,
}

/// The programs do not fit, whatever is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// Bytes missing on the rank that lacks the most.
    pub bytes: u64,
}

/// Whether slots are fetched and stored during computation, which takes more slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Roomy,
    Tight,
}

/// What may be done to a program.
#[derive(Clone, Copy, Debug)]
struct Means {
    style: Style,
    /// Number of chunks that rows may be cut into, if any.
    chunks: Option<u32>,
    /// Whether the ends of edges may move to the host too.
    lists: bool,
}

/// One change of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// A tensor rests between two uses, which end and begin at these positions of the list.
    Split(Phase, BufferId, [usize; 2]),
    /// A tensor has its home on the host.
    Home(BufferId),
    /// A stack stays on the host.
    Ring(Phase, BufferId),
    /// The instruction at a position of the list runs over a tensor's rows chunk by chunk.
    Stream(Phase, usize, BufferId),
}

/// A choice, with its gain: memory freed times duration, per copy.
struct Candidate {
    choice: Choice,
    gain: f64,
}

/// Makes programs fit by moving tensors. The programs are equal except for columns, the first has
/// the widest, and all are changed alike. Programs that already fit are unchanged.
///
/// # Errors
/// How much memory is missing when nothing is left to move.
pub fn offload(programs: &[Program], budgets: &[MemoryBudget]) -> Result<Vec<Program>, Short> {
    offload_counted(programs, budgets, &mut 0)
}

/// As [`offload`]; adds to `looks` the number of times that memory needs were computed, which
/// dominates the run time.
///
/// # Errors
/// As [`offload`].
pub fn offload_counted(
    programs: &[Program],
    budgets: &[MemoryBudget],
    looks: &mut u32,
) -> Result<Vec<Program>, Short> {
    let programs = fitted(programs, budgets, looks).or_else(|short| {
        // Loops written out have more that can rest, and take longer to look at.
        let plain = written_out::written_out(programs).ok_or(short)?;
        fitted(&plain, budgets, looks).map_err(|other| Short {
            bytes: short.bytes.min(other.bytes),
        })
    })?;
    for (program, budget) in programs.iter().zip(budgets) {
        check(program, None, Some(budget.capacity), "offloading");
    }
    Ok(programs)
}

/// Programs that fit if [`offload`] makes any, in which copies overlap nothing. Takes less time.
pub fn offload_somehow(programs: &[Program], budgets: &[MemoryBudget]) -> Option<Vec<Program>> {
    let somehow = |programs: &[Program]| {
        let most = stream::counts(programs, budgets).last().copied();
        let chunks = most.map(|most| [(Some(most), false), (Some(most), true)]);
        let mut looks = 0;
        let mut tries = Tries::new(programs, budgets, &mut looks);
        let mut ways = std::iter::once((None, false)).chain(chunks.into_iter().flatten());
        let found = ways.find_map(|(chunks, lists)| {
            let style = Style::Tight;
            tries.attempt(Means {
                style,
                chunks,
                lists,
            })
        });
        found.map(|state| state.programs)
    };
    somehow(programs)
        .or_else(|| written_out::written_out(programs).and_then(|plain| somehow(&plain)))
}

fn fitted(
    programs: &[Program],
    budgets: &[MemoryBudget],
    looks: &mut u32,
) -> Result<Vec<Program>, Short> {
    let counts = stream::counts(programs, budgets);
    let mut tries = Tries::new(programs, budgets, looks);
    let means = |style, chunks, lists| Means {
        style,
        chunks,
        lists,
    };
    for style in [Style::Roomy, Style::Tight] {
        if let Some(found) = tries.attempt(means(style, None, false)) {
            return Ok(tries.widened(found));
        }
    }
    for lists in [false, true] {
        let Some((most, fewer)) = counts.split_last() else {
            break;
        };
        // If the most chunks do not suffice, fewer do not either.
        let Some(smallest) = tries.attempt(means(Style::Tight, Some(*most), lists)) else {
            continue;
        };
        let fewer = fewer.iter().flat_map(|count| {
            [Style::Roomy, Style::Tight].map(|style| means(style, Some(*count), lists))
        });
        let mut others = fewer.chain([means(Style::Roomy, Some(*most), lists)]);
        let found = others.find_map(|means| tries.attempt(means));
        let found = found.unwrap_or(smallest);
        return Ok(tries.widened(found));
    }
    Err(tries.shortage())
}

/// Where the most bytes are live: a phase, and a position in its list.
struct Peak {
    phase: Phase,
    place: usize,
}

/// The best change to relieve the peak.
fn choose(lives: &Lives, capacity: &Capacity, means: Means) -> Option<Choice> {
    let program = lives.program();
    let peak = peak(lives, capacity)?;
    let ids = (0..program.buffers.len() as u32).map(BufferId);
    let place = Place::of(program, capacity, &peak, means.style);
    let candidates = ids.filter_map(|id| place.candidate(id));
    let better = |a: &Candidate, b: &Candidate| a.gain.total_cmp(&b.gain);
    // The first of several equally good ones.
    let best = candidates.reduce(|best, next| match better(&next, &best) {
        Ordering::Greater => next,
        _ => best,
    });
    let streamed = || {
        let id = stream::candidate(program, capacity, (peak.phase, peak.place), means)?;
        Some(Choice::Stream(peak.phase, peak.place, id))
    };
    best.map(|best| best.choice).or_else(streamed)
}

fn peak(lives: &Lives, capacity: &Capacity) -> Option<Peak> {
    let program = lives.program();
    let (at, _) = lives.fullest(&|id| program.buffers[id].words(capacity));
    let firsts = begins(program);
    let phase = (0..3).rev().find(|n| firsts[*n] <= at)?;
    let mut next = firsts[phase];
    let phase = Phase::ALL[phase];
    for (place, instr) in program.list(phase).iter().enumerate() {
        next += positions(std::slice::from_ref(instr));
        if at < next {
            return Some(Peak { phase, place });
        }
    }
    None
}

/// A position in a list, with the data about the list needed to choose a change there.
struct Place<'a> {
    program: &'a Program,
    capacity: &'a Capacity,
    phase: Phase,
    list: &'a [Instr],
    place: usize,
    index: uses::Index,
    /// Lifetime positions that the instructions before each place take. Copies do not count:
    /// otherwise, of several tensors fetched one after another, each would seem to free memory
    /// during the fetches of the others, and they would change places endlessly.
    works: Vec<u32>,
    style: Style,
}

impl<'a> Place<'a> {
    fn of(program: &'a Program, capacity: &'a Capacity, peak: &Peak, style: Style) -> Self {
        let list = program.list(peak.phase);
        let mut works = vec![0];
        let mut all = 0;
        for instr in list {
            if !matches!(instr, Instr::Move(_)) {
                all += positions(std::slice::from_ref(instr));
            }
            works.push(all);
        }
        Self {
            program,
            capacity,
            phase: peak.phase,
            list,
            place: peak.place,
            index: uses::Index::of(list),
            works,
            style,
        }
    }

    /// Lifetime positions that the instructions of a range take.
    fn length(&self, from: usize, to: usize) -> f64 {
        f64::from(self.works[to].saturating_sub(self.works[from]))
    }

    fn candidate(&self, id: BufferId) -> Option<Candidate> {
        let Self { program, place, .. } = *self;
        let buffer = program.buffer(id);
        let bytes = buffer.words(self.capacity) as f64;
        if program.is_hosted(id) || bytes == 0.0 {
            return None;
        }
        let uses = || uses::indexed(self.list, &self.index, id);
        match buffer.role {
            Role::Temp if program.logits.is_some_and(|at| at.buffer == id) => None,
            Role::Temp if buffer.slots == 1 && !self.index.rests(id, place) => None,
            Role::Temp if buffer.slots == 1 => {
                let uses = uses();
                let mut gaps = uses.windows(2).map(|pair| [pair[0][1], pair[1][0]]);
                let gap = gaps.find(|gap| gap[0] < place && place < gap[1])?;
                let freed = self.length(gap[0] + 1, gap[1]);
                if freed == 0.0 {
                    return None;
                }
                let places = |id| self.index.places(id).to_vec();
                let copies = match split::clean(self.list, places, program, id) {
                    Some(_) => 1.0,
                    None => 2.0,
                };
                Some(Candidate {
                    choice: Choice::Split(self.phase, id, gap),
                    gain: bytes * freed / copies,
                })
            }
            Role::Temp => {
                let uses = uses();
                let (first, last) = (uses.first()?, uses.last()?);
                if place < first[0] || last[1] < place {
                    return None;
                }
                let slots = ring::Ring::of(program, self.phase, id, self.style)?.slots();
                let freed = 1.0 - f64::from(slots) / f64::from(buffer.slots);
                Some(Candidate {
                    choice: Choice::Ring(self.phase, id),
                    gain: bytes * freed * self.length(first[0], last[1] + 1) / 2.0,
                })
            }
            _ if has_home(buffer) => {
                let mut places = self.index.places(id).iter();
                let fetched = |place: &usize| {
                    let instr = std::slice::from_ref(&self.list[*place]);
                    uses::only_fetches(instr, id)
                };
                let uses = match places.all(fetched) {
                    true => Vec::new(),
                    false => uses(),
                };
                let used = |[first, last]: &[usize; 2]| (*first..=*last).contains(&place);
                if uses.iter().any(used) {
                    return None;
                }
                let busy = match (uses.first(), uses.last()) {
                    (Some(first), Some(last)) => self.length(first[0], last[1] + 1),
                    _ => 0.0,
                };
                let mut places = self.index.places(id).iter();
                let writes = places.any(|place| uses::writes(&self.list[*place], id));
                Some(Candidate {
                    choice: Choice::Home(id),
                    gain: bytes * (self.length(0, self.list.len()) - busy).max(1.0)
                        / if writes { 2.0 } else { 1.0 },
                })
            }
            _ => None,
        }
    }
}

/// Whether a buffer lives as long as the program and may do so on the host.
fn has_home(buffer: &Buffer) -> bool {
    // Edge types stay: they pick places, and their role identifies them.
    let kind = matches!(
        buffer.role,
        Role::Features
            | Role::FeatureValues
            | Role::Degree(..)
            | Role::RelationDegree(_)
            | Role::EdgeFeatures(_)
            | Role::Param(_)
            | Role::State(..)
            | Role::Static
    );
    kind && buffer.slots == 1
}

/// A new buffer of a program.
fn add(program: &mut Program, buffer: Buffer, hosted: bool) -> BufferId {
    let id = BufferId(program.buffers.len() as u32);
    program.buffers.push(buffer);
    if hosted {
        program.hosted.push(id);
    }
    id
}

/// A host buffer for offloaded data of another buffer.
fn twin(of: &Buffer, extent: Extent) -> Buffer {
    Buffer {
        name: format!("{}.host", of.name),
        extent,
        role: Role::Temp,
        ..of.clone()
    }
}

/// A move of all rows.
fn copy(from: Ref, to: Ref) -> Instr {
    let chunk = None;
    Instr::Move(instr::Move { from, to, chunk })
}

/// A slot of a buffer outside of loops.
fn slot(buffer: BufferId, base: u32) -> Ref {
    Ref {
        buffer,
        base,
        in_loop: false,
    }
}

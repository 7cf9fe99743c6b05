//! Tensors that rest in the memory of the host where a rank's own is too small (NeutronTP, section 3.4:
//! what is not worked on lives in host memory).
//!
//! A pass over finished lists that knows of no placement. As long as the buffers do not fit, it looks where
//! most of them live at once, and of those that nothing touches there moves the one that frees most for
//! longest: bytes times instructions until its next use, over the copies that this takes. Three ways:
//!
//! - a tensor that rests between two uses is stored after the one and fetched before the other, into memory of
//!   its own there (`split`); one that was fetched and not changed need not be stored again;
//! - a tensor that lives as long as the program, such as features or the state of an optimizer, has its home
//!   on the host and is fetched where it is used (`home`);
//! - a stack that loops fill and read slot by slot stays on the host, and every loop has a few slots that its
//!   iterations take in turn; the next slot is fetched while an iteration runs, the last one stored (`ring`).
//!
//! Where what one instruction works on does not fit by itself, it runs over one chunk of its rows after the other,
//! with as few chunks as will do, and of the tensors that it uses by rows only those of a chunk are here
//! (`stream`). What edges pick rows from stays whole. Where that is not enough, the ends of edges rest on the host too, and
//! every kernel that walks them fetches those of a chunk (`topology`).
//!
//! In the end copies are cut into halves that lie as far apart as the memory allows (`widen`). Nothing else
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

use super::checked::check;
use gnnc_ir::program::instr;
use gnnc_ir::program::memory::{Lives, begins, positions};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Buffer, BufferId, Extent, Instr, Program, RankSizes, Ref, Role};
use std::cmp::Ordering;
use tries::Tries;

/// What a rank has for the buffers of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Its share of the data.
    pub sizes: RankSizes,
    /// Bytes of its memory that buffers may take.
    pub bytes: u64,
    /// Bytes that it lacks for what is no buffer, if it has none for these.
    pub lacking: u64,
    /// Whether the ends of edges take memory beside that, which buffers may take where they are fetched.
    pub lists: bool,
}

/// Programs that do not fit, whatever is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Short {
    /// Bytes that the rank that lacks most would need beyond what it has.
    pub bytes: u64,
}

/// Whether slots are fetched and stored beside computing, which takes more of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Roomy,
    Tight,
}

/// How a program may be changed.
#[derive(Clone, Copy, Debug)]
struct Means {
    style: Style,
    /// Into how many chunks rows may be cut.
    chunks: Option<u32>,
    /// Whether the ends of edges rest on the host too.
    lists: bool,
}

/// One change of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// A tensor rests between the uses that end and begin at these places of the list.
    Split(Phase, BufferId, [usize; 2]),
    /// A tensor has its home on the host.
    Home(BufferId),
    /// A stack stays on the host.
    Ring(Phase, BufferId),
    /// The instruction at a place of the list has one chunk of a tensor's rows after the other.
    Stream(Phase, usize, BufferId),
}

/// A choice, with what it frees times for how long, and how often it copies that.
struct Candidate {
    choice: Choice,
    gain: f64,
}

/// Moves what is needed to make programs fit that are equal but for columns, the first with the widest: all are
/// changed alike. Nothing is changed where they fit.
///
/// # Errors
/// How much is missing when there is nothing left to move.
pub fn offload(programs: &[Program], budgets: &[MemoryBudget]) -> Result<Vec<Program>, Short> {
    offload_counted(programs, budgets, &mut 0)
}

/// As [`offload`]; `looks` grows by how often it is found what some programs take, which is what the time goes to.
///
/// # Errors
/// As [`offload`].
pub fn offload_counted(
    programs: &[Program],
    budgets: &[MemoryBudget],
    looks: &mut u32,
) -> Result<Vec<Program>, Short> {
    let programs = fitted(programs, budgets, looks)?;
    for (program, budget) in programs.iter().zip(budgets) {
        check(program, None, Some(budget.sizes), "offloading");
    }
    Ok(programs)
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
        // What the most chunks do not do, fewer do not.
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

/// Where most bytes live at once: a phase and a place of its list.
struct Peak {
    phase: Phase,
    place: usize,
}

/// The best thing to move away from where most bytes live.
fn choose(lives: &Lives, sizes: &RankSizes, means: Means) -> Option<Choice> {
    let program = lives.program();
    let peak = peak(lives, sizes)?;
    let ids = (0..program.buffers.len() as u32).map(BufferId);
    let place = Place::of(program, sizes, &peak, means.style);
    let candidates = ids.filter_map(|id| place.candidate(id));
    let better = |a: &Candidate, b: &Candidate| a.gain.total_cmp(&b.gain);
    // Of several that are as good, the first.
    let best = candidates.reduce(|best, next| match better(&next, &best) {
        Ordering::Greater => next,
        _ => best,
    });
    let streamed = || {
        let id = stream::candidate(program, sizes, (peak.phase, peak.place), means)?;
        Some(Choice::Stream(peak.phase, peak.place, id))
    };
    best.map(|best| best.choice).or_else(streamed)
}

fn peak(lives: &Lives, sizes: &RankSizes) -> Option<Peak> {
    let program = lives.program();
    let (at, _) = lives.fullest(&|id| program.buffers[id].words(sizes));
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

/// A place of a list, and what has to be known of the list to choose what to move away from there.
struct Place<'a> {
    program: &'a Program,
    sizes: &'a RankSizes,
    phase: Phase,
    list: &'a [Instr],
    place: usize,
    index: uses::Index,
    /// How many positions the instructions before each place take. Copies count for nothing: of several that are
    /// fetched one after another, each would free its memory while the others are, and change places with them
    /// without end.
    works: Vec<u32>,
    style: Style,
}

impl<'a> Place<'a> {
    fn of(program: &'a Program, sizes: &'a RankSizes, peak: &Peak, style: Style) -> Self {
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
            sizes,
            phase: peak.phase,
            list,
            place: peak.place,
            index: uses::Index::of(list),
            works,
            style,
        }
    }

    /// Positions that the instructions of a range take.
    fn length(&self, from: usize, to: usize) -> f64 {
        f64::from(self.works[to].saturating_sub(self.works[from]))
    }

    fn candidate(&self, id: BufferId) -> Option<Candidate> {
        let Self { program, place, .. } = *self;
        let buffer = program.buffer(id);
        let bytes = buffer.words(self.sizes) as f64;
        if program.is_hosted(id) || bytes == 0.0 {
            return None;
        }
        let uses = || uses::indexed(self.list, &self.index, id);
        match buffer.role {
            Role::Temp if program.logits.is_some_and(|at| at.buffer == id) => None,
            Role::Temp if buffer.slots == 1 => {
                let uses = uses();
                let mut gaps = uses.windows(2).map(|pair| [pair[0][1], pair[1][0]]);
                let gap = gaps.find(|gap| gap[0] < place && place < gap[1])?;
                let freed = self.length(gap[0] + 1, gap[1]);
                if freed == 0.0 {
                    return None;
                }
                let copies = match split::clean(self.list, &self.index, program, id) {
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
                let uses = uses();
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
    // Types of edges stay: they pick places, and are known by their role.
    let kind = matches!(
        buffer.role,
        Role::Features
            | Role::FeatureValues
            | Role::Degree(..)
            | Role::RelationDegree(_)
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

/// A buffer like another one, for what of it rests on the host.
fn twin(of: &Buffer, extent: Extent) -> Buffer {
    Buffer {
        name: format!("{}.host", of.name),
        extent,
        role: Role::Temp,
        ..of.clone()
    }
}

/// A copy of all rows.
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

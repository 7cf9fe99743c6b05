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
//! (`stream`). What arcs pick rows from stays whole. Where that is not enough, the ends of arcs rest on the host too, and
//! every kernel that walks them fetches those of a chunk (`topology`).
//!
//! In the end copies are cut into halves that lie as far apart as the memory allows (`widen`). Nothing else
//! changes, so every number is computed as before.

mod home;
mod ring;
mod split;
mod stream;
mod topology;
mod uses;
mod widen;

use gnnc_ir::memory::{Lifetime, begins, layout, lifetimes, positions};
use gnnc_ir::program::{Buffer, BufferId, Extent, Instr, Program, RankSizes, Ref, Role};
use gnnc_ir::trace::Phase;
use std::cmp::Ordering;

/// What a rank has for the buffers of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Its share of the data.
    pub sizes: RankSizes,
    /// Bytes of its memory that buffers may take.
    pub bytes: u64,
    /// Bytes that it lacks for what is no buffer, if it has none for these.
    pub lacking: u64,
    /// Whether the ends of arcs take memory beside that, which buffers may take where they are fetched.
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
pub fn offload(programs: &[Program], rooms: &[Room]) -> Result<Vec<Program>, Short> {
    let attempt = |style, chunks, lists: bool| {
        let (mut moved, mut rooms) = (programs.to_vec(), rooms.to_vec());
        let means = Means { style, chunks };
        if lists {
            topology::topology(&mut moved, &mut rooms, means);
        }
        fit(&mut moved, &rooms, means)?;
        moved.iter_mut().for_each(stream::unroll);
        match moved.first().map_or(0, |first| most_beyond(first, &rooms)) {
            0 => Ok(widen::widen(moved, &rooms)),
            bytes => Err(Short { bytes }),
        }
    };
    let mut short = Short { bytes: 0 };
    for style in [Style::Roomy, Style::Tight] {
        match attempt(style, None, false) {
            Ok(moved) => return Ok(moved),
            Err(missing) => short = missing,
        }
    }
    let counts = stream::counts(programs, rooms);
    let Some(most) = counts.last() else {
        return Err(short);
    };
    for lists in [false, true] {
        // What the most chunks do not do, fewer do not.
        let smallest = match attempt(Style::Tight, Some(*most), lists) {
            Ok(smallest) => smallest,
            Err(missing) => {
                short = missing;
                continue;
            }
        };
        for count in &counts {
            for style in [Style::Roomy, Style::Tight] {
                if let Ok(moved) = attempt(style, Some(*count), lists) {
                    return Ok(moved);
                }
            }
        }
        return Ok(smallest);
    }
    Err(short)
}

/// The same of the room that lacks most.
fn most_beyond(program: &Program, rooms: &[Room]) -> u64 {
    let all = rooms.iter().map(|room| beyond(program, room));
    all.max().unwrap_or(0)
}

/// Bytes by which the buffers of a program are larger than a room.
fn beyond(program: &Program, room: &Room) -> u64 {
    let needed = layout(program, &room.sizes).total_bytes;
    needed
        .saturating_add(room.lacking)
        .saturating_sub(room.bytes)
}

fn fit(programs: &mut [Program], rooms: &[Room], means: Means) -> Result<(), Short> {
    let Some(first) = programs.first() else {
        return Ok(());
    };
    let mut missing: Vec<u64> = rooms.iter().map(|room| beyond(first, room)).collect();
    loop {
        let worst = (0..rooms.len()).max_by_key(|n| (missing[*n], usize::MAX - n));
        let Some((worst, room)) = worst.map(|n| (n, &rooms[n])) else {
            return Ok(());
        };
        if missing[worst] == 0 {
            return Ok(());
        }
        let bytes = missing[worst];
        let Some(choice) = choose(&programs[0], &room.sizes, means) else {
            return Err(Short { bytes });
        };
        if !programs.iter_mut().all(|p| apply(p, choice, means)) {
            return Err(Short { bytes });
        }
        missing[worst] = beyond(&programs[0], room);
        if missing[worst] == 0 {
            missing = rooms
                .iter()
                .map(|room| beyond(&programs[0], room))
                .collect();
        }
    }
}

/// Makes a change; whether it could be made.
fn apply(program: &mut Program, choice: Choice, means: Means) -> bool {
    match choice {
        Choice::Split(phase, id, gap) => split::split(program, phase, id, gap),
        Choice::Home(id) => {
            home::home(program, id);
        }
        Choice::Ring(phase, id) => {
            if let Some(ring) = ring::Ring::of(program, phase, id, means.style) {
                ring.apply(program);
            }
        }
        Choice::Stream(phase, place, id) => {
            return stream::stream(program, (phase, place), id, means).is_some();
        }
    }
    true
}

/// Where most bytes live at once: a phase and a place of its list.
struct Peak {
    phase: Phase,
    place: usize,
}

/// The best thing to move away from where most bytes live.
fn choose(program: &Program, sizes: &RankSizes, means: Means) -> Option<Choice> {
    let lifetimes = lifetimes(program);
    let peak = peak(program, sizes, &lifetimes)?;
    let ids = (0..program.buffers.len() as u32).map(BufferId);
    let index = uses::Index::of(program.list(peak.phase));
    let candidates = ids.filter_map(|id| candidate(program, sizes, &peak, &index, id, means.style));
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

fn peak(program: &Program, sizes: &RankSizes, lifetimes: &[Lifetime]) -> Option<Peak> {
    let mut changes: Vec<(u32, bool, u64)> = Vec::new();
    for (buffer, lifetime) in program.buffers.iter().zip(lifetimes) {
        if let Lifetime::During(stretches) = lifetime {
            let words = buffer.words(sizes);
            for (first, last) in stretches {
                changes.extend([(*first, true, words), (last + 1, false, words)]);
            }
        }
    }
    changes.sort_unstable();
    let (mut live, mut most, mut at) = (0u64, 0u64, begins(program)[1]);
    for (position, begin, words) in changes {
        match begin {
            true => live = live.saturating_add(words),
            false => live = live.saturating_sub(words),
        }
        if live > most {
            (most, at) = (live, position);
        }
    }
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

fn candidate(
    program: &Program,
    sizes: &RankSizes,
    peak: &Peak,
    index: &uses::Index,
    id: BufferId,
    style: Style,
) -> Option<Candidate> {
    let buffer = program.buffer(id);
    let bytes = buffer.words(sizes) as f64;
    if program.is_hosted(id) || bytes == 0.0 {
        return None;
    }
    let list = program.list(peak.phase);
    let uses = uses::indexed(list, index, id);
    // Copies count for nothing: of several that are fetched one after another, each would free its memory while
    // the others are, and change places with them without end.
    let length = |from: usize, to: usize| -> f64 {
        let part = list.get(from..to).unwrap_or(&[]).iter();
        let works = part.filter(|instr| !matches!(instr, Instr::Move { .. }));
        works
            .map(|instr| f64::from(positions(std::slice::from_ref(instr))))
            .sum()
    };
    match buffer.role {
        Role::Temp if program.logits.is_some_and(|at| at.buffer == id) => None,
        Role::Temp if buffer.slots == 1 => {
            let gaps = uses.windows(2).map(|pair| [pair[0][1], pair[1][0]]);
            let gap = gaps
                .into_iter()
                .find(|gap| gap[0] < peak.place && peak.place < gap[1])?;
            let freed = length(gap[0] + 1, gap[1]);
            if freed == 0.0 {
                return None;
            }
            let copies = match split::clean(list, index, program, id) {
                Some(_) => 1.0,
                None => 2.0,
            };
            Some(Candidate {
                choice: Choice::Split(peak.phase, id, gap),
                gain: bytes * freed / copies,
            })
        }
        Role::Temp => {
            let (first, last) = (uses.first()?, uses.last()?);
            if peak.place < first[0] || last[1] < peak.place {
                return None;
            }
            let slots = ring::Ring::of(program, peak.phase, id, style)?.slots();
            let freed = 1.0 - f64::from(slots) / f64::from(buffer.slots);
            Some(Candidate {
                choice: Choice::Ring(peak.phase, id),
                gain: bytes * freed * length(first[0], last[1] + 1) / 2.0,
            })
        }
        Role::Features
        | Role::FeatureValues
        | Role::Degree(..)
        // Types stay: they pick places, and are known by their role.
        | Role::RelationDegree(_)
        | Role::Param(_)
        | Role::State(..)
        | Role::Static
            if buffer.slots == 1 =>
        {
            let used = |[first, last]: &[usize; 2]| (*first..=*last).contains(&peak.place);
            if uses.iter().any(used) {
                return None;
            }
            let busy = match (uses.first(), uses.last()) {
                (Some(first), Some(last)) => length(first[0], last[1] + 1),
                _ => 0.0,
            };
            let writes = uses::writes(list, program, id);
            Some(Candidate {
                choice: Choice::Home(id),
                gain: bytes * (length(0, list.len()) - busy).max(1.0)
                    / if writes { 2.0 } else { 1.0 },
            })
        }
        _ => None,
    }
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
    Instr::Move { from, to, chunk }
}

/// A slot of a buffer outside of loops.
fn slot(buffer: BufferId, base: u32) -> Ref {
    Ref {
        buffer,
        base,
        in_loop: false,
    }
}

//! Instructions that run over one chunk of their rows after another (NeutronTP, section 3.4).
//!
//! While moves are being chosen, such an instruction is a loop over chunks, with one copy in its
//! body per tensor that it fetches or stores; a tensor has one slot per chunk present at once.
//! `unroll` writes the loop out: with two slots, copies of adjacent chunks overlap computation.
//!
//! A chunk has all edges of its consecutive rows, so each row is still computed in one go. Sums
//! over rows are cut between blocks, which are added in order anyway: on the CPU, numbers are
//! identical for any number of chunks. On a GPU, sums over rows are added chunk by chunk.

use super::home::home;
use super::ring::last_tag;
use super::split::split;
use super::uses::{of, reads_first, uses};
use super::{Means, MemoryBudget, Style};
use gnnc_ir::kernel::{Body, End, Walk};
use gnnc_ir::program::access::Touched;
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{
    BufferId, Capacity, Chunk, Even, Extent, Grain, Grouped, Instr, Launch, Matrix, Product,
    Program, Ref, Role, Transfer, Vertices,
};

/// Numbers of chunks to try; each chunk costs a launch, and latencies of copies.
const COUNTS: [u32; 5] = [2, 4, 8, 16, 32];

/// Rows per chunk below which more chunks do not help.
const FEWEST_ROWS: u64 = 32;

/// Numbers of chunks that may help programs with these budgets, ascending.
pub(super) fn counts(programs: &[Program], budgets: &[MemoryBudget]) -> Vec<u32> {
    if programs.iter().any(|program| program.pipeline.is_some()) {
        return Vec::new();
    }
    let rows = |budget: &MemoryBudget| {
        budget
            .capacity
            .rows(Extent::Local)
            .max(budget.capacity.most().vertices)
    };
    let most = budgets.iter().map(rows).max().unwrap_or(0) / FEWEST_ROWS;
    let mut counts = COUNTS.to_vec();
    counts.retain(|count| u64::from(*count) <= most.max(2));
    counts
}

/// The largest tensor at a position that can be present a chunk at a time, if that is smaller.
pub(super) fn candidate(
    program: &Program,
    capacity: &Capacity,
    (phase, place): (Phase, usize),
    means: Means,
) -> Option<BufferId> {
    let count = means.chunks?;
    let instr = program.list(phase).get(place)?;
    let even = cut(instr, program)?;
    let (reads, writes) = worker(instr).accesses();
    let mut ids: Vec<BufferId> = reads.iter().chain(&writes).map(|at| at.buffer).collect();
    ids.sort_unstable();
    ids.dedup();
    let words = |id: &BufferId| program.buffer(*id).words(capacity);
    let of = chunks(even, count);
    let chunk = Chunk {
        index: 0,
        of,
        even: Some(even),
    };
    let mut cut = worker(instr).clone();
    cut.set_chunk(chunk);
    ids.retain(|id| {
        let mut buffer = program.buffer(*id).clone();
        (buffer.extent, buffer.slots) = (window(buffer.extent, even, of), means.slots());
        words(id) > buffer.words(capacity) && by_chunks(&cut, program, *id, chunk)
    });
    ids.sort_by_key(|id| std::cmp::Reverse(words(id)));
    let works = |id: &BufferId| {
        let mut copy = program.clone();
        stream(&mut copy, (phase, place), *id, means).is_some()
    };
    ids.into_iter().find(works)
}

impl Means {
    /// Number of a tensor's chunks present at once.
    pub(super) fn slots(&self) -> u32 {
        match self.style {
            Style::Roomy => 2,
            Style::Tight => 1,
        }
    }
}

/// Number of chunks if rows, and edges if any, are cut into `parts`.
pub(super) fn chunks(even: Even, parts: u32) -> u32 {
    if even.edges.is_some() {
        2 * parts
    } else {
        parts
    }
}

/// The extent of a buffer that holds one chunk of these rows.
pub(super) fn window(extent: Extent, even: Even, of: u32) -> Extent {
    if extent.of_edges() {
        Extent::EdgeRun(even, of)
    } else {
        Extent::Run(even, of)
    }
}

/// The working instruction of a loop over chunks; any other instruction is its own.
pub(super) fn worker(instr: &Instr) -> &Instr {
    let Instr::Chunks(instr::Chunks { body, .. }) = instr else {
        return instr;
    };
    let works = |instr: &&Instr| !matches!(instr, Instr::Move(_));
    body.iter().find(works).unwrap_or(instr)
}

/// How the rows of an instruction can be cut, or are.
pub(super) fn cut(instr: &Instr, program: &Program) -> Option<Even> {
    let instr = worker(instr);
    if let Some(chunk) = instr.chunk() {
        return chunk.even.filter(|even| even.grain != Grain::Reach);
    }
    let floats = |at: Ref| program.buffer(at.buffer).storage.is_f32();
    let mut edges = None;
    let (rows, grain) = if let Instr::Launch(launch) = instr {
        let body = &program.kernel(launch.kernel).body;
        match body {
            Body::ColReduce { .. } if !launch.outputs.iter().all(|at| floats(*at)) => {
                return None;
            }
            Body::ColReduce { .. } => (launch.rows, Grain::Sums),
            // It walks edges by type.
            Body::TypeSum { .. } => return None,
            body => {
                let by = Walk::of(body).end();
                edges = body.edge_set().map(|set| Grouped { set, by });
                (launch.rows, Grain::Lines)
            }
        }
    } else if let Instr::MatMul(whole) = instr {
        let by_lines = |launch: &Launch| launch.rows == whole.rows;
        match whole.product {
            Product::Tn if whole.finish.is_some() || !floats(whole.out.at) => return None,
            Product::Tn => (whole.rows, Grain::Products),
            _ if !whole.finish.as_ref().is_none_or(by_lines) => return None,
            Product::Nn | Product::Nt => (whole.rows, Grain::Lines),
        }
    } else {
        return None;
    };
    let rows = Vertices::of(rows)?;
    Some(Even { rows, grain, edges })
}

/// An instruction of a list cut into chunks, as it is or could be, with its first chunk.
pub(super) fn chunked(instr: &Instr, program: &Program, means: Means) -> Option<(Instr, Chunk)> {
    let even = cut(instr, program)?;
    let chunk = even.chunk(0, chunks(even, means.chunks?));
    let mut worker = worker(instr).clone();
    worker.set_chunk(chunk);
    Some((worker, chunk))
}

/// Makes an instruction use a tensor one chunk of rows at a time; `None` if that is impossible.
pub(super) fn stream(
    program: &mut Program,
    (phase, place): (Phase, usize),
    id: BufferId,
    means: Means,
) -> Option<()> {
    let instr = program.list(phase).get(place)?;
    let (cut, chunk) = chunked(instr, program, means)?;
    let one = program.buffer(id).slots == 1 && !program.is_hosted(id);
    if !one || !by_chunks(&cut, program, id, chunk) {
        return None;
    }
    if !matches!(instr, Instr::Chunks(_)) {
        program.list_mut(phase)[place] = Instr::Chunks(instr::Chunks {
            reverse: false,
            body: vec![cut],
        });
    }
    let at = Loop::of(program, phase, place);
    let id = match program.buffer(id).role {
        Role::Temp => id,
        Role::Features | Role::Degree(..) | Role::Static => {
            let copies = home(program, id);
            copies.into_iter().find(|(other, _)| *other == phase)?.1
        }
        _ => return None,
    };
    let id = at.alone(program, id)?;
    at.window(program, id, chunk, means.slots())
}

/// A loop over chunks, identified by the number of such loops before it in its list.
struct Loop {
    phase: Phase,
    before: usize,
}

impl Loop {
    fn of(program: &Program, phase: Phase, place: usize) -> Self {
        let before = program.list(phase)[..place].iter();
        let before = before.filter(|i| matches!(i, Instr::Chunks(_))).count();
        Self { phase, before }
    }

    fn place(&self, program: &Program) -> Option<usize> {
        let list = program.list(self.phase).iter().enumerate();
        let mut loops = list.filter(|(_, i)| matches!(i, Instr::Chunks(_)));
        loops.nth(self.before).map(|(place, _)| place)
    }

    /// Gives the loop a tensor of its own, fetched before it and stored after it if others use it.
    fn alone(&self, program: &mut Program, mut id: BufferId) -> Option<BufferId> {
        let near = |program: &Program, id: BufferId| {
            let place = self.place(program)?;
            let all = uses(program.list(self.phase), id);
            let own = all.iter().position(|one| *one == [place, place])?;
            let before = own.checked_sub(1).map(|n| all[n]);
            Some((place, before, all.get(own + 1).copied()))
        };
        let (place, before, _) = near(program, id)?;
        let comes =
            |instr: &Instr| matches!(instr, Instr::Move(instr::Move { to, .. }) if to.buffer == id);
        if let Some(before) = before.filter(|one| !comes(&program.list(self.phase)[one[0]])) {
            let again = BufferId(program.buffers.len() as u32);
            split(program, self.phase, id, [before[1], place]);
            id = again;
        }
        let (place, _, after) = near(program, id)?;
        let goes = |instr: &Instr| matches!(instr, Instr::Move(instr::Move { from, .. }) if from.buffer == id);
        if let Some(after) = after.filter(|one| !goes(&program.list(self.phase)[one[0]])) {
            split(program, self.phase, id, [place, after[0]]);
        }
        Some(id)
    }

    /// Moves the copies of a tensor that only the loop uses into the loop, a chunk at a time.
    fn window(&self, program: &mut Program, id: BufferId, chunk: Chunk, slots: u32) -> Option<()> {
        let even = chunk.even?;
        let place = self.place(program)?;
        let list = program.list(self.phase);
        let all = uses(list, id);
        let own = all.iter().position(|one| *one == [place, place])?;
        let (fetched, stored) = (&all[..own], &all[own + 1..]);
        if fetched.len() > 1 || stored.len() > 1 {
            return None;
        }
        let whole = |one: &[usize; 2]| {
            let Instr::Move(copy) = &list[one[0]] else {
                return None;
            };
            (copy.chunk.is_none() && one[0] == one[1]).then_some((copy.from, copy.to))
        };
        let fetch = fetched
            .first()
            .map(|one| whole(one).filter(|c| c.1.buffer == id));
        let store = stored
            .first()
            .map(|one| whole(one).filter(|c| c.0.buffer == id));
        // Other kinds of copies cannot move inside.
        let (fetch, store) = (
            fetch.map_or(Some(None), |copy| copy.map(Some))?,
            store.map_or(Some(None), |copy| copy.map(Some))?,
        );
        let accesses = of(&list[place], program, id);
        let writes = accesses.iter().any(|access| access.writes);
        if fetch.is_none() && reads_first(accesses.iter(), false) {
            return None;
        }
        let rows = |at: Ref| program.buffer(at.buffer).extent;
        let (from, to) = (fetch.map(|c| c.0), store.map(|c| c.1));
        // On one rank there are no halo rows.
        let outside = |at: Option<Ref>| {
            let short = even.rows == Vertices::Local && program.ranks > 1;
            at.is_some_and(|at| short && rows(at) == Extent::Inner)
        };
        // Halo rows that are fetched and stored again would be lost.
        let lost = even.rows == Vertices::Inner
            && writes
            && program.ranks > 1
            && to.is_some_and(|at| rows(at) == Extent::Local);
        let begin = fetched.first().map_or(place, |one| one[0]);
        let changed = |at: Ref| {
            let mut between = list[begin + 1..=place].iter().chain(&list[place..place]);
            between.any(|instr| of(instr, program, at.buffer).iter().any(|a| a.writes))
        };
        if outside(from) || outside(to) || lost || begin < place && from.is_some_and(changed) {
            return None;
        }
        let mut gone: Vec<usize> = fetched.iter().chain(stored).map(|one| one[0]).collect();
        gone.sort_unstable();
        let here = Ref {
            buffer: id,
            base: 0,
            in_loop: true,
        };
        if let Instr::Chunks(instr::Chunks { body, .. }) = &mut program.list_mut(self.phase)[place]
        {
            for instr in body.iter_mut() {
                instr.each_ref(&mut |at| {
                    if at.buffer == id {
                        *at = here;
                    }
                });
            }
            let copy = |from, to| {
                Instr::Move(instr::Move {
                    from,
                    to,
                    chunk: Some(chunk),
                })
            };
            body.splice(0..0, from.map(|from| copy(from, here)));
            body.extend(to.map(|to| copy(here, to)));
        }
        for place in gone.into_iter().rev() {
            program.list_mut(self.phase).remove(place);
        }
        let buffer = &mut program.buffers[id.0 as usize];
        (buffer.extent, buffer.slots) = (window(buffer.extent, even, chunk.of), slots);
        Some(())
    }
}

/// Whether an instruction over a chunk needs only the chunk's rows of a movable buffer.
pub(super) fn by_chunks(instr: &Instr, program: &Program, id: BufferId, chunk: Chunk) -> bool {
    let buffer = program.buffer(id);
    let kept = program.logits.is_some_and(|at| at.buffer == id);
    let words = buffer.columns.is_multiple_of(buffer.storage.in_word());
    let role = matches!(
        buffer.role,
        Role::Temp | Role::Features | Role::Degree(..) | Role::Static
    );
    !kept && words && role && holds(program, id, chunk) && by_rows(instr, program, id, chunk)
}

/// Whether a buffer begins with the rows of a cut.
fn holds(program: &Program, id: BufferId, chunk: Chunk) -> bool {
    let extent = program.buffer(id).extent;
    let Some(even) = chunk.even else {
        return false;
    };
    // Edges are stored by destination.
    let edges = even.edges.filter(|edges| edges.by == End::Dst);
    let edges = edges.map(|edges| even.rows.extent().edges(edges.set));
    let own = matches!(extent, Extent::Inner | Extent::Local);
    let vertices = match even.rows {
        Vertices::Inner => own,
        Vertices::Local => extent == Extent::Local || own && program.ranks == 1,
        Vertices::All => extent == Extent::All,
    };
    vertices || Some(extent) == edges
}

/// Whether an instruction over a chunk uses exactly the chunk's rows of a buffer.
fn by_rows(instr: &Instr, program: &Program, id: BufferId, chunk: Chunk) -> bool {
    let accesses = of(instr, program, id);
    let columns = program.buffer(id).columns;
    let dense = |m: &Matrix| m.at.buffer != id || m.stride == columns;
    let launched = |launch: &Launch| {
        let kernel = program.kernel(launch.kernel);
        let inputs = launch.inputs.iter().zip(&kernel.inputs);
        let mut all = inputs.chain(launch.outputs.iter().zip(&kernel.outputs));
        all.all(|(at, operand)| at.buffer != id || operand.stride == columns)
    };
    let factors = if let Instr::MatMul(instr::MatMul { a, b, out, .. }) = instr {
        [a, b, out].into_iter().all(dense)
    } else {
        matches!(instr, Instr::Launch(_))
    };
    let strides = factors && instr.launch().is_none_or(launched);
    let own = |access: &gnnc_ir::program::access::Access| access.rows == Touched::Rows(chunk);
    strides && !accesses.is_empty() && accesses.iter().all(own)
}

/// Writes out loops over chunks.
pub(super) fn unroll(program: &mut Program) {
    let mut tag = last_tag(program);
    for phase in Phase::ALL {
        let list = std::mem::take(program.list_mut(phase));
        let mut out = Vec::with_capacity(list.len());
        for instr in list {
            if let Instr::Chunks(instr::Chunks { body, .. }) = &instr
                && let Some(chunk) = worker(&instr).chunk().filter(|c| c.even.is_some())
            {
                written_out(program, body, chunk, &mut tag, &mut out);
            } else {
                out.push(instr);
            }
        }
        *program.list_mut(phase) = out;
    }
}

/// Writes out one loop, chunk by chunk; copies are cut into halves if their tensor has two slots.
fn written_out(
    program: &Program,
    body: &[Instr],
    chunk: Chunk,
    tag: &mut u32,
    out: &mut Vec<Instr>,
) {
    let slots = |at: &Ref| program.buffer(at.buffer).slots;
    let of_chunk = |instr: &Instr, index: u32| {
        let mut instr = instr.clone();
        instr.set_chunk(chunk.at(index));
        instr.each_ref(&mut |at| {
            let extent = program.buffer(at.buffer).extent;
            if matches!(extent, Extent::Run(..) | Extent::EdgeRun(..)) {
                (at.base, at.in_loop) = (index % slots(at).max(1), false);
            }
        });
        instr
    };
    let mut copies: Vec<Copies> = Vec::new();
    for instr in body {
        if let Instr::Move(instr::Move { from, to, .. }) = instr {
            let fetches = program.is_hosted(from.buffer);
            let here = if fetches { to } else { from };
            copies.push(Copies {
                fetches,
                here: here.buffer,
                apart: slots(here) > 1,
                first: *tag + 1,
            });
            *tag += chunk.of;
        }
    }
    let moves = || {
        let moves = body.iter().filter(|i| matches!(i, Instr::Move(_)));
        moves.zip(&copies)
    };
    let half = |copy: &Copies, instr: &Instr, index: u32, begins: bool| {
        let what = Box::new(of_chunk(instr, index));
        let tag = copy.first + index;
        match begins {
            true => Instr::Begin(Transfer { tag, what }),
            false => Instr::Finish(Transfer { tag, what }),
        }
    };
    for index in 0..chunk.of {
        // The slots of the chunk before the previous one are reused.
        for (instr, copy) in moves().filter(|(_, c)| c.apart && !c.fetches) {
            let both = copies.iter().any(|c| c.fetches && c.here == copy.here);
            let late = if both { 1 } else { 2 };
            if let Some(over) = index.checked_sub(late) {
                out.push(half(copy, instr, over, false));
            }
        }
        for (instr, copy) in moves().filter(|(_, c)| c.apart && c.fetches) {
            if index == 0 {
                out.push(half(copy, instr, 0, true));
            }
            if index + 1 < chunk.of {
                out.push(half(copy, instr, index + 1, true));
            }
        }
        for (instr, copy) in moves().filter(|(_, c)| c.apart && c.fetches) {
            out.push(half(copy, instr, index, false));
        }
        for instr in body {
            let copy = moves().find(|(other, _)| std::ptr::eq(*other, instr));
            match copy {
                None => out.push(of_chunk(instr, index)),
                Some((_, copy)) if !copy.apart => out.push(of_chunk(instr, index)),
                Some((_, copy)) if !copy.fetches => out.push(half(copy, instr, index, true)),
                Some(_) => {}
            }
        }
    }
    for (instr, copy) in moves().filter(|(_, c)| c.apart && !c.fetches) {
        let both = copies.iter().any(|c| c.fetches && c.here == copy.here);
        let late = if both { 1 } else { 2 };
        for over in chunk.of.saturating_sub(late)..chunk.of {
            out.push(half(copy, instr, over, false));
        }
    }
}

/// The copies of one tensor in a loop, one per chunk.
struct Copies {
    fetches: bool,
    here: BufferId,
    /// Whether they run during computation.
    apart: bool,
    /// The tag of the first one.
    first: u32,
}

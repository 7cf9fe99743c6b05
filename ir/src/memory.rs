//! Where the buffers of a program lie in a rank's memory.
//!
//! The executor allocates what [`layout`] says and the simulator reports it, so a predicted
//! peak is the allocated one.

use crate::kernel::{Body, COLUMN_BLOCK};
use crate::program::{
    Buffer, BufferId, Chunk, Extent, Instr, Product, Program, RankSizes, Ref, Role,
};

/// Floats that every offset is a multiple of: 64 bytes.
pub const ALIGN: u64 = 16;

/// Rows of a block of a transposed product are at least this many.
const PRODUCT_BLOCK: u64 = 512;
/// Blocks of a transposed product are at most this many.
const PRODUCT_BLOCKS: u64 = 32;

/// Temporary buffers beyond which only one order of placing them is tried: the time grows with their square.
const MANY: usize = 500;

/// Where everything lies in a rank's memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// First float of each buffer.
    pub offsets: Vec<u64>,
    /// First float of the partial sums of column reductions and transposed products.
    pub scratch: u64,
    /// Bytes of the buffers that lie in the memory of the host, in which their offsets are.
    pub host_bytes: u64,
    /// Bytes of the buffers that live as long as the program.
    pub persistent_bytes: u64,
    /// Bytes of everything.
    pub total_bytes: u64,
}

/// When the contents of a buffer matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// From before `setup` to the end.
    Always,
    /// First and last instruction of each stretch, counted through `setup`, `step` and
    /// `eval` with loop bodies counted once; empty if the buffer is never touched.
    During(Vec<(u32, u32)>),
}

impl Lifetime {
    /// Whether two buffers may never share memory.
    pub fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::During(a), Self::During(b)) => {
                a.iter().any(|x| b.iter().any(|y| x.0 <= y.1 && y.0 <= x.1))
            }
            _ => true,
        }
    }
}

/// Places the buffers of a program on a rank. Temporary buffers share memory where their
/// lifetimes allow it. A size beyond 64 bits is given as the largest there is.
pub fn layout(program: &Program, sizes: &RankSizes) -> Layout {
    let lifetimes = lifetimes(program);
    let floats: Vec<u64> = program
        .buffers
        .iter()
        .map(|b| aligned(b.words(sizes)))
        .collect();
    let mut offsets = vec![0; floats.len()];
    let (mut end, mut hosted) = (0u64, 0u64);
    for (id, lifetime) in lifetimes.iter().enumerate() {
        if program.is_hosted(BufferId(id as u32)) {
            offsets[id] = hosted;
            hosted = hosted.saturating_add(floats[id]);
        } else if *lifetime == Lifetime::Always {
            offsets[id] = end;
            end = end.saturating_add(floats[id]);
        }
    }
    let persistent = end;
    let (top, temporary) = orders(&lifetimes, &floats)
        .into_iter()
        .map(|order| first_fit(&order, &lifetimes, &floats))
        .min_by_key(|(top, _)| *top)
        .unwrap_or_default();
    for (id, offset) in temporary {
        offsets[id] = persistent.saturating_add(offset);
    }
    let scratch = persistent.saturating_add(top);
    let scratch_floats = [&program.setup, &program.step, &program.eval]
        .into_iter()
        .map(|instrs| scratch_floats(instrs, program, sizes))
        .max()
        .unwrap_or(0);
    Layout {
        offsets,
        scratch,
        host_bytes: hosted.saturating_mul(4),
        persistent_bytes: persistent.saturating_mul(4),
        total_bytes: scratch
            .saturating_add(aligned(scratch_floats))
            .saturating_mul(4),
    }
}

/// Bytes that no layout of the buffers can do without: buffers that live as long as the program, temporary
/// ones that live at the same time, and partial sums.
pub fn least(program: &Program, sizes: &RankSizes) -> u64 {
    let mut persistent = 0u64;
    // Where floats begin to live (true) and where they have ceased to.
    let mut changes: Vec<(u32, bool, u64)> = Vec::new();
    for (buffer, lifetime) in program.buffers.iter().zip(lifetimes(program)) {
        let floats = aligned(buffer.words(sizes));
        match lifetime {
            Lifetime::Always => persistent = persistent.saturating_add(floats),
            Lifetime::During(stretches) => {
                for (first, last) in stretches {
                    changes.extend([(first, true, floats), (last + 1, false, floats)]);
                }
            }
        }
    }
    changes.sort_unstable();
    let (mut live, mut most) = (0u64, 0u64);
    for (_, begins, floats) in changes {
        live = match begins {
            true => live.saturating_add(floats),
            false => live.saturating_sub(floats),
        };
        most = most.max(live);
    }
    let phases = [&program.setup, &program.step, &program.eval];
    let scratch = phases.map(|instrs| scratch_floats(instrs, program, sizes));
    let scratch = aligned(scratch.into_iter().max().unwrap_or(0));
    let floats = persistent.saturating_add(most).saturating_add(scratch);
    floats.saturating_mul(4)
}

/// The next multiple of [`ALIGN`].
fn aligned(floats: u64) -> u64 {
    floats.checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX)
}

/// Rows of each block of a transposed product over `rows` rows; a block's product is a
/// partial sum, and partial sums are added in order. Never depends on threads.
pub fn product_block(rows: u64) -> u64 {
    rows.div_ceil(PRODUCT_BLOCKS)
        .next_multiple_of(64)
        .max(PRODUCT_BLOCK)
}

/// The lifetime of each buffer.
pub fn lifetimes(program: &Program) -> Vec<Lifetime> {
    let mut stretches = vec![Vec::new(); program.buffers.len()];
    let mut begins = begins(program).into_iter();
    for (phase, kept) in [
        (&program.setup, [None, None]),
        (&program.step, [program.loss, None]),
        (
            &program.eval,
            [program.metrics, program.logits.map(|r| r.buffer)],
        ),
    ] {
        let begin = begins.next().unwrap_or(0);
        let mut walk = Walk {
            next: begin,
            ..Walk::default()
        };
        walk.touches.resize(program.buffers.len(), Vec::new());
        walk.visit(phase);
        let end = walk.next.max(begin + 1);
        for (id, touches) in walk.touches.iter().enumerate() {
            let kept = kept.contains(&Some(BufferId(id as u32)));
            if let Some((first, last)) = stretch(touches, &walk.loops, kept) {
                stretches[id].push((first, if kept { end } else { last }));
            }
        }
    }
    let lifetime = |(n, (buffer, stretches)): (u32, (&Buffer, _))| match buffer.role {
        // Not a matter of this memory.
        _ if program.is_hosted(BufferId(n)) => Lifetime::During(Vec::new()),
        Role::Temp => Lifetime::During(stretches),
        _ => Lifetime::Always,
    };
    let buffers = program.buffers.iter().zip(stretches);
    (0..).zip(buffers).map(lifetime).collect()
}

/// The first position of `setup`, `step` and `eval` in lifetimes.
pub fn begins(program: &Program) -> [u32; 3] {
    let mut begin = 0;
    [&program.setup, &program.step, &program.eval].map(|list| {
        // One position apart, so that what is kept to the end of a phase meets nothing after it.
        let own = begin;
        begin += positions(list).max(1) + 1;
        own
    })
}

/// Positions that a list takes in lifetimes: bodies of loops are counted once.
pub fn positions(list: &[Instr]) -> u32 {
    let one = |instr: &Instr| match instr {
        Instr::Repeat { body, .. } | Instr::Chunks { body, .. } => positions(body),
        _ => 1,
    };
    list.iter().map(one).sum()
}

/// One instruction's use of a buffer.
#[derive(Clone, Debug)]
struct Touch {
    at: u32,
    /// Whether the instruction needs what was there before.
    reads: bool,
    in_loop: bool,
    /// Enclosing loops, outermost first.
    loops: Vec<usize>,
}

#[derive(Default)]
struct Walk {
    next: u32,
    path: Vec<usize>,
    /// First and last position of each loop.
    loops: Vec<(u32, u32)>,
    touches: Vec<Vec<Touch>>,
}

impl Walk {
    fn visit(&mut self, instrs: &[Instr]) {
        for instr in instrs {
            if let Instr::Repeat { body, .. } | Instr::Chunks { body, .. } = instr {
                let id = self.loops.len();
                self.loops.push((self.next, self.next));
                self.path.push(id);
                self.visit(body);
                self.path.pop();
                self.loops[id].1 = self.next.saturating_sub(1).max(self.loops[id].0);
                continue;
            }
            let (reads, writes) = instr.accesses();
            // What a product writes, its finishing kernel may read.
            let produced = match instr {
                Instr::MatMul { a, b, out, .. }
                    if ![a.at.buffer, b.at.buffer].contains(&out.at.buffer) =>
                {
                    Some(out.at.buffer)
                }
                _ => None,
            };
            for (access, read) in reads
                .iter()
                .map(|r| (r, Some(r.buffer) != produced))
                .chain(writes.iter().map(|w| (w, false)))
            {
                self.touch(access, read);
            }
            self.next += 1;
        }
    }

    fn touch(&mut self, access: &Ref, reads: bool) {
        let touch = Touch {
            at: self.next,
            reads,
            in_loop: access.in_loop,
            loops: self.path.clone(),
        };
        if let Some(touches) = self.touches.get_mut(access.buffer.0 as usize) {
            touches.push(touch);
        }
    }
}

/// From the first to the last position where a buffer's contents matter in a phase.
///
/// A buffer that only one loop's body touches, that is written before it is read there and
/// that is the same in every iteration lives within an iteration. Any other use inside a
/// loop may reach over to another iteration, so it extends over the loop.
fn stretch(touches: &[Touch], loops: &[(u32, u32)], kept: bool) -> Option<(u32, u32)> {
    let first = touches.first()?;
    let within_iteration = !kept && !first.reads && touches.iter().all(|t| !t.in_loop);
    let common = touches.iter().fold(first.loops.len(), |common, touch| {
        let same = first
            .loops
            .iter()
            .zip(&touch.loops)
            .take_while(|(a, b)| a == b)
            .count();
        common.min(same)
    });
    let depth = if within_iteration { common } else { 0 };
    let span = |touch: &Touch| {
        touch
            .loops
            .get(depth)
            .map_or((touch.at, touch.at), |&l| loops[l])
    };
    let begin = touches.iter().map(|t| span(t).0).min()?;
    let end = touches.iter().map(|t| span(t).1).max()?;
    Some((begin, end))
}

/// Orders in which temporary buffers are placed; the tightest result is taken.
fn orders(lifetimes: &[Lifetime], floats: &[u64]) -> Vec<Vec<usize>> {
    let temporary: Vec<usize> = (0..lifetimes.len())
        .filter(|&id| {
            matches!(&lifetimes[id], Lifetime::During(s) if !s.is_empty()) && floats[id] > 0
        })
        .collect();
    let length = |id: usize| match &lifetimes[id] {
        Lifetime::Always => u64::MAX,
        Lifetime::During(stretches) => stretches.iter().map(|s| u64::from(s.1 - s.0) + 1).sum(),
    };
    let begin = |id: usize| match &lifetimes[id] {
        Lifetime::Always => 0,
        Lifetime::During(stretches) => stretches.iter().map(|s| s.0).min().unwrap_or(0),
    };
    let sorted = |key: &dyn Fn(usize) -> (u64, u64)| {
        let mut order = temporary.clone();
        order.sort_by_key(|&id| (std::cmp::Reverse(key(id)), id));
        order
    };
    let large = sorted(&|id| (floats[id], length(id)));
    if temporary.len() > MANY {
        return vec![large];
    }
    vec![
        large,
        sorted(&|id| (length(id), floats[id])),
        sorted(&|id| (floats[id].saturating_mul(length(id)), 0)),
        sorted(&|id| (u64::MAX - u64::from(begin(id)), floats[id])),
    ]
}

/// Places each buffer at the lowest offset where it meets no other; returns the end of all.
fn first_fit(order: &[usize], lifetimes: &[Lifetime], floats: &[u64]) -> (u64, Vec<(usize, u64)>) {
    // By offset.
    let mut placed: Vec<(usize, u64)> = Vec::with_capacity(order.len());
    let mut top = 0;
    for &id in order {
        let mut offset = 0u64;
        for &(other, begin) in &placed {
            if offset.saturating_add(floats[id]) <= begin {
                break;
            }
            if lifetimes[id].meets(&lifetimes[other]) {
                offset = offset.max(begin.saturating_add(floats[other]));
            }
        }
        top = top.max(offset.saturating_add(floats[id]));
        let at = placed.partition_point(|(_, begin)| *begin <= offset);
        placed.insert(at, (id, offset));
    }
    (top, placed)
}

/// Rows that are summed at once.
fn at_once(chunk: Option<Chunk>, rows: Extent, sizes: &RankSizes) -> u64 {
    let longest = chunk.and_then(|chunk| chunk.even.map(|even| even.longest(chunk.of, sizes)));
    longest.unwrap_or(sizes.rows(rows))
}

/// Floats that the largest set of partial sums of one instruction takes.
fn scratch_floats(instrs: &[Instr], program: &Program, sizes: &RankSizes) -> u64 {
    let one = |instr: &Instr| match instr {
        Instr::Launch(launch) => match program.kernels.get(launch.kernel.0 as usize) {
            Some(kernel) if matches!(kernel.body, Body::ColReduce { .. }) => {
                let rows = at_once(launch.chunk, launch.rows, sizes);
                let blocks = rows.div_ceil(COLUMN_BLOCK as u64).max(1);
                blocks
                    .saturating_mul(u64::from(kernel.heads))
                    .saturating_mul(u64::from(kernel.width))
            }
            _ => 0,
        },
        Instr::MatMul {
            product: Product::Tn,
            rows,
            inner,
            columns,
            chunk,
            ..
        } => {
            let block = product_block(sizes.rows(*rows));
            match at_once(*chunk, *rows, sizes).div_ceil(block) {
                0 | 1 if chunk.is_none() => 0,
                blocks => (blocks.max(1))
                    .saturating_mul(u64::from(*inner))
                    .saturating_mul(u64::from(*columns)),
            }
        }
        Instr::Repeat { body, .. } | Instr::Chunks { body, .. } => {
            scratch_floats(body, program, sizes)
        }
        _ => 0,
    };
    instrs.iter().map(one).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;

//! When the contents of buffers matter, whatever the sizes of a rank.

use crate::program::instr;
use crate::program::{Buffer, BufferId, Instr, Program, Ref, Role};

/// When the contents of a buffer matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// From before `setup` to the end.
    Always,
    /// First and last instruction in `setup`, `step` and `eval`, counted through all three with loop bodies
    /// counted once; none where the buffer is never touched.
    During([Option<(u32, u32)>; 3]),
}

impl Lifetime {
    /// Whether two buffers may never share memory.
    pub fn meets(&self, other: &Self) -> bool {
        meet(&self.stretches(), &other.stretches())
    }

    /// First and last position in each list; of a list that does not touch it, positions that meet none.
    pub(super) fn stretches(&self) -> [(u32, u32); 3] {
        match self {
            Self::Always => [(0, u32::MAX); 3],
            Self::During(stretches) => stretches.map(|stretch| stretch.unwrap_or((u32::MAX, 0))),
        }
    }

    /// From the first position to the last one; none if it is never touched.
    pub(super) fn hull(&self) -> Option<(u32, u32)> {
        let Self::During(stretches) = self else {
            return Some((0, u32::MAX));
        };
        let mut all = stretches.iter().flatten();
        let first = all.next()?;
        Some((first.0, all.next_back().unwrap_or(first).1))
    }

    /// How many positions it takes.
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Always => u64::MAX,
            Self::During(stretches) => {
                let length = |(first, last): &(u32, u32)| u64::from(last - first) + 1;
                stretches.iter().flatten().map(length).sum()
            }
        }
    }
}

/// Whether some of the stretches of two buffers meet in one of the lists.
pub(super) fn meet(a: &[(u32, u32); 3], b: &[(u32, u32); 3]) -> bool {
    let one = |n: usize| a[n].0 <= b[n].1 && b[n].0 <= a[n].1;
    one(0) || one(1) || one(2)
}

/// The lifetime of each buffer.
pub fn lifetimes(program: &Program) -> Vec<Lifetime> {
    let mut stretches = vec![[None; 3]; program.buffers.len()];
    let mut walk = Walk::default();
    let phases = [
        (&program.setup, [None, None]),
        (&program.step, [program.loss, None]),
        (
            &program.eval,
            [program.metrics, program.logits.map(|r| r.buffer)],
        ),
    ];
    for (phase, ((list, kept), begin)) in phases.into_iter().zip(begins(program)).enumerate() {
        walk.list(list, begin);
        let end = walk.next.max(begin + 1);
        let kept = |id: usize| kept.contains(&Some(BufferId(id as u32)));
        for (id, stretch) in walk.stretches(stretches.len(), &kept) {
            stretches[id][phase] = Some(match kept(id) {
                true => (stretch.0, end),
                false => stretch,
            });
        }
    }
    let lifetime = |(n, (buffer, stretches)): (u32, (&Buffer, _))| match buffer.role {
        // Not a matter of this memory.
        _ if program.is_hosted(BufferId(n)) => Lifetime::During([None; 3]),
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
        Instr::Repeat(instr::Repeat { body, .. }) | Instr::Chunks(instr::Chunks { body, .. }) => {
            positions(body)
        }
        _ => 1,
    };
    list.iter().map(one).sum()
}

/// One instruction's use of a buffer.
#[derive(Clone, Copy, Debug)]
struct Touch {
    buffer: usize,
    at: u32,
    /// Whether the instruction needs what was there before.
    reads: bool,
    in_loop: bool,
    /// The innermost loop around it.
    inside: Option<usize>,
}

/// A loop of a list.
#[derive(Clone, Copy, Debug)]
struct Loop {
    first: u32,
    last: u32,
    /// Loops around it.
    depth: usize,
    around: Option<usize>,
}

#[derive(Default)]
struct Walk {
    next: u32,
    inside: Option<usize>,
    loops: Vec<Loop>,
    /// In order.
    touches: Vec<Touch>,
}

/// What is known of a buffer's touches in a list.
#[derive(Clone, Copy)]
struct Use {
    /// The first one.
    first: Touch,
    /// Whether none of them is of a slot that depends on the iteration.
    fixed: bool,
    /// Loops that are around all of them.
    common: usize,
    /// What it lives for, if that is known.
    stretch: Option<(u32, u32)>,
}

impl Walk {
    /// Walks through a list whose first position is given.
    fn list(&mut self, list: &[Instr], begin: u32) {
        *self = Self {
            next: begin,
            ..Self::default()
        };
        self.visit(list);
    }

    fn visit(&mut self, instrs: &[Instr]) {
        for instr in instrs {
            if let Instr::Repeat(instr::Repeat { body, .. })
            | Instr::Chunks(instr::Chunks { body, .. }) = instr
            {
                let (id, around) = (self.loops.len(), self.inside);
                self.loops.push(Loop {
                    first: self.next,
                    last: self.next,
                    depth: around.map_or(0, |id| self.loops[id].depth + 1),
                    around,
                });
                self.inside = Some(id);
                self.visit(body);
                self.inside = around;
                let last = self.next.saturating_sub(1);
                self.loops[id].last = last.max(self.loops[id].first);
                continue;
            }
            // What a product writes, its finishing kernel may read.
            let produced = match instr {
                Instr::MatMul(instr::MatMul { a, b, out, .. })
                    if ![a.at.buffer, b.at.buffer].contains(&out.at.buffer) =>
                {
                    Some(out.at.buffer)
                }
                _ => None,
            };
            instr.each_access(&mut |at: &Ref, writes| {
                self.touches.push(Touch {
                    buffer: at.buffer.0 as usize,
                    at: self.next,
                    reads: !writes && Some(at.buffer) != produced,
                    in_loop: at.in_loop,
                    inside: self.inside,
                });
            });
            self.next += 1;
        }
    }

    /// The loop at a depth around a place within another one, if that is so deep.
    fn at_depth(&self, inside: Option<usize>, depth: usize) -> Option<usize> {
        let mut at = inside?;
        if self.loops[at].depth < depth {
            return None;
        }
        while self.loops[at].depth > depth {
            at = self.loops[at].around?;
        }
        Some(at)
    }

    /// How many loops are around both of two places.
    fn common(&self, a: Option<usize>, b: Option<usize>) -> usize {
        let same = |depth: &usize| {
            let at = self.at_depth(a, *depth);
            at.is_some() && at == self.at_depth(b, *depth)
        };
        (0..).take_while(same).count()
    }

    /// From the first to the last position where each buffer's contents matter.
    ///
    /// A buffer that only one loop's body touches, that is written before it is read there and
    /// that is the same in every iteration lives within an iteration. Any other use inside a
    /// loop may reach over to another iteration, so it extends over the loop.
    fn stretches(
        &self,
        buffers: usize,
        kept: &dyn Fn(usize) -> bool,
    ) -> impl Iterator<Item = (usize, (u32, u32))> + use<> {
        let mut uses: Vec<Option<Use>> = vec![None; buffers];
        for touch in self.touches.iter().filter(|t| t.buffer < buffers) {
            let depth = |inside: Option<usize>| inside.map_or(0, |id| self.loops[id].depth + 1);
            let found = uses[touch.buffer].get_or_insert(Use {
                first: *touch,
                fixed: true,
                common: depth(touch.inside),
                stretch: None,
            });
            found.fixed &= !touch.in_loop;
            let common = self.common(found.first.inside, touch.inside);
            found.common = found.common.min(common);
        }
        for touch in self.touches.iter().filter(|t| t.buffer < buffers) {
            let Some(found) = &mut uses[touch.buffer] else {
                continue;
            };
            let within_iteration = !kept(touch.buffer) && !found.first.reads && found.fixed;
            let depth = if within_iteration { found.common } else { 0 };
            let around = self.at_depth(touch.inside, depth);
            let (first, last) = around.map_or((touch.at, touch.at), |id| {
                (self.loops[id].first, self.loops[id].last)
            });
            let (begin, end) = found.stretch.unwrap_or((first, last));
            found.stretch = Some((begin.min(first), end.max(last)));
        }
        let all = uses.into_iter().enumerate();
        all.filter_map(|(id, found)| Some((id, found?.stretch?)))
    }
}

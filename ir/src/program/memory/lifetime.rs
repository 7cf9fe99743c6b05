//! Lifetimes of buffers; they do not depend on a rank's sizes.

use crate::program::instr;
use crate::program::{Buffer, BufferId, Instr, Program, Ref, Role};

/// When the contents of a buffer matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// From before `setup` to the end.
    Always,
    /// First and last instruction in each of `setup`, `step` and `eval`; `None` if the buffer
    /// is unused there. Positions run through all three lists, and loop bodies count once.
    During([Option<(u32, u32)>; 3]),
}

impl Lifetime {
    /// Whether two lifetimes overlap, so that the buffers cannot share memory.
    pub fn meets(&self, other: &Self) -> bool {
        let [a, b] = [self.stretches(), other.stretches()];
        (0..3).any(|n| a[n].0 <= b[n].1 && b[n].0 <= a[n].1)
    }

    /// First and last position in each list; an empty interval if the list never uses the
    /// buffer.
    fn stretches(&self) -> [(u32, u32); 3] {
        match self {
            Self::Always => [(0, u32::MAX); 3],
            Self::During(stretches) => stretches.map(|stretch| stretch.unwrap_or((u32::MAX, 0))),
        }
    }

    /// From the first to the last position over all lists; `None` if the buffer is never used.
    pub(super) fn hull(&self) -> Option<(u32, u32)> {
        let Self::During(stretches) = self else {
            return Some((0, u32::MAX));
        };
        let mut all = stretches.iter().flatten();
        let first = all.next()?;
        Some((first.0, all.next_back().unwrap_or(first).1))
    }

    /// Number of positions.
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
        walk.list(list, begin, stretches.len());
        let end = walk.next.max(begin + 1);
        let kept = |id: usize| kept.contains(&Some(BufferId(id as u32)));
        for (id, stretch) in walk.stretches(&kept) {
            stretches[id][phase] = Some(match kept(id) {
                true => (stretch.0, end),
                false => stretch,
            });
        }
    }
    let history = |buffer: &Buffer| matches!(buffer.role, Role::History(_));
    let histories = program.buffers.iter().any(history);
    let lifetime = |(n, (buffer, stretches)): (u32, (&Buffer, _))| match buffer.role {
        // Hosted buffers take no memory on the rank.
        _ if program.is_hosted(BufferId(n)) => Lifetime::During([None; 3]),
        Role::Temp => Lifetime::During(stretches),
        // A session that resumes histories runs `setup` again.
        Role::Features | Role::FeatureValues if histories => Lifetime::Always,
        // What is filled before `setup`, or written there, may be needed no longer than that.
        Role::Features | Role::FeatureValues | Role::Static => match stretches {
            [Some((first, last)), None, None] => {
                let written = buffer.role == Role::Static;
                let first = if written { first } else { 0 };
                Lifetime::During([Some((first, last)), None, None])
            }
            _ => Lifetime::Always,
        },
        _ => Lifetime::Always,
    };
    let buffers = program.buffers.iter().zip(stretches);
    (0..).zip(buffers).map(lifetime).collect()
}

/// First positions of `setup`, `step` and `eval`.
pub fn begins(program: &Program) -> [u32; 3] {
    let mut begin = 0;
    [&program.setup, &program.step, &program.eval].map(|list| {
        // Leave a gap, so that a buffer kept to the end of a phase does not overlap the next
        // phase.
        let own = begin;
        begin += positions(list).max(1) + 1;
        own
    })
}

/// Number of positions in a list; loop bodies count once.
pub fn positions(list: &[Instr]) -> u32 {
    let one = |instr: &Instr| instr.body().map_or(1, positions);
    list.iter().map(one).sum()
}

/// One instruction's use of a buffer.
#[derive(Clone, Copy, Debug)]
struct Touch {
    buffer: usize,
    at: u32,
    /// Whether the instruction reads the buffer's previous contents.
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
    /// Number of enclosing loops.
    depth: usize,
    around: Option<usize>,
}

#[derive(Default)]
struct Walk {
    next: u32,
    inside: Option<usize>,
    loops: Vec<Loop>,
    /// By buffer.
    uses: Vec<Option<Use>>,
    /// Touches in loops.
    in_loops: Vec<Touch>,
}

/// Summary of a list's touches of a buffer.
#[derive(Clone, Copy)]
struct Use {
    /// The first touch.
    first: Touch,
    /// Whether no touch addresses a slot by iteration.
    fixed: bool,
    /// Number of loops that enclose all touches.
    common: usize,
    /// The interval in which the buffer is live, as far as known.
    stretch: Option<(u32, u32)>,
}

impl Use {
    /// Extends the interval.
    fn extend(&mut self, (first, last): (u32, u32)) {
        let (begin, end) = self.stretch.unwrap_or((first, last));
        self.stretch = Some((begin.min(first), end.max(last)));
    }
}

impl Walk {
    /// Walks a list whose first position is `begin`, of a program with so many buffers.
    fn list(&mut self, list: &[Instr], begin: u32, buffers: usize) {
        self.next = begin;
        self.loops.clear();
        self.uses.clear();
        self.uses.resize(buffers, None);
        self.in_loops.clear();
        self.visit(list);
    }

    fn visit(&mut self, instrs: &[Instr]) {
        for instr in instrs {
            if let Some(body) = instr.body() {
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
            // A product's finishing kernel may read what the product wrote.
            let mut produced = None;
            if let Instr::MatMul(instr::MatMul { a, b, out, .. }) = instr
                && ![a.at.buffer, b.at.buffer].contains(&out.at.buffer)
            {
                produced = Some(out.at.buffer);
            }
            instr.each_access(&mut |at: &Ref, writes| {
                self.touch(Touch {
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

    fn touch(&mut self, touch: Touch) {
        let Some(known) = self.uses.get(touch.buffer) else {
            return;
        };
        let first = known
            .as_ref()
            .map_or(touch.inside, |found| found.first.inside);
        let common = self.common(first, touch.inside);
        let found = self.uses[touch.buffer].get_or_insert(Use {
            first: touch,
            fixed: true,
            common,
            stretch: None,
        });
        found.fixed &= !touch.in_loop;
        found.common = found.common.min(common);
        match touch.inside {
            None => found.extend((touch.at, touch.at)),
            Some(_) => self.in_loops.push(touch),
        }
    }

    /// The loop at `depth` that encloses the loop `inside`, if it is nested that deeply.
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

    /// Number of loops that enclose both places.
    fn common(&self, a: Option<usize>, b: Option<usize>) -> usize {
        if a.is_none() || b.is_none() {
            return 0;
        }
        let same = |depth: &usize| {
            let at = self.at_depth(a, *depth);
            at.is_some() && at == self.at_depth(b, *depth)
        };
        (0..).take_while(same).count()
    }

    /// First and last position at which each buffer's contents matter.
    ///
    /// A buffer lives within one iteration if a single loop's body uses it, writes it before
    /// reading it, and uses the same slot in every iteration. Any other use inside a loop may
    /// carry data between iterations, so it extends over the loop.
    fn stretches(
        &mut self,
        kept: &dyn Fn(usize) -> bool,
    ) -> impl Iterator<Item = (usize, (u32, u32))> {
        for touch in &self.in_loops {
            let Some(found) = &self.uses[touch.buffer] else {
                continue;
            };
            let within_iteration = !kept(touch.buffer) && !found.first.reads && found.fixed;
            let depth = if within_iteration { found.common } else { 0 };
            let around = self.at_depth(touch.inside, depth);
            let stretch = around.map_or((touch.at, touch.at), |id| {
                (self.loops[id].first, self.loops[id].last)
            });
            if let Some(found) = &mut self.uses[touch.buffer] {
                found.extend(stretch);
            }
        }
        let all = self.uses.iter().enumerate();
        all.filter_map(|(id, found)| Some((id, found.as_ref()?.stretch?)))
    }
}

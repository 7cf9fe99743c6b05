//! Communication among all ranks of a group.

use super::encoded::{as_encoded, encoded};
use super::{Collective, Encoded, Instruction, Operand, Use};
use crate::graph::op;
use crate::program::access::Touched;
use crate::program::leaves::shares;
use crate::program::text::line::{after, arrow, matrix, matrix_at, words};
use crate::program::text::{Reader, Text, TextError};
use crate::program::traffic::{Reads, Traffic, chunk, redistribute_total};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, Terms, Work};
use crate::program::{
    Among, BufferId, Capacity, Extent, Group, Matrix, Moved, Program, RankSizes, Ref,
};
use serde::{Deserialize, Serialize};

/// Sums buffers over ranks, in rank order or along the tree of leaves, as one message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AllReduce {
    /// Buffers with fixed rows: with all their slots, or the slot of an iteration.
    pub buffers: Vec<Ref>,
    /// The ranks.
    #[serde(default, skip_serializing_if = "Among::is_all")]
    pub among: Among,
    /// Of which each block of rows is this rank's slice, if sums are among ranks with the same slice.
    /// Ranks with others may have fewer rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<op::Slice>,
}

/// Moves a tensor from one layout over the ranks to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Redistribute {
    /// How.
    pub how: op::Redistribute,
    /// The operand; heads lie one after the other.
    pub from: Matrix,
    /// The result, which fills its slot.
    pub to: Ref,
    /// Heads of the tensor by rows.
    pub heads: u32,
    /// Columns of a head of the tensor by rows.
    pub width: u32,
    /// Which rows are moved.
    #[serde(default, skip_serializing_if = "Moved::is_all")]
    pub moved: Moved,
    /// How rows travel, if not as they are in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<Encoded>,
}

impl Instruction for AllReduce {
    fn name(&self, _: &Program) -> &'static str {
        "all-reduce"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        let slots = |at: &Ref| match at.in_loop {
            true => Use::Rows(Touched::All),
            false => Use::Slots,
        };
        for at in &self.buffers {
            visit(Operand::read(*at, slots(at)));
        }
        for at in &self.buffers {
            visit(Operand::write(*at, slots(at)));
        }
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        self.buffers.iter_mut().for_each(visit);
    }

    fn check(&self, check: &Check) -> Checked {
        self.buffers.iter().try_for_each(|&at| {
            check.at_least("buffer", at, 0)?;
            check.floats("buffer", at)?;
            let extent = check.program.buffer(at.buffer).extent;
            match matches!(extent, Extent::Fixed(_)) {
                true => Ok(()),
                false => Err(format!(
                    "an all-reduce of {extent} rows, expected fixed ones"
                )),
            }
        })?;
        let Some(slice) = self.slice else {
            return Ok(());
        };
        check.slice(slice, slice.of)?;
        let whole = self.buffers.iter().all(|at| {
            let extent = check.program.buffer(at.buffer).extent;
            matches!(extent, Extent::Fixed(rows) if rows.is_multiple_of(slice.len.max(1)))
        });
        match whole && self.among == Among::Copies {
            true => Ok(()),
            false => Err(
                "an all-reduce of slices, expected blocks of equal slices among the ranks that have them"
                    .to_owned(),
            ),
        }
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    unpriced!();

    fn traffic(&self, program: &Program, _: &Reads, sizes: &[RankSizes], sum: &mut Traffic) {
        // Every chunk goes from each rank to its owner, and its sum from there to each rank.
        let vertices = sizes.first().map_or(0, |sizes| sizes.vertices);
        if let Some(leaves) = program.leaves(vertices) {
            let floats = 4 * self.floats_of_subtrees(program, leaves);
            sum.all_reduce = sum.all_reduce.saturating_add(floats);
            return;
        }
        for group in program.groups(self.among) {
            let floats = self.floats_on(program, group.rank(0));
            let bytes = floats.saturating_mul(8 * u64::from(group.ranks - 1));
            sum.all_reduce = sum.all_reduce.saturating_add(bytes);
        }
    }

    fn print(&self, _: &Program) -> String {
        let among = match self.among {
            Among::All => String::new(),
            among => format!(
                " among {}{}",
                among.text(),
                after(" of ", self.slice.as_ref())
            ),
        };
        format!("all-reduce {}{among}", words(&self.buffers))
    }

    fn collective(&self) -> Option<Collective<'_>> {
        Some(Collective::AllReduce(self))
    }
}

impl AllReduce {
    /// Sums buffers with all their slots over all ranks.
    pub fn whole(buffers: impl IntoIterator<Item = BufferId>) -> Self {
        Self {
            buffers: buffers.into_iter().map(Ref::first).collect(),
            among: Among::All,
            slice: None,
        }
    }

    /// Floats of the message.
    pub fn floats(&self, program: &Program) -> u64 {
        let words = |at: &Ref| {
            let buffer = program.buffer(at.buffer);
            match at.in_loop {
                true => buffer.slot_words(&Capacity::default()),
                false => buffer.words(&Capacity::default()),
            }
        };
        self.buffers.iter().map(words).fold(0, u64::saturating_add)
    }

    /// Floats of the message on a rank, which may have a shorter slice than the one whose program this is.
    fn floats_on(&self, program: &Program, rank: u32) -> u64 {
        let floats = self.floats(program);
        self.slice.map_or(floats, |slice| {
            let other = program.slice(slice.axis, slice.of, rank);
            floats / u64::from(slice.len.max(1)) * u64::from(other.len)
        })
    }

    /// Floats that all ranks send if each gives the sums of its subtrees of so many leaves.
    fn floats_of_subtrees(&self, program: &Program, leaves: u32) -> u64 {
        let (floats, ranks) = (self.floats(program), program.ranks);
        let to_owners = (0..ranks).map(|rank| {
            let own = chunk(floats, ranks, rank);
            let others = floats - (own.end - own.start);
            others.saturating_mul(u64::from(shares(leaves, ranks, rank)))
        });
        let back = floats.saturating_mul(u64::from(ranks.saturating_sub(1)));
        to_owners.fold(back, u64::saturating_add)
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let mut buffers = Vec::new();
        while from.at_numbered("b") {
            buffers.push(Ref::parse(from)?);
        }
        let among = match from.skip("among") {
            true => Among::parse(from)?,
            false => Among::All,
        };
        let slice = match from.skip("of") {
            true => Some(op::Slice::parse(from)?),
            false => None,
        };
        Ok(Self {
            buffers,
            among,
            slice,
        })
    }
}

impl Instruction for Redistribute {
    fn name(&self, _: &Program) -> &'static str {
        self.how.name()
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        use op::Redistribute::{Join, Own, Reduce, Replicate, Split};
        let (source, target) = match (self.moved, self.how) {
            (Moved::Rows(chunk), _) => (Touched::Rows(chunk), Touched::Rows(chunk)),
            (Moved::New(end, chunk), _) => (Touched::New(end, chunk), Touched::New(end, chunk)),
            (Moved::Level(_), _) => (Touched::All, Touched::All),
            // Behind the rows of a group there may be those of its halo.
            (Moved::All, Split(_) | Replicate | Join(_) | Reduce | Own) => {
                (Touched::Own, Touched::Own)
            }
        };
        visit(Operand::read(self.from.at, Use::Rows(source)));
        visit(Operand::write(self.to, Use::Rows(target)));
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.from.at);
        visit(&mut self.to);
    }

    fn check(&self, check: &Check) -> Checked {
        check.moved(self.moved)?;
        check.redistribute(self)
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        false
    }

    fn over_whole_graph(&self) -> bool {
        true
    }

    unpriced!();

    fn traffic(&self, program: &Program, _: &Reads, sizes: &[RankSizes], sum: &mut Traffic) {
        // How many rows are in a chunk does not matter here: all chunks together have all of them.
        let share = |s: &RankSizes| match self.moved.chunk() {
            Some(chunk) => chunk.share(s.inner),
            None => self.moved.own_rows(s),
        };
        let rows: Vec<u64> = sizes.iter().map(share).collect();
        sum.redistribute += self.bytes(program, &rows);
    }

    fn print(&self, program: &Program) -> String {
        format!(
            "redistribute {} {} -> {}, {} x {}, {}{}",
            self.how.text(),
            matrix(&self.from, program),
            self.to.text(),
            self.heads,
            self.width,
            self.moved.text(),
            as_encoded(&self.encoded)
        )
    }

    fn collective(&self) -> Option<Collective<'_>> {
        Some(Collective::Redistribute(self))
    }

    fn communicates(&self) -> bool {
        self.how != op::Redistribute::Own
    }

    fn encoded(&self) -> Option<Encoded> {
        self.encoded
    }

    fn encode(&mut self, so: Encoded) {
        self.encoded = self.communicates().then_some(so);
    }

    fn strip_bytes(&self, program: &Program) -> Option<u64> {
        let cut = matches!(
            self.how,
            op::Redistribute::Split(_) | op::Redistribute::Join(_)
        );
        let storage = program.buffer(self.to.buffer).storage;
        let row = u64::from(self.heads) * u64::from(self.width) * storage.bytes();
        let slices = program.group_ranks(Among::Slices);
        cut.then(|| row.div_ceil(u64::from(slices)))
    }
}

impl Redistribute {
    /// The ranks that it moves rows among: those with slices of one copy, or all if everyone gets whole
    /// rows of the graph. Ranks in groups stay among those of the group.
    pub fn among(&self, program: &Program) -> Among {
        match (self.how, self.moved) {
            (op::Redistribute::Replicate, _) if program.in_groups() => Among::Slices,
            (op::Redistribute::Replicate, Moved::All | Moved::Rows(_) | Moved::New(..)) => {
                Among::All
            }
            _ => Among::Slices,
        }
    }

    /// Bytes that all ranks together send, given each rank's rows.
    pub fn bytes(&self, program: &Program, rows: &[u64]) -> u64 {
        let shape = (self.heads, self.width);
        let row = |numbers| self.row_bytes(program, numbers);
        let of_group = |group: Group| {
            let of_place = |place| rows.get(group.part(place) as usize).copied();
            let rows: Vec<u64> = group.places().filter_map(of_place).collect();
            redistribute_total(self.how, shape, group.ranks, &rows, &row)
        };
        program.groups(self.among(program)).map(of_group).sum()
    }

    /// Bytes of a piece of a row, of so many numbers, in a message.
    fn row_bytes(&self, program: &Program, numbers: u32) -> u64 {
        let storage = program.buffer(self.to.buffer).storage;
        match self.encoded {
            None => u64::from(numbers) * storage.bytes(),
            Some(_) => 4 * u64::from(Encoded::words(&self.encoded, numbers, storage)),
        }
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let how = op::Redistribute::parse(from)?;
        let source = matrix_at(from)?;
        let to = arrow(from)?;
        from.expect(",")?;
        let heads = from.number()?;
        from.expect("x")?;
        let width = from.number()?;
        from.expect(",")?;
        Ok(Self {
            how,
            from: source,
            to,
            heads,
            width,
            moved: Moved::parse(from)?,
            encoded: encoded(from)?,
        })
    }
}

//! Exchanges of halo rows, and reductions of them.

use super::encoded::{as_encoded, encoded, message_bytes};
use super::{Collective, Encoded, Instruction, Operand, Use};
use crate::graph::op::Slice;
use crate::kernel::End;
use crate::program::access::Touched;
use crate::program::text::line::{after, optional};
use crate::program::text::{Reader, Text, TextError};
use crate::program::traffic::{Reads, Traffic, exchanged, row_bytes};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, Terms, Work};
use crate::program::{Among, Program, RankSizes, Ref, Returned, Skip};
use serde::{Deserialize, Serialize};

/// Sends own rows to the ranks that have them in their halo; fills these halo rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HaloExchange {
    /// A buffer with `Local` rows, or with `AllLocal` rows, which ranks with the same slice exchange.
    pub buffer: Ref,
    /// The slice of all columns that this rank holds; `None` if all ranks of the group have the same columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
    /// Which halo rows: sources of edges, or targets to which other ranks add
    /// ([`Halo::Cover`](crate::program::Halo::Cover)).
    #[serde(default = "source", skip_serializing_if = "is_source")]
    pub end: End,
    /// How rows travel, if not as they are in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<Encoded>,
    /// How ranks may leave out their rows, so that others fill in copies; only in `step`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skip>,
}

/// Sends halo rows to their owners, which add them to their own in rank order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HaloReduce {
    /// A buffer with `Local` rows, or with `AllLocal` rows, which ranks with the same slice exchange.
    pub buffer: Ref,
    /// The slice of all columns that this rank holds; `None` if all ranks of the group have the same columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slice: Option<Slice>,
    /// Which halo rows, as for [`HaloExchange`].
    #[serde(default = "source", skip_serializing_if = "is_source")]
    pub end: End,
    /// How rows travel, if not as they are in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoded: Option<Encoded>,
    /// Of gradients by rows that may be copies, which of them are sent; only in `step`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Returned>,
}

impl Instruction for HaloExchange {
    fn name(&self, _: &Program) -> &'static str {
        "halo-exchange"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        let all = Use::Rows(Touched::All);
        let copies = self.skip.map(|skip| skip.copies);
        visit(Operand::read(self.buffer, Use::Rows(Touched::Own)));
        if let Some(copies) = copies {
            visit(Operand::read(copies, all));
        }
        visit(Operand::write(self.buffer, Use::Rows(Touched::Halo)));
        if let Some(copies) = copies {
            visit(Operand::write(copies, all));
        }
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.buffer);
        if let Some(skip) = &mut self.skip {
            visit(&mut skip.copies);
        }
    }

    fn check(&self, check: &Check) -> Checked {
        check.halo_of(self.end)?;
        check.halo(self.buffer, self.slice)
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        true
    }

    unpriced!();

    fn traffic(&self, program: &Program, reads: &Reads, _: &[RankSizes], sum: &mut Traffic) {
        let rows = Rows {
            at: self.buffer,
            slice: self.slice,
            end: self.end,
            encoded: self.encoded,
        };
        let Sent { bytes, crossing } = rows.sent(program, reads);
        sum.crossing += exchanged(crossing, self.skip.as_ref());
        // Everyone who has a block says to its readers what it does with it.
        let flags = self.skip.map_or(0, |skip| skip.rule.flags());
        sum.halo_exchange += exchanged(bytes, self.skip.as_ref()) + 4 * flags * reads.pairs;
    }

    fn print(&self, _: &Program) -> String {
        let skip = after(", ", self.skip.as_ref());
        format!(
            "halo-exchange {}{}{}{}{skip}",
            targets(self.end),
            self.buffer.text(),
            after(" of ", self.slice.as_ref()),
            as_encoded(&self.encoded),
        )
    }

    fn collective(&self) -> Option<Collective<'_>> {
        Some(Collective::HaloExchange(self))
    }

    fn encoded(&self) -> Option<Encoded> {
        self.encoded
    }

    fn encode(&mut self, so: Encoded) {
        // Copies of rows that may be left out are compared bit for bit.
        self.encoded = self.skip.is_none().then_some(so);
    }

    fn strip_bytes(&self, program: &Program) -> Option<u64> {
        Some(u64::from(program.buffer(self.buffer.buffer).row_words()) * 4)
    }
}

fn source() -> End {
    End::Src
}

fn is_source(end: &End) -> bool {
    *end == End::Src
}

/// Says which halo rows are meant, if they are targets.
fn targets(end: End) -> &'static str {
    match end {
        End::Src => "",
        End::Dst => "targets ",
    }
}

fn end(from: &mut Reader<'_>) -> End {
    match from.skip("targets") {
        true => End::Dst,
        false => End::Src,
    }
}

/// Reads of which the columns are a slice, if that is next.
fn slice(from: &mut Reader<'_>) -> Result<Option<Slice>, TextError> {
    match from.skip("of") {
        true => Slice::parse(from).map(Some),
        false => Ok(None),
    }
}

/// The rows of an exchange or a reduction.
struct Rows {
    at: Ref,
    slice: Option<Slice>,
    end: End,
    encoded: Option<Encoded>,
}

/// Bytes that all ranks send for them.
struct Sent {
    bytes: u64,
    /// Those between nodes.
    crossing: u64,
}

impl Rows {
    fn sent(&self, program: &Program, reads: &Reads) -> Sent {
        if program.buffer(self.at.buffer).extent.of_whole_graph() {
            return self.in_lanes(program, reads);
        }
        // In two tiers, rows are encoded only where they cross between nodes.
        let row = message_bytes(program, self.at, &self.encoded);
        let (rows, crossing) = (reads.of(self.end), reads.crossing_of(self.end));
        let bytes = match program.node_ranks {
            None => rows * row,
            Some(_) => (rows - crossing) * row_bytes(program, self.at) + crossing * row,
        };
        Sent {
            bytes,
            crossing: crossing * row,
        }
    }

    /// Each rank of a group sends its slice of the rows that other groups read.
    fn in_lanes(&self, program: &Program, reads: &Reads) -> Sent {
        let buffer = program.buffer(self.at.buffer);
        let columns = |rank: u32| match self.slice {
            None => buffer.columns,
            Some(slice) => {
                let other = program.slice(slice.axis, slice.of, rank);
                buffer.columns / slice.len.max(1) * other.len
            }
        };
        let group = program.group(0, Among::Slices);
        let words =
            |place| Encoded::words(&self.encoded, columns(group.rank(place)), buffer.storage);
        let row: u64 = group
            .places()
            .map(|place| 4 * u64::from(words(place)))
            .sum();
        Sent {
            bytes: reads.of_groups * row,
            crossing: reads.crossing_groups * row,
        }
    }
}

impl HaloExchange {
    /// An exchange of all rows of sources.
    pub fn of(buffer: Ref) -> Self {
        Self {
            buffer,
            slice: None,
            end: End::Src,
            encoded: None,
            skip: None,
        }
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            end: end(from),
            buffer: Ref::parse(from)?,
            slice: slice(from)?,
            encoded: encoded(from)?,
            skip: optional(from, Skip::parse)?,
        })
    }
}

impl Instruction for HaloReduce {
    fn name(&self, _: &Program) -> &'static str {
        "halo-reduce"
    }

    fn operands<'a>(&'a self, visit: &mut impl FnMut(Operand<'a>)) {
        visit(Operand::read(self.buffer, Use::Rows(Touched::Halo)));
        visit(Operand::write(self.buffer, Use::Rows(Touched::Own)));
        // In two tiers, a rank adds to halo rows what others of its node have for them.
        visit(Operand::write(self.buffer, Use::Rows(Touched::Halo)));
        if let Some(left) = self.skip.and_then(|skip| skip.left) {
            visit(Operand::write(left, Use::Rows(Touched::All)));
        }
    }

    fn each_ref(&mut self, visit: &mut dyn FnMut(&mut Ref)) {
        visit(&mut self.buffer);
        if let Some(skip) = &mut self.skip {
            visit(&mut skip.of.copies);
            skip.left.iter_mut().for_each(visit);
        }
    }

    fn check(&self, check: &Check) -> Checked {
        if let Some(left) = self.skip.and_then(|skip| skip.left) {
            check.at_least("left", left, 0)?;
        }
        check.halo_of(self.end)?;
        check.halo(self.buffer, self.slice)
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        true
    }

    unpriced!();

    fn traffic(&self, program: &Program, reads: &Reads, _: &[RankSizes], sum: &mut Traffic) {
        let rows = Rows {
            at: self.buffer,
            slice: self.slice,
            end: self.end,
            encoded: self.encoded,
        };
        let Sent { bytes, crossing } = rows.sent(program, reads);
        let skip = self.skip.as_ref().map(|skip| &skip.of);
        sum.crossing += exchanged(crossing, skip);
        sum.halo_reduce += exchanged(bytes, skip);
    }

    fn print(&self, _: &Program) -> String {
        let mut text = format!(
            "halo-reduce {}{}{}{}",
            targets(self.end),
            self.buffer.text(),
            after(" of ", self.slice.as_ref()),
            as_encoded(&self.encoded)
        );
        if let Some(Returned { of, left }) = &self.skip {
            text += &format!(", {}{}", of.text(), after(" left ", left.as_ref()));
        }
        text
    }

    fn collective(&self) -> Option<Collective<'_>> {
        Some(Collective::HaloReduce(self))
    }

    fn encoded(&self) -> Option<Encoded> {
        self.encoded
    }

    fn encode(&mut self, so: Encoded) {
        // Copies of rows that may be left out are compared bit for bit.
        self.encoded = self.skip.is_none().then_some(so);
    }

    fn strip_bytes(&self, program: &Program) -> Option<u64> {
        Some(u64::from(program.buffer(self.buffer.buffer).row_words()) * 4)
    }
}

impl HaloReduce {
    /// A reduction of all rows of sources.
    pub fn of(buffer: Ref) -> Self {
        Self {
            buffer,
            slice: None,
            end: End::Src,
            encoded: None,
            skip: None,
        }
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            end: end(from),
            buffer: Ref::parse(from)?,
            slice: slice(from)?,
            encoded: encoded(from)?,
            skip: optional(from, |from| {
                let of = Skip::parse(from)?;
                let left = match from.skip("left") {
                    true => Some(Ref::parse(from)?),
                    false => None,
                };
                Ok(Returned { of, left })
            })?,
        })
    }
}

impl Text for Skip {
    fn print(&self, out: &mut String) {
        *out += &format!("skip {} copies {}", self.rule.text(), self.copies.text());
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        from.expect("skip")?;
        let rule = Text::parse(from)?;
        from.expect("copies")?;
        let copies = Ref::parse(from)?;
        Ok(Self { rule, copies })
    }
}

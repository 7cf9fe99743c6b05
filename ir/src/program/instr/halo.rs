//! Exchanges of halo rows, and reductions of them.

use super::{Collective, Instruction, Operand, Use};
use crate::kernel::End;
use crate::program::access::Touched;
use crate::program::text::line::{after, optional};
use crate::program::text::{Reader, Text, TextError};
use crate::program::traffic::{Reads, Traffic, exchanged, row_bytes};
use crate::program::verify::{Check, Checked};
use crate::program::work::{Counts, Terms, Work};
use crate::program::{Program, RankSizes, Ref, Returned, Skip};
use serde::{Deserialize, Serialize};

/// Sends own rows to the ranks that have them in their halo; fills these halo rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HaloExchange {
    /// A buffer with `Local` rows.
    pub buffer: Ref,
    /// Which halo rows: sources of edges, or targets to which other ranks add
    /// ([`Halo::Cover`](crate::program::Halo::Cover)).
    #[serde(default = "source", skip_serializing_if = "is_source")]
    pub end: End,
    /// How ranks may leave out their rows, so that others fill in copies; only in `step`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skip>,
}

/// Sends halo rows to their owners, which add them to their own in rank order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HaloReduce {
    /// A buffer with `Local` rows.
    pub buffer: Ref,
    /// Which halo rows, as for [`HaloExchange`].
    #[serde(default = "source", skip_serializing_if = "is_source")]
    pub end: End,
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
        check.halo(self.buffer)
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        true
    }

    unpriced!();

    fn traffic(&self, program: &Program, reads: &Reads, _: &[RankSizes], sum: &mut Traffic) {
        let row = row_bytes(program, self.buffer);
        let bytes = reads.of(self.end) * row;
        sum.crossing += exchanged(reads.crossing_of(self.end) * row, self.skip.as_ref());
        // Everyone who has a block says to its readers what it does with it.
        let flags = self.skip.map_or(0, |skip| skip.rule.flags());
        sum.halo_exchange += exchanged(bytes, self.skip.as_ref()) + 4 * flags * reads.pairs;
    }

    fn print(&self, _: &Program) -> String {
        let skip = after(", ", self.skip.as_ref());
        format!(
            "halo-exchange {}{}{skip}",
            targets(self.end),
            self.buffer.text()
        )
    }

    fn collective(&self) -> Option<Collective<'_>> {
        Some(Collective::HaloExchange(self))
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

impl HaloExchange {
    /// An exchange of all rows of sources.
    pub fn of(buffer: Ref) -> Self {
        Self {
            buffer,
            end: End::Src,
            skip: None,
        }
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            end: end(from),
            buffer: Ref::parse(from)?,
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
        check.halo(self.buffer)
    }

    fn fits_chunks(&self, _: &Program) -> bool {
        true
    }

    unpriced!();

    fn traffic(&self, program: &Program, reads: &Reads, _: &[RankSizes], sum: &mut Traffic) {
        let (row, skip) = (row_bytes(program, self.buffer), self.skip.as_ref());
        let skip = skip.map(|skip| &skip.of);
        sum.crossing += exchanged(reads.crossing_of(self.end) * row, skip);
        sum.halo_reduce += exchanged(reads.of(self.end) * row, skip);
    }

    fn print(&self, _: &Program) -> String {
        let mut text = format!("halo-reduce {}{}", targets(self.end), self.buffer.text());
        if let Some(Returned { of, left }) = &self.skip {
            text += &format!(", {}{}", of.text(), after(" left ", left.as_ref()));
        }
        text
    }

    fn collective(&self) -> Option<Collective<'_>> {
        Some(Collective::HaloReduce(self))
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
            end: End::Src,
            skip: None,
        }
    }

    pub(super) fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        Ok(Self {
            end: end(from),
            buffer: Ref::parse(from)?,
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

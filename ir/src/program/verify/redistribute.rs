//! Checks of redistributions.

use super::{Check, Checked};
use crate::graph::op::{Redistribute, Slice};
use crate::kernel::Axis;
use crate::program::text::Text;
use crate::program::{Among, Extent, Moved, Ref, Vertices, instr};
use crate::words::types::share;

impl Check<'_> {
    /// Checks a redistribution.
    pub(in crate::program) fn redistribute(&self, one: &instr::Redistribute) -> Checked {
        let instr::Redistribute {
            how,
            from,
            to,
            heads,
            width,
            moved,
            encoded: _,
        } = one;
        let (how, to, heads, width) = (*how, *to, *heads, *width);
        if let (Redistribute::Split(_), Extent::All) = (how, moved.extents()[1])
            && self.program.group_ranks(Among::Copies) > 1
            && !self.program.in_groups()
        {
            return Err(
                "rows of all vertices from the ranks with slices of one copy of the features, which own \
                 only some of them"
                    .to_owned(),
            );
        }
        let [own_rows, all_rows] = moved.extents();
        let rows = |extent| self.data.capacity.rows(extent);
        let whole = u64::from(heads) * u64::from(width);
        let ((own, all), to_all) = match how {
            Redistribute::Split(slice) => ((whole, self.columns(slice, heads, width)?), true),
            Redistribute::Join(slice) => ((whole, self.columns(slice, heads, width)?), false),
            Redistribute::Replicate => ((whole, whole), true),
            Redistribute::Reduce | Redistribute::Own => ((whole, whole), false),
        };
        let (own, all) = ((rows(own_rows), own), (rows(all_rows), all));
        let (source, target) = if to_all { (own, all) } else { (all, own) };
        self.matrix("the operand", from, source)?;
        self.at_least("the result", to, target.0.saturating_mul(target.1))?;
        // The rows differ in kind, so these are two buffers, and they share no memory while
        // both are live.
        for (what, at, all) in [
            ("the operand", from.at, !to_all),
            ("the result", to, to_all),
        ] {
            match moved {
                Moved::Level(_) => {
                    self.of_level(what, at, if all { all_rows } else { own_rows })?
                }
                Moved::All | Moved::Rows(_) | Moved::New(..) => self.extent(what, at, all)?,
            }
        }
        self.stored_as(
            "the result",
            to,
            self.program.buffer(from.at.buffer).storage,
        )?;
        let whole_words = [from.offset, from.stride, heads * width, target.1 as u32];
        self.in_words("the operand", from.at, &whole_words)?;
        if let Redistribute::Split(slice) | Redistribute::Join(slice) = how {
            let step = match slice.axis {
                Axis::Heads => width,
                Axis::Width => 1,
            };
            let ranks = self.program.group_ranks(Among::Slices);
            let bounds = (0..ranks).map(|rank| step * share(slice.of, ranks, rank).end);
            let bounds: Vec<u32> = bounds.collect();
            self.in_words("the operand", from.at, &bounds)?;
        }
        let buffer = self.program.buffer(to.buffer);
        if u64::from(buffer.columns) != target.1 {
            return Err(format!(
                "the result has {} columns in `{}`, expected {}",
                buffer.columns, buffer.name, target.1
            ));
        }
        Ok(())
    }

    fn of_level(&self, what: &str, at: Ref, expected: Extent) -> Checked {
        let found = self.program.buffer(at.buffer).extent;
        match found == expected {
            true => Ok(()),
            false => Err(format!("{what} has {found} rows, expected {expected}")),
        }
    }

    /// Columns in this rank's slice.
    fn columns(&self, slice: Slice, heads: u32, width: u32) -> Result<u64, String> {
        let (of, other) = match slice.axis {
            Axis::Heads => (heads, width),
            Axis::Width => (width, heads),
        };
        self.slice(slice, of)?;
        Ok(u64::from(slice.len) * u64::from(other))
    }

    /// Checks that a slice is this rank's of so many elements.
    pub(in crate::program) fn slice(&self, slice: Slice, of: u32) -> Checked {
        let expected = self.program.slice(slice.axis, of, self.data.rank);
        // The start of a slice follows from the rank: ranks with equal slices share a program.
        match (slice.of, slice.len) == (of, expected.len) {
            true => Ok(()),
            false => Err(format!(
                "rank {}'s slice is {} of {} {}, expected {} of {}",
                self.data.rank,
                slice.len,
                slice.of,
                slice.axis.text(),
                expected.len,
                expected.of
            )),
        }
    }

    /// Checks that a buffer has rows of all vertices, or that it starts with the rank's own.
    pub(super) fn extent(&self, what: &str, at: Ref, all: bool) -> Checked {
        let found = self.program.buffer(at.buffer).extent;
        if matches!(found, Extent::Level(_)) && !all {
            return Ok(());
        }
        match (Vertices::of(found.without_halo()), all) {
            (Some(Vertices::All), true) => Ok(()),
            (Some(Vertices::Inner | Vertices::Local), false) => Ok(()),
            (_, true) => Err(format!(
                "{what} has {found} rows, expected those of all vertices"
            )),
            (_, false) => Err(format!("{what} has {found} rows, expected own rows")),
        }
    }
}

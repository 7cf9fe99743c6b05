//! Calls of generated kernels on the CPU.

use crate::arena::Span;
use crate::leaves::Leaves;
use crate::team::Team;
use gnnc_codegen::args::checks::Checks;
use gnnc_codegen::args::{ArgsError, RawArgs};
use gnnc_codegen::cpu::Compiled;
use gnnc_ir::kernel::{COLUMN_BLOCK, Operand};
use std::ops::Range;

/// A kernel with its arguments.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    kernel: &'a Compiled,
    args: RawArgs,
    checks: Option<&'a Checks>,
}

/// Arguments with bounds checks, if any.
fn checked(args: RawArgs, checks: Option<&Checks>) -> RawArgs {
    RawArgs {
        checks: checks.map_or(std::ptr::null(), std::ptr::from_ref),
        ..args
    }
}

// SAFETY: the pointers are read only as addresses; the executor gives concurrent calls disjoint
// rows of the outputs.
unsafe impl Sync for Call<'_> {}
// SAFETY: as above.
unsafe impl Send for Call<'_> {}

impl<'a> Call<'a> {
    /// A kernel with its arguments; checked kernels also have the bounds of their accesses.
    pub(crate) fn new(kernel: &'a Compiled, args: RawArgs, checks: Option<&'a Checks>) -> Self {
        Self {
            kernel,
            args: checked(args, checks),
            checks,
        }
    }

    /// The out-of-bounds access found by runs so far; always `Ok` without checks.
    pub(crate) fn result(&self) -> Result<(), ArgsError> {
        self.checks.map_or(Ok(()), Checks::result)
    }

    /// Runs the kernel over the rows between consecutive `bounds`, many ranges in parallel.
    ///
    /// # Safety
    /// Everything the kernel touches over these rows lies inside the buffers.
    pub(crate) unsafe fn run(&self, team: &Team, bounds: &[u64], accesses: u64) {
        // SAFETY: pieces are disjoint rows; the caller vouches for the rest.
        team.each(bounds.len().saturating_sub(1), accesses, |i| unsafe {
            self.kernel.run(&self.args, bounds[i], bounds[i + 1]);
        });
    }

    /// Runs the kernel over rows `begin .. end` on this thread.
    ///
    /// # Safety
    /// As [`Self::run`]; nothing else writes these rows of the outputs meanwhile.
    pub(crate) unsafe fn run_once(&self, begin: u64, end: u64) {
        // SAFETY: as the caller promised.
        unsafe { self.kernel.run(&self.args, begin, end) };
    }

    /// Runs the kernel over a range of rows in pieces of `piece` rows.
    ///
    /// # Safety
    /// As [`Self::run`].
    pub(crate) unsafe fn run_rows(&self, team: &Team, rows: Range<u64>, piece: u64, accesses: u64) {
        let count = rows.end.saturating_sub(rows.start).div_ceil(piece);
        team.each(count as usize, accesses, |i| {
            let begin = rows.start + i as u64 * piece;
            // SAFETY: pieces are disjoint rows; the caller vouches for the rest.
            unsafe {
                self.kernel
                    .run(&self.args, begin, (begin + piece).min(rows.end))
            };
        });
    }

    /// Runs a column reduction over rows: one partial row in the scratch memory for each block of rows. Those of a leaf are added
    /// in order, and those of leaves along the tree, to one row for each share.
    ///
    /// # Safety
    /// As [`Self::run`]; nothing else uses the scratch memory and the shares meanwhile.
    pub(crate) unsafe fn reduce_columns(
        &self,
        team: &Team,
        sum: ColumnSum,
        shares: &[Span],
        accesses: u64,
    ) {
        let spec = self.kernel.kernel();
        let columns = (spec.heads * spec.width) as usize;
        let blocks = sum.leaves.blocks(COLUMN_BLOCK as u64);
        team.each(blocks.rows.len(), accesses, |i| {
            let partial = sum.scratch.part(i * columns, columns);
            let checks = (self.checks).map(|checks| checks.with_outputs(&[partial.range()]));
            let args = RawArgs {
                outputs: &raw const partial.ptr,
                ..checked(self.args, checks.as_ref())
            };
            // SAFETY: every block has its own partial row; the caller vouches for the rest.
            unsafe {
                self.kernel
                    .run(&args, blocks.rows[i].start, blocks.rows[i].end)
            };
            if let (Some(checks), Some(own)) = (self.checks, &checks) {
                checks.include(own);
            }
        });
        // SAFETY: the blocks are complete.
        let partials = unsafe { sum.scratch.part(0, blocks.rows.len() * columns).read() };
        let operand = spec.outputs.first().copied().unwrap_or(Operand {
            at: gnnc_ir::kernel::At::One,
            stride: 0,
            offset: 0,
            head_step: spec.width,
            column_step: 1,
            storage: Default::default(),
            picked: None,
        });
        let place = |column: usize| {
            let (h, c) = (column as u32 / spec.width, column as u32 % spec.width);
            (operand.offset + h * operand.head_step + c * operand.column_step) as usize
        };
        let before = |column: usize| match sum.adds {
            // SAFETY: the caller vouches for it.
            true => unsafe { shares[0].read()[place(column)] },
            false => 0.0,
        };
        let mut rows = Vec::with_capacity(blocks.of_leaf.len() * columns);
        for leaf in &blocks.of_leaf {
            rows.extend((0..columns).map(|column| {
                let of_blocks = leaf.clone().map(|block| partials[block * columns + column]);
                of_blocks.fold(before(column), |sum, x| sum + x)
            }));
        }
        let found = sum.leaves.shares(&rows, columns);
        for (share, row) in shares.iter().zip(found.chunks(columns)) {
            // SAFETY: the caller vouches for it.
            let out = unsafe { share.write() };
            for (column, total) in row.iter().enumerate() {
                out[place(column)] = *total;
            }
        }
    }
}

/// What a column reduction adds up, and how.
pub(crate) struct ColumnSum<'a> {
    /// The rows.
    pub(crate) leaves: &'a Leaves,
    /// Whether the sum is added to what is there.
    pub(crate) adds: bool,
    /// Memory for a partial row of each block.
    pub(crate) scratch: Span,
}

//! What an instruction reads and writes.

use super::Launch;
use crate::program::Ref;
use crate::program::access::Touched;

/// One operand of an instruction.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a> {
    /// The buffer and its slot.
    pub at: Ref,
    /// Whether it is written.
    pub writes: bool,
    /// Which of its rows are used, and how.
    pub rows: Use<'a>,
}

/// How an instruction uses the rows of an operand.
#[derive(Clone, Copy, Debug)]
pub enum Use<'a> {
    /// These rows; row `n` belongs to row `n` of the instruction.
    Rows(Touched),
    /// A matrix of a product.
    Matrix {
        /// These rows.
        rows: Touched,
        /// Whether row `n` belongs to row `n` of the product.
        by_rows: bool,
        /// Elements from one row to the next.
        stride: u32,
    },
    /// Input `n` of a kernel, as the kernel says.
    Input(&'a Launch, usize),
    /// Output `n` of a kernel, as the kernel says.
    Output(&'a Launch, usize),
    /// Ends of the edges that a kernel walks.
    Ends(&'a Launch),
    /// The rows that a copy's other end has too.
    Shared(Ref),
    /// All rows of all slots.
    Slots,
}

impl<'a> Operand<'a> {
    pub(super) fn read(at: Ref, rows: Use<'a>) -> Self {
        let writes = false;
        Self { at, writes, rows }
    }

    pub(super) fn write(at: Ref, rows: Use<'a>) -> Self {
        let writes = true;
        Self { at, writes, rows }
    }
}

//! The steps of communication instructions.

use super::driver::Address;
use super::mail::{Landing, Round};
use super::moves::Rows;
use super::skip::RecvFlag;
use crate::exchange::moves::Write;
use std::ops::Range;

/// A step of a communication.
pub(super) enum CommStep {
    /// Packs and sends.
    Send(Round),
    /// Waits until the data packed for a tag may be overwritten.
    Packed(u32),
    /// Waits for a message and unpacks it.
    Land(Landing),
    /// Copies or adds own rows.
    Put(Rows, Rows, Write),
    /// Tells a rank the distance between a block that is left out and the rows sent last.
    Tell(u32, u32, f32),
    /// Waits for such a number, then receives the block or uses copies.
    Hear(RecvFlag),
}

/// The halves of a communication.
#[derive(Default)]
pub(super) struct Halves {
    pub(super) begin: Vec<CommStep>,
    pub(super) finish: Vec<CommStep>,
}

/// Consecutive rows of a matrix.
pub(super) fn run(at: Address, rows: Range<usize>, columns: u64) -> Rows {
    let first = at.plus(4 * rows.start as u64 * columns);
    Rows::dense(first, rows.len() as u64, columns)
}

/// Total floats of several pieces.
pub(super) fn floats(rows: &[Rows]) -> u64 {
    rows.iter().map(Rows::floats).sum()
}

/// A landing, or `None` if the message is empty and therefore never sent.
pub(super) fn land(tag: u32, from: u32, to: Vec<Rows>, write: Write) -> Option<CommStep> {
    let landing = Landing {
        tag,
        from,
        to,
        write,
    };
    (floats(&landing.to) > 0).then_some(CommStep::Land(landing))
}

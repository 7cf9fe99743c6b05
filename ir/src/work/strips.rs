//! How scattered the rows of a message are.

use crate::op::Redistribute;
use crate::program::{Instr, Program};

/// Pieces of rows that lie apart in the memory of a rank that sends so many bytes, where it picks or adds up each for
/// itself: rows that other ranks read, and slices of the columns of rows. 0 where whole blocks are sent.
pub fn strips(program: &Program, instr: &Instr, bytes: u64) -> u64 {
    let each = match instr {
        Instr::HaloExchange { buffer, .. } | Instr::HaloReduce { buffer, .. } => {
            let buffer = program.buffer(buffer.buffer);
            u64::from(buffer.row_words()) * 4
        }
        Instr::Redistribute {
            how: Redistribute::Split(_) | Redistribute::Join(_),
            to,
            heads,
            width,
            ..
        } => {
            let row =
                u64::from(*heads) * u64::from(*width) * program.buffer(to.buffer).storage.bytes();
            row.div_ceil(u64::from(program.ranks.max(1)))
        }
        _ => return 0,
    };
    bytes / each.max(1)
}

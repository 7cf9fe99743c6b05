//! The bytes that ranks copy from their hosts and to them.

use crate::program::instr;
use crate::program::{Chunk, Extent, Instr, Program, RankSizes, Ref};

/// Bytes that instructions move between a rank of these sizes and its host: to the rank, and from it.
pub fn moved(instrs: &[Instr], program: &Program, sizes: &RankSizes) -> [u64; 2] {
    let mut all = [0u64; 2];
    for instr in instrs {
        let (times, [to, from]) = match instr {
            Instr::Move(instr::Move { from, to, chunk }) => {
                let words = move_words(program, (*from, *to), *chunk, sizes);
                let bytes = words.saturating_mul(4);
                let fetched = program.is_hosted(from.buffer);
                (1, if fetched { [bytes, 0] } else { [0, bytes] })
            }
            Instr::Begin(transfer) => (
                1,
                moved(std::slice::from_ref(&transfer.what), program, sizes),
            ),
            Instr::Repeat(instr::Repeat { count, body, .. }) => {
                (u64::from(*count), moved(body, program, sizes))
            }
            _ => continue,
        };
        all = [
            all[0].saturating_add(to.saturating_mul(times)),
            all[1].saturating_add(from.saturating_mul(times)),
        ];
    }
    all
}

/// Words of 4 bytes of an [`Instr::Move`]: the rows that both buffers have, or those of a chunk.
pub fn move_words(
    program: &Program,
    (from, to): (Ref, Ref),
    chunk: Option<Chunk>,
    sizes: &RankSizes,
) -> u64 {
    let [from, to] = [from, to].map(|at| program.buffer(at.buffer));
    let row = u64::from(from.row_words());
    match chunk.map(|chunk| (chunk, chunk.rows(sizes))) {
        Some((_, Some(rows))) => (rows.end - rows.start).saturating_mul(row),
        // Which rows these are is known where the graph is; all chunks together have all of them.
        Some((chunk, None)) => {
            let whole = match (from.extent, to.extent) {
                (Extent::Run(..) | Extent::EdgeRun(..), whole) | (whole, _) => whole,
            };
            let cut = chunk.even.map(|even| even.rows.extent());
            let rows = match whole {
                Extent::Edges(_) | Extent::AllEdges(_) => whole,
                _ => cut.unwrap_or(whole),
            };
            chunk.share(sizes.rows(rows)).saturating_mul(row)
        }
        None => from.slot_words(sizes).min(to.slot_words(sizes)),
    }
}

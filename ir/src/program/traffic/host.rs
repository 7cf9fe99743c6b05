//! Bytes that ranks copy to and from their hosts.

use crate::program::{Capacity, Chunk, Instr, Program, RankSizes, Ref};

/// Bytes that instructions copy between a rank of these sizes and its host: to the rank, and
/// from it.
pub fn moved(instrs: &[Instr], program: &Program, sizes: &RankSizes) -> [u64; 2] {
    let mut all = [0u64; 2];
    for instr in instrs {
        let (times, [to, from]) = if let Instr::Move(one) = instr {
            let words = move_words(program, (one.from, one.to), one.chunk, sizes);
            let bytes = words.saturating_mul(4);
            let fetched = program.is_hosted(one.from.buffer);
            (1, if fetched { [bytes, 0] } else { [0, bytes] })
        } else if let Instr::FetchRows(one) = instr
            && one.is_from_host(program)
        {
            let words = move_words(program, (one.from, one.to), None, sizes);
            (1, [words.saturating_mul(4), 0])
        } else if let Instr::Batches(one) = instr {
            let count = sizes.batch.count.max(1);
            (count, moved(&one.body, program, sizes))
        } else if let Instr::Sets(one) = instr {
            (sizes.batch.sets, moved(&one.body, program, sizes))
        } else if let Instr::Begin(transfer) = instr {
            let what = std::slice::from_ref(&*transfer.what);
            (1, moved(what, program, sizes))
        } else if let Instr::Repeat(one) = instr {
            (u64::from(one.count), moved(&one.body, program, sizes))
        } else {
            continue;
        };
        all = [
            all[0].saturating_add(to.saturating_mul(times)),
            all[1].saturating_add(from.saturating_mul(times)),
        ];
    }
    all
}

/// Four-byte words of an [`Instr::Move`] or an [`Instr::FetchRows`]: the rows that both buffers have,
/// or those of a chunk.
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
        // Which rows these are depends on the graph; all chunks together have all of them.
        Some((chunk, None)) => {
            let windowed = from.extent.chunk().is_some();
            let whole = if windowed { to.extent } else { from.extent };
            let cut = chunk.even.map(|even| even.rows.extent());
            let rows = cut.filter(|_| !whole.of_edges()).unwrap_or(whole);
            chunk.share(sizes.rows(rows)).saturating_mul(row)
        }
        None => {
            let whole = Capacity::of(*sizes);
            from.slot_words(&whole).min(to.slot_words(&whole))
        }
    }
}

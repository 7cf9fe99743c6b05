//! The communication instructions.

pub(crate) mod moves;
pub(crate) mod redistribute;
pub(crate) mod skip;

use crate::arena::Span;
use crate::part::Part;
use crate::part::rows::Sent;
use crate::team::Team;
use crate::transport::{TransportError, Wire};
use gnnc_ir::program::traffic::chunk;
use gnnc_ir::words::storage::Storage;
use std::ops::Range;

/// Rows copied as one piece of work.
const ROWS: usize = 256;

/// Memory for all-reduces, kept between them.
#[derive(Default)]
pub(crate) struct Reduction {
    sum: Vec<f32>,
}

impl Reduction {
    /// Bytes kept.
    pub(crate) fn bytes(&self) -> u64 {
        4 * self.sum.capacity() as u64
    }
}

/// The rows of a matrix to exchange: those of a chunk, or all.
#[derive(Clone, Copy)]
pub(crate) struct Exchanged {
    pub(crate) matrix: Span,
    /// Words per row.
    pub(crate) columns: usize,
    pub(crate) storage: Storage,
    pub(crate) chunk: Option<u32>,
}

/// Sends own rows to the ranks that read them.
///
/// # Safety
/// Nothing else writes the matrix meanwhile.
pub(crate) unsafe fn send_own(
    team: &Team,
    wire: &mut Wire,
    part: &Part,
    rows: Exchanged,
) -> Result<(), TransportError> {
    let Exchanged {
        matrix, columns, ..
    } = rows;
    for Sent { to, rows, .. } in part.sent(rows.chunk, wire.rank()) {
        wire.send(to, rows.len() * columns, &mut |message| {
            // SAFETY: the rows are inside the matrix; nothing writes it meanwhile.
            unsafe { pack(team, matrix, rows, columns, message) };
        })?;
    }
    Ok(())
}

/// Fills the halo rows with the rows their owners sent by [`send_own`].
///
/// # Safety
/// Nothing else uses the halo rows meanwhile.
pub(crate) unsafe fn fill_halo(
    wire: &mut Wire,
    part: &Part,
    rows: Exchanged,
) -> Result<(), TransportError> {
    wire.wait_for(&mut part.halo(rows.chunk, 0).map(|(other, _)| other))?;
    for (other, halo) in part.halo(rows.chunk, wire.rank()) {
        let halo = rows.part(halo);
        wire.recv(other, halo.len, &mut |message| {
            // SAFETY: nothing else uses the halo rows.
            unsafe { halo.write() }.copy_from_slice(message);
        })?;
    }
    Ok(())
}

/// Sends halo rows to those of their owners that are `wanted`.
///
/// # Safety
/// Nothing else writes the matrix meanwhile.
pub(crate) unsafe fn send_halo(
    wire: &mut Wire,
    part: &Part,
    rows: Exchanged,
    wanted: &dyn Fn(u32) -> bool,
) -> Result<(), TransportError> {
    let halo = part.halo(rows.chunk, wire.rank());
    for (other, halo) in halo.filter(|(other, _)| wanted(*other)) {
        let halo = rows.part(halo);
        wire.send(other, halo.len, &mut |message| {
            // SAFETY: nothing writes the halo rows meanwhile.
            message.copy_from_slice(unsafe { halo.read() });
        })?;
    }
    Ok(())
}

/// Adds the rows other ranks sent by [`send_halo`] to the own rows, in rank order.
///
/// # Safety
/// Nothing else uses the own rows meanwhile.
pub(crate) unsafe fn add_own(
    team: &Team,
    wire: &mut Wire,
    part: &Part,
    rows: Exchanged,
) -> Result<(), TransportError> {
    let Exchanged {
        matrix,
        columns,
        storage,
        chunk,
    } = rows;
    wire.wait_for(&mut part.sent(chunk, 0).map(|sent| sent.to))?;
    for Sent { to, rows, .. } in part.sent(chunk, 0) {
        wire.recv(to, rows.len() * columns, &mut |message| {
            team.each(
                rows.len().div_ceil(ROWS),
                2 * message.len() as u64,
                |piece| {
                    for i in piece * ROWS..((piece + 1) * ROWS).min(rows.len()) {
                        // SAFETY: the rows of a list are distinct.
                        let row =
                            unsafe { matrix.part(rows[i] as usize * columns, columns).write() };
                        storage.add(row, &message[i * columns..]);
                    }
                },
            );
        })?;
    }
    Ok(())
}

impl Exchanged {
    /// Consecutive rows.
    pub(crate) fn part(&self, rows: Range<usize>) -> Span {
        self.matrix
            .part(rows.start * self.columns, rows.len() * self.columns)
    }
}

/// For a message of `floats`, each rank other than `rank` with the chunk it sums.
pub(crate) fn owners(
    floats: u64,
    rank: u32,
    ranks: u32,
) -> impl Iterator<Item = (u32, Range<usize>)> {
    let chunks = (0..ranks).map(move |other| (other, own_chunk(floats, ranks, other)));
    chunks
        .take_while(|(_, chunk)| !chunk.is_empty())
        .filter(move |(other, _)| *other != rank)
}

/// The chunk of floats a rank sums.
pub(crate) fn own_chunk(floats: u64, ranks: u32, rank: u32) -> Range<usize> {
    let chunk = chunk(floats, ranks, rank);
    chunk.start as usize..chunk.end as usize
}

fn length(buffers: &[Span]) -> u64 {
    buffers.iter().map(|buffer| buffer.len as u64).sum()
}

/// Begins to sum buffers over all ranks as one message: each rank sums one chunk for all, and
/// receives the other chunks from the others.
///
/// # Safety
/// Nothing else writes the buffers meanwhile.
pub(crate) unsafe fn send_chunks(wire: &mut Wire, buffers: &[Span]) -> Result<(), TransportError> {
    for (other, theirs) in owners(length(buffers), wire.rank(), wire.ranks()) {
        wire.send(other, theirs.len(), &mut |message| {
            for (at, span) in within(buffers, &theirs) {
                // SAFETY: nothing writes the buffers meanwhile.
                message[at..at + span.len].copy_from_slice(unsafe { span.read() });
            }
        })?;
    }
    Ok(())
}

/// Sums the own chunk in rank order, sends it to all others and receives their chunks.
///
/// # Safety
/// Nothing else uses the buffers meanwhile.
pub(crate) unsafe fn sum_chunks(
    wire: &mut Wire,
    buffers: &[Span],
    memory: &mut Reduction,
) -> Result<(), TransportError> {
    let (rank, ranks) = (wire.rank(), wire.ranks());
    if ranks == 1 {
        return Ok(());
    }
    // SAFETY: nothing else uses the buffers, and no other slice of them is alive.
    let store = |floats: &[f32], chunk: &Range<usize>| unsafe {
        for (at, span) in within(buffers, chunk) {
            span.write().copy_from_slice(&floats[at..at + span.len]);
        }
    };
    let everybody = || (0..ranks).filter(|&other| other != rank);
    let own = own_chunk(length(buffers), ranks, rank);
    if !own.is_empty() {
        let sum = &mut memory.sum;
        sum.clear();
        sum.resize(own.len(), 0.0);
        let add = |sum: &mut [f32], x: &[f32]| sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
        wire.wait_for(&mut everybody())?;
        for other in 0..ranks {
            if other != rank {
                wire.recv(other, own.len(), &mut |message| add(sum, message))?;
                continue;
            }
            for (at, span) in within(buffers, &own) {
                // SAFETY: nothing writes the buffers meanwhile.
                add(&mut sum[at..at + span.len], unsafe { span.read() });
            }
        }
        wire.send_all(&mut everybody(), sum)?;
        store(sum, &own);
    }
    let owners = || owners(length(buffers), rank, ranks);
    wire.wait_for(&mut owners().map(|(other, _)| other))?;
    for (other, theirs) in owners() {
        wire.recv(other, theirs.len(), &mut |message| store(message, &theirs))?;
    }
    Ok(())
}

/// The pieces of consecutive buffers that a range of their message covers, each with its position
/// in the range.
fn within<'a>(
    buffers: &'a [Span],
    range: &'a Range<usize>,
) -> impl Iterator<Item = (usize, Span)> + 'a {
    let pieces = pieces(buffers.iter().map(|buffer| buffer.len), range);
    pieces.map(|piece| {
        (
            piece.at,
            buffers[piece.buffer].part(piece.from, piece.floats),
        )
    })
}

/// A piece of a buffer.
pub(crate) struct Piece {
    /// Its position in the range of the message.
    pub(crate) at: usize,
    /// Index of the buffer.
    pub(crate) buffer: usize,
    /// First float in the buffer.
    pub(crate) from: usize,
    pub(crate) floats: usize,
}

/// Like [`within`], for buffers of these lengths.
pub(crate) fn pieces<'a>(
    lengths: impl Iterator<Item = usize> + 'a,
    range: &'a Range<usize>,
) -> impl Iterator<Item = Piece> + 'a {
    let mut end = 0;
    lengths.enumerate().filter_map(move |(buffer, length)| {
        let begin = end;
        end += length;
        let (from, to) = (range.start.max(begin), range.end.min(end));
        (from < to).then(|| Piece {
            at: from - range.start,
            buffer,
            from: from - begin,
            floats: to - from,
        })
    })
}

/// Copies rows of a matrix to a message.
unsafe fn pack(team: &Team, matrix: Span, rows: &[u32], columns: usize, message: &mut [f32]) {
    let target = Span {
        ptr: message.as_mut_ptr(),
        len: message.len(),
    };
    team.each(rows.len().div_ceil(ROWS), 2 * target.len as u64, |piece| {
        for i in piece * ROWS..((piece + 1) * ROWS).min(rows.len()) {
            // SAFETY: `part` checks both spans; every row of the message is written once.
            unsafe {
                let row = matrix.part(rows[i] as usize * columns, columns).read();
                target
                    .part(i * columns, columns)
                    .write()
                    .copy_from_slice(row);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_a_message_is_found_in_the_buffers() {
        let mut memory: Vec<f32> = (0..12).map(|n| n as f32).collect();
        let whole = Span {
            ptr: memory.as_mut_ptr(),
            len: memory.len(),
        };
        let buffers = [whole.part(6, 3), whole.part(0, 0), whole.part(0, 5)];
        let read = |range: Range<usize>| -> Vec<(usize, Vec<f32>)> {
            within(&buffers, &range)
                // SAFETY: the memory is alive and nothing writes it.
                .map(|(at, span)| (at, unsafe { span.read() }.to_vec()))
                .collect()
        };
        assert_eq!(read(0..2), [(0, vec![6.0, 7.0])]);
        assert_eq!(read(2..5), [(0, vec![8.0]), (1, vec![0.0, 1.0])]);
        assert_eq!(read(7..8), [(0, vec![4.0])]);
        assert_eq!(read(3..3), []);
    }
}

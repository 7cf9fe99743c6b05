//! The instructions that communicate.

use crate::device::cpu::Span;
use crate::part::Part;
use crate::team::Team;
use crate::transport::{Transport, TransportError};
use gnnc_ir::traffic::chunk;

/// Rows of a piece of copying.
const ROWS: usize = 256;

/// Memory of all-reductions, kept between them.
#[derive(Default)]
pub(crate) struct Reduction {
    message: Vec<f32>,
    sum: Vec<f32>,
}

impl Reduction {
    /// Bytes of memory kept.
    pub(crate) fn bytes(&self) -> u64 {
        4 * (self.message.capacity() + self.sum.capacity()) as u64
    }
}

/// Sends own rows to the ranks that read them, and fills the halo rows.
///
/// # Safety
/// Nothing else uses the matrix meanwhile.
pub(crate) unsafe fn halo_exchange(
    team: &Team,
    transport: &mut dyn Transport,
    part: &Part,
    matrix: Span,
    columns: usize,
) -> Result<(), TransportError> {
    let (rank, ranks) = (transport.rank() as usize, transport.ranks() as usize);
    for other in others(rank, ranks) {
        let rows = &part.send[other];
        if rows.is_empty() || columns == 0 {
            continue;
        }
        transport.send(other as u32, rows.len() * columns, &mut |message| {
            // SAFETY: rows are inside the matrix, which nothing writes meanwhile.
            unsafe { pack(team, matrix, rows, columns, message) };
        })?;
    }
    for other in others(rank, ranks) {
        let rows = part.halo_of[other].clone();
        if rows.is_empty() || columns == 0 {
            continue;
        }
        let halo = matrix.part(rows.start * columns, rows.len() * columns);
        transport.recv(other as u32, halo.len, &mut |message| {
            // SAFETY: nothing else uses the matrix.
            unsafe { halo.write() }.copy_from_slice(message);
        })?;
    }
    Ok(())
}

/// Sends halo rows to their owners, which add them to their own rows in rank order.
///
/// # Safety
/// Nothing else uses the matrix meanwhile.
pub(crate) unsafe fn halo_reduce(
    team: &Team,
    transport: &mut dyn Transport,
    part: &Part,
    matrix: Span,
    columns: usize,
) -> Result<(), TransportError> {
    let (rank, ranks) = (transport.rank() as usize, transport.ranks() as usize);
    for other in others(rank, ranks) {
        let rows = part.halo_of[other].clone();
        if rows.is_empty() || columns == 0 {
            continue;
        }
        let halo = matrix.part(rows.start * columns, rows.len() * columns);
        transport.send(other as u32, halo.len, &mut |message| {
            // SAFETY: nothing writes the halo rows meanwhile.
            message.copy_from_slice(unsafe { halo.read() });
        })?;
    }
    for other in (0..ranks).filter(|&other| other != rank) {
        let rows = &part.send[other];
        if rows.is_empty() || columns == 0 {
            continue;
        }
        transport.recv(other as u32, rows.len() * columns, &mut |message| {
            team.each(
                rows.len().div_ceil(ROWS),
                2 * message.len() as u64,
                |piece| {
                    for i in piece * ROWS..((piece + 1) * ROWS).min(rows.len()) {
                        // SAFETY: the rows of a list differ from each other.
                        let row =
                            unsafe { matrix.part(rows[i] as usize * columns, columns).write() };
                        row.iter_mut()
                            .zip(&message[i * columns..])
                            .for_each(|(own, x)| *own += x);
                    }
                },
            );
        })?;
    }
    Ok(())
}

/// Sums buffers over all ranks in rank order, as one message: each rank sums one chunk of it
/// for all.
///
/// # Safety
/// Nothing else uses the buffers meanwhile.
pub(crate) unsafe fn all_reduce(
    transport: &mut dyn Transport,
    buffers: &[Span],
    memory: &mut Reduction,
) -> Result<(), TransportError> {
    let (rank, ranks) = (transport.rank() as usize, transport.ranks() as usize);
    if ranks == 1 {
        return Ok(());
    }
    let Reduction { message, sum } = memory;
    message.clear();
    // Exactly: room to grow would be memory that no plan counts.
    message.reserve_exact(buffers.iter().map(|buffer| buffer.len).sum());
    for buffer in buffers {
        // SAFETY: nothing writes the buffers meanwhile.
        message.extend_from_slice(unsafe { buffer.read() });
    }
    let floats = message.len() as u64;
    let chunk = |rank: usize| {
        let chunk = chunk(floats, ranks as u32, rank as u32);
        chunk.start as usize..chunk.end as usize
    };
    for other in others(rank, ranks).filter(|&other| !chunk(other).is_empty()) {
        let theirs = &message[chunk(other)];
        transport.send(other as u32, theirs.len(), &mut |m| {
            m.copy_from_slice(theirs)
        })?;
    }
    let own = chunk(rank);
    if !own.is_empty() {
        sum.clear();
        sum.resize(own.len(), 0.0);
        let add = |sum: &mut [f32], x: &[f32]| sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
        for other in 0..ranks {
            match other == rank {
                true => add(sum, &message[own.clone()]),
                false => transport.recv(other as u32, own.len(), &mut |m| add(sum, m))?,
            }
        }
        for other in others(rank, ranks) {
            transport.send(other as u32, own.len(), &mut |m| m.copy_from_slice(sum))?;
        }
        message[own].copy_from_slice(sum);
    }
    for other in others(rank, ranks).filter(|&other| !chunk(other).is_empty()) {
        let theirs = chunk(other);
        transport.recv(other as u32, theirs.len(), &mut |m| {
            message[theirs.clone()].copy_from_slice(m)
        })?;
    }
    let mut rest = &message[..];
    for buffer in buffers {
        let (head, tail) = rest.split_at(buffer.len);
        // SAFETY: nothing else uses the buffers.
        unsafe { buffer.write() }.copy_from_slice(head);
        rest = tail;
    }
    Ok(())
}

/// The other ranks, the next one first, so that not all send to rank 0 at once.
fn others(rank: usize, ranks: usize) -> impl Iterator<Item = usize> {
    (1..ranks).map(move |step| (rank + step) % ranks)
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

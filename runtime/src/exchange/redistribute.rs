//! Moves tensors from one layout over the ranks to another.

use super::ROWS;
use super::moves::{Block, Columns, Geometry, Side, Write};
use crate::arena::Span;
use crate::team::Team;
use crate::transport::{TransportError, Wire};
use gnnc_ir::graph::op::Redistribute;
use gnnc_ir::words::storage::Storage;

/// A redistribution; see [`gnnc_ir::program::Instr::Redistribute`].
#[derive(Clone, Copy)]
pub(crate) struct Move {
    pub(crate) how: Redistribute,
    /// The operand, from its first word on.
    pub(crate) from: Span,
    /// Elements from one row of the operand to the next.
    pub(crate) stride: usize,
    /// The result, row after row.
    pub(crate) to: Span,
    /// Storage of both.
    pub(crate) storage: Storage,
    /// Heads of the tensor by rows.
    pub(crate) heads: usize,
    /// Columns of a head of the tensor by rows.
    pub(crate) width: usize,
}

/// Rows of a matrix, in words.
#[derive(Clone, Copy)]
struct Rows<'a> {
    at: Span,
    /// Words from one row to the next.
    stride: usize,
    /// Which rows; `None` means the first `count`.
    rows: Option<&'a [u32]>,
    columns: Columns,
    /// Number of rows.
    count: usize,
}

/// The rows to move.
#[derive(Clone, Copy)]
pub(crate) struct Owned<'a> {
    /// For each rank, the ids of its vertices among them.
    pub(crate) ids: &'a [Vec<u32>],
    /// Positions of this rank's vertices among its rows; `None` means its first rows.
    pub(crate) rows: Option<&'a [u32]>,
}

/// Sends each rank its part of the tensor's moved rows.
///
/// # Safety
/// Nothing writes the operand meanwhile.
pub(crate) unsafe fn send(
    team: &Team,
    wire: &mut Wire,
    owned: Owned,
    tensor: &Move,
) -> Result<(), TransportError> {
    let rank = wire.rank() as usize;
    for (other, block) in tensor.geometry(rank, owned).sends() {
        let rows = owned.rows_of(&block.words(tensor.storage), tensor.from, rank);
        let floats = rows.floats();
        if floats == 0 {
            continue;
        }
        wire.send(other as u32, floats, &mut |message| {
            let at = Span {
                ptr: message.as_mut_ptr(),
                len: message.len(),
            };
            // SAFETY: this closure owns the message; nothing writes the operand meanwhile.
            unsafe {
                put(
                    team,
                    &rows,
                    &rows.packed(at),
                    (Write::Replace, tensor.storage),
                )
            };
        })?;
    }
    Ok(())
}

/// Fills a tensor in its new layout with the rank's own part and the parts others sent by [`send`].
///
/// # Safety
/// Nothing else uses the result meanwhile or writes the operand, and they do not overlap.
pub(crate) unsafe fn receive(
    team: &Team,
    wire: &mut Wire,
    owned: Owned,
    tensor: &Move,
) -> Result<(), TransportError> {
    let rank = wire.rank() as usize;
    let geometry = tensor.geometry(rank, owned);
    if let Some(stride) = geometry.padded() {
        let stride = stride / tensor.storage.in_word() as usize;
        for row in owned.ids.iter().flatten() {
            let row = tensor.to.part(*row as usize * stride, stride);
            // SAFETY: nothing else uses the result.
            unsafe { row.write() }.fill(0.0);
        }
    }
    for landing in geometry.landings() {
        let write = (landing.write, tensor.storage);
        let to = owned.rows_of(&landing.to.words(tensor.storage), tensor.to, rank);
        if to.floats() == 0 {
            continue;
        }
        if let Some(own) = landing.own {
            let own = owned.rows_of(&own.words(tensor.storage), tensor.from, rank);
            // SAFETY: nothing else uses the result or writes the operand.
            unsafe { put(team, &own, &to, write) };
            continue;
        }
        wire.recv(landing.from as u32, to.floats(), &mut |message| {
            // The message is only read.
            let at = Span {
                ptr: message.as_ptr().cast_mut(),
                len: message.len(),
            };
            // SAFETY: ranks write distinct rows or columns, or add to them one after another.
            unsafe { put(team, &to.packed(at), &to, write) };
        })?;
    }
    Ok(())
}

impl Move {
    fn geometry(&self, rank: usize, owned: Owned) -> Geometry {
        Geometry {
            how: self.how,
            stride: self.stride,
            heads: self.heads,
            width: self.width,
            rank,
            ranks: owned.ids.len(),
        }
    }
}

impl<'a> Owned<'a> {
    /// The rows of a block of a matrix; the block is in words.
    fn rows_of(&self, block: &Block, at: Span, rank: usize) -> Rows<'a> {
        let stride = block.stride;
        let (rows, of) = match block.rows {
            Side::Own => (self.rows, rank),
            Side::Of(other) => (Some(&self.ids[other][..]), other),
        };
        Rows {
            at,
            stride,
            rows,
            columns: block.columns,
            count: self.ids[of].len(),
        }
    }
}

impl Rows<'_> {
    fn floats(&self) -> usize {
        self.count * self.columns.floats()
    }

    /// The same rows, packed into a message.
    fn packed(&self, at: Span) -> Self {
        let columns = self.columns.packed();
        let stride = columns.len;
        Self {
            at,
            stride,
            rows: None,
            columns,
            count: self.count,
        }
    }

    /// Run `run` of row `i`.
    fn run(&self, i: usize, run: usize, columns: &Columns) -> Span {
        let row = self.rows.map_or(i, |rows| rows[i] as usize);
        let begin = row * self.stride + columns.offset + run * columns.step;
        self.at.part(begin, columns.len)
    }
}

/// Copies or adds rows, in parallel.
///
/// # Safety
/// The target's rows are distinct, nothing else uses them meanwhile, and nothing writes the source.
unsafe fn put(team: &Team, from: &Rows, to: &Rows, (write, storage): (Write, Storage)) {
    let rows = to.count;
    let runs = from.columns.runs.max(to.columns.runs);
    let (source, target) = (from.columns.cut(runs), to.columns.cut(runs));
    if target.len == 0 {
        return;
    }
    let accesses = 2 * (rows * runs * target.len) as u64;
    team.each(rows.div_ceil(ROWS), accesses, |piece| {
        for i in piece * ROWS..((piece + 1) * ROWS).min(rows) {
            for run in 0..runs {
                // SAFETY: `part` checks both spans; every run of the target is written once.
                let (x, y) = unsafe {
                    (
                        from.run(i, run, &source).read(),
                        to.run(i, run, &target).write(),
                    )
                };
                match write {
                    Write::Replace => y.copy_from_slice(x),
                    Write::Add => storage.add(y, x),
                }
            }
        }
    });
}

#[cfg(test)]
mod tests;

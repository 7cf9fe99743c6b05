//! Tensors that move from one layout over the ranks to another.

use super::ROWS;
use crate::device::cpu::Span;
use crate::gemm::Dense;
use crate::team::Team;
use crate::transport::{TransportError, Wire};
use gnnc_ir::kernel::Axis;
use gnnc_ir::op::{Redistribute, Slice};
use gnnc_ir::traffic::share;

/// A redistribution; see [`gnnc_ir::program::Instr::Redistribute`].
#[derive(Clone, Copy)]
pub(crate) struct Move {
    pub(crate) how: Redistribute,
    /// The operand.
    pub(crate) from: Dense,
    /// The result, row after row.
    pub(crate) to: Span,
    /// Heads of the tensor by rows.
    pub(crate) heads: usize,
    /// Columns of a head of the tensor by rows.
    pub(crate) width: usize,
}

/// Columns that are moved: `runs` runs of `len` floats, `step` floats from one to the next.
#[derive(Clone, Copy)]
struct Columns {
    offset: usize,
    runs: usize,
    len: usize,
    step: usize,
}

/// Rows of a matrix.
#[derive(Clone, Copy)]
struct Block<'a> {
    at: Dense,
    /// Which rows; the first ones if `None`.
    rows: Option<&'a [u32]>,
    columns: Columns,
}

/// How moved numbers meet what is there.
#[derive(Clone, Copy, PartialEq)]
enum Write {
    Replace,
    Add,
}

/// The rows that are moved.
#[derive(Clone, Copy)]
pub(crate) struct Owned<'a> {
    /// For each rank the ids of its vertices among them.
    pub(crate) ids: &'a [Vec<u32>],
    /// The places of this rank's ones among its rows; its first rows if none.
    pub(crate) rows: Option<&'a [u32]>,
}

/// Sends what other ranks get of the moved rows of a tensor.
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
    let mut work = Work {
        team,
        rank,
        wire,
        owned,
        tensor,
    };
    let from = tensor.from;
    for other in others(rank, owned.ids.len()) {
        let block = match tensor.how {
            Redistribute::Split(slice) => work.own(from, work.slice(slice, other)),
            Redistribute::Join(slice) => work.of(other, from, work.local(slice).0),
            Redistribute::Replicate => work.own(from, work.all()),
            Redistribute::Reduce => work.of(other, from, work.all()),
            Redistribute::Own => continue,
        };
        // SAFETY: as the caller promised.
        unsafe { work.send(other, block)? };
    }
    Ok(())
}

/// Fills a tensor in its new layout with the rank's own share and what others sent with [`send`].
///
/// # Safety
/// Nothing else uses the result meanwhile or writes the operand, and they do not overlap.
pub(crate) unsafe fn receive(
    team: &Team,
    wire: &mut Wire,
    owned: Owned,
    tensor: &Move,
) -> Result<(), TransportError> {
    let mut work = Work {
        team,
        rank: wire.rank() as usize,
        wire,
        owned,
        tensor,
    };
    // SAFETY: as the caller promised.
    unsafe {
        match tensor.how {
            Redistribute::Split(slice) => work.split(slice),
            Redistribute::Join(slice) => work.join(slice),
            Redistribute::Replicate => work.replicate(),
            Redistribute::Reduce => work.reduce(),
            Redistribute::Own => work.keep_own(),
        }
    }
}

struct Work<'a, 'w> {
    team: &'a Team,
    wire: &'a mut Wire<'w>,
    rank: usize,
    owned: Owned<'a>,
    tensor: &'a Move,
}

impl Work<'_, '_> {
    /// Every rank gets its columns of all rows.
    ///
    /// # Safety
    /// As [`receive`], and so for all below.
    unsafe fn split(&mut self, slice: Slice) -> Result<(), TransportError> {
        let rank = self.rank;
        let columns = self.slice(slice, rank);
        let (packed, stride) = self.local(slice);
        let to = self.result(stride);
        if packed.runs * packed.len < stride {
            for row in self.owned.ids.iter().flatten() {
                let row = self.tensor.to.part(*row as usize * stride, stride);
                // SAFETY: nothing else uses the result.
                unsafe { row.write() }.fill(0.0);
            }
        }
        let own = self.own(self.tensor.from, columns);
        // SAFETY: the ranks' rows differ from each other.
        unsafe {
            self.keep(&own, &self.of(rank, to, packed));
            self.recv_rows(to, packed)
        }
    }

    /// Every rank gets all columns of its rows.
    unsafe fn join(&mut self, slice: Slice) -> Result<(), TransportError> {
        let rank = self.rank;
        let columns = self.slice(slice, rank);
        let (packed, _) = self.local(slice);
        let to = self.result(self.all().len);
        let share = self.of(rank, self.tensor.from, packed);
        // SAFETY: the ranks' columns differ from each other.
        unsafe {
            self.keep(&share, &self.own(to, columns));
            for other in others(rank, self.owned.ids.len()) {
                let columns = self.slice(slice, other);
                self.recv(other, self.own(to, columns), Write::Replace)?;
            }
        }
        Ok(())
    }

    /// Every rank gets all rows.
    unsafe fn replicate(&mut self) -> Result<(), TransportError> {
        let (rank, all) = (self.rank, self.all());
        let own = self.own(self.tensor.from, all);
        let to = self.result(all.len);
        // SAFETY: nothing writes the operand; the ranks' rows differ from each other.
        unsafe {
            self.keep(&own, &self.of(rank, to, all));
            self.recv_rows(to, all)
        }
    }

    /// Every rank gets the sums of its rows, added in order of the ranks.
    unsafe fn reduce(&mut self) -> Result<(), TransportError> {
        let (rank, all) = (self.rank, self.all());
        let to = self.own(self.result(all.len), all);
        let share = self.of(rank, self.tensor.from, all);
        for other in 0..self.owned.ids.len() {
            let write = match other {
                0 => Write::Replace,
                _ => Write::Add,
            };
            // SAFETY: nothing else uses the result.
            unsafe {
                match other == rank {
                    true => put(self.team, &share, &to, self.owned.ids[rank].len(), write),
                    false => self.recv(other, to, write)?,
                }
            }
        }
        Ok(())
    }

    /// Every rank keeps its rows of what it has.
    unsafe fn keep_own(&mut self) -> Result<(), TransportError> {
        let all = self.all();
        let own = self.of(self.rank, self.tensor.from, all);
        let to = self.own(self.result(all.len), all);
        // SAFETY: nothing writes the operand or uses the result.
        unsafe { self.keep(&own, &to) };
        Ok(())
    }

    /// Copies own rows from one matrix to another.
    unsafe fn keep(&self, from: &Block, to: &Block) {
        // SAFETY: as the caller promised.
        unsafe { copy(self.team, from, to, self.owned.ids[self.rank].len()) };
    }

    /// Receives the columns of every other rank's rows.
    unsafe fn recv_rows(&mut self, to: Dense, columns: Columns) -> Result<(), TransportError> {
        for other in others(self.rank, self.owned.ids.len()) {
            // SAFETY: as the caller promised; the ranks' rows differ from each other.
            unsafe { self.recv(other, self.of(other, to, columns), Write::Replace)? };
        }
        Ok(())
    }

    /// Sends the rows of a block; nothing if it is empty.
    unsafe fn send(&mut self, to: usize, block: Block) -> Result<(), TransportError> {
        let (rows, packed) = (self.count(&block), block.columns.packed());
        if rows == 0 || packed.len == 0 {
            return Ok(());
        }
        let team = self.team;
        self.wire
            .send(to as u32, rows * packed.len, &mut |message| {
                let at = Span {
                    ptr: message.as_mut_ptr(),
                    len: message.len(),
                };
                // SAFETY: the message is this closure's own; nothing writes the block meanwhile.
                unsafe { copy(team, &block, &Block::packed(at, packed), rows) };
            })
    }

    /// Receives the rows of a block; nothing if it is empty.
    unsafe fn recv(
        &mut self,
        from: usize,
        block: Block,
        write: Write,
    ) -> Result<(), TransportError> {
        let (rows, packed) = (self.count(&block), block.columns.packed());
        if rows == 0 || packed.len == 0 {
            return Ok(());
        }
        let team = self.team;
        self.wire
            .recv(from as u32, rows * packed.len, &mut |message| {
                // The message is only read.
                let at = Span {
                    ptr: message.as_ptr().cast_mut(),
                    len: message.len(),
                };
                // SAFETY: as the caller promised.
                unsafe { put(team, &Block::packed(at, packed), &block, rows, write) };
            })
    }

    fn count(&self, block: &Block) -> usize {
        block
            .rows
            .map_or(self.owned.ids[self.rank].len(), |rows| rows.len())
    }

    fn result(&self, stride: usize) -> Dense {
        Dense {
            at: self.tensor.to,
            stride,
        }
    }

    /// All columns of the tensor by rows.
    fn all(&self) -> Columns {
        Columns::one(0, self.tensor.heads * self.tensor.width)
    }

    /// This rank's columns of its slice, without what pads it, and the floats of a row.
    fn local(&self, slice: Slice) -> (Columns, usize) {
        let columns = self.slice(slice, self.rank);
        let len = slice.len as usize;
        match slice.axis {
            Axis::Heads => (columns.packed(), len * self.tensor.width),
            Axis::Width => {
                let heads = self.tensor.heads;
                let local = Columns {
                    offset: 0,
                    runs: heads,
                    len: columns.runs * columns.len / heads.max(1),
                    step: len,
                };
                (local, heads * len)
            }
        }
    }

    /// A rank's columns of the tensor by rows.
    fn slice(&self, slice: Slice, rank: usize) -> Columns {
        let Move { heads, width, .. } = *self.tensor;
        let part = share(slice.of, self.owned.ids.len() as u32, rank as u32);
        let (offset, len) = (part.start as usize, (part.end - part.start) as usize);
        match slice.axis {
            Axis::Heads => Columns::one(offset * width, len * width),
            Axis::Width if len == width => Columns::one(0, heads * width),
            Axis::Width => Columns {
                offset,
                runs: heads,
                len,
                step: width,
            },
        }
    }
}

impl<'a> Work<'a, '_> {
    /// Own rows of a matrix by rows.
    fn own(&self, at: Dense, columns: Columns) -> Block<'a> {
        Block {
            at,
            rows: self.owned.rows,
            columns,
        }
    }

    /// A rank's rows of a matrix of all rows.
    fn of(&self, rank: usize, at: Dense, columns: Columns) -> Block<'a> {
        Block {
            at,
            rows: Some(&self.owned.ids[rank]),
            columns,
        }
    }
}

impl Columns {
    fn one(offset: usize, len: usize) -> Self {
        Self {
            offset,
            runs: 1,
            len,
            step: 0,
        }
    }

    /// The same columns without gaps.
    fn packed(&self) -> Self {
        Self::one(0, self.runs * self.len)
    }

    /// The same columns as `runs` runs, if these have no gaps.
    fn cut(self, runs: usize) -> Self {
        match self.runs == runs {
            true => self,
            false => Self {
                runs,
                len: self.len / runs,
                step: self.len / runs,
                ..self
            },
        }
    }
}

/// The other ranks, the next one first, so that not all send to rank 0 at once.
fn others(rank: usize, ranks: usize) -> impl Iterator<Item = usize> {
    (1..ranks).map(move |step| (rank + step) % ranks)
}

impl Block<'_> {
    /// The rows of a message.
    fn packed(at: Span, columns: Columns) -> Self {
        let stride = columns.len;
        Self {
            at: Dense { at, stride },
            rows: None,
            columns,
        }
    }

    /// Run `run` of row `i`.
    fn run(&self, i: usize, run: usize, columns: &Columns) -> Span {
        let row = self.rows.map_or(i, |rows| rows[i] as usize);
        let begin = row * self.at.stride + columns.offset + run * columns.step;
        self.at.at.part(begin, columns.len)
    }
}

/// Copies `rows` rows.
///
/// # Safety
/// As [`put`].
unsafe fn copy(team: &Team, from: &Block, to: &Block, rows: usize) {
    // SAFETY: as the caller promised.
    unsafe { put(team, from, to, rows, Write::Replace) };
}

/// Copies or adds `rows` rows, many at once.
///
/// # Safety
/// The target's rows differ from each other, nothing else uses them meanwhile, and nothing
/// writes the source.
unsafe fn put(team: &Team, from: &Block, to: &Block, rows: usize, write: Write) {
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
                    Write::Add => y.iter_mut().zip(x).for_each(|(y, x)| *y += x),
                }
            }
        }
    });
}

#[cfg(test)]
mod tests;

//! Which rows and columns a redistribution moves between which ranks, wherever the floats lie.

use gnnc_ir::graph::op::{Redistribute, Slice};
use gnnc_ir::kernel::Axis;
use gnnc_ir::words::storage::Storage;
use gnnc_ir::words::types::share;

/// A redistribution; see [`gnnc_ir::program::Instr::Redistribute`].
#[derive(Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) how: Redistribute,
    /// Floats from a row of the operand to the next.
    pub(crate) stride: usize,
    /// Heads of the tensor by rows.
    pub(crate) heads: usize,
    /// Columns of a head of the tensor by rows.
    pub(crate) width: usize,
    /// The rank that asks.
    pub(crate) rank: usize,
    /// How many there are.
    pub(crate) ranks: usize,
}

/// Columns that are moved: `runs` runs of `len` floats, `step` floats from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) offset: usize,
    pub(crate) runs: usize,
    pub(crate) len: usize,
    pub(crate) step: usize,
}

/// Whose rows are meant, and of which matrix.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Side {
    /// The own ones of a matrix by own rows.
    Own,
    /// Those of a rank in a matrix of all rows.
    Of(usize),
}

/// Rows of the operand or of the result.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) rows: Side,
    /// Floats from a row to the next.
    pub(crate) stride: usize,
    pub(crate) columns: Columns,
}

/// How moved numbers meet what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    Replace,
    Add,
}

/// What comes to a rank, in the order in which it is taken.
pub(crate) struct Landing {
    /// Who sends it.
    pub(crate) from: usize,
    /// The rank's own share of the operand, where it is that which sends.
    pub(crate) own: Option<Block>,
    /// Where it goes in the result.
    pub(crate) to: Block,
    pub(crate) write: Write,
}

impl Geometry {
    /// What other ranks get of the operand.
    pub(crate) fn sends(&self) -> Vec<(usize, Block)> {
        let block = |other| {
            let (rows, columns) = match self.how {
                Redistribute::Split(slice) => (Side::Own, self.slice(slice, other)),
                Redistribute::Join(slice) => (Side::Of(other), self.local(slice).0),
                Redistribute::Replicate => (Side::Own, self.all()),
                Redistribute::Reduce => (Side::Of(other), self.all()),
                Redistribute::Own => return None,
            };
            Some((other, self.operand(rows, columns)))
        };
        others(self.rank, self.ranks).filter_map(block).collect()
    }

    /// What comes to this rank.
    pub(crate) fn landings(&self) -> Vec<Landing> {
        let (rank, all) = (self.rank, self.all());
        let everybody = || std::iter::once(rank).chain(others(rank, self.ranks));
        let land = |from, own, to, write| Landing {
            from,
            own: (from == rank).then_some(own),
            to,
            write,
        };
        let replace = |from, own, to| land(from, own, to, Write::Replace);
        match self.how {
            Redistribute::Split(slice) => {
                let own = self.operand(Side::Own, self.slice(slice, rank));
                let (packed, stride) = self.local(slice);
                let to = |from| block(Side::Of(from), stride, packed);
                everybody()
                    .map(|from| replace(from, own, to(from)))
                    .collect()
            }
            Redistribute::Join(slice) => {
                let own = self.operand(Side::Of(rank), self.local(slice).0);
                let to = |from| block(Side::Own, all.len, self.slice(slice, from));
                everybody()
                    .map(|from| replace(from, own, to(from)))
                    .collect()
            }
            Redistribute::Replicate => {
                let own = self.operand(Side::Own, all);
                let to = |from| block(Side::Of(from), all.len, all);
                everybody()
                    .map(|from| replace(from, own, to(from)))
                    .collect()
            }
            // Added in order of the ranks.
            Redistribute::Reduce => {
                let own = self.operand(Side::Of(rank), all);
                let to = block(Side::Own, all.len, all);
                let write = |from| match from {
                    0 => Write::Replace,
                    _ => Write::Add,
                };
                (0..self.ranks)
                    .map(|from| land(from, own, to, write(from)))
                    .collect()
            }
            Redistribute::Own => {
                let own = self.operand(Side::Of(rank), all);
                vec![replace(rank, own, block(Side::Own, all.len, all))]
            }
        }
    }

    /// Floats of a row of the result, where some of them are no columns of the tensor and stay 0.
    pub(crate) fn padded(&self) -> Option<usize> {
        let Redistribute::Split(slice) = self.how else {
            return None;
        };
        let (packed, stride) = self.local(slice);
        (packed.runs * packed.len < stride).then_some(stride)
    }

    fn operand(&self, rows: Side, columns: Columns) -> Block {
        block(rows, self.stride, columns)
    }

    /// All columns of the tensor by rows.
    fn all(&self) -> Columns {
        Columns::one(0, self.heads * self.width)
    }

    /// This rank's columns of its slice, without what pads it, and the floats of a row.
    fn local(&self, slice: Slice) -> (Columns, usize) {
        let columns = self.slice(slice, self.rank);
        let len = slice.len as usize;
        match slice.axis {
            Axis::Heads => (columns.packed(), len * self.width),
            Axis::Width => {
                let heads = self.heads;
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
        let Self { heads, width, .. } = *self;
        let part = share(slice.of, self.ranks as u32, rank as u32);
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

impl Block {
    /// The same in words of four bytes, of elements that lie so.
    pub(crate) fn words(&self, storage: Storage) -> Self {
        let count = |elements: usize| elements / storage.in_word() as usize;
        let Columns {
            offset,
            runs,
            len,
            step,
        } = self.columns;
        Self {
            rows: self.rows,
            stride: count(self.stride),
            columns: Columns {
                offset: count(offset),
                runs,
                len: count(len),
                step: count(step),
            },
        }
    }
}

fn block(rows: Side, stride: usize, columns: Columns) -> Block {
    Block {
        rows,
        stride,
        columns,
    }
}

impl Columns {
    pub(crate) fn one(offset: usize, len: usize) -> Self {
        Self {
            offset,
            runs: 1,
            len,
            step: 0,
        }
    }

    /// How many.
    pub(crate) fn floats(&self) -> usize {
        self.runs * self.len
    }

    /// The same columns without gaps.
    pub(crate) fn packed(&self) -> Self {
        Self::one(0, self.floats())
    }

    /// The same columns as `runs` runs, if these have no gaps.
    pub(crate) fn cut(self, runs: usize) -> Self {
        match self.runs == runs {
            true => self,
            false => Self {
                runs,
                len: self.len / runs.max(1),
                step: self.len / runs.max(1),
                ..self
            },
        }
    }
}

/// The other ranks, the next one first, so that not all send to rank 0 at once.
fn others(rank: usize, ranks: usize) -> impl Iterator<Item = usize> {
    (1..ranks).map(move |step| (rank + step) % ranks)
}

//! Which rows and columns a redistribution moves between which ranks, wherever the data is stored.

use gnnc_ir::graph::op::{Redistribute, Slice};
use gnnc_ir::kernel::Axis;
use gnnc_ir::words::storage::Storage;
use gnnc_ir::words::types::share;

/// A redistribution; see [`gnnc_ir::program::Instr::Redistribute`].
#[derive(Clone, Copy)]
pub(crate) struct Geometry {
    pub(crate) how: Redistribute,
    /// Floats from one row of the operand to the next.
    pub(crate) stride: usize,
    /// Heads of the tensor by rows.
    pub(crate) heads: usize,
    /// Columns of a head of the tensor by rows.
    pub(crate) width: usize,
    /// This rank.
    pub(crate) rank: usize,
    /// Number of ranks.
    pub(crate) ranks: usize,
}

/// The columns to move: `runs` runs of `len` floats, whose starts are `step` floats apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) offset: usize,
    pub(crate) runs: usize,
    pub(crate) len: usize,
    pub(crate) step: usize,
}

/// Which rows of which matrix.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Side {
    /// The own rows, in a matrix of own rows.
    Own,
    /// A rank's rows, in a matrix of all rows.
    Of(usize),
}

/// Rows of the operand or of the result.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) rows: Side,
    /// Floats from one row to the next.
    pub(crate) stride: usize,
    pub(crate) columns: Columns,
}

/// How received numbers combine with the existing ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Write {
    #[default]
    Replace,
    Add,
}

/// One block a rank receives; blocks are taken in order.
pub(crate) struct Landing {
    /// The sender.
    pub(crate) from: usize,
    /// The rank's own block of the operand, if the rank is itself the sender.
    pub(crate) own: Option<Block>,
    /// Where it goes in the result.
    pub(crate) to: Block,
    pub(crate) write: Write,
}

impl Geometry {
    /// What each other rank receives of the operand.
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

    /// What this rank receives.
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
            // Added in rank order.
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

    /// Floats per row of the result, if some of them pad it and stay 0.
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

    /// This rank's columns of its slice, without padding, and the floats per row.
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
    /// The same in four-byte words, for elements of this storage.
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

    /// Number of floats per row.
    pub(crate) fn floats(&self) -> usize {
        self.runs * self.len
    }

    /// The same columns without gaps.
    pub(crate) fn packed(&self) -> Self {
        Self::one(0, self.floats())
    }

    /// The same columns as `runs` runs, if these leave no gaps.
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

/// The other ranks, beginning with the next, so that not all send to rank 0 at once.
fn others(rank: usize, ranks: usize) -> impl Iterator<Item = usize> {
    (1..ranks).map(move |step| (rank + step) % ranks)
}

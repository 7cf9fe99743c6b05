//! Products with a sparse matrix, and with its transpose.
//!
//! `Nn` adds rows of the dense operand, by the nonzeros of a row. `Tn` walks the same rows: it adds a
//! row of the dense operand to the result's rows of all nonzeros. Results have as many rows as the
//! matrix has columns, which is a few thousand, so they stay in cache; the dense operand, which has a
//! row for each vertex, is read once. Threads own columns of the matrix, so each sum is in the order of
//! rows, and results do not depend on their number.

use super::Dense;
use super::skinny::Rows;
use super::vectors::{LANES, Vector, VectorTask, dispatch};
use crate::leaves::{DEPTH, Leaves};
use crate::part::Walkable;
use crate::team::Team;
use gnnc_graph::Csr;
use std::ops::Range;

/// Columns of the result computed at a time; their sums stay in registers.
const PANEL: usize = 4 * LANES;

/// Nonzeros between one and the one whose rows are fetched into cache.
const AHEAD: usize = 8;

/// A row of the dense operand or of the result, padded with zeros.
type PanelRow = [f32; PANEL];

/// The nonzeros of a matrix, row by row; columns of a row ascend.
#[derive(Clone, Copy)]
pub(crate) struct Nonzeros<'a> {
    /// Where rows begin, and the end of the last.
    pub(crate) indptr: &'a [u64],
    pub(crate) indices: &'a [u32],
    pub(crate) values: &'a [f32],
    /// Columns; larger than all indices.
    pub(crate) columns: usize,
}

/// A product of a sparse matrix or its transpose with a dense one.
#[derive(Clone, Copy)]
pub(crate) struct SparseMultiply<'a> {
    pub(crate) a: Nonzeros<'a>,
    pub(crate) b: Dense,
    pub(crate) out: Dense,
    /// Columns of the dense operand and of the result.
    pub(crate) columns: usize,
}

impl SparseMultiply<'_> {
    /// `out = a . b` for rows between bounds of pieces, in parallel.
    ///
    /// # Panics
    /// If a matrix is shorter than its sizes say.
    ///
    /// # Safety
    /// Nothing else uses the result meanwhile, or writes the operands.
    pub(crate) unsafe fn rows(&self, team: &Team, bounds: &[u64]) {
        let (a, n) = (self.a, self.columns);
        a.check();
        self.b.need(a.columns, n);
        self.out
            .need(bounds.last().map_or(0, |end| *end as usize), n);
        let padded = n.next_multiple_of(LANES);
        let mut room = Vec::new();
        let b = match self.b.storage.is_f32() && padded == n {
            true => self.b.rows_from(0),
            false => {
                room.resize(a.columns * padded, 0.0);
                for (row, to) in room.chunks_exact_mut(padded.max(1)).enumerate() {
                    // SAFETY: nothing writes the operand.
                    unsafe { self.b.read(row, 0, &mut to[..n]) };
                }
                Rows {
                    at: room.as_mut_ptr(),
                    stride: padded,
                    len: room.len(),
                }
            }
        };
        let b = Operand(b);
        let work = (a.indices.len() * n) as u64;
        team.each(bounds.len().saturating_sub(1), work, |piece| {
            let rows = bounds[piece] as usize..bounds[piece + 1] as usize;
            for first in (0..n).step_by(PANEL) {
                let width = (n - first).min(PANEL);
                let mut finish = |row: usize, sums: &PanelRow| {
                    // SAFETY: pieces are disjoint rows of the result.
                    unsafe { self.out.write(row, first, &sums[..width]) };
                };
                let b = b.after_columns(first);
                let rows = rows.clone();
                let task = Task::Rows {
                    a,
                    rows,
                    b,
                    finish: &mut finish,
                };
                // SAFETY: sizes were checked; indices are below the rows of `b`.
                unsafe { dispatch(task, width.div_ceil(LANES)) };
            }
        });
    }

    /// `out = transposed a . b`, in parallel. `counts` has the nonzeros of each column of the matrix,
    /// to give threads equal parts.
    ///
    /// # Panics
    /// As [`Self::rows`].
    ///
    /// # Safety
    /// As [`Self::rows`].
    pub(crate) unsafe fn transposed(&self, team: &Team, counts: &[u32]) {
        let (a, n) = (self.a, self.columns);
        a.check();
        assert!(
            counts.len() <= a.columns,
            "more columns than the matrix has"
        );
        self.b.need(a.indptr.len().saturating_sub(1), n);
        self.out.need(a.columns, n);
        let bounds = equal_parts(counts, a.columns, team.threads());
        let work = (a.indices.len() * n) as u64;
        team.each(bounds.len() - 1, work, |piece| {
            for first in (0..n).step_by(PANEL) {
                // SAFETY: pieces are disjoint rows of the result.
                unsafe { self.some_columns(bounds[piece]..bounds[piece + 1], first) };
            }
        });
    }

    /// The transposed product of the rows of each leaf, added along the tree into the shares of the result. `by_column` has the
    /// rows of the nonzeros of each column, ascending, and `places` where their values are. So sums stay in registers, and
    /// there is one for each leaf and column of the matrix, not a whole product for each leaf.
    ///
    /// # Panics
    /// As [`Self::rows`].
    ///
    /// # Safety
    /// As [`Self::rows`].
    pub(crate) unsafe fn by_leaf(
        &self,
        team: &Team,
        by_column: &Walkable,
        places: &[u32],
        leaves: &Leaves,
        shares: &[Dense],
    ) {
        let (a, n) = (self.a, self.columns);
        a.check();
        let Csr { indptr, indices } = &by_column.csr;
        assert!(indptr.len() == a.columns + 1 && places.len() == indices.len());
        self.b.need(a.indptr.len().saturating_sub(1), n);
        shares.iter().for_each(|share| share.need(a.columns, n));
        let in_place = self.b.storage.is_f32() && n.is_multiple_of(LANES);
        let work = (indices.len() * n) as u64;
        team.each(by_column.pieces.len() - 1, work, |piece| {
            let columns = by_column.pieces[piece] as usize..by_column.pieces[piece + 1] as usize;
            for first in (0..n).step_by(PANEL) {
                let width = (n - first).min(PANEL);
                let mut read = |row: usize, to: &mut PanelRow| {
                    // SAFETY: nothing writes the operand.
                    unsafe { self.b.read(row, first, &mut to[..width]) };
                };
                let mut finish = |column: usize, share: usize, sum: &PanelRow| {
                    // SAFETY: pieces are disjoint rows of the shares.
                    unsafe { shares[share].write(column, first, &sum[..width]) };
                };
                let b = in_place.then(|| Operand(self.b.rows_from(0)).after_columns(first));
                let task = Task::Leaves {
                    a: Nonzeros {
                        indptr,
                        indices,
                        ..a
                    },
                    places,
                    columns: columns.clone(),
                    leaves,
                    b,
                    read: &mut read,
                    finish: &mut finish,
                };
                // SAFETY: sizes were checked; rows are those of the operand.
                unsafe { dispatch(task, width.div_ceil(LANES)) };
            }
        });
    }

    /// Some rows of the transposed product, in the panel that begins at a column.
    unsafe fn some_columns(&self, of_matrix: Range<usize>, first: usize) {
        let (a, width) = (self.a, (self.columns - first).min(PANEL));
        let in_place = self.out.storage.is_f32() && width.is_multiple_of(LANES);
        let padded = width.next_multiple_of(LANES);
        let mut room = Vec::new();
        // Row 0 of the sums is the first column of the matrix.
        let sums = match in_place {
            true => {
                let zeros = [0.0; PANEL];
                for row in of_matrix.clone() {
                    // SAFETY: as the caller promised.
                    unsafe { self.out.write(row, first, &zeros[..width]) };
                }
                let rows = self.out.rows_from(of_matrix.start as u64);
                Operand(rows).after_columns(first)
            }
            false => {
                room.resize(of_matrix.len() * padded, 0.0);
                Rows {
                    at: room.as_mut_ptr(),
                    stride: padded,
                    len: room.len(),
                }
            }
        };
        let mut read = |row: usize, to: &mut PanelRow| {
            // SAFETY: nothing writes the operand.
            unsafe { self.b.read(row, first, &mut to[..width]) };
        };
        let columns = of_matrix.start as u32..of_matrix.end as u32;
        let task = Task::Columns {
            a,
            columns,
            read: &mut read,
            sums,
        };
        // SAFETY: sizes were checked; columns are those that the sums have.
        unsafe { dispatch(task, width.div_ceil(LANES)) };
        for (row, sum) in of_matrix.zip(room.chunks_exact(padded.max(1))) {
            // SAFETY: as the caller promised.
            unsafe { self.out.write(row, first, &sum[..width]) };
        }
    }
}

/// A matrix that threads read.
#[derive(Clone, Copy)]
struct Operand(Rows);

// SAFETY: nothing writes the matrix while threads share it.
unsafe impl Sync for Operand {}

impl Operand {
    /// The matrix from a column on.
    fn after_columns(&self, first: usize) -> Rows {
        let skipped = first.min(self.0.len);
        Rows {
            // SAFETY: at most the end of the matrix.
            at: unsafe { self.0.at.add(skipped) },
            len: self.0.len - skipped,
            ..self.0
        }
    }
}

/// Bounds of ranges of columns with about equally many nonzeros.
fn equal_parts(counts: &[u32], columns: usize, parts: usize) -> Vec<usize> {
    let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
    let parts = parts.clamp(1, columns.max(1)) as u64;
    let (mut bounds, mut sum) = (vec![0], 0);
    for (column, count) in counts.iter().enumerate() {
        sum += u64::from(*count);
        if sum * parts >= all * bounds.len() as u64 && (bounds.len() as u64) < parts {
            bounds.push(column + 1);
        }
    }
    bounds.push(columns);
    bounds
}

impl Nonzeros<'_> {
    /// Panics unless rows lie in order and have values.
    fn check(&self) {
        let end = self.indptr.last().map_or(0, |end| *end as usize);
        assert!(
            end <= self.indices.len() && end <= self.values.len(),
            "{end} nonzeros, of which {} have values",
            self.values.len()
        );
    }
}

impl Dense {
    /// Reads a row from a column on as 32-bit floats.
    ///
    /// # Safety
    /// The row has the columns, and nothing writes them meanwhile.
    unsafe fn read(&self, row: usize, column: usize, to: &mut [f32]) {
        let begin = self.first + row * self.stride + column;
        // SAFETY: as the caller promised; any two bytes are an element of 16 bits.
        unsafe {
            if self.storage.is_f32() {
                let from = std::slice::from_raw_parts(self.at.ptr.add(begin), to.len());
                to.copy_from_slice(from);
            } else {
                let from = self.at.ptr.cast::<u16>().add(begin);
                let from = std::slice::from_raw_parts(from, to.len());
                self.storage.decode_all(from, to);
            }
        }
    }

    /// Writes a row from a column on.
    ///
    /// # Safety
    /// The row has the columns, and nothing else uses them meanwhile.
    unsafe fn write(&self, row: usize, column: usize, from: &[f32]) {
        let begin = self.first + row * self.stride + column;
        // SAFETY: as the caller promised; any two bytes are an element of 16 bits.
        unsafe {
            if self.storage.is_f32() {
                let to = std::slice::from_raw_parts_mut(self.at.ptr.add(begin), from.len());
                to.copy_from_slice(from);
            } else {
                let to = self.at.ptr.cast::<u16>().add(begin);
                let to = std::slice::from_raw_parts_mut(to, from.len());
                self.storage.encode_all(from, to);
            }
        }
    }
}

enum Task<'a> {
    /// Sums of rows of `b`, one for each row of `a`.
    Rows {
        a: Nonzeros<'a>,
        rows: Range<usize>,
        b: Rows,
        finish: &'a mut dyn FnMut(usize, &PanelRow),
    },
    /// Sums of rows of `b`, which are `read` unless they lie in whole vectors, for some rows of `a`: by leaf, and those of leaves
    /// along the tree. Values lie in `places`. Shares of a row are finished one by one.
    Leaves {
        a: Nonzeros<'a>,
        places: &'a [u32],
        columns: Range<usize>,
        leaves: &'a Leaves,
        b: Option<Rows>,
        read: &'a mut dyn FnMut(usize, &mut PanelRow),
        finish: &'a mut dyn FnMut(usize, usize, &PanelRow),
    },
    /// Adds rows that are `read` to the sums of their nonzeros, of which some columns are wanted.
    Columns {
        a: Nonzeros<'a>,
        columns: Range<u32>,
        read: &'a mut dyn FnMut(usize, &mut PanelRow),
        sums: Rows,
    },
}

impl VectorTask for Task<'_> {
    /// Rows are taken one by one, whatever `TALL` is. Matrices have the rows that nonzeros name, each of
    /// `N` vectors.
    #[inline(always)]
    unsafe fn run<V: Vector, const TALL: usize, const N: usize>(self) {
        let mut row_of = [0.0; PANEL];
        match self {
            Task::Rows { a, rows, b, finish } => {
                for row in rows {
                    let (begin, end) = (a.indptr[row] as usize, a.indptr[row + 1] as usize);
                    // SAFETY: as the caller promised; fetched rows need not exist.
                    unsafe {
                        let mut sums = [V::zero(); N];
                        for at in begin..end {
                            fetch::<V, N>(&a, at, b, 0);
                            let from = b.at.add(a.indices[at] as usize * b.stride);
                            for (i, sum) in sums.iter_mut().enumerate() {
                                *sum = sum.fma(a.values[at], V::load(from.add(i * LANES)));
                            }
                        }
                        for (i, sum) in sums.iter().enumerate() {
                            sum.store(row_of.as_mut_ptr().add(i * LANES));
                        }
                    }
                    finish(row, &row_of);
                }
            }
            Task::Leaves {
                a,
                places,
                columns,
                leaves,
                b,
                read,
                finish,
            } => {
                let bounds = leaves.bounds();
                // Sums of subtrees of 1, 2, 4, ... leaves that wait for their siblings.
                // SAFETY: as the caller promised.
                let mut waiting = [[unsafe { V::zero() }; N]; DEPTH];
                for column in columns {
                    let mut at = a.indptr[column] as usize;
                    let end = a.indptr[column + 1] as usize;
                    for (share, subtree) in leaves.subtrees().iter().enumerate() {
                        for (number, leaf) in subtree.clone().enumerate() {
                            let siblings = number.trailing_ones() as usize;
                            // SAFETY: as the caller promised; fetched rows need not exist.
                            unsafe {
                                let mut sums = [V::zero(); N];
                                while at < end && u64::from(a.indices[at]) < bounds[leaf + 1] {
                                    let row = a.indices[at] as usize;
                                    let from = match b {
                                        Some(b) => {
                                            fetch::<V, N>(&a, at, b, 0);
                                            b.at.add(row * b.stride).cast_const()
                                        }
                                        None => {
                                            read(row, &mut row_of);
                                            row_of.as_ptr()
                                        }
                                    };
                                    let value = a.values[places[at] as usize];
                                    for (i, sum) in sums.iter_mut().enumerate() {
                                        *sum = sum.fma(value, V::load(from.add(i * LANES)));
                                    }
                                    at += 1;
                                }
                                for left in &waiting[..siblings] {
                                    for (sum, left) in sums.iter_mut().zip(left) {
                                        *sum = sum.add(*left);
                                    }
                                }
                                waiting[siblings] = sums;
                            }
                        }
                        let whole = &waiting[subtree.len().ilog2() as usize];
                        let mut found = [0.0; PANEL];
                        for (i, sum) in whole.iter().enumerate() {
                            // SAFETY: as above.
                            unsafe { sum.store(found.as_mut_ptr().add(i * LANES)) };
                        }
                        finish(column, share, &found);
                    }
                }
            }
            Task::Columns {
                a,
                columns,
                read,
                sums,
            } => {
                let whole = columns == (0..a.columns as u32);
                for row in 0..a.indptr.len().saturating_sub(1) {
                    let (mut begin, mut end) = (a.indptr[row] as usize, a.indptr[row + 1] as usize);
                    if !whole {
                        let of_row = &a.indices[begin..end];
                        end = begin + of_row.partition_point(|column| *column < columns.end);
                        begin += of_row.partition_point(|column| *column < columns.start);
                    }
                    if begin == end {
                        continue;
                    }
                    read(row, &mut row_of);
                    // SAFETY: as the caller promised; fetched rows need not exist.
                    unsafe {
                        let mut added = [V::zero(); N];
                        for (i, x) in added.iter_mut().enumerate() {
                            *x = V::load(row_of.as_ptr().add(i * LANES));
                        }
                        for at in begin..end {
                            fetch::<V, N>(&a, at, sums, columns.start);
                            let row = (a.indices[at] - columns.start) as usize;
                            let to = sums.at.add(row * sums.stride);
                            for (i, x) in added.iter().enumerate() {
                                let to = to.add(i * LANES);
                                V::load(to).fma(a.values[at], *x).store(to);
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Fetches the row of a nonzero a little further on.
///
/// # Safety
/// As [`Vector`]; the row need not exist.
#[inline(always)]
unsafe fn fetch<V: Vector, const N: usize>(a: &Nonzeros, at: usize, rows: Rows, first: u32) {
    if let Some(next) = a.indices.get(at + AHEAD) {
        let row = (next.wrapping_sub(first) as usize).wrapping_mul(rows.stride);
        let from = rows.at.cast_const().wrapping_add(row);
        for i in 0..N {
            // SAFETY: as the caller promised.
            unsafe { V::fetch(from.wrapping_add(i * LANES)) };
        }
    }
}

#[cfg(test)]
mod tests;

//! Dense products, cut into panels and blocks that do not depend on the number of threads, so
//! results do not either.
//!
//! 16-bit factors are converted to 32-bit floats one panel or block at a time, in memory outside
//! the plan; the sums are the same.

mod halves;
mod skinny;
pub(crate) mod sparse;
mod vectors;

use crate::arena::Span;
use crate::leaves::Leaves;
use crate::team::Team;
use gemm::Parallelism;
use gnnc_ir::program::Product;
use gnnc_ir::program::memory::product_block;
use gnnc_ir::words::storage::Storage;
use std::ops::Range;

/// Floats of a panel of the result, small enough for a finishing kernel to find it in cache.
const PANEL: u64 = 64 * 1024;

/// Fewest rows of a wide product for which a row of the result does not depend on the other rows
/// computed with it. With fewer, the library sums in another order.
const FEWEST: usize = 4;

/// A row-major matrix.
#[derive(Clone, Copy)]
pub(crate) struct Dense {
    /// The words that hold it.
    pub(crate) at: Span,
    /// Index of its first element.
    pub(crate) first: usize,
    /// Elements from one row to the next.
    pub(crate) stride: usize,
    /// Storage of the elements.
    pub(crate) storage: Storage,
}

/// A product; its sizes are those of [`gnnc_ir::program::Instr::MatMul`].
#[derive(Clone, Copy)]
pub(crate) struct Multiply {
    pub(crate) product: Product,
    pub(crate) a: Dense,
    pub(crate) b: Dense,
    pub(crate) out: Dense,
    pub(crate) rows: u64,
    pub(crate) inner: u64,
    pub(crate) columns: u64,
    /// Rows of the whole product, which determine the blocks of `Tn`.
    pub(crate) total: u64,
    /// Whether `Tn` adds to the existing result.
    pub(crate) adds: bool,
}

impl Multiply {
    /// The same product for some of the rows. `skipped` counts the rows that precede those in
    /// memory: of the operand by rows, of the other operand of `Tn`, and of the result.
    pub(crate) fn within(&self, rows: &Range<u64>, skipped: [u64; 3]) -> Self {
        let transposed = self.product == Product::Tn;
        let first = |skipped| rows.start - skipped;
        Self {
            a: self.a.after(first(skipped[0])),
            b: self.b.after(if transposed { first(skipped[1]) } else { 0 }),
            out: self
                .out
                .after(if transposed { 0 } else { first(skipped[2]) }),
            rows: rows.end - rows.start,
            ..*self
        }
    }

    /// Runs the product. Calls `finish` once for every range of rows of the result, as soon as the
    /// range is complete. `scratch` holds the partial sums of `Tn`.
    ///
    /// # Safety
    /// Nothing else uses the result or `scratch` meanwhile, or writes the operands.
    pub(crate) unsafe fn run(
        &self,
        team: &Team,
        scratch: Span,
        finish: Option<&(dyn Fn(u64, u64) + Sync)>,
    ) {
        let work = self.rows * self.inner * self.columns / 8;
        if self.product == Product::Tn {
            // SAFETY: as the caller promised.
            unsafe { self.transposed(team, scratch, work) };
            if let Some(finish) = finish {
                finish(0, self.inner);
            }
            return;
        }
        if !self.a.storage.is_f32() {
            // SAFETY: as the caller promised.
            return unsafe { self.halves(team, work, finish) };
        }
        let panel = panel(self.rows, self.columns);
        team.each(self.rows.div_ceil(panel) as usize, work, |i| {
            let begin = i as u64 * panel;
            let end = (begin + panel).min(self.rows);
            // SAFETY: panels are disjoint rows of the result.
            unsafe { self.panel(begin, end) };
            if let Some(finish) = finish {
                finish(begin, end);
            }
        });
    }

    /// Rows `begin .. end` of the result of `Nn` or `Nt`.
    unsafe fn panel(&self, begin: u64, end: u64) {
        let (m, n, k) = (
            (end - begin) as usize,
            self.columns as usize,
            self.inner as usize,
        );
        let rhs_steps = match self.product {
            Product::Nt => (1, self.b.stride),
            _ => (self.b.stride, 1),
        };
        let lhs = self.a.row(begin, k);
        // SAFETY: as the caller promised; `row` and `need` check the spans.
        unsafe {
            let rows = if self.product == Product::Nt { n } else { k };
            let columns = if self.product == Product::Nt { k } else { n };
            self.b.need(rows, columns);
            self.a.need(end as usize, k);
            self.out.need(end as usize, n);
            if narrow((m, n, k)) {
                let (a, b, out) = (
                    self.a.rows_from(begin),
                    self.b.rows_from(0),
                    self.out.rows_from(begin),
                );
                skinny::rows((m, n, k), a, b, self.product == Product::Nt, out);
                return;
            }
            let rhs = (self.b.first().cast_const(), rhs_steps.0, rhs_steps.1);
            let out = self.out.row(begin, n);
            if m < FEWEST {
                padded((m, n, k), out, self.out.stride, (lhs, self.a.stride), rhs);
                return;
            }
            let lhs = (lhs.cast_const(), self.a.stride, 1);
            multiply((m, n, k), out, self.out.stride, lhs, rhs);
        }
    }

    /// `Tn`: partial sums over blocks of rows, added in order.
    unsafe fn transposed(&self, team: &Team, scratch: Span, work: u64) {
        let (m, n) = (self.inner as usize, self.columns as usize);
        let block = product_block(self.total);
        let blocks = self.rows.div_ceil(block) as usize;
        self.a.need(self.rows as usize, m);
        self.b.need(self.rows as usize, n);
        self.out.need(m, n);
        let partial = |i: usize, dst: skinny::Rows| {
            let begin = i as u64 * block;
            // SAFETY: blocks have their own results.
            unsafe { self.block(&(begin..(begin + block).min(self.rows)), dst) };
        };
        if blocks <= 1 && !self.adds {
            if self.rows == 0 {
                // SAFETY: in range; nothing else uses the result.
                unsafe {
                    let out = self.out.first();
                    multiply((m, n, 0), out, self.out.stride, (out, 1, 0), (out, 0, 1))
                };
            } else {
                partial(0, self.out.rows_from(0));
            }
            return;
        }
        team.each(blocks, work, |i| {
            let part = scratch.part(i * m * n, m * n);
            let dst = skinny::Rows {
                at: part.ptr,
                stride: n,
                len: part.len,
            };
            partial(i, dst)
        });
        // SAFETY: the blocks are complete.
        let partials = unsafe { scratch.part(0, blocks * m * n).read() };
        const ROWS: usize = 64;
        team.each(m.div_ceil(ROWS), (blocks * m * n) as u64, |piece| {
            for row in piece * ROWS..((piece + 1) * ROWS).min(m) {
                // SAFETY: pieces are disjoint rows of the result and in bounds.
                let out = unsafe { self.out.span(row, n).write() };
                if !self.adds {
                    out.copy_from_slice(&partials[row * n..][..n]);
                }
                for block in usize::from(!self.adds)..blocks {
                    let partial = &partials[(block * m + row) * n..][..n];
                    out.iter_mut().zip(partial).for_each(|(sum, x)| *sum += x);
                }
            }
        });
    }
}

impl Multiply {
    /// `Tn` with a product for each leaf, added along the tree into the shares of the result.
    ///
    /// # Safety
    /// As [`run`](Self::run).
    pub(crate) unsafe fn by_leaf(
        &self,
        team: &Team,
        scratch: Span,
        leaves: &Leaves,
        shares: &[Dense],
    ) {
        let (m, n) = (self.inner as usize, self.columns as usize);
        self.a.need(self.rows as usize, m);
        self.b.need(self.rows as usize, n);
        let work = self.rows * self.inner * self.columns / 8;
        let rows: Vec<Range<u64>> = leaves.rows().collect();
        team.each(rows.len(), work, |leaf| {
            let part = scratch.part(leaf * m * n, m * n);
            let dst = skinny::Rows {
                at: part.ptr,
                stride: n,
                len: part.len,
            };
            // SAFETY: leaves have their own results.
            unsafe { self.block(&rows[leaf], dst) };
        });
        // SAFETY: the products are complete.
        unsafe { add_leaves(team, scratch, leaves, (m, n), shares) };
    }

    /// The product of some rows of both operands of `Tn`.
    unsafe fn block(&self, rows: &Range<u64>, dst: skinny::Rows) {
        let (m, n) = (self.inner as usize, self.columns as usize);
        let k = (rows.end - rows.start) as usize;
        // SAFETY: as the caller promised; spans were checked.
        unsafe {
            if !self.a.storage.is_f32() {
                self.half_block((rows.start, k), dst);
                return;
            }
            let (a, b) = (self.a.rows_from(rows.start), self.b.rows_from(rows.start));
            block_product((m, n, k), dst, a, b);
        }
    }
}

/// Adds the leaves' products, of `m` rows and `n` columns, into shares.
///
/// # Safety
/// Nothing else uses the products or the shares meanwhile.
pub(crate) unsafe fn add_leaves(
    team: &Team,
    products: Span,
    leaves: &Leaves,
    (m, n): (usize, usize),
    shares: &[Dense],
) {
    shares.iter().for_each(|share| share.need(m, n));
    let write = |number: usize, mut first: usize, mut piece: &[f32]| {
        while !piece.is_empty() {
            let (row, column) = (first / n, first % n);
            let (of_row, rest) = piece.split_at(piece.len().min(n - column));
            let to = shares[number].span(row, n).part(column, of_row.len());
            // SAFETY: pieces are disjoint and in bounds.
            unsafe { to.write() }.copy_from_slice(of_row);
            (first, piece) = (first + of_row.len(), rest);
        }
    };
    // SAFETY: as the caller promised.
    unsafe { leaves.add(team, products, m * n, &write) };
}

impl Dense {
    /// The matrix from row `row` on.
    fn after(self, row: u64) -> Self {
        Self {
            first: self.first + row as usize * self.stride,
            ..self
        }
    }

    /// Its words, from the one that holds its first element.
    pub(crate) fn words(&self) -> Span {
        let begin = (self.first / self.storage.in_word() as usize).min(self.at.len);
        self.at.part(begin, self.at.len - begin)
    }

    /// Pointer to its first 32-bit float.
    fn first(&self) -> *mut f32 {
        self.words().ptr
    }

    /// `columns` 32-bit floats of a row.
    fn span(&self, row: usize, columns: usize) -> Span {
        self.at.part(self.first + row * self.stride, columns)
    }

    /// Pointer to the first float of a row with `columns` floats.
    fn row(&self, row: u64, columns: usize) -> *mut f32 {
        match columns {
            0 => self.at.ptr,
            _ => self.span(row as usize, columns).ptr,
        }
    }

    /// A matrix of 32-bit floats, from row `row` on.
    fn rows_from(&self, row: u64) -> skinny::Rows {
        let words = self.after(row).words();
        skinny::Rows {
            at: words.ptr,
            stride: self.stride,
            len: words.len,
        }
    }

    /// Panics unless the matrix has `rows` rows of `columns`.
    fn need(&self, rows: usize, columns: usize) {
        let elements = if rows == 0 || columns == 0 {
            0
        } else {
            self.first + (rows - 1) * self.stride + columns
        };
        assert!(
            elements <= self.at.len * self.storage.in_word() as usize,
            "a matrix of {rows} x {columns} outside of its buffer"
        );
    }
}

/// Rows per panel of a product with `rows` rows: about eight panels that fit in cache, but at least
/// 1024 rows per panel of a long product, since every panel packs `b` again.
fn panel(rows: u64, columns: u64) -> u64 {
    let cached = PANEL / columns.max(1);
    rows.div_ceil(8)
        .min(cached.max(1024))
        .max(1)
        .next_multiple_of(64)
}

/// Whether [`skinny`] computes products with these sizes of result and sum.
fn narrow((m, n, k): (usize, usize, usize)) -> bool {
    m > 0 && k > 0 && (1..=skinny::WIDEST).contains(&n)
}

/// `dst[m x n] = a^T . b`, where `a` and `b` have `k` rows each, with their strides.
///
/// # Safety
/// As [`multiply`].
unsafe fn block_product(
    (m, n, k): (usize, usize, usize),
    dst: skinny::Rows,
    a: skinny::Rows,
    b: skinny::Rows,
) {
    // SAFETY: as the caller promised.
    unsafe {
        if narrow((m, n, k)) {
            skinny::columns((k, n, m), a, b, dst);
        } else {
            let lhs = (a.at.cast_const(), 1, a.stride);
            let rhs = (b.at.cast_const(), b.stride, 1);
            multiply((m, n, k), dst.at, dst.stride, lhs, rhs);
        }
    }
}

/// [`multiply`] for fewer than [`FEWEST`] rows, padded to that number.
///
/// # Safety
/// As [`multiply`].
unsafe fn padded(
    (m, n, k): (usize, usize, usize),
    dst: *mut f32,
    stride: usize,
    lhs: (*const f32, usize),
    rhs: (*const f32, usize, usize),
) {
    let (mut rows, mut results) = (vec![0.0; FEWEST * k], vec![0.0; FEWEST * n]);
    // SAFETY: as the caller promised; the vectors have their sizes.
    unsafe {
        for row in 0..m {
            let from = std::slice::from_raw_parts(lhs.0.add(row * lhs.1), k);
            rows[row * k..][..k].copy_from_slice(from);
        }
        let lhs = (rows.as_ptr(), k, 1);
        multiply((FEWEST, n, k), results.as_mut_ptr(), n, lhs, rhs);
        for row in 0..m {
            let to = std::slice::from_raw_parts_mut(dst.add(row * stride), n);
            to.copy_from_slice(&results[row * n..][..n]);
        }
    }
}

/// `dst[m x n] = lhs[m x k] . rhs[k x n]`, each with its steps between rows and between columns.
///
/// # Safety
/// The matrices are readable, and `dst` is writable.
unsafe fn multiply(
    (m, n, k): (usize, usize, usize),
    dst: *mut f32,
    stride: usize,
    lhs: (*const f32, usize, usize),
    rhs: (*const f32, usize, usize),
) {
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        for row in 0..m {
            // SAFETY: row `row` of `dst` is in range.
            unsafe { std::slice::from_raw_parts_mut(dst.add(row * stride), n).fill(0.0) };
        }
        return;
    }
    let step = |s: usize| s as isize;
    // SAFETY: as the caller promised.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            dst,
            1,
            step(stride),
            false,
            lhs.0,
            step(lhs.2),
            step(lhs.1),
            rhs.0,
            step(rhs.2),
            step(rhs.1),
            0.0f32,
            1.0f32,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests;

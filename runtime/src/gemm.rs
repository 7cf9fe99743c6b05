//! Dense products, cut into panels and blocks that never depend on the number of threads,
//! so that results do not either.

mod skinny;

use crate::device::cpu::Span;
use crate::team::Team;
use gemm::Parallelism;
use gnnc_ir::memory::product_block;
use gnnc_ir::program::Product;

/// Floats of a panel of the result, which a finishing kernel finds in the cache.
const PANEL: u64 = 64 * 1024;

/// A row-major matrix.
#[derive(Clone, Copy)]
pub(crate) struct Dense {
    /// From its first float.
    pub(crate) at: Span,
    /// Floats from one row to the next.
    pub(crate) stride: usize,
}

/// A product: the sizes are those of [`gnnc_ir::program::Instr::MatMul`].
#[derive(Clone, Copy)]
pub(crate) struct Multiply {
    pub(crate) product: Product,
    pub(crate) a: Dense,
    pub(crate) b: Dense,
    pub(crate) out: Dense,
    pub(crate) rows: u64,
    pub(crate) inner: u64,
    pub(crate) columns: u64,
}

impl Multiply {
    /// Runs the product; `finish` is called once for every range of rows of the result, as
    /// soon as the range is there. `scratch` holds the partial sums of `Tn`.
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
                let rows = |at, stride| skinny::Rows { at, stride };
                skinny::rows(
                    (m, n, k),
                    rows(lhs, self.a.stride),
                    rows(self.b.at.ptr, self.b.stride),
                    self.product == Product::Nt,
                    rows(self.out.row(begin, n), self.out.stride),
                );
                return;
            }
            multiply(
                (m, n, k),
                self.out.row(begin, n),
                self.out.stride,
                (lhs, self.a.stride, 1),
                (self.b.at.ptr, rhs_steps.0, rhs_steps.1),
            );
        }
    }

    /// `Tn`: partial sums over blocks of rows, added in order.
    unsafe fn transposed(&self, team: &Team, scratch: Span, work: u64) {
        let (m, n) = (self.inner as usize, self.columns as usize);
        let block = product_block(self.rows);
        let blocks = self.rows.div_ceil(block) as usize;
        self.a.need(self.rows as usize, m);
        self.b.need(self.rows as usize, n);
        self.out.need(m, n);
        let partial = |i: usize, dst: *mut f32, stride: usize| {
            let begin = i as u64 * block;
            let k = (self.rows - begin).min(block) as usize;
            let (lhs, rhs) = (self.a.row(begin, m), self.b.row(begin, n));
            if narrow((m, n, k)) {
                let rows = |at, stride| skinny::Rows { at, stride };
                let (a, b) = (rows(lhs, self.a.stride), rows(rhs, self.b.stride));
                // SAFETY: spans were checked; blocks have their own results.
                unsafe { skinny::columns((k, n, m), a, b, rows(dst, stride)) };
                return;
            }
            // SAFETY: spans were checked; blocks have their own results.
            unsafe {
                multiply(
                    (m, n, k),
                    dst,
                    stride,
                    (lhs, 1, self.a.stride),
                    (rhs, self.b.stride, 1),
                )
            };
        };
        if blocks <= 1 {
            if self.rows == 0 {
                // SAFETY: in range; nothing else uses the result.
                unsafe {
                    multiply(
                        (m, n, 0),
                        self.out.at.ptr,
                        self.out.stride,
                        (self.out.at.ptr, 1, 0),
                        (self.out.at.ptr, 0, 1),
                    )
                };
            } else {
                partial(0, self.out.at.ptr, self.out.stride);
            }
            return;
        }
        team.each(blocks, work, |i| {
            partial(i, scratch.part(i * m * n, m * n).ptr, n)
        });
        // SAFETY: the blocks are done.
        let partials = unsafe { scratch.part(0, blocks * m * n).read() };
        const ROWS: usize = 64;
        team.each(m.div_ceil(ROWS), (blocks * m * n) as u64, |piece| {
            for row in piece * ROWS..((piece + 1) * ROWS).min(m) {
                // SAFETY: pieces are disjoint rows of the result, inside of it.
                let out = unsafe { self.out.at.part(row * self.out.stride, n).write() };
                out.copy_from_slice(&partials[row * n..][..n]);
                for block in 1..blocks {
                    let partial = &partials[(block * m + row) * n..][..n];
                    out.iter_mut().zip(partial).for_each(|(sum, x)| *sum += x);
                }
            }
        });
    }
}

impl Dense {
    /// The first float of a row that has `columns` floats.
    fn row(&self, row: u64, columns: usize) -> *mut f32 {
        match columns {
            0 => self.at.ptr,
            _ => self.at.part(row as usize * self.stride, columns).ptr,
        }
    }

    /// Panics unless the matrix holds `rows` rows of `columns`.
    fn need(&self, rows: usize, columns: usize) {
        let floats = if rows == 0 || columns == 0 {
            0
        } else {
            (rows - 1) * self.stride + columns
        };
        assert!(
            floats <= self.at.len,
            "a matrix of {rows} x {columns} outside of its buffer"
        );
    }
}

/// Rows of a panel of a product with `rows` rows: about eight panels, none too large for the
/// cache, but no less than 1024 rows of a long product, since every panel packs `b` anew.
fn panel(rows: u64, columns: u64) -> u64 {
    let cached = PANEL / columns.max(1);
    rows.div_ceil(8)
        .min(cached.max(1024))
        .max(1)
        .next_multiple_of(64)
}

/// Whether a product of these sizes of result and sum is one for [`skinny`].
fn narrow((m, n, k): (usize, usize, usize)) -> bool {
    m > 0 && k > 0 && (1..=skinny::WIDEST).contains(&n)
}

/// `dst[m x n] = lhs[m x k] . rhs[k x n]`, each with its steps from row to row and column to column.
///
/// # Safety
/// The matrices lie in memory that may be read, and written for `dst`.
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
// Each test owns the memory that its products touch.
#[allow(clippy::undocumented_unsafe_blocks)]
mod tests {
    use super::*;
    use crate::device::cpu::Arena;
    use crate::init::uniform;
    use proptest::prelude::*;
    use std::sync::Mutex;

    struct Case {
        arena: Arena,
        multiply: Multiply,
        scratch: Span,
    }

    fn case(product: Product, rows: usize, inner: usize, columns: usize, pad: usize) -> Case {
        let (b_rows, b_columns) = match product {
            Product::Nn => (inner, columns),
            Product::Nt => (columns, inner),
            Product::Tn => (rows, columns),
        };
        let out_rows = if product == Product::Tn { inner } else { rows };
        let blocks = rows.div_ceil(product_block(rows as u64) as usize);
        let sizes = [
            rows * (inner + pad),
            b_rows * (b_columns + pad),
            out_rows * (columns + pad),
            blocks * inner * columns,
        ];
        let arena = Arena::new(sizes.iter().sum()).unwrap();
        let mut begin = 0;
        let spans = sizes.map(|size| {
            begin += size;
            arena.span(begin - size, size)
        });
        for (key, span) in spans.iter().enumerate() {
            let floats = unsafe { span.write() };
            floats
                .iter_mut()
                .enumerate()
                .for_each(|(i, x)| *x = uniform(key as u64, i as u64) as f32);
        }
        let dense = |at: Span, columns: usize| Dense {
            at,
            stride: columns + pad,
        };
        let multiply = Multiply {
            product,
            a: dense(spans[0], inner),
            b: dense(spans[1], b_columns),
            out: dense(spans[2], columns),
            rows: rows as u64,
            inner: inner as u64,
            columns: columns as u64,
        };
        Case {
            arena,
            multiply,
            scratch: spans[3],
        }
    }

    fn result(case: &Case) -> Vec<f32> {
        unsafe { case.multiply.out.at.read() }.to_vec()
    }

    fn check(product: Product, rows: usize, inner: usize, columns: usize, pad: usize) {
        let case = case(product, rows, inner, columns, pad);
        let m = &case.multiply;
        let before = result(&case);
        let team = Team::new(0, 1).unwrap();
        let finished = Mutex::new(Vec::new());
        unsafe {
            m.run(
                &team,
                case.scratch,
                Some(&|begin, end| finished.lock().unwrap().push((begin, end))),
            )
        };
        let mut finished = finished.into_inner().unwrap();
        finished.sort_unstable();
        let (a, b, out) = unsafe { (m.a.at.read(), m.b.at.read(), m.out.at.read()) };
        let (out_rows, sum) = if product == Product::Tn {
            (inner, rows)
        } else {
            (rows, inner)
        };
        assert!(finished.windows(2).all(|w| w[0].1 == w[1].0));
        assert!(
            out_rows == 0
                || (finished[0].0, finished[finished.len() - 1].1) == (0, out_rows as u64)
        );
        for r in 0..out_rows {
            for c in 0..columns {
                let term = |k: usize| {
                    let a = if product == Product::Tn {
                        a[k * m.a.stride + r]
                    } else {
                        a[r * m.a.stride + k]
                    };
                    let b = if product == Product::Nt {
                        b[c * m.b.stride + k]
                    } else {
                        b[k * m.b.stride + c]
                    };
                    (
                        f64::from(a) * f64::from(b),
                        (f64::from(a) * f64::from(b)).abs(),
                    )
                };
                let (want, size) = (0..sum)
                    .map(term)
                    .fold((0.0, 0.0), |s, t| (s.0 + t.0, s.1 + t.1));
                let got = f64::from(out[r * m.out.stride + c]);
                // Rounding of a sum grows with its terms' size; k/2 ulps is a loose bound.
                assert!(
                    (got - want).abs() <= size * 6e-8 * (sum as f64).sqrt().max(2.0) * 2.0,
                    "{product:?} {r} {c}: {got} {want}"
                );
            }
            for c in columns..m.out.stride.min(before.len() - r * m.out.stride) {
                assert_eq!(out[r * m.out.stride + c], before[r * m.out.stride + c]);
            }
        }
        drop(case.arena);
    }

    #[test]
    fn sizes_at_the_edges() {
        for product in [Product::Nn, Product::Nt, Product::Tn] {
            for (rows, inner, columns) in [
                (0, 3, 4),
                (3, 0, 4),
                (3, 4, 0),
                (1, 1, 1),
                (2000, 1, 1),
                (1537, 7, 16),
                (700, 300, 41),
                (90, 33, 64),
                (90, 33, 65),
                (5, 600, 3),
            ] {
                check(product, rows, inner, columns, 0);
                check(product, rows, inner, columns, 3);
            }
        }
    }

    #[test]
    fn threads_change_no_bit() {
        for product in [Product::Nn, Product::Nt, Product::Tn] {
            let results: Vec<Vec<f32>> = [1, 2, 3]
                .into_iter()
                .map(|threads| {
                    let case = case(product, 5000, 37, 24, 1);
                    let team = Team::new(0, threads).unwrap();
                    team.enter(|| unsafe { case.multiply.run(&team, case.scratch, None) });
                    result(&case)
                })
                .collect();
            assert!(results.windows(2).all(|w| {
                w[0].iter()
                    .zip(&w[1])
                    .all(|(a, b)| a.to_bits() == b.to_bits())
            }));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn products_are_sums(product in 0usize..3, rows in 0usize..1200, inner in 0usize..40, columns in 0usize..80, pad in 0usize..4) {
            check([Product::Nn, Product::Nt, Product::Tn][product], rows, inner, columns, pad);
        }
    }
}

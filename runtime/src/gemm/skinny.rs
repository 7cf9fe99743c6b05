//! Products whose result is narrow: at most [`WIDEST`] columns.
//!
//! A general library packs the tall operand, which costs as much as the product itself when the
//! result has 16 columns. Here a few rows (`Nn`, `Nt`) or columns (`Tn`) of the tall operand are
//! multiplied in place into a tile of the result that stays in registers; only the small operand is
//! packed, into whole vectors. Every element is one chain of fused multiply-adds (over [`CHUNK`]
//! rows in `Tn`), so results depend neither on the processor's vector width nor on an element's
//! tile.

use super::vectors::{LANES, Vector, VectorTask, dispatch};

/// Most columns of a result.
pub(super) const WIDEST: usize = 64;
/// Rows of a transposed product summed by one chain; shorter chains accumulate less rounding error.
const CHUNK: usize = 32;

/// A matrix: its address, the floats from one row to the next, and the floats that belong to it.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) at: *mut f32,
    pub(super) stride: usize,
    pub(super) len: usize,
}

impl Rows {
    /// Panics unless the matrix has `rows` rows of `columns`.
    fn need(&self, rows: usize, columns: usize) {
        let floats = match rows.checked_sub(1) {
            Some(last) if columns > 0 => last * self.stride + columns,
            Some(_) | None => 0,
        };
        assert!(
            floats <= self.len,
            "a matrix of {rows} x {columns} outside of its {} floats",
            self.len
        );
    }
}

/// `out[m x n] = a[m x k] . b`; `b` is `k x n`, or `n x k` if `transposed`.
///
/// # Panics
/// If a matrix is shorter than its sizes say, or the result is wider than [`WIDEST`].
///
/// # Safety
/// The matrices are readable; `out` is writable, and nothing else uses it meanwhile.
pub(super) unsafe fn rows(
    (m, n, k): (usize, usize, usize),
    a: Rows,
    b: Rows,
    transposed: bool,
    out: Rows,
) {
    assert!(n <= WIDEST, "a narrow product of {n} columns");
    a.need(m, k);
    out.need(m, n);
    if transposed {
        b.need(n, k);
    } else {
        b.need(k, n);
    }
    let width = n.next_multiple_of(LANES);
    let mut packed = vec![0.0f32; k * width];
    for i in 0..k {
        for j in 0..n {
            let at = if transposed {
                j * b.stride + i
            } else {
                i * b.stride + j
            };
            // SAFETY: inside `b`, whose length was checked.
            packed[i * width + j] = unsafe { *b.at.add(at) };
        }
    }
    let task = Task::Rows {
        sizes: (m, n, k),
        a,
        packed: &packed,
        out,
    };
    // SAFETY: the lengths were checked; the caller vouches for the memory.
    unsafe { dispatch(task, width / LANES) }
}

/// `out[k x n] = transposed a[m x k] . b[m x n]`.
///
/// # Panics
/// If a matrix is shorter than its sizes say, or the result is wider than [`WIDEST`].
///
/// # Safety
/// As [`rows`].
pub(super) unsafe fn columns((m, n, k): (usize, usize, usize), a: Rows, b: Rows, out: Rows) {
    assert!(n <= WIDEST, "a narrow product of {n} columns");
    a.need(m, k);
    b.need(m, n);
    out.need(k, n);
    let width = n.next_multiple_of(LANES);
    let mut sums = vec![0.0f32; k * width];
    let mut packed = vec![0.0f32; CHUNK * width];
    for begin in (0..m).step_by(CHUNK) {
        let rows = CHUNK.min(m - begin);
        for row in 0..rows {
            // SAFETY: inside `b`, whose length was checked.
            let from = unsafe { std::slice::from_raw_parts(b.at.add((begin + row) * b.stride), n) };
            packed[row * width..][..n].copy_from_slice(from);
        }
        // SAFETY: row `begin` is inside `a`, whose length was checked.
        let at = unsafe { a.at.add(begin * a.stride) };
        let len = a.len - begin * a.stride;
        let task = Task::Columns {
            rows,
            next: CHUNK.min(m - begin - rows),
            columns: k,
            a: Rows { at, len, ..a },
            packed: &packed,
            sums: &mut sums,
        };
        // SAFETY: the lengths were checked; the caller vouches for the memory.
        unsafe { dispatch(task, width / LANES) }
    }
    for row in 0..k {
        // SAFETY: inside `out`, whose length was checked; nothing else uses it, as the caller
        // promised.
        let to = unsafe { std::slice::from_raw_parts_mut(out.at.add(row * out.stride), n) };
        to.copy_from_slice(&sums[row * width..][..n]);
    }
}

enum Task<'a> {
    Rows {
        sizes: (usize, usize, usize),
        a: Rows,
        packed: &'a [f32],
        out: Rows,
    },
    Columns {
        rows: usize,
        /// Number of rows of `a` that follow, to prefetch.
        next: usize,
        columns: usize,
        a: Rows,
        packed: &'a [f32],
        sums: &'a mut [f32],
    },
}

impl Task<'_> {
    /// Panics unless the packed operand and the sums have rows of `width` floats for the whole
    /// task.
    fn need(&self, width: usize) {
        let enough = match self {
            Task::Rows {
                sizes: (_, n, k),
                packed,
                ..
            } => *n <= width && packed.len() >= k * width,
            Task::Columns {
                rows,
                columns,
                packed,
                sums,
                ..
            } => packed.len() >= rows * width && sums.len() >= columns * width,
        };
        assert!(enough, "packed memory is too short for rows of {width}");
    }
}

impl VectorTask for Task<'_> {
    /// Tiles are full rows of the result. Panics if the packed operand does not have as many vectors.
    #[inline(always)]
    unsafe fn run<V: Vector, const TALL: usize, const WIDE: usize>(self) {
        self.need(WIDE * LANES);
        // SAFETY: the packed operand is long enough, as just checked; the caller vouches for the
        // rest. Tiles begin at rows and columns of the result followed by at least `TALL` or 1.
        unsafe {
            match self {
                Task::Rows {
                    sizes: (m, n, k),
                    a,
                    packed,
                    out,
                } => {
                    let whole = m - m % TALL;
                    for row in (0..whole).step_by(TALL) {
                        row_tile::<V, TALL, WIDE>(row, (n, k), a, packed, out);
                    }
                    for row in whole..m {
                        row_tile::<V, 1, WIDE>(row, (n, k), a, packed, out);
                    }
                }
                Task::Columns {
                    rows,
                    next,
                    columns,
                    a,
                    packed,
                    sums,
                } => {
                    let whole = columns - columns % TALL;
                    for column in (0..whole).step_by(TALL) {
                        for row in rows..rows + next {
                            V::fetch(a.at.add(row * a.stride + column));
                        }
                        column_tile::<V, TALL, WIDE>(column, rows, a, packed, sums);
                    }
                    for column in whole..columns {
                        column_tile::<V, 1, WIDE>(column, rows, a, packed, sums);
                    }
                }
            }
        }
    }
}

/// Rows `row .. row + TALL` of the result of [`rows`].
///
/// # Safety
/// `a` and `out` have these rows, of `k` and `n` floats. `packed` has `k` rows of `WIDE` vectors,
/// which hold `n` floats. The processor has the instructions of `V`.
#[inline(always)]
unsafe fn row_tile<V: Vector, const TALL: usize, const WIDE: usize>(
    row: usize,
    (n, k): (usize, usize),
    a: Rows,
    packed: &[f32],
    out: Rows,
) {
    // SAFETY: rows of `a` and `out` and vectors of `packed` are in bounds, as the caller promised.
    // The last vector of a row of `out` is stored only up to the row's last column.
    unsafe {
        let mut tile = [[V::zero(); WIDE]; TALL];
        let a_row: [*const f32; TALL] =
            std::array::from_fn(|i| a.at.add((row + i) * a.stride).cast_const());
        let mut b = packed.as_ptr();
        for inner in 0..k {
            let vectors: [V; WIDE] = std::array::from_fn(|j| V::load(b.add(j * LANES)));
            for i in 0..TALL {
                let scalar = *a_row[i].add(inner);
                for j in 0..WIDE {
                    tile[i][j] = tile[i][j].fma(scalar, vectors[j]);
                }
            }
            b = b.add(WIDE * LANES);
        }
        for i in 0..TALL {
            let to = out.at.add((row + i) * out.stride);
            for j in 0..WIDE {
                let here = n.saturating_sub(j * LANES);
                if here >= LANES {
                    tile[i][j].store(to.add(j * LANES));
                } else {
                    let mut last = [0.0f32; LANES];
                    tile[i][j].store(last.as_mut_ptr());
                    std::ptr::copy_nonoverlapping(last.as_ptr(), to.add(j * LANES), here);
                }
            }
        }
    }
}

/// Adds a chunk of rows to rows `column .. column + TALL` of the sums of [`columns`].
///
/// # Safety
/// `a` has `rows` rows with these columns. `packed` has `rows` rows of `WIDE` vectors, and `sums`
/// has at least `column + TALL`. The processor has the instructions of `V`.
#[inline(always)]
unsafe fn column_tile<V: Vector, const TALL: usize, const WIDE: usize>(
    column: usize,
    rows: usize,
    a: Rows,
    packed: &[f32],
    sums: &mut [f32],
) {
    // SAFETY: columns of `a` and vectors of `packed` and `sums` are in bounds, as the caller
    // promised. The pointer past the last row is not read.
    unsafe {
        let mut tile = [[V::zero(); WIDE]; TALL];
        let mut a = Rows {
            at: a.at.add(column),
            ..a
        };
        let mut b = packed.as_ptr();
        for _ in 0..rows {
            let vectors: [V; WIDE] = std::array::from_fn(|j| V::load(b.add(j * LANES)));
            for i in 0..TALL {
                let scalar = *a.at.add(i);
                for j in 0..WIDE {
                    tile[i][j] = tile[i][j].fma(scalar, vectors[j]);
                }
            }
            a.at = a.at.wrapping_add(a.stride);
            b = b.add(WIDE * LANES);
        }
        for i in 0..TALL {
            for j in 0..WIDE {
                let to = sums.as_mut_ptr().add(((column + i) * WIDE + j) * LANES);
                V::load(to).add(tile[i][j]).store(to);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::undocumented_unsafe_blocks)]
mod tests {
    use super::*;
    use crate::gemm::vectors::{levels, run_at};
    use crate::init::uniform;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn floats(key: u64, len: usize) -> Vec<f32> {
        (0..len as u64)
            .map(|i| uniform(key, i) as f32 - 0.5)
            .collect()
    }

    /// Every instruction set gives the same bits, also in rows and columns that do not fill a tile.
    #[test]
    fn vectors_change_no_bit() {
        for (m, n, k) in [
            (1, 1usize, 1),
            (37, 16, 50),
            (35, 17, 33),
            (50, 48, 21),
            (29, 61, 40),
        ] {
            let width = n.next_multiple_of(LANES);
            let (mut a, packed) = (floats(0, m * k), floats(1, m.max(k) * width));
            let rows = |floats: &mut [f32], stride| Rows {
                at: floats.as_mut_ptr(),
                stride,
                len: floats.len(),
            };
            let a = rows(&mut a, k);
            let results: Vec<_> = levels()
                .map(|level| {
                    let (mut out, mut sums) = (floats(2, m * n), floats(3, k * width));
                    let tall = Task::Rows {
                        sizes: (m, n, k),
                        a,
                        packed: &packed[..k * width],
                        out: rows(&mut out, n),
                    };
                    unsafe { run_at(level, tall, width / LANES) };
                    let wide = Task::Columns {
                        rows: m,
                        next: 0,
                        columns: k,
                        a,
                        packed: &packed[..m * width],
                        sums: &mut sums,
                    };
                    unsafe { run_at(level, wide, width / LANES) };
                    let bits = out.iter().chain(&sums).map(|x| x.to_bits());
                    bits.collect::<Vec<_>>()
                })
                .collect();
            assert!(results.windows(2).all(|w| w[0] == w[1]), "{m} {n} {k}");
        }
    }

    /// In every build, products of matrices that are too short panic before touching memory.
    #[test]
    fn short_matrices_are_refused() {
        let (m, n, k) = (40, 20, 9);
        let sizes = [m * k, k * n, m * n];
        let run = |lens: [usize; 3], product: fn((usize, usize, usize), [Rows; 3])| {
            let mut memory = sizes.map(|size| vec![0.5f32; size]);
            let strides = [k, n, n];
            let mut matrix = |i: usize| Rows {
                at: memory[i].as_mut_ptr(),
                stride: strides[i],
                len: lens[i],
            };
            let matrices = [matrix(0), matrix(1), matrix(2)];
            catch_unwind(|| product((m, n, k), matrices)).is_ok()
        };
        let tall: fn((usize, usize, usize), [Rows; 3]) =
            |(m, n, k), [a, b, out]| unsafe { rows((m, n, k), a, b, false, out) };
        // `b` of one product is the result of the other, and vice versa.
        let wide: fn((usize, usize, usize), [Rows; 3]) =
            |(m, n, k), [a, out, b]| unsafe { columns((m, n, k), a, b, out) };
        for product in [tall, wide] {
            assert!(run(sizes, product));
            for i in 0..3 {
                let mut short = sizes;
                short[i] -= 1;
                assert!(!run(short, product), "matrix {i}");
            }
        }
        let packed = vec![0.0; 15];
        let floats = Rows {
            at: std::ptr::null_mut(),
            stride: 1,
            len: 0,
        };
        let task = Task::Rows {
            sizes: (0, 1, 1),
            a: floats,
            packed: &packed,
            out: floats,
        };
        let refused = catch_unwind(AssertUnwindSafe(|| unsafe { dispatch(task, 1) }));
        assert!(refused.is_err(), "one vector in 15 floats");
    }
}

//! Products whose result is narrow: at most [`WIDEST`] columns.
//!
//! A general library packs the tall operand, which costs as much as the product itself when the
//! result has 16 columns. Here a few rows (`Nn`, `Nt`) or columns (`Tn`) of the tall operand are
//! multiplied straight from where they lie, into a tile of the result that stays in registers;
//! only the small operand is packed, to whole vectors. Every element is one chain of fused
//! multiply-adds (of [`CHUNK`] rows in `Tn`), so results depend on neither the processor's vectors
//! nor the tile that an element falls into.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// The most columns of a result.
pub(super) const WIDEST: usize = 64;
/// Floats of a vector, whatever the processor has.
const LANES: usize = 16;
/// Rows of a transposed product that are summed by one chain; short chains round less.
const CHUNK: usize = 32;

/// A matrix: where it begins and the floats from one row to the next.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub(super) at: *mut f32,
    pub(super) stride: usize,
}

/// `out[m x n] = a[m x k] . b`, with `b` as `k x n`, or as `n x k` if it is `transposed`.
///
/// # Safety
/// The matrices may be read, and `out` written, in these sizes; `n <= WIDEST`.
pub(super) unsafe fn rows(
    (m, n, k): (usize, usize, usize),
    a: Rows,
    b: Rows,
    transposed: bool,
    out: Rows,
) {
    let width = n.next_multiple_of(LANES);
    let mut packed = vec![0.0f32; k * width];
    for i in 0..k {
        for j in 0..n {
            let at = if transposed {
                j * b.stride + i
            } else {
                i * b.stride + j
            };
            // SAFETY: inside of `b`, as the caller promised.
            packed[i * width + j] = unsafe { *b.at.add(at) };
        }
    }
    let task = Task::Rows {
        sizes: (m, n, k),
        a,
        packed: &packed,
        out,
    };
    // SAFETY: as the caller promised.
    unsafe { dispatch(task, width / LANES) }
}

/// `out[k x n] = transposed a[m x k] . b[m x n]`.
///
/// # Safety
/// The matrices may be read, and `out` written, in these sizes; `n <= WIDEST`.
pub(super) unsafe fn columns((m, n, k): (usize, usize, usize), a: Rows, b: Rows, out: Rows) {
    let width = n.next_multiple_of(LANES);
    let mut sums = vec![0.0f32; k * width];
    let mut packed = vec![0.0f32; CHUNK * width];
    for begin in (0..m).step_by(CHUNK) {
        let rows = CHUNK.min(m - begin);
        for row in 0..rows {
            // SAFETY: inside of `b`, as the caller promised.
            let from = unsafe { std::slice::from_raw_parts(b.at.add((begin + row) * b.stride), n) };
            packed[row * width..][..n].copy_from_slice(from);
        }
        // SAFETY: row `begin` is inside of `a`.
        let at = unsafe { a.at.add(begin * a.stride) };
        let task = Task::Columns {
            rows,
            next: CHUNK.min(m - begin - rows),
            columns: k,
            a: Rows { at, ..a },
            packed: &packed,
            sums: &mut sums,
        };
        // SAFETY: as the caller promised.
        unsafe { dispatch(task, width / LANES) }
    }
    for row in 0..k {
        // SAFETY: inside of `out`, as the caller promised.
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
        /// Rows of `a` that come next, which are fetched ahead.
        next: usize,
        columns: usize,
        a: Rows,
        packed: &'a [f32],
        sums: &'a mut [f32],
    },
}

/// The vectors of a processor.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Level {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

/// What this processor has, the fastest first.
fn levels() -> impl Iterator<Item = Level> {
    [
        #[cfg(target_arch = "x86_64")]
        is_x86_feature_detected!("avx512f").then_some(Level::Avx512),
        #[cfg(target_arch = "x86_64")]
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"))
            .then_some(Level::Avx2),
        Some(Level::Portable),
    ]
    .into_iter()
    .flatten()
}

/// Runs a task; `vectors` hold a row of the result.
unsafe fn dispatch(task: Task, vectors: usize) {
    let level = levels().next().unwrap_or(Level::Portable);
    // SAFETY: the processor has it.
    unsafe { run_at(level, task, vectors) }
}

/// The same with the vectors of a level that the processor has.
unsafe fn run_at(level: Level, task: Task, vectors: usize) {
    // SAFETY: as the caller promised.
    unsafe {
        match level {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => avx512(task, vectors),
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => avx2(task, vectors),
            Level::Portable => match vectors {
                1 => task.run::<[f32; LANES], 4, 1>(),
                2 => task.run::<[f32; LANES], 2, 2>(),
                3 => task.run::<[f32; LANES], 1, 3>(),
                _ => task.run::<[f32; LANES], 1, 4>(),
            },
        }
    }
}

// Tiles of as many rows as leave registers for a row of the small operand: 32 of 16 floats.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512(task: Task, vectors: usize) {
    // SAFETY: as the caller promised.
    unsafe {
        match vectors {
            1 => task.run::<__m512, 16, 1>(),
            2 => task.run::<__m512, 12, 2>(),
            3 => task.run::<__m512, 8, 3>(),
            _ => task.run::<__m512, 6, 4>(),
        }
    }
}

// 16 registers of 8 floats.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn avx2(task: Task, vectors: usize) {
    // SAFETY: as the caller promised.
    unsafe {
        match vectors {
            1 => task.run::<[__m256; 2], 6, 1>(),
            2 => task.run::<[__m256; 2], 2, 2>(),
            3 => task.run::<[__m256; 2], 1, 3>(),
            _ => task.run::<[__m256; 2], 1, 4>(),
        }
    }
}

/// `LANES` floats.
trait Vector: Copy {
    unsafe fn zero() -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// `self + scalar * other`, rounded once.
    unsafe fn fma(self, scalar: f32, other: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn fetch(_from: *const f32) {}
}

// SAFETY of all methods: the processor has what the type needs, and `LANES` floats are there.
#[allow(clippy::undocumented_unsafe_blocks)]
impl Vector for [f32; LANES] {
    #[inline(always)]
    unsafe fn zero() -> Self {
        [0.0; LANES]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { from.cast::<Self>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { to.cast::<Self>().write_unaligned(self) }
    }
    #[inline(always)]
    unsafe fn fma(self, scalar: f32, other: Self) -> Self {
        std::array::from_fn(|i| scalar.mul_add(other[i], self[i]))
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        std::array::from_fn(|i| self[i] + other[i])
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(clippy::undocumented_unsafe_blocks)]
impl Vector for __m512 {
    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { _mm512_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn fma(self, scalar: f32, other: Self) -> Self {
        unsafe { _mm512_fmadd_ps(_mm512_set1_ps(scalar), other, self) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe { _mm512_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn fetch(from: *const f32) {
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(clippy::undocumented_unsafe_blocks)]
impl Vector for [__m256; 2] {
    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { [_mm256_setzero_ps(); 2] }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe {
            _mm256_storeu_ps(to, self[0]);
            _mm256_storeu_ps(to.add(8), self[1]);
        }
    }
    #[inline(always)]
    unsafe fn fma(self, scalar: f32, other: Self) -> Self {
        unsafe {
            let scalar = _mm256_set1_ps(scalar);
            [
                _mm256_fmadd_ps(scalar, other[0], self[0]),
                _mm256_fmadd_ps(scalar, other[1], self[1]),
            ]
        }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        unsafe {
            [
                _mm256_add_ps(self[0], other[0]),
                _mm256_add_ps(self[1], other[1]),
            ]
        }
    }
    #[inline(always)]
    unsafe fn fetch(from: *const f32) {
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
    }
}

impl Task<'_> {
    /// In tiles of `TALL` rows of the result and of `WIDE` vectors, all that a row has.
    #[inline(always)]
    unsafe fn run<V: Vector, const TALL: usize, const WIDE: usize>(self) {
        // SAFETY: as the callers promised.
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
#[inline(always)]
unsafe fn row_tile<V: Vector, const TALL: usize, const WIDE: usize>(
    row: usize,
    (n, k): (usize, usize),
    a: Rows,
    packed: &[f32],
    out: Rows,
) {
    debug_assert!(packed.len() == k * WIDE * LANES);
    // SAFETY: as the callers promised; `packed` has `k` rows of `WIDE` vectors.
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
                let here = n - j * LANES;
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
#[inline(always)]
unsafe fn column_tile<V: Vector, const TALL: usize, const WIDE: usize>(
    column: usize,
    rows: usize,
    a: Rows,
    packed: &[f32],
    sums: &mut [f32],
) {
    debug_assert!(packed.len() >= rows * WIDE * LANES);
    debug_assert!(sums.len() >= (column + TALL) * WIDE * LANES);
    // SAFETY: as the callers promised; `packed` has `rows` rows of `WIDE` vectors and `sums` has
    // `column + TALL` or more.
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
    use crate::init::uniform;

    fn floats(key: u64, len: usize) -> Vec<f32> {
        (0..len as u64)
            .map(|i| uniform(key, i) as f32 - 0.5)
            .collect()
    }

    /// Every processor gives the same bits, also in the rows and columns that fill no tile.
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
            let rows = |at: &mut [f32], stride| Rows {
                at: at.as_mut_ptr(),
                stride,
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
}

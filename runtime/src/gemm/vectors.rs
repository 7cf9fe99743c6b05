//! Vectors of [`LANES`] floats, in as many processor registers as they need, and the instruction sets for them.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Floats per vector, on every processor.
pub(super) const LANES: usize = 16;

/// Vector instruction sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Level {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

/// The instruction sets of this processor, fastest first.
pub(super) fn levels() -> impl Iterator<Item = Level> {
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

/// Work on rows of up to four vectors.
pub(super) trait VectorTask {
    /// Runs the task in tiles of `TALL` rows and `WIDE` vectors.
    ///
    /// # Safety
    /// The task's matrices have their sizes; they are readable, and the result is writable. The
    /// processor has the instructions of `V`.
    unsafe fn run<V: Vector, const TALL: usize, const WIDE: usize>(self);
}

/// Runs a task whose rows are `vectors` vectors, with the fastest instruction set.
///
/// # Safety
/// As [`VectorTask::run`], on any processor.
pub(super) unsafe fn dispatch(task: impl VectorTask, vectors: usize) {
    let level = levels().next().unwrap_or(Level::Portable);
    // SAFETY: `levels` names only instruction sets the processor has; the caller vouches for the
    // memory.
    unsafe { run_at(level, task, vectors) }
}

/// The same with a given instruction set.
///
/// # Safety
/// As [`dispatch`], and the processor has the instruction set.
pub(super) unsafe fn run_at(level: Level, task: impl VectorTask, vectors: usize) {
    // SAFETY: the caller vouches for the instruction set and the memory.
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

// Tiles of as many rows as leave registers for a row of the small operand: 32 registers of 16
// floats.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn avx512(task: impl VectorTask, vectors: usize) {
    // SAFETY: the caller checks for the instructions and vouches for the memory.
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
unsafe fn avx2(task: impl VectorTask, vectors: usize) {
    // SAFETY: the caller checks for the instructions and vouches for the memory.
    unsafe {
        match vectors {
            1 => task.run::<[__m256; 2], 6, 1>(),
            2 => task.run::<[__m256; 2], 2, 2>(),
            3 => task.run::<[__m256; 2], 1, 3>(),
            _ => task.run::<[__m256; 2], 1, 4>(),
        }
    }
}

/// A vector of `LANES` floats.
///
/// # Safety
/// All methods need a processor with the instructions of the type. Addresses read or written must
/// have `LANES` floats, aligned as floats; prefetched addresses may be arbitrary.
pub(super) trait Vector: Copy {
    unsafe fn zero() -> Self;
    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// `self + scalar * other`, rounded once.
    unsafe fn fma(self, scalar: f32, other: Self) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn fetch(_from: *const f32) {}
}

impl Vector for [f32; LANES] {
    #[inline(always)]
    unsafe fn zero() -> Self {
        [0.0; LANES]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for the floats.
        unsafe { from.cast::<Self>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for the floats.
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
impl Vector for __m512 {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for AVX-512F.
        unsafe { _mm512_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for AVX-512F and the floats; the load needs no alignment.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for AVX-512F and the floats; the store needs no alignment.
        unsafe { _mm512_storeu_ps(to, self) }
    }
    #[inline(always)]
    unsafe fn fma(self, scalar: f32, other: Self) -> Self {
        // SAFETY: the caller vouches for AVX-512F.
        unsafe { _mm512_fmadd_ps(_mm512_set1_ps(scalar), other, self) }
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: the caller vouches for AVX-512F.
        unsafe { _mm512_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn fetch(from: *const f32) {
        // SAFETY: prefetching an unmapped address does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
    }
}

#[cfg(target_arch = "x86_64")]
impl Vector for [__m256; 2] {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for AVX2.
        unsafe { [_mm256_setzero_ps(); 2] }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for AVX2 and for 16 floats, two halves of 8; loads need no alignment.
        unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(8))] }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for AVX2 and for 16 floats, two halves of 8; stores need no alignment.
        unsafe {
            _mm256_storeu_ps(to, self[0]);
            _mm256_storeu_ps(to.add(8), self[1]);
        }
    }
    #[inline(always)]
    unsafe fn fma(self, scalar: f32, other: Self) -> Self {
        // SAFETY: the caller vouches for AVX2 and FMA.
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
        // SAFETY: the caller vouches for AVX2.
        unsafe {
            [
                _mm256_add_ps(self[0], other[0]),
                _mm256_add_ps(self[1], other[1]),
            ]
        }
    }
    #[inline(always)]
    unsafe fn fetch(from: *const f32) {
        // SAFETY: prefetching an unmapped address does nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(from.cast()) }
    }
}

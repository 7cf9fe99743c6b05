//! Vectors of [`LANES`] floats, in as many processor registers as they need.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Floats per vector, on every processor.
pub const LANES: usize = 16;

/// A vector of [`LANES`] floats.
///
/// # Safety
/// All methods need a processor with the instructions of the type. Addresses have [`LANES`] floats.
pub trait Wide: Copy {
    unsafe fn load(from: *const f32) -> Self;
    /// The first `lanes` floats, of which there may be no more, and zeros.
    unsafe fn load_first(from: *const f32, lanes: usize) -> Self;
    unsafe fn store(self, to: *mut f32);
    /// Stores the first `lanes` floats.
    unsafe fn store_first(self, to: *mut f32, lanes: usize);
    unsafe fn splat(of: f32) -> Self;
    /// `a` in the lower half of the lanes, `b` in the upper half.
    unsafe fn pair(a: f32, b: f32) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// `yes` where `self` is above 0, else `no`.
    unsafe fn if_positive(self, yes: Self, no: Self) -> Self;
    /// `self * by + to`, rounded once.
    unsafe fn fma(self, by: Self, to: Self) -> Self;
    /// Stores the sums of the halves of four vectors: those of the first vector, then those of the
    /// second, and so on. Neighbors are added first, then the neighboring sums, and so on.
    unsafe fn store_half_sums(of: [Self; 4], to: *mut f32);
    /// Stores the sums of four vectors, added in the same way.
    unsafe fn store_sums(of: [Self; 4], to: *mut f32);
}

impl Wide for [f32; LANES] {
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller has `LANES` floats there.
        unsafe { from.cast::<Self>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, lanes: usize) -> Self {
        let mut vector = [0.0; LANES];
        // SAFETY: the caller has `lanes` floats there.
        unsafe { from.copy_to_nonoverlapping(vector.as_mut_ptr(), lanes) };
        vector
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller has room for `LANES` floats there.
        unsafe { to.cast::<Self>().write_unaligned(self) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, lanes: usize) {
        // SAFETY: the caller has room for `lanes` floats there.
        unsafe { self.as_ptr().copy_to_nonoverlapping(to, lanes) };
    }

    #[inline(always)]
    unsafe fn splat(of: f32) -> Self {
        [of; LANES]
    }

    #[inline(always)]
    unsafe fn pair(a: f32, b: f32) -> Self {
        std::array::from_fn(|lane| if lane < LANES / 2 { a } else { b })
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        std::array::from_fn(|lane| self[lane] + other[lane])
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        std::array::from_fn(|lane| self[lane] * other[lane])
    }

    #[inline(always)]
    unsafe fn if_positive(self, yes: Self, no: Self) -> Self {
        std::array::from_fn(|lane| {
            if self[lane] > 0.0 {
                yes[lane]
            } else {
                no[lane]
            }
        })
    }

    #[inline(always)]
    unsafe fn fma(self, by: Self, to: Self) -> Self {
        std::array::from_fn(|lane| self[lane].mul_add(by[lane], to[lane]))
    }

    #[inline(always)]
    unsafe fn store_half_sums(of: [Self; 4], to: *mut f32) {
        let sum = |x: &[f32]| {
            let pair = |i: usize| x[2 * i] + x[2 * i + 1];
            (pair(0) + pair(1)) + (pair(2) + pair(3))
        };
        for (i, vector) in of.iter().enumerate() {
            let (low, high) = vector.split_at(LANES / 2);
            // SAFETY: the caller has room for eight floats.
            unsafe {
                *to.add(2 * i) = sum(low);
                *to.add(2 * i + 1) = sum(high);
            }
        }
    }

    #[inline(always)]
    unsafe fn store_sums(of: [Self; 4], to: *mut f32) {
        let mut halves = [0.0; 8];
        // SAFETY: the caller has room for four floats.
        unsafe {
            Self::store_half_sums(of, halves.as_mut_ptr());
            for i in 0..4 {
                *to.add(i) = halves[2 * i] + halves[2 * i + 1];
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Wide for __m512 {
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, lanes: usize) -> Self {
        // SAFETY: as the trait says; lanes that are masked out are not read.
        unsafe { _mm512_maskz_loadu_ps(first_of_16(lanes), from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as the trait says.
        unsafe { _mm512_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, lanes: usize) {
        // SAFETY: as the trait says; lanes that are masked out are not written.
        unsafe { _mm512_mask_storeu_ps(to, first_of_16(lanes), self) }
    }

    #[inline(always)]
    unsafe fn splat(of: f32) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm512_set1_ps(of) }
    }

    #[inline(always)]
    unsafe fn pair(a: f32, b: f32) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm512_mask_mov_ps(_mm512_set1_ps(a), 0xff00, _mm512_set1_ps(b)) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm512_add_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm512_mul_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn if_positive(self, yes: Self, no: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe {
            let above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self, _mm512_setzero_ps());
            _mm512_mask_mov_ps(no, above, yes)
        }
    }

    #[inline(always)]
    unsafe fn fma(self, by: Self, to: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe { _mm512_fmadd_ps(self, by, to) }
    }

    #[inline(always)]
    unsafe fn store_half_sums(of: [Self; 4], to: *mut f32) {
        // SAFETY: as the trait says.
        unsafe {
            let halves = halves(of);
            let low = _mm512_castps512_ps128(halves);
            let high = _mm512_extractf32x4_ps::<2>(halves);
            _mm_storeu_ps(to, _mm_unpacklo_ps(low, high));
            _mm_storeu_ps(to.add(4), _mm_unpackhi_ps(low, high));
        }
    }

    #[inline(always)]
    unsafe fn store_sums(of: [Self; 4], to: *mut f32) {
        // SAFETY: as the trait says.
        unsafe {
            let halves = halves(of);
            let low = _mm512_castps512_ps128(halves);
            let high = _mm512_extractf32x4_ps::<2>(halves);
            _mm_storeu_ps(to, _mm_add_ps(low, high));
        }
    }
}

/// The sums of the lower halves of four vectors in the first quarter, and those of the upper halves
/// in the third.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn halves([a, b, c, d]: [__m512; 4]) -> __m512 {
    // SAFETY: the caller has the instructions.
    unsafe {
        let quarters = neighbors(neighbors(a, b), neighbors(c, d));
        let swapped = _mm512_shuffle_f32x4::<0b10_11_00_01>(quarters, quarters);
        _mm512_add_ps(quarters, swapped)
    }
}

#[cfg(target_arch = "x86_64")]
impl Wide for [__m256; 2] {
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the trait says.
        unsafe { [_mm256_loadu_ps(from), _mm256_loadu_ps(from.add(LANES / 2))] }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, lanes: usize) -> Self {
        // SAFETY: as the trait says; lanes that are masked out are not read.
        unsafe {
            let [low, high] = first_of_halves(lanes);
            [
                _mm256_maskload_ps(from, low),
                _mm256_maskload_ps(from.wrapping_add(LANES / 2), high),
            ]
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as the trait says.
        unsafe {
            _mm256_storeu_ps(to, self[0]);
            _mm256_storeu_ps(to.add(LANES / 2), self[1]);
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, lanes: usize) {
        // SAFETY: as the trait says; lanes that are masked out are not written.
        unsafe {
            let [low, high] = first_of_halves(lanes);
            _mm256_maskstore_ps(to, low, self[0]);
            _mm256_maskstore_ps(to.wrapping_add(LANES / 2), high, self[1]);
        }
    }

    #[inline(always)]
    unsafe fn splat(of: f32) -> Self {
        // SAFETY: as the trait says.
        unsafe { [_mm256_set1_ps(of); 2] }
    }

    #[inline(always)]
    unsafe fn pair(a: f32, b: f32) -> Self {
        // SAFETY: as the trait says.
        unsafe { [_mm256_set1_ps(a), _mm256_set1_ps(b)] }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe {
            [
                _mm256_add_ps(self[0], other[0]),
                _mm256_add_ps(self[1], other[1]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn if_positive(self, yes: Self, no: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe {
            let mut result = no;
            for half in 0..2 {
                let above = _mm256_cmp_ps::<_CMP_GT_OQ>(self[half], _mm256_setzero_ps());
                result[half] = _mm256_blendv_ps(no[half], yes[half], above);
            }
            result
        }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe {
            [
                _mm256_mul_ps(self[0], other[0]),
                _mm256_mul_ps(self[1], other[1]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn fma(self, by: Self, to: Self) -> Self {
        // SAFETY: as the trait says.
        unsafe {
            [
                _mm256_fmadd_ps(self[0], by[0], to[0]),
                _mm256_fmadd_ps(self[1], by[1], to[1]),
            ]
        }
    }

    #[inline(always)]
    unsafe fn store_half_sums(of: [Self; 4], to: *mut f32) {
        // SAFETY: as the trait says.
        unsafe {
            let [low, high] = [half(of, 0), half(of, 1)];
            _mm_storeu_ps(to, _mm_unpacklo_ps(low, high));
            _mm_storeu_ps(to.add(4), _mm_unpackhi_ps(low, high));
        }
    }

    #[inline(always)]
    unsafe fn store_sums(of: [Self; 4], to: *mut f32) {
        // SAFETY: as the trait says.
        unsafe { _mm_storeu_ps(to, _mm_add_ps(half(of, 0), half(of, 1))) }
    }
}

/// A mask of the first lanes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn first_of_16(lanes: usize) -> __mmask16 {
    ((1u32 << lanes) - 1) as __mmask16
}

/// Masks of the first lanes, for both halves of a vector.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn first_of_halves(lanes: usize) -> [__m256i; 2] {
    // SAFETY: the caller has the instructions.
    unsafe {
        let count = _mm256_set1_epi32(lanes as i32);
        let low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        let high = _mm256_add_epi32(low, _mm256_set1_epi32(LANES as i32 / 2));
        [
            _mm256_cmpgt_epi32(count, low),
            _mm256_cmpgt_epi32(count, high),
        ]
    }
}

/// In each quarter: the sums of neighbors of two vectors.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn neighbors(x: __m512, y: __m512) -> __m512 {
    // SAFETY: the caller has the instructions.
    unsafe {
        let even = _mm512_shuffle_ps::<0b10_00_10_00>(x, y);
        let odd = _mm512_shuffle_ps::<0b11_01_11_01>(x, y);
        _mm512_add_ps(even, odd)
    }
}

/// The sums of a half of four vectors.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn half([a, b, c, d]: [[__m256; 2]; 4], i: usize) -> __m128 {
    // SAFETY: the caller has the instructions.
    unsafe {
        let left = _mm256_hadd_ps(a[i], b[i]);
        let quarters = _mm256_hadd_ps(left, _mm256_hadd_ps(c[i], d[i]));
        let low = _mm256_castps256_ps128(quarters);
        _mm_add_ps(low, _mm256_extractf128_ps::<1>(quarters))
    }
}

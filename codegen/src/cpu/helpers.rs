//! Parts of an edge pass that generated code calls: they need wider vectors than Cranelift has, or
//! prefetch instructions.
//!
//! Each is compiled for several instruction sets; the fastest that the processor has is chosen once.
//! All of them add in the same order and round the same way, so results are the same bits.

mod products;
mod rows;
mod wide;

pub use rows::{Fetch, Rows, Seen, Table};
use std::sync::LazyLock;
use wide::{LANES, Wide};

/// Scores and weights of some edges of a row, and the state of its softmax.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Scores {
    /// The scores.
    pub scores: *mut f32,
    /// Where weights go.
    pub weights: *mut f32,
    /// Maximum, sum, scale and inverse, each [`Scores::room`] floats.
    pub state: *mut f32,
    /// Edges.
    pub count: u64,
    /// Scores of an edge: 1, or a multiple of 4.
    pub step: u64,
    /// Whether edges of the row came before.
    pub begun: u64,
}

impl Scores {
    /// Floats of each part of the state.
    fn room(&self) -> usize {
        (self.step as usize).max(4)
    }
}

/// What generated code calls, in the order in which it finds them.
#[repr(C)]
#[derive(Debug)]
pub struct Helpers {
    /// `numbers[b, h] = sum over c of own[h, c] * rows[b, h, c]`, for the rows as they are [`Seen`].
    pub dots: unsafe extern "C" fn(rows: *const Rows, own: *const f32, numbers: *mut f32),
    /// `sums[h, c] += sum over b of numbers[b, h] * rows[b, h, c]`, likewise. Unless they have `begun`,
    /// the sums are 0 before.
    pub sums:
        unsafe extern "C" fn(rows: *const Rows, numbers: *const f32, sums: *mut f32, begun: u64),
    /// Replaces numbers by their exponentials.
    pub exps: unsafe extern "C" fn(numbers: *mut f32, count: u64),
    /// The weights of edges: exponentials of scores less their maximum so far. Updates the state.
    pub weigh: unsafe extern "C" fn(scores: *const Scores),
    /// `to = a * b`, element by element.
    pub times: unsafe extern "C" fn(a: *const f32, b: *const f32, to: *mut f32, count: u64),
    /// Prefetches the rows of edges that follow these.
    pub fetch: unsafe extern "C" fn(of: *const Fetch),
}

/// The helpers for this processor.
pub fn helpers() -> &'static Helpers {
    static CHOSEN: LazyLock<Helpers> =
        LazyLock::new(|| levels().next().unwrap_or(portable::HELPERS));
    &CHOSEN
}

/// The helpers of every instruction set that this processor has, fastest first.
fn levels() -> impl Iterator<Item = Helpers> {
    [
        #[cfg(target_arch = "x86_64")]
        has_avx512().then_some(avx512::HELPERS),
        #[cfg(target_arch = "x86_64")]
        has_avx2().then_some(avx2::HELPERS),
        Some(portable::HELPERS),
    ]
    .into_iter()
    .flatten()
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// Whether the processor has every extension that the fastest helpers are compiled for.
#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    has_avx2()
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
}

/// The helpers compiled for some instruction sets.
macro_rules! level {
    ($name:ident, $vector:ty $(, $features:literal)?) => {
        mod $name {
            use super::rows::{Leaky, Plain, Seen, Step};
            use super::{Fetch, Helpers, Rows, Scores, products};

            pub const HELPERS: Helpers = Helpers {
                dots,
                sums,
                exps,
                weigh,
                times,
                fetch,
            };

            $(#[target_feature(enable = $features)])?
            unsafe extern "C" fn dots(rows: *const Rows, own: *const f32, numbers: *mut f32) {
                // SAFETY: the caller passes valid rows and numbers.
                unsafe {
                    match (*rows).seen() {
                        Seen::Row => products::dots::<$vector, Plain>(&*rows, own, numbers),
                        Seen::Leaky => products::dots::<$vector, Leaky>(&*rows, own, numbers),
                        Seen::Step => products::dots::<$vector, Step>(&*rows, own, numbers),
                    }
                }
            }

            $(#[target_feature(enable = $features)])?
            unsafe extern "C" fn sums(rows: *const Rows, numbers: *const f32, sums: *mut f32, begun: u64) {
                let total = products::Total { sums, begun: begun != 0 };
                // SAFETY: the caller passes valid rows, numbers and sums.
                unsafe {
                    match (*rows).seen() {
                        Seen::Row => products::sums::<$vector, Plain>(&*rows, numbers, total),
                        Seen::Leaky => products::sums::<$vector, Leaky>(&*rows, numbers, total),
                        Seen::Step => products::sums::<$vector, Step>(&*rows, numbers, total),
                    }
                }
            }

            $(#[target_feature(enable = $features)])?
            unsafe extern "C" fn exps(numbers: *mut f32, count: u64) {
                // SAFETY: the caller passes `count` numbers.
                unsafe { super::exps(numbers, count as usize) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe extern "C" fn weigh(scores: *const Scores) {
                // SAFETY: the caller passes valid scores.
                unsafe { super::weigh(&*scores) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe extern "C" fn times(a: *const f32, b: *const f32, to: *mut f32, count: u64) {
                // SAFETY: the caller passes `count` numbers three times.
                unsafe { super::times(a, b, to, count as usize) }
            }

            $(#[target_feature(enable = $features)])?
            unsafe extern "C" fn fetch(of: *const Fetch) {
                // SAFETY: the caller passes valid tables.
                unsafe { (*of).run() }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
level!(
    avx512,
    std::arch::x86_64::__m512,
    "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"
);
#[cfg(target_arch = "x86_64")]
level!(avx2, [std::arch::x86_64::__m256; 2], "avx2,fma");
level!(portable, [f32; super::LANES]);

type Vector = [f32; LANES];

#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> Vector {
    let mut out = [0.0; LANES];
    for lane in 0..LANES {
        out[lane] = f(lane);
    }
    out
}

/// `e^x` to about 2 units in the last place (Cephes, S. L. Moshier).
#[inline(always)]
fn exp(x: f32) -> f32 {
    const LOG2_E: f32 = std::f32::consts::LOG2_E;
    const ROUNDER: f32 = 12_582_912.0;
    let x = x.clamp(-104.0, 89.0);
    let shifted = x.mul_add(LOG2_E, ROUNDER);
    let whole = shifted - ROUNDER;
    let rest = whole.mul_add(-0.693_359_4, x);
    let rest = whole.mul_add(2.121_944_4e-4, rest);
    let mut series = 1.987_569_2e-4_f32;
    for term in [
        1.398_2e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        series = series.mul_add(rest, term);
    }
    let power = series.mul_add(rest * rest, rest) + 1.0;
    // Two factors, so that results below the smallest normal number are reached.
    let exponent = (shifted.to_bits() as i32).wrapping_sub(ROUNDER.to_bits() as i32);
    let half = exponent >> 1;
    let factor = |n: i32| f32::from_bits((n.wrapping_add(127) << 23) as u32);
    power * factor(half) * factor(exponent.wrapping_sub(half))
}

#[inline(always)]
unsafe fn exps(numbers: *mut f32, count: usize) {
    // SAFETY: the caller passes `count` numbers.
    unsafe {
        let mut at = 0;
        while at + LANES <= count {
            let x = Vector::load(numbers.add(at));
            each(|lane| exp(x[lane])).store(numbers.add(at));
            at += LANES;
        }
        while at < count {
            *numbers.add(at) = exp(*numbers.add(at));
            at += 1;
        }
    }
}

#[inline(always)]
unsafe fn times(a: *const f32, b: *const f32, to: *mut f32, count: usize) {
    // SAFETY: the caller passes `count` numbers.
    unsafe {
        for at in 0..count {
            *to.add(at) = *a.add(at) * *b.add(at);
        }
    }
}

/// The larger one; the second if either is not a number.
#[inline(always)]
fn max(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline(always)]
unsafe fn weigh(of: &Scores) {
    // SAFETY: the caller vouches for the memory.
    unsafe {
        match of.step as usize {
            step @ (1 | 4 | 8 | 16) => weigh_vectors(of, step),
            step => (0..step).step_by(4).for_each(|head| weigh_heads(of, head)),
        }
    }
}

/// Vectors of scores of consecutive edges.
#[inline(always)]
unsafe fn weigh_vectors(of: &Scores, step: usize) {
    // SAFETY: the caller vouches for the memory, which has room for whole vectors.
    unsafe {
        let count = of.count as usize * step;
        let whole = count.next_multiple_of(LANES);
        // What lies behind the last edge weighs nothing.
        for at in count..whole {
            *of.scores.add(at) = f32::NEG_INFINITY;
        }
        let mut top = [f32::NEG_INFINITY; LANES];
        for at in (0..whole).step_by(LANES) {
            let x = Vector::load(of.scores.add(at));
            top = each(|lane| max(top[lane], x[lane]));
        }
        let mut len = LANES;
        while len > step {
            len /= 2;
            for lane in 0..len {
                top[lane] = max(top[lane], top[lane + len]);
            }
        }
        let room = of.room();
        let (tops, totals) = (of.state, of.state.add(room));
        let (scales, inverses) = (of.state.add(2 * room), of.state.add(3 * room));
        let mut before = [0.0; LANES];
        if of.begun != 0 {
            for head in 0..step {
                let old = *tops.add(head);
                top[head] = max(old, top[head]);
                let scale = exp(old - top[head]);
                *scales.add(head) = scale;
                before[head] = *totals.add(head) * scale;
            }
        }
        let spread = each(|lane| top[lane % step]);
        let mut total = [0.0; LANES];
        for at in (0..whole).step_by(LANES) {
            let x = Vector::load(of.scores.add(at));
            let weights = each(|lane| exp(x[lane] - spread[lane]));
            weights.store(of.weights.add(at));
            total = each(|lane| total[lane] + weights[lane]);
        }
        len = LANES;
        while len > step {
            len /= 2;
            for lane in 0..len {
                total[lane] += total[lane + len];
            }
        }
        for head in 0..step {
            let total = before[head] + total[head];
            *tops.add(head) = top[head];
            *totals.add(head) = total;
            *inverses.add(head) = if count == 0 { 0.0 } else { 1.0 / total };
        }
    }
}

/// Four heads from `head`, an edge at a time.
#[inline(always)]
unsafe fn weigh_heads(of: &Scores, head: usize) {
    // SAFETY: the caller vouches for the memory.
    unsafe {
        let (step, room) = (of.step as usize, of.room());
        let place = |edge: usize| edge * step + head;
        let read = |at: *const f32| at.cast::<[f32; 4]>().read_unaligned();
        let mut top = [f32::NEG_INFINITY; 4];
        for edge in 0..of.count as usize {
            let x = read(of.scores.add(place(edge)));
            (0..4).for_each(|lane| top[lane] = max(top[lane], x[lane]));
        }
        let state = |part: usize| of.state.add(part * room + head);
        let mut total = [0.0; 4];
        if of.begun != 0 {
            for lane in 0..4 {
                let old = *state(0).add(lane);
                top[lane] = max(old, top[lane]);
                let scale = exp(old - top[lane]);
                *state(2).add(lane) = scale;
                total[lane] = *state(1).add(lane) * scale;
            }
        }
        for edge in 0..of.count as usize {
            let x = read(of.scores.add(place(edge)));
            let mut weights = [0.0; 4];
            for lane in 0..4 {
                weights[lane] = exp(x[lane] - top[lane]);
                total[lane] += weights[lane];
            }
            of.weights
                .add(place(edge))
                .cast::<[f32; 4]>()
                .write_unaligned(weights);
        }
        for lane in 0..4 {
            *state(0).add(lane) = top[lane];
            *state(1).add(lane) = total[lane];
            let empty = of.count == 0;
            *state(3).add(lane) = if empty { 0.0 } else { 1.0 / total[lane] };
        }
    }
}

#[cfg(test)]
mod tests;

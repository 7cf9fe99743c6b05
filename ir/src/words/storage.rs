//! Storage formats of floats: 32 bits, or rounded to 16. All arithmetic is in 32 bits.
//!
//! The conversions match generated code bit for bit: they round to nearest, ties to even;
//! overflow becomes infinity, and NaN stays NaN.
//!
//! A 16-bit format is one variant of [`Storage`], its arm of [`Storage::format`] and one
//! implementation of `Half`. Code generators and products read the resulting [`Format`].

use serde::{Deserialize, Serialize};
use std::fmt;

/// Storage format of a buffer's elements.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// 32-bit floats.
    #[default]
    F32,
    /// The upper half of a 32-bit float: its range with 8 bits of precision.
    Bf16,
    /// IEEE 754 binary16: 11 bits of precision, at most 65504, steps of 6e-8 below 6e-5.
    F16,
}

/// What the 16 bits of an element mean: a sign, an exponent and a mantissa, by the rules of IEEE
/// 754.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// The upper half of a 32-bit float: 8 bits of exponent, 7 of mantissa.
    Bfloat16,
    /// IEEE 754 binary16: 5 bits of exponent, 10 of mantissa.
    Binary16,
}

impl Layout {
    /// Stored bits of the mantissa.
    pub const fn mantissa_bits(self) -> u32 {
        match self {
            Self::Bfloat16 => 7,
            Self::Binary16 => 10,
        }
    }

    /// Bits of the exponent.
    pub const fn exponent_bits(self) -> u32 {
        15 - self.mantissa_bits()
    }
}

/// A 16-bit format, for code that converts its elements.
#[derive(Debug)]
pub struct Format {
    /// The name in plans, on the command line and in generated functions.
    pub name: &'static str,
    /// What the bits mean.
    pub layout: Layout,
    /// CUDA C of `float gnnc_from_NAME(u32 bits)` and `u32 gnnc_to_NAME(float x)`. It uses
    /// `gnnc_float` and `gnnc_bits`, which reinterpret bits.
    pub cuda: &'static str,
    encode: fn(f32) -> u16,
    decode: fn(u16) -> f32,
    encode_all: fn(&[f32], &mut [u16]),
    decode_all: fn(&[u16], &mut [f32]),
    add: fn(&mut [f32], &[f32]),
}

/// The one place where a 16-bit format is defined.
trait Half {
    /// [`Format::name`]
    const NAME: &'static str;
    /// [`Format::layout`]
    const LAYOUT: Layout;
    /// [`Format::cuda`]
    const CUDA: &'static str;

    /// Rounds a number to the format.
    fn encode(x: f32) -> u16;

    /// The number that 16 bits stand for.
    fn decode(bits: u16) -> f32;
}

impl Format {
    /// The loops are compiled for each format, so that they vectorize.
    const fn of<H: Half>() -> Self {
        Self {
            name: H::NAME,
            layout: H::LAYOUT,
            cuda: H::CUDA,
            encode: H::encode,
            decode: H::decode,
            encode_all: encode_all::<H>,
            decode_all: decode_all::<H>,
            add: add::<H>,
        }
    }
}

impl Storage {
    /// Every value, in declaration order.
    pub const ALL: &[Self] = &[Self::F32, Self::Bf16, Self::F16];

    /// The 16-bit format; `None` for 32 bits.
    pub fn format(self) -> Option<&'static Format> {
        match self {
            Self::F32 => None,
            Self::Bf16 => Some(const { &Format::of::<Bf16>() }),
            Self::F16 => Some(const { &Format::of::<F16>() }),
        }
    }

    /// All 16-bit formats, in declaration order.
    pub fn formats() -> impl Iterator<Item = &'static Format> {
        Self::ALL.iter().filter_map(|storage| storage.format())
    }

    /// What the bits of a 16-bit format mean; `None` for 32 bits.
    pub fn layout(self) -> Option<Layout> {
        self.format().map(|format| format.layout)
    }

    /// The name in plans and on the command line.
    pub fn name(self) -> &'static str {
        self.format().map_or("f32", |format| format.name)
    }

    /// Whether storing rounds nothing.
    pub const fn is_f32(&self) -> bool {
        matches!(self, Self::F32)
    }

    /// Bytes per element.
    pub const fn bytes(self) -> u64 {
        if self.is_f32() { 4 } else { 2 }
    }

    /// Elements per four-byte word, the unit of memory and messages.
    pub const fn in_word(self) -> u32 {
        if self.is_f32() { 1 } else { 2 }
    }

    /// Largest relative rounding error for numbers in the middle of the range.
    pub fn roundoff(self) -> f64 {
        let mantissa = match self.layout() {
            None => f32::MANTISSA_DIGITS - 1,
            Some(layout) => layout.mantissa_bits(),
        };
        2f64.powi(-(mantissa as i32) - 1)
    }

    /// Rounds a number as storing and reading it back would.
    pub fn round(self, x: f32) -> f32 {
        match self.format() {
            None => x,
            Some(format) => (format.decode)((format.encode)(x)),
        }
    }

    /// Encodes a number in 16 bits; for `F32`, the upper 16 of its 32.
    pub fn encode(self, x: f32) -> u16 {
        match self.format() {
            None => (x.to_bits() >> 16) as u16,
            Some(format) => (format.encode)(x),
        }
    }

    /// Decodes 16 bits to a number.
    pub fn decode(self, bits: u16) -> f32 {
        match self.format() {
            None => f32::from_bits(u32::from(bits) << 16),
            Some(format) => (format.decode)(bits),
        }
    }

    /// Encodes a slice of numbers.
    pub fn encode_all(self, numbers: &[f32], bits: &mut [u16]) {
        match self.format() {
            None => {
                for (bits, x) in bits.iter_mut().zip(numbers) {
                    *bits = self.encode(*x);
                }
            }
            Some(format) => (format.encode_all)(numbers, bits),
        }
    }

    /// Decodes a slice of numbers.
    pub fn decode_all(self, bits: &[u16], numbers: &mut [f32]) {
        match self.format() {
            None => {
                for (x, bits) in numbers.iter_mut().zip(bits) {
                    *x = self.decode(*bits);
                }
            }
            Some(format) => (format.decode_all)(bits, numbers),
        }
    }

    /// Packs numbers into words. The unused half of a last word is 0.
    pub fn pack(self, numbers: &[f32], words: &mut [f32]) {
        if self.is_f32() {
            words.copy_from_slice(numbers);
            return;
        }
        for (word, pair) in words.iter_mut().zip(numbers.chunks(2)) {
            let high = pair.get(1).map_or(0, |x| self.encode(*x));
            *word = f32::from_bits(u32::from(self.encode(pair[0])) | u32::from(high) << 16);
        }
    }

    /// Unpacks words into numbers until `numbers` is full.
    pub fn unpack(self, words: &[f32], numbers: &mut [f32]) {
        if self.is_f32() {
            numbers.copy_from_slice(words);
            return;
        }
        for (pair, word) in numbers.chunks_mut(2).zip(words) {
            let bits = word.to_bits();
            pair[0] = self.decode(bits as u16);
            if let Some(high) = pair.get_mut(1) {
                *high = self.decode((bits >> 16) as u16);
            }
        }
    }

    /// Whether all stored numbers are finite.
    pub fn all_finite(self, words: &[f32]) -> bool {
        let finite = |bits: u32| self.decode(bits as u16).is_finite();
        words.iter().all(|word| match self {
            Self::F32 => word.is_finite(),
            _ => finite(word.to_bits()) && finite(word.to_bits() >> 16),
        })
    }

    /// Adds `words` to `sums` element by element. Each sum is computed in 32 bits, then
    /// rounded.
    pub fn add(self, sums: &mut [f32], words: &[f32]) {
        match self.format() {
            None => {
                for (sum, word) in sums.iter_mut().zip(words) {
                    *sum += word;
                }
            }
            Some(format) => (format.add)(sums, words),
        }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn encode_all<H: Half>(numbers: &[f32], bits: &mut [u16]) {
    for (bits, x) in bits.iter_mut().zip(numbers) {
        *bits = H::encode(*x);
    }
}

fn decode_all<H: Half>(bits: &[u16], numbers: &mut [f32]) {
    for (x, bits) in numbers.iter_mut().zip(bits) {
        *x = H::decode(*bits);
    }
}

fn add<H: Half>(sums: &mut [f32], words: &[f32]) {
    for (sum, word) in sums.iter_mut().zip(words) {
        let (a, b) = (sum.to_bits(), word.to_bits());
        let low = H::decode(a as u16) + H::decode(b as u16);
        let high = H::decode((a >> 16) as u16) + H::decode((b >> 16) as u16);
        *sum = f32::from_bits(u32::from(H::encode(low)) | u32::from(H::encode(high)) << 16);
    }
}

struct Bf16;

impl Half for Bf16 {
    const NAME: &'static str = "bf16";
    const LAYOUT: Layout = Layout::Bfloat16;
    const CUDA: &'static str = r#"static __device__ __forceinline__ float gnnc_from_bf16(u32 bits)
{
    return gnnc_float(bits << 16);
}

static __device__ __forceinline__ u32 gnnc_to_bf16(float x)
{
    const u32 bits = gnnc_bits(x);
    return x != x ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
"#;

    fn encode(x: f32) -> u16 {
        let bits = x.to_bits();
        let even = bits >> 16 & 1;
        match x.is_nan() {
            true => (bits >> 16 | 0x40) as u16,
            false => (bits.wrapping_add(0x7fff + even) >> 16) as u16,
        }
    }

    fn decode(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }
}

struct F16;

impl Half for F16 {
    const NAME: &'static str = "f16";
    const LAYOUT: Layout = Layout::Binary16;
    // A GPU has instructions for binary16. Their results differ only in the bits of a NaN.
    const CUDA: &'static str = r#"static __device__ __forceinline__ float gnnc_from_f16(u32 bits)
{
#ifdef __CUDACC__
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((u16)bits));
    return x;
#else
    const u32 rest = bits & 0x7fffu;
    const u32 special = rest >= 0x7c00u ? 0x7f800000u : 0u;
    return gnnc_float((bits & 0x8000u) << 16 | gnnc_bits(gnnc_float(rest << 13) * gnnc_float(0x77800000u)) | special);
#endif
}

static __device__ __forceinline__ u32 gnnc_to_f16(float x)
{
#ifdef __CUDACC__
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    const u32 rest = gnnc_bits(x) & 0x7fffffffu, sign = gnnc_bits(x) >> 16 & 0x8000u;
    if (rest >= 0x47800000u) {
        return sign | (rest > 0x7f800000u ? 0x7e00u : 0x7c00u);
    }
    if (rest < 0x38800000u) {
        return sign | (gnnc_bits(gnnc_float(rest) + 0.5f) - 0x3f000000u);
    }
    return sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
#endif
}
"#;

    fn encode(x: f32) -> u16 {
        let sign = x.to_bits() & 0x8000_0000;
        let bits = x.to_bits() ^ sign;
        // Computes every case, then selects one, so that no number needs a branch.
        let special = 0x7c00 | if x.is_nan() { 0x0200 } else { 0 };
        // Too small for a full mantissa: the addition rounds to multiples of 2^-24.
        let small = (f32::from_bits(bits) + 0.5)
            .to_bits()
            .wrapping_sub(0x3f00_0000);
        let even = bits >> 13 & 1;
        let normal = bits.wrapping_add(0xfff + even).wrapping_sub(0x3800_0000) >> 13;
        let signed = bits as i32;
        let rounded = if signed < 0x3880_0000 { small } else { normal };
        let rounded = if signed < 0x4780_0000 {
            rounded
        } else {
            special
        };
        (sign >> 16 | rounded) as u16
    }

    fn decode(bits: u16) -> f32 {
        let (sign, bits) = (u32::from(bits) & 0x8000, u32::from(bits) & 0x7fff);
        // Adds 112 to the exponent. A subnormal number gets the smallest exponent, which is then
        // subtracted: no intermediate is subnormal in 32 bits, because threads may flush subnormals
        // to zero.
        let normal = (bits << 13) + 0x3800_0000;
        let small = f32::from_bits((bits << 13) + 0x3880_0000) - f32::from_bits(0x3880_0000);
        let number = if bits < 0x0400 {
            small.to_bits()
        } else {
            normal
        };
        let special = if bits >= 0x7c00 { 0x7f80_0000 } else { 0 };
        f32::from_bits(sign << 16 | number | special)
    }
}

#[cfg(test)]
mod tests;

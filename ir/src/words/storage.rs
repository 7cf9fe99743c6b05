//! Storage formats of floats: 32 bits, or rounded to 16. All arithmetic is in 32 bits.
//!
//! The conversions match generated code bit for bit: they round to nearest, ties to even;
//! overflow becomes infinity, and NaN stays NaN.

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

impl Storage {
    /// Every value, in declaration order.
    pub const ALL: &[Self] = &[Self::F32, Self::Bf16, Self::F16];

    /// The name in plans and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// Whether storing rounds nothing.
    pub fn is_f32(&self) -> bool {
        *self == Self::F32
    }

    /// Bytes per element.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// Elements per four-byte word, the unit of memory and messages.
    pub const fn in_word(self) -> u32 {
        match self {
            Self::F32 => 1,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    /// Largest relative rounding error for numbers in the middle of the range.
    pub fn roundoff(self) -> f64 {
        match self {
            Self::F32 => 2f64.powi(-24),
            Self::Bf16 => 2f64.powi(-8),
            Self::F16 => 2f64.powi(-11),
        }
    }

    /// Rounds a number as storing and reading it back would.
    pub fn round(self, x: f32) -> f32 {
        match self {
            Self::F32 => x,
            _ => self.decode(self.encode(x)),
        }
    }

    /// Encodes a number in 16 bits; for `F32`, the upper 16 of its 32.
    pub fn encode(self, x: f32) -> u16 {
        match self {
            Self::F32 => (x.to_bits() >> 16) as u16,
            Self::Bf16 => to_bf16(x),
            Self::F16 => to_f16(x),
        }
    }

    /// Decodes 16 bits to a number.
    pub fn decode(self, bits: u16) -> f32 {
        match self {
            Self::F32 | Self::Bf16 => f32::from_bits(u32::from(bits) << 16),
            Self::F16 => from_f16(bits),
        }
    }

    /// Encodes a slice of numbers.
    pub fn encode_all(self, numbers: &[f32], bits: &mut [u16]) {
        let all = bits.iter_mut().zip(numbers);
        // One loop per format, so that each vectorizes.
        match self {
            Self::F32 => all.for_each(|(bits, x)| *bits = self.encode(*x)),
            Self::Bf16 => all.for_each(|(bits, x)| *bits = to_bf16(*x)),
            Self::F16 => all.for_each(|(bits, x)| *bits = to_f16(*x)),
        }
    }

    /// Decodes a slice of numbers.
    pub fn decode_all(self, bits: &[u16], numbers: &mut [f32]) {
        let all = numbers.iter_mut().zip(bits);
        match self {
            Self::F32 | Self::Bf16 => {
                all.for_each(|(x, bits)| *x = f32::from_bits(u32::from(*bits) << 16));
            }
            Self::F16 => all.for_each(|(x, bits)| *x = from_f16(*bits)),
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
        for (sum, word) in sums.iter_mut().zip(words) {
            *sum = match self {
                Self::F32 => *sum + word,
                _ => {
                    let (a, b) = (sum.to_bits(), word.to_bits());
                    let low = self.decode(a as u16) + self.decode(b as u16);
                    let high = self.decode((a >> 16) as u16) + self.decode((b >> 16) as u16);
                    f32::from_bits(u32::from(self.encode(low)) | u32::from(self.encode(high)) << 16)
                }
            };
        }
    }
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let even = bits >> 16 & 1;
    match x.is_nan() {
        true => (bits >> 16 | 0x40) as u16,
        false => (bits.wrapping_add(0x7fff + even) >> 16) as u16,
    }
}

fn to_f16(x: f32) -> u16 {
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

fn from_f16(bits: u16) -> f32 {
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

#[cfg(test)]
mod tests {
    use super::*;

    const HALVES: [Storage; 2] = [Storage::Bf16, Storage::F16];

    /// Value of the bits by the definition of the format: sign, exponent, fraction.
    fn defined(storage: Storage, bits: u16) -> f64 {
        let (fraction_bits, bias) = match storage {
            Storage::F16 => (10, 15),
            _ => (7, 127),
        };
        let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
        let top = (1 << (15 - fraction_bits)) - 1;
        let exponent = i32::from(bits >> fraction_bits) & top;
        let fraction = f64::from(bits & ((1 << fraction_bits) - 1)) / 2f64.powi(fraction_bits);
        sign * match exponent {
            0 => fraction * 2f64.powi(1 - bias),
            e if e == top && fraction > 0.0 => f64::NAN,
            e if e == top => f64::INFINITY,
            e => (1.0 + fraction) * 2f64.powi(e - bias),
        }
    }

    #[test]
    fn every_number_of_16_bits_is_read_and_written_as_it_is_defined() {
        for storage in HALVES {
            for bits in 0..=u16::MAX {
                let (found, expected) = (storage.decode(bits), defined(storage, bits));
                if expected.is_nan() {
                    assert!(found.is_nan() && storage.round(found).is_nan(), "{bits:#x}");
                    continue;
                }
                assert_eq!(f64::from(found), expected, "{storage} {bits:#x}");
                assert_eq!(storage.encode(found), bits, "{storage} {bits:#x}");
            }
        }
    }

    #[test]
    fn numbers_in_between_go_to_the_nearest_ties_to_the_even_one() {
        for storage in HALVES {
            for bits in 0..0x7bffu16 {
                let (low, high) = (storage.decode(bits), storage.decode(bits + 1));
                if !high.is_finite() {
                    continue;
                }
                let middle = ((f64::from(low) + f64::from(high)) / 2.0) as f32;
                let even = if bits % 2 == 0 { bits } else { bits + 1 };
                for sign in [1.0, -1.0] {
                    let found = |x: f32| storage.encode(sign * x) & 0x7fff;
                    assert_eq!(found(middle), even, "{storage} {bits:#x}");
                    assert_eq!(found(middle.next_down()), bits, "{storage} {bits:#x}");
                    assert_eq!(found(middle.next_up()), bits + 1, "{storage} {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn roundoff_is_the_largest_relative_error() {
        for storage in HALVES {
            let error = |n: u32| {
                let x = f64::from(n) / 65536.0 + 1.0;
                (f64::from(storage.round(x as f32)) - x).abs() / x
            };
            let largest = (0..65536).map(error).fold(0.0, f64::max);
            assert!(largest <= storage.roundoff() && largest > 0.98 * storage.roundoff());
        }
    }

    #[test]
    fn what_is_too_large_is_infinite() {
        assert_eq!(Storage::F16.round(65519.9), 65504.0);
        assert_eq!(Storage::F16.round(65520.0), f32::INFINITY);
        assert_eq!(Storage::F16.round(-1e9), f32::NEG_INFINITY);
        assert_eq!(Storage::Bf16.round(f32::MAX), f32::INFINITY);
        assert_eq!(Storage::Bf16.round(3.3895e38), 3.389_531_4e38);
        for storage in HALVES {
            assert_eq!(storage.round(f32::NEG_INFINITY), f32::NEG_INFINITY);
            for bits in [0x7f80_0001, 0x7fff_ffff, 0xff80_0001u32] {
                assert!(storage.round(f32::from_bits(bits)).is_nan());
            }
        }
        assert_eq!(Storage::F16.round(2f32.powi(-25)), 0.0);
        assert_eq!(Storage::F16.round(2f32.powi(-25).next_up()), 2f32.powi(-24));
    }

    #[test]
    fn an_odd_number_of_elements_fills_its_last_word_with_zeros() {
        let numbers = [1.0, -2.5, 3.0];
        for storage in HALVES {
            let (mut words, mut back) = ([7.0; 2], [0.0; 3]);
            storage.pack(&numbers, &mut words);
            assert_eq!(words[1].to_bits() >> 16, 0);
            storage.unpack(&words, &mut back);
            assert_eq!(back, numbers);
            let again = words;
            storage.add(&mut words, &again);
            storage.unpack(&words, &mut back);
            assert_eq!(back, [2.0, -5.0, 6.0]);
        }
    }
}

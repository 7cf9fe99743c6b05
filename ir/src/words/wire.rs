//! Formats of rows in messages: as in memory, or encoded in 16 or 8 bits a number.
//!
//! Encoding happens when a message is packed, decoding when it is unpacked; memory and arithmetic stay as they are. The
//! functions here match those on GPUs bit for bit.

use super::spelling::spelling;
use super::storage::Storage;
use serde::{Deserialize, Serialize};

/// Format of rows in messages.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// As in memory.
    #[default]
    F32,
    /// 16 bits a number, rounded to nearest, ties to even, as [`Storage::Bf16`].
    Bf16,
    /// 8 bits a number, with a scale for each row, rounded at random so that the mean is the number (AdaQP, arXiv 2306.01381,
    /// section 3.1).
    Int8,
}

spelling!(Wire {
    F32 => "f32",
    Bf16 => "bf16",
    Int8 => "int8",
});

/// Rows with fewer numbers travel as they are: the header of a row would be a good part of them, and they are few bytes.
pub const LEAST: u32 = 16;

/// Steps between the smallest and the largest number of a row in 8 bits; one of the 256 values is left for rounding up,
/// another for the zero point.
const STEPS: f32 = 254.0;

impl Wire {
    /// Whether rows travel as they are in memory.
    pub const fn is_f32(&self) -> bool {
        matches!(self, Self::F32)
    }

    /// Words of a row of so many numbers in a message; `storage` is that in memory.
    pub fn words(self, numbers: u32, storage: Storage) -> u32 {
        let plain = numbers.div_ceil(storage.in_word());
        match self {
            _ if numbers < LEAST => plain,
            Self::F32 => plain,
            Self::Bf16 => plain.min(numbers.div_ceil(2)),
            Self::Int8 => 1 + numbers.div_ceil(4),
        }
    }

    /// Whether rows of so many numbers are encoded.
    pub fn encodes(self, numbers: u32, storage: Storage) -> bool {
        self.words(numbers, storage) < numbers.div_ceil(storage.in_word())
    }

    /// Encodes a row into as many words as [`Wire::words`] says. `hash` is that of its vertex for the key of the draws
    /// ([`vertex_hash`](crate::kernel::vertex_hash)). A row with a number that is not finite decodes to such numbers only.
    pub fn encode(self, row: &[f32], hash: u32, words: &mut [f32]) {
        match self {
            Self::F32 => words.copy_from_slice(row),
            Self::Bf16 => Storage::Bf16.pack(row, words),
            Self::Int8 => encode_bytes(row, hash, words),
        }
    }

    /// Decodes what [`Wire::encode`] wrote.
    pub fn decode(self, words: &[f32], row: &mut [f32]) {
        match self {
            Self::F32 => row.copy_from_slice(words),
            Self::Bf16 => Storage::Bf16.unpack(words, row),
            Self::Int8 => decode_bytes(words, row),
        }
    }
}

/// The key of what one part sends of a vertex of which other parts send something else. `part` is its number plus 1; 0 leaves
/// the key as it is.
pub const fn key_of_part(key: u64, part: u32) -> u64 {
    key ^ salt(part)
}

/// What [`key_of_part`] combines with a key by exclusive or.
pub const fn salt(part: u32) -> u64 {
    (part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// How a row is rounded to 8 bits.
#[derive(Clone, Copy)]
struct Scale {
    /// The upper 16 bits of the distance between neighboring values; 0 if all numbers are 0.
    bits: u32,
    /// The value that stands for 0.
    zero: f32,
}

impl Scale {
    fn of(row: &[f32]) -> Self {
        let (mut low, mut high, mut finite) = (0f32, 0f32, true);
        for &x in row {
            finite &= x.is_finite();
            low = if x < low { x } else { low };
            high = if x > high { x } else { high };
        }
        let step = (high - low) / STEPS;
        let bits = step.to_bits();
        let bits = (bits >> 16) + u32::from(bits & 0xffff != 0);
        if !finite {
            return Self {
                bits: 0x7fc0,
                zero: 0.0,
            };
        }
        // Subnormal steps would be 0 on some threads.
        if step < f32::MIN_POSITIVE {
            return Self { bits: 0, zero: 0.0 };
        }
        let zero = (-low / f32::from_bits(bits << 16)).ceil();
        Self { bits, zero }
    }

    fn step(self) -> f32 {
        f32::from_bits(self.bits << 16)
    }
}

/// A header word (step, zero point, 8 bits that are 0), then four numbers a word.
fn encode_bytes(row: &[f32], hash: u32, words: &mut [f32]) {
    let scale = Scale::of(row);
    let Some((header, words)) = words.split_first_mut() else {
        return;
    };
    *header = f32::from_bits(scale.bits << 16 | (scale.zero as u32) << 8);
    let (step, zero) = (scale.step(), scale.zero);
    for (n, (word, four)) in words.iter_mut().zip(row.chunks(4)).enumerate() {
        let mut bits = 0;
        for (i, x) in four.iter().enumerate() {
            let draw = crate::kernel::draw(hash, (4 * n + i) as u32) >> 8;
            let value = x / step + zero + draw as f32 * (1.0 / 65536.0);
            // Without a step, all are 0; without a finite one, what is here does not matter.
            let value = if value < 255.0 { value } else { 255.0 };
            let value = if scale.bits == 0 { 0.0 } else { value };
            bits |= (value as u32) << (8 * i);
        }
        *word = f32::from_bits(bits);
    }
}

fn decode_bytes(words: &[f32], row: &mut [f32]) {
    let Some((header, words)) = words.split_first() else {
        return;
    };
    let header = header.to_bits();
    let (step, zero) = (
        f32::from_bits(header & 0xffff_0000),
        (header >> 8 & 0xff) as f32,
    );
    for (four, word) in row.chunks_mut(4).zip(words) {
        let bits = word.to_bits();
        for (i, x) in four.iter_mut().enumerate() {
            *x = ((bits >> (8 * i) & 0xff) as f32 - zero) * step;
        }
    }
}

#[cfg(test)]
mod tests;

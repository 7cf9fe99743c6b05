//! What a page must be before the library decodes it. The library checks most of what it reads, but panics on what is
//! refused here.

use parquet::basic::{Encoding, Type as Physical};
use parquet::column::page::Page;
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescriptor;

/// Most values of a page: beyond it, a file has them only to make many from few bytes.
const MOST_VALUES: u32 = 1 << 26;
/// Most bytes of the length of a run.
const LONGEST: usize = 10;

/// The checks of a column's pages.
pub(super) struct Checks {
    values: Physical,
    /// Bits of repetition and definition levels.
    bits: [u8; 2],
    /// Whether there was a dictionary.
    dictionary: bool,
}

/// Whether the library checks all that it reads of values in this encoding. Writers choose others only when they are
/// asked to.
pub(super) fn is_checked(encoding: Encoding) -> bool {
    is_of_dictionary(encoding)
        || matches!(
            encoding,
            Encoding::PLAIN | Encoding::RLE | Encoding::DELTA_BINARY_PACKED
        )
}

fn is_of_dictionary(encoding: Encoding) -> bool {
    matches!(
        encoding,
        Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY
    )
}

/// Bytes of a plain value, if all have as many.
fn width(values: Physical) -> Option<u64> {
    match values {
        Physical::INT32 | Physical::FLOAT => Some(4),
        Physical::INT64 | Physical::DOUBLE => Some(8),
        Physical::INT96 => Some(12),
        Physical::BOOLEAN | Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => None,
    }
}

/// The bytes behind a length in four bytes, and what follows them.
fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

impl Checks {
    /// Those of a column.
    pub(super) fn of(column: &ColumnDescriptor) -> Self {
        let bits = |most: i16| (i16::BITS - most.leading_zeros()) as u8;
        Self {
            values: column.physical_type(),
            bits: [bits(column.max_rep_level()), bits(column.max_def_level())],
            dictionary: false,
        }
    }

    /// Checks the next page, decompressed.
    ///
    /// # Errors
    /// Why it is damaged.
    pub(super) fn check(&mut self, page: &Page) -> Result<(), ParquetError> {
        let wrong = |reason: String| Err(ParquetError::General(reason));
        let (count, encoding) = (page.num_values(), page.encoding());
        if count > MOST_VALUES {
            return wrong(format!(
                "a page of {count} values, expected at most {MOST_VALUES}"
            ));
        }
        if !is_checked(encoding) {
            return wrong("another encoding than its last part says".to_owned());
        }
        if page.is_dictionary_page() {
            self.dictionary = true;
            let needed = width(self.values).map_or(0, |width| width * u64::from(count));
            let texts = self.values == Physical::BYTE_ARRAY;
            return match needed <= page.buffer().len() as u64 {
                true if texts && !texts_fit(page.buffer()) => {
                    wrong("a text that is longer than its page".to_owned())
                }
                true => Ok(()),
                false => wrong("a dictionary of fewer values than it says".to_owned()),
            };
        }
        if is_of_dictionary(encoding) && !self.dictionary {
            return wrong("a page without its dictionary".to_owned());
        }
        match self.runs(page) {
            Some(true) => Ok(()),
            Some(false) => wrong("a run or a text of an impossible length".to_owned()),
            None => wrong("a page that is shorter than its levels".to_owned()),
        }
    }

    /// A page behind whose texts an endless one follows. The library reads the length of a text without asking
    /// whether there is one; an endless text it refuses.
    pub(super) fn closed(&self, mut page: Page) -> Page {
        let plain = page.is_dictionary_page() || page.encoding() == Encoding::PLAIN;
        if self.values == Physical::BYTE_ARRAY && plain {
            let (Page::DataPage { buf, .. }
            | Page::DataPageV2 { buf, .. }
            | Page::DictionaryPage { buf, .. }) = &mut page;
            *buf = [&buf[..], &[u8::MAX; 4]].concat().into();
        }
        page
    }

    /// Whether runs have lengths, those of levels and of values that are indices or truth values, and texts fit. `None` if the page
    /// is shorter than its levels.
    fn runs(&self, page: &Page) -> Option<bool> {
        let count = u64::from(page.num_values());
        let mut valid = true;
        let mut rest: &[u8] = page.buffer();
        match page {
            Page::DataPage { .. } => {
                for bits in self.bits.into_iter().filter(|bits| *bits > 0) {
                    let (levels, behind) = counted(rest)?;
                    valid &= have_lengths(levels, bits, count);
                    rest = behind;
                }
            }
            Page::DataPageV2 {
                def_levels_byte_len,
                rep_levels_byte_len,
                ..
            } => {
                let lengths = [*rep_levels_byte_len, *def_levels_byte_len];
                for (bits, length) in self.bits.into_iter().zip(lengths) {
                    let (levels, behind) = rest.split_at_checked(length as usize)?;
                    valid &= have_lengths(levels, bits, count);
                    rest = behind;
                }
            }
            Page::DictionaryPage { .. } => {}
        }
        valid &= match (page.encoding(), rest) {
            (Encoding::RLE, rest) => have_lengths(rest.get(4..).unwrap_or_default(), 1, count),
            (Encoding::PLAIN, texts) if self.values == Physical::BYTE_ARRAY => texts_fit(texts),
            (encoding, [bits, indices @ ..]) if is_of_dictionary(encoding) => {
                have_lengths(indices, *bits, count)
            }
            _ => true,
        };
        Some(valid)
    }
}

/// Whether texts, each behind its length, end where their page does. Less than a length may be left over.
fn texts_fit(mut bytes: &[u8]) -> bool {
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        match rest.get(u32::from_le_bytes(*length) as usize..) {
            Some(next) => bytes = next,
            None => return false,
        }
    }
    true
}

/// Whether all runs of so many values, of so many bits each, begin with a length. What follows the values may be
/// anything.
fn have_lengths(bytes: &[u8], bits: u8, count: u64) -> bool {
    let (mut rest, mut seen) = (bytes, 0u64);
    loop {
        let Some(last) = rest.iter().position(|byte| byte & 0x80 == 0) else {
            return rest.len() <= LONGEST;
        };
        if last >= LONGEST {
            return false;
        }
        let (header, behind) = rest.split_at(last + 1);
        let digits = header.iter().rev().map(|byte| u64::from(byte & 0x7f));
        let length = digits.fold(0u64, |number, digit| number << 7 | digit);
        // The lowest bit says whether values are packed, eight at a time, or one is repeated.
        let (values, stored) = match length & 1 {
            1 => (8, (length >> 1).saturating_mul(bits.into())),
            _ => (1, u64::from(bits.div_ceil(8))),
        };
        seen = seen.saturating_add((length >> 1).saturating_mul(values));
        let stored = usize::try_from(stored).unwrap_or(usize::MAX);
        match behind.get(stored..) {
            Some(next) if length > 0 && seen < count => rest = next,
            _ => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{have_lengths, texts_fit};

    #[test]
    fn texts_end_with_their_page() {
        let texts = [1, 0, 0, 0, b'a', 0, 0, 0, 0];
        assert!(texts_fit(&texts) && texts_fit(&[]));
        assert!(texts_fit(&texts[..7]), "less than a length is left");
        assert!(!texts_fit(&[2, 0, 0, 0, b'a']));
    }

    #[test]
    fn lengths_of_runs_are_numbers() {
        // Three times a value of two bits, then eight packed ones, then whatever there is.
        let runs = [6, 1, 3, 0xe4, 0xe4];
        assert!(have_lengths(&runs, 2, 11));
        let endless = [0xff; 12];
        assert!(have_lengths(&[&runs[..], &endless].concat(), 2, 11));
        assert!(!have_lengths(&[&runs[..], &endless].concat(), 2, 12));
        assert!(!have_lengths(&endless, 2, 1));
        assert!(have_lengths(&endless[..10], 2, 1));
        assert!(have_lengths(&[], 2, 1));
    }
}

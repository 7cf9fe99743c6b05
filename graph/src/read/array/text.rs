//! Texts in arrays: of NumPy's strings, or the lines of a text of which an array has the bytes.

use super::{Array, Header};
use crate::GraphError;
use crate::names::Names;
use std::io::Read;

/// What texts are read from.
const EXPECTED: &str = "an array of strings (.astype(str)), or unsigned bytes of a text in UTF-8 with a line for each \
                        element";

/// NumPy's strings of a fixed length.
#[derive(Clone, Copy)]
struct Strings {
    big_endian: bool,
    /// Bytes of a character: 4 (`U`) or 1 (`S`).
    character: usize,
    length: usize,
}

impl Strings {
    /// `<U12` or `|S12`; `None` for other types of elements.
    fn of(descr: &str) -> Option<Self> {
        let name = descr.trim_start_matches(['<', '>', '|', '=']);
        let length = name.get(1..)?.parse().ok()?;
        let character = match name.as_bytes().first()? {
            b'U' => 4,
            b'S' => 1,
            _ => return None,
        };
        Some(Self {
            big_endian: descr.starts_with('>'),
            character,
            length,
        })
    }

    /// A string, which zeros fill up; `None` if it is no text.
    fn decode(self, bytes: &[u8]) -> Option<String> {
        let text = if self.character == 1 {
            std::str::from_utf8(bytes).ok()?.to_owned()
        } else {
            let character = |bytes: &[u8]| {
                let bytes: [u8; 4] = bytes.try_into().ok()?;
                char::from_u32(match self.big_endian {
                    true => u32::from_be_bytes(bytes),
                    false => u32::from_le_bytes(bytes),
                })
            };
            bytes
                .chunks_exact(4)
                .map(character)
                .collect::<Option<_>>()?
        };
        Some(text.trim_end_matches('\0').to_owned())
    }
}

/// Reads an array of texts from `reader`, which yields at most `available` bytes.
///
/// # Errors
/// An array of something else, or of more than one dimension.
pub(crate) fn names(
    at: String,
    reader: &mut dyn Read,
    available: u64,
) -> Result<Names, GraphError> {
    let damaged = |e: std::io::Error| GraphError::Archive {
        at: at.clone(),
        reason: e.to_string(),
    };
    let mut bytes = Vec::new();
    reader
        .take(available.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(damaged)?;
    let header = Header::read(&at, &mut &bytes[..])?;
    let unsupported = |found: String, expected: &str| GraphError::Unsupported {
        at: at.clone(),
        found,
        expected: expected.to_owned(),
    };
    let Some(strings) = Strings::of(&header.descr) else {
        if !header.descr.ends_with("u1") {
            let found = format!("an array of `{}`", header.descr);
            return Err(unsupported(found, EXPECTED));
        }
        return Array::read(at, &mut &bytes[..], bytes.len() as u64)?.lines();
    };
    let [count] = header.shape[..] else {
        let found = format!("an array of texts of {} dimensions", header.shape.len());
        return Err(unsupported(found, "one dimension"));
    };
    let size = strings.character.saturating_mul(strings.length);
    let stored = &bytes[header.size.min(bytes.len())..];
    if header.claimed(size) != stored.len() as u128 {
        return Err(GraphError::WrongLength {
            at: at.clone(),
            unit: "bytes",
            found: stored.len() as u64,
            expected: u64::try_from(header.claimed(size)).unwrap_or(u64::MAX),
        });
    }
    if size == 0 {
        // Empty texts take no bytes, so there may be any number of them.
        let found = format!("{count} empty texts");
        return Err(unsupported(found, "texts that are not all empty"));
    }
    let texts = stored.chunks_exact(size).map(|text| strings.decode(text));
    let texts: Option<Names> = texts.collect();
    texts.ok_or_else(|| {
        unsupported(
            "a text that is not valid Unicode".to_owned(),
            "characters of Unicode",
        )
    })
}

impl Array {
    /// The lines of a text, of which the array has the bytes.
    fn lines(&self) -> Result<Names, GraphError> {
        self.dimensions(1, "one dimension")?;
        let unsupported = |found: String| GraphError::Unsupported {
            at: self.at.clone(),
            found,
            expected: EXPECTED.to_owned(),
        };
        let text = std::str::from_utf8(&self.bytes);
        let text = text.map_err(|_| unsupported("bytes that are no UTF-8".to_owned()))?;
        Ok(Names::from_lines(text))
    }
}

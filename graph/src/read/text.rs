//! Lines and numbers in the text formats.

use crate::GraphError;
use crate::topology::check_vertices;

/// The lines of a text file, numbered from 1, without line ends.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let lines = bytes
        .split(|&b| b == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    (1..).zip(lines)
}

/// The words of a line: split at white space, commas and semicolons.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|b| b.is_ascii_whitespace() || matches!(b, b',' | b';'))
        .filter(|word| !word.is_empty())
}

/// A signed integer, or `None` if the word is not one.
pub(super) fn integer(word: &[u8]) -> Option<i128> {
    let (negative, digits) = match word {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, word),
    };
    if digits.is_empty() || digits.len() > 30 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits
        .iter()
        .fold(0i128, |value, b| value * 10 + i128::from(b - b'0'));
    Some(if negative { -value } else { value })
}

/// A short quotation for messages.
pub(super) fn quote(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(&word[..word.len().min(40)]);
    format!("{text:?}")
}

/// The error "found ..., expected ..." at a line.
pub(crate) fn syntax(
    at: &str,
    line: u64,
    found: impl Into<String>,
    expected: impl Into<String>,
) -> GraphError {
    GraphError::Syntax {
        at: at.to_owned(),
        line,
        found: found.into(),
        expected: expected.into(),
    }
}

/// Checks the number of vertices that a text file claims.
///
/// A few bytes can name any vertex, so a claim needs backing: the file may mean up to a million
/// vertices, sixteen for each edge, or as many as the caller states.
pub(super) fn plausible_vertices(
    at: &str,
    claimed: u128,
    edges: u64,
    stated: Option<u32>,
) -> Result<u32, GraphError> {
    let limit = match stated {
        Some(n) => u64::from(n),
        None => edges.saturating_mul(16).saturating_add(1 << 20),
    };
    if claimed > u128::from(limit) {
        return Err(GraphError::TooManyVertices {
            at: at.to_owned(),
            found: claimed,
            edges,
            limit,
        });
    }
    check_vertices(at, claimed, edges)
}

//! The tokens of a listing.

use std::fmt;

/// Why a text is not a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// Line, from 1.
    pub line: usize,
    /// The text found.
    pub found: String,
    /// The text expected.
    pub expected: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}: found {}, expected {}",
            self.line, self.found, self.expected
        )
    }
}

impl std::error::Error for TextError {}

/// One token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A name, such as `halo-exchange`, `b12` or `inner.lines`.
    Word(&'a str),
    /// A number, or the place of an instruction.
    Number(&'a str),
    /// Text between quotes, with `\"` and `\\` not yet unescaped.
    Quoted(&'a str),
    /// A mark, such as `(` or `->`.
    Mark(&'a str),
}

impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(text) | Self::Number(text) | Self::Mark(text) => write!(f, "`{text}`"),
            Self::Quoted(text) => write!(f, "\"{text}\""),
        }
    }
}

const MARKS: &[&str] = &[
    "->", "(", ")", "{", "}", "[", "]", ",", ":", "=", "@", "/", "%", ".", "*", "+", "-",
];

/// All tokens of a text, each with its line.
///
/// # Errors
/// If a character starts no token, or a quote does not end.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token<'_>)>, TextError> {
    let mut tokens = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            let (token, length) = token(rest).ok_or_else(|| TextError {
                line: number,
                found: format!("`{rest}`"),
                expected: "a name, a number, a mark or a closed quoted text".to_owned(),
            })?;
            tokens.push((number, token));
            rest = rest[length..].trim_start();
        }
    }
    Ok(tokens)
}

/// The first token of a text, and its length.
fn token(text: &str) -> Option<(Token<'_>, usize)> {
    let first = text.chars().next()?;
    if first == '"' {
        let length = quoted(text)?;
        return Some((Token::Quoted(&text[1..length - 1]), length));
    }
    let signed = text.strip_prefix('-').unwrap_or(text);
    let number = signed.starts_with(|c: char| c.is_ascii_digit()) || text.starts_with("-inf");
    if number {
        let length = number_length(text);
        return Some((Token::Number(&text[..length]), length));
    }
    if first.is_ascii_alphabetic() {
        let length = word_length(text);
        return Some((Token::Word(&text[..length]), length));
    }
    let mark = MARKS.iter().find(|mark| text.starts_with(**mark))?;
    Some((Token::Mark(mark), mark.len()))
}

/// Bytes up to the closing quote; a quote after a backslash does not close.
fn quoted(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => return Some(at + 1),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    None
}

/// Length of a number: digits with dots, an exponent, and a sign after its `e`.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let part = |at: usize| match bytes[at] {
        b'-' | b'+' => at == 0 || matches!(bytes[at - 1], b'e' | b'E'),
        byte => byte.is_ascii_alphanumeric() || byte == b'.',
    };
    (0..bytes.len())
        .find(|&at| !part(at))
        .unwrap_or(bytes.len())
}

/// Length of a word: letters and digits, with dots, dashes, underscores and plus signs between
/// them.
fn word_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let plain = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
    let part = |at: usize| match bytes[at] {
        b'.' | b'-' | b'_' | b'+' => plain(at - 1) && plain(at + 1),
        byte => byte.is_ascii_alphanumeric(),
    };
    (1..bytes.len())
        .find(|&at| !part(at))
        .unwrap_or(bytes.len())
}

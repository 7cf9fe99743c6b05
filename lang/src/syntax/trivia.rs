//! Attaches comments and blank lines to parts of the tree.

use super::ast::Notes;
use crate::diagnostic::Span;

/// The comments of a text, handed out in order.
pub struct Comments<'a> {
    text: &'a str,
    spans: Vec<Span>,
    next: usize,
}

impl<'a> Comments<'a> {
    /// The comments at `spans` of `text`.
    pub fn new(text: &'a str, spans: Vec<Span>) -> Self {
        Self {
            text,
            spans,
            next: 0,
        }
    }

    /// Takes the comments before the token at `start`, with blank lines as empty strings. If
    /// `first` (the token is the first in its block), leading blank lines are dropped.
    pub fn before(&mut self, start: usize, first: bool) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(span) = self.pending(start) {
            if blank_before(self.text, span.start) && !(first && lines.is_empty()) {
                lines.push(String::new());
            }
            lines.push(tidy(&self.text[span.start..span.end]));
            self.next += 1;
        }
        if blank_before(self.text, start) && !(first && lines.is_empty()) {
            lines.push(String::new());
        }
        lines
    }

    /// Takes comments before a closing brace or the end of the file.
    pub fn tail(&mut self, start: usize, first: bool) -> Vec<String> {
        let mut lines = self.before(start, first);
        if lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }

    /// Moves comments inside something that ends at `end` in front of it.
    pub fn inside(&mut self, end: usize, notes: &mut Notes) {
        while let Some(span) = self.pending(end) {
            notes.before.push(tidy(&self.text[span.start..span.end]));
            self.next += 1;
        }
    }

    /// Takes the comment on the line of `end`, unless a token (the next is at `next`) comes
    /// before it.
    pub fn after(&mut self, end: usize, next: usize) -> Option<String> {
        let span = self.pending(next)?;
        if span.start < end || self.text[end..span.start].contains('\n') {
            return None;
        }
        self.next += 1;
        Some(tidy(&self.text[span.start..span.end]))
    }

    fn pending(&self, before: usize) -> Option<Span> {
        self.spans
            .get(self.next)
            .copied()
            .filter(|span| span.start < before)
    }
}

/// Whether a line break precedes a byte, with only white space between.
pub fn newline_before(text: &str, at: usize) -> bool {
    let before = &text[..at];
    before[before.trim_end().len()..].contains('\n') || before.trim_end().is_empty()
}

fn blank_before(text: &str, at: usize) -> bool {
    let before = &text[..at];
    before[before.trim_end().len()..].matches('\n').count() > 1
}

/// A comment in canonical form: no trailing spaces, one space between `#` and a word.
fn tidy(comment: &str) -> String {
    let text = comment.trim_end();
    match text[1..].chars().next() {
        Some(c) if c.is_alphanumeric() => format!("# {}", &text[1..]),
        _ => text.to_owned(),
    }
}

//! Comments and blank lines: which of them belongs to which part of the tree.

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

    /// Takes the comments before the token at `start`, with blank lines as empty strings.
    /// `first`: nothing stands before it in its block, so that a blank line means nothing.
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

    /// Takes the comment on the line that `end` is on, if no token (the next is at `next`)
    /// stands in between.
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

/// Whether a line break stands between a byte and what is before it.
pub fn newline_before(text: &str, at: usize) -> bool {
    let before = &text[..at];
    before[before.trim_end().len()..].contains('\n') || before.trim_end().is_empty()
}

fn blank_before(text: &str, at: usize) -> bool {
    let before = &text[..at];
    before[before.trim_end().len()..].matches('\n').count() > 1
}

/// A comment in its one form: no spaces at its end, one between `#` and a word.
fn tidy(comment: &str) -> String {
    let text = comment.trim_end();
    match text[1..].chars().next() {
        Some(c) if c.is_alphanumeric() => format!("# {}", &text[1..]),
        _ => text.to_owned(),
    }
}

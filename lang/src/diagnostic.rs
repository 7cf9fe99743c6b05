//! Diagnostics about the user's text: a code, a place, a message, a remedy.
//!
//! Every stage that reads text returns diagnostics as values and never aborts. `render` and
//! `to_json` print them.

mod codes;
mod render;

pub use codes::{CODES, Code, code};
pub use render::{Position, position, render, to_json};

use serde::{Deserialize, Serialize};

/// Most diagnostics shown for one text; fix these first.
pub const MAX_SHOWN: usize = 100;

/// A range of bytes of the source text.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Prevents a result.
    Error,
    /// Allows a result, but probably not the intended one.
    Warning,
}

/// One message to the user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// A code of [`CODES`], such as `E0201`.
    pub code: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// What was found and what was expected.
    pub message: String,
    /// The place, if it has one in the text.
    pub span: Option<Span>,
    /// Further places, each with a message.
    pub labels: Vec<(Span, String)>,
    /// How to fix it.
    pub help: Option<String>,
}

impl Span {
    /// The range `start..end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The smallest range that covers both.
    pub fn to(self, other: Self) -> Self {
        Self::new(self.start.min(other.start), self.end.max(other.end))
    }
}

impl Diagnostic {
    /// A diagnostic without a place. Codes that start with `W` are warnings; all others are
    /// errors.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        let severity = match code.starts_with('W') {
            true => Severity::Warning,
            false => Severity::Error,
        };
        let message = message.into();
        Self {
            code,
            severity,
            message,
            span: None,
            labels: Vec::new(),
            help: None,
        }
    }

    /// Sets the place.
    pub fn at(mut self, span: Span) -> Self {
        self.span = Some(span);
        self
    }

    /// Adds a further place.
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push((span, text.into()));
        self
    }

    /// Sets the remedy.
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// Sets the remedy, if there is one.
    pub fn maybe_help(mut self, text: Option<String>) -> Self {
        self.help = text.or(self.help);
        self
    }

    /// Whether this is an error.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Whether a list contains an error.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(Diagnostic::is_error)
}

/// Sorts diagnostics by place and removes duplicates.
pub fn tidy(diagnostics: &mut Vec<Diagnostic>) {
    diagnostics.sort_by_key(|d| d.span.map_or((usize::MAX, 0), |s| (s.start, s.end)));
    let mut kept: Vec<Diagnostic> = Vec::with_capacity(diagnostics.len());
    for diagnostic in diagnostics.drain(..) {
        let same = |d: &&Diagnostic| d.span == diagnostic.span;
        let said = kept
            .iter()
            .rev()
            .take_while(same)
            .any(|d| d.code == diagnostic.code && d.message == diagnostic.message);
        if !said {
            kept.push(diagnostic);
        }
    }
    *diagnostics = kept;
}

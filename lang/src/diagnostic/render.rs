//! Diagnostics as text for people, and as JSON for programs.

use super::{Diagnostic, MAX_SHOWN, Severity, Span};
use ariadne::{Color, Config, IndexType, Label, Report, ReportKind, Source};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A place in a text; both numbers start at 1, as in editors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

/// The line and column of a byte of `text`; bytes past the end count as the end.
pub fn position(text: &str, byte: usize) -> Position {
    Lines::of(text).position(byte)
}

/// The lines of a text, indexed for repeated lookups.
struct Lines<'a> {
    text: &'a str,
    /// First byte of each line.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let after = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            starts: std::iter::once(0).chain(after).collect(),
        }
    }

    fn position(&self, byte: usize) -> Position {
        let byte = floor(self.text, byte);
        let line = self.starts.partition_point(|start| *start <= byte);
        let start = self.starts[line - 1];
        Position {
            line,
            column: self.text[start..byte].chars().count() + 1,
        }
    }
}

/// The first [`MAX_SHOWN`] diagnostics; errors take precedence over warnings.
fn shown(diagnostics: &[Diagnostic]) -> Vec<&Diagnostic> {
    let errors = diagnostics.iter().filter(|d| d.is_error()).count();
    let mut warnings = MAX_SHOWN.saturating_sub(errors);
    let wanted = diagnostics.iter().filter(|d| {
        if d.is_error() {
            return true;
        }
        let room = warnings > 0;
        warnings = warnings.saturating_sub(1);
        room
    });
    wanted.take(MAX_SHOWN).collect()
}

/// Renders diagnostics as text with the source lines that they refer to. Prints the first
/// [`MAX_SHOWN`] and the number of others. `file` is the name to print.
pub fn render(diagnostics: &[Diagnostic], file: &str, text: &str, colour: bool) -> String {
    let mut out = String::new();
    let shown = shown(diagnostics);
    let mut source = (file, Source::from(text));
    for diagnostic in &shown {
        match diagnostic.span {
            Some(span) => out.push_str(&with_source(diagnostic, span, &mut source, colour)),
            None => out.push_str(&without_source(diagnostic)),
        }
    }
    let more = diagnostics.len() - shown.len();
    if more > 0 {
        out.push_str(&format!("{more} more are not shown\n"));
    }
    out
}

/// Renders diagnostics as a JSON array: `code`, `severity`, `message`, `file`, `start` and
/// `end` (byte, line, column; null without a place), `labels`, `help`. Includes the first
/// [`MAX_SHOWN`].
pub fn to_json(diagnostics: &[Diagnostic], file: &str, text: &str) -> Value {
    let lines = Lines::of(text);
    let place = |byte: usize| {
        let Position { line, column } = lines.position(byte);
        json!({ "byte": byte, "line": line, "column": column })
    };
    let entry = |d: &Diagnostic| {
        let labels: Vec<Value> = d
            .labels
            .iter()
            .map(|(span, text)| {
                json!({ "start": place(span.start), "end": place(span.end), "text": text })
            })
            .collect();
        json!({
            "code": d.code,
            "severity": d.severity,
            "message": d.message,
            "file": file,
            "start": d.span.map(|s| place(s.start)),
            "end": d.span.map(|s| place(s.end)),
            "labels": labels,
            "help": d.help,
        })
    };
    Value::Array(shown(diagnostics).into_iter().map(entry).collect())
}

fn with_source(
    d: &Diagnostic,
    span: Span,
    source: &mut (&str, Source<&str>),
    colour: bool,
) -> String {
    let file = source.0;
    let text = source.1.text();
    let (kind, ink) = match d.severity {
        Severity::Error => (ReportKind::Error, Color::Red),
        Severity::Warning => (ReportKind::Warning, Color::Yellow),
    };
    let range = |s: Span| {
        let start = floor(text, s.start);
        (file, start..floor(text, s.end).max(start))
    };
    let config = Config::default()
        .with_color(colour)
        .with_index_type(IndexType::Byte);
    let mut report = Report::build(kind, range(span))
        .with_config(config)
        .with_code(d.code)
        .with_message(&d.message);
    let inside = |at: &Span| at.start >= span.start && at.end <= span.end;
    let mut labels: Vec<(Span, &str)> = d.labels.iter().map(|(at, t)| (*at, t.as_str())).collect();
    if !labels.iter().any(|(at, _)| inside(at)) {
        labels.push((span, "here"));
    }
    // Out of order, lines would appear twice.
    labels.sort_by_key(|(at, _)| *at);
    for (at, message) in labels {
        let ink = if inside(&at) { ink } else { Color::Blue };
        report = report.with_label(Label::new(range(at)).with_message(message).with_color(ink));
    }
    if let Some(help) = &d.help {
        report = report.with_help(help);
    }
    let mut bytes = Vec::new();
    match report.finish().write(source, &mut bytes) {
        Ok(()) => trim_lines(&String::from_utf8_lossy(&bytes)),
        Err(_) => without_source(d),
    }
}

fn without_source(d: &Diagnostic) -> String {
    let word = match d.severity {
        Severity::Error => "Error",
        Severity::Warning => "Warning",
    };
    let help = d
        .help
        .as_ref()
        .map_or(String::new(), |help| format!("  Help: {help}\n"));
    format!("[{}] {word}: {}\n{help}", d.code, d.message)
}

/// Removes trailing spaces that ariadne leaves, for golden files.
fn trim_lines(text: &str) -> String {
    text.lines()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// The last character boundary at or before `byte`.
fn floor(text: &str, byte: usize) -> usize {
    let mut at = byte.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_from_one() {
        assert_eq!(position("aé\nb", 4), Position { line: 2, column: 1 });
        assert_eq!(position("aé\nb", 3), Position { line: 1, column: 3 });
        assert_eq!(position("", 9), Position { line: 1, column: 1 });
    }

    #[test]
    fn a_report_shows_its_line_and_its_help() {
        let text = "let a = b\nlet c = d\n";
        let d = Diagnostic::new("E0201", "`d` is not defined")
            .at(Span::new(18, 19))
            .help("define it");
        let shown = render(std::slice::from_ref(&d), "m.gir", text, false);
        for part in ["E0201", "m.gir:2:9", "let c = d", "define it"] {
            assert!(shown.contains(part), "{part} is missing in\n{shown}");
        }
        let json = to_json(&[d], "m.gir", text);
        assert_eq!(json[0]["start"]["line"], 2);
        assert_eq!(json[0]["end"]["column"], 10);
    }

    #[test]
    fn of_very_many_the_first_are_shown_and_errors_before_warnings() {
        let text = "let a = b\n".repeat(2000);
        let at = |n: usize| Span::new(10 * n, 10 * n + 3);
        let mut many: Vec<Diagnostic> = (0..1000)
            .map(|n| Diagnostic::new("W0001", "odd").at(at(n)))
            .collect();
        many.push(Diagnostic::new("E0201", "`b` is not defined").at(at(1500)));
        let shown = render(&many, "m.gir", &text, false);
        assert!(shown.contains("E0201"), "{shown}");
        assert!(shown.ends_with("901 more are not shown\n"), "{shown}");
        let json = to_json(&many, "m.gir", &text);
        assert_eq!(json.as_array().map(Vec::len), Some(MAX_SHOWN));
        assert_eq!(json[MAX_SHOWN - 1]["start"]["line"], 1501);
        assert!(!render(&many[..100], "m.gir", &text, false).contains("not shown"));
    }

    #[test]
    fn places_outside_the_text_are_no_danger() {
        for text in ["", "é", "a\r\nb", "\u{2028}x\r"] {
            for (start, end) in [(0, 0), (0, 1), (1, 1), (1, 99), (7, 3)] {
                let d = Diagnostic::new("E0101", "found the end").at(Span::new(start, end));
                assert!(render(&[d], "m", text, true).contains("E0101"));
            }
        }
    }
}

//! Diagnostics as text for people and as JSON for programs.

use super::{Diagnostic, Severity, Span};
use ariadne::{Color, Config, IndexType, Label, Report, ReportKind, Source};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A place in a text, as editors count: both numbers start at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

/// The line and column of a byte of `text`; bytes past the end count as the end.
pub fn position(text: &str, byte: usize) -> Position {
    let before = &text[..floor(text, byte)];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Position {
        line: before.matches('\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
    }
}

/// Diagnostics as text, each with the lines it speaks of. `file` is the name to print.
pub fn render(diagnostics: &[Diagnostic], file: &str, text: &str, colour: bool) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        match diagnostic.span {
            Some(span) => out.push_str(&with_source(diagnostic, span, file, text, colour)),
            None => out.push_str(&without_source(diagnostic)),
        }
    }
    out
}

/// Diagnostics as a JSON array: `code`, `severity`, `message`, `file`, `start` and `end`
/// (byte, line, column; null without a place), `labels`, `help`.
pub fn to_json(diagnostics: &[Diagnostic], file: &str, text: &str) -> Value {
    let place = |byte: usize| {
        let Position { line, column } = position(text, byte);
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
    Value::Array(diagnostics.iter().map(entry).collect())
}

fn with_source(d: &Diagnostic, span: Span, file: &str, text: &str, colour: bool) -> String {
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
    // Out of order, lines would be shown twice.
    labels.sort_by_key(|(at, _)| *at);
    for (at, message) in labels {
        let ink = if inside(&at) { ink } else { Color::Blue };
        report = report.with_label(Label::new(range(at)).with_message(message).with_color(ink));
    }
    if let Some(help) = &d.help {
        report = report.with_help(help);
    }
    let mut bytes = Vec::new();
    let source = (file, Source::from(text));
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

/// The reports of ariadne end some lines in spaces; golden files should not.
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
    fn places_outside_the_text_are_no_danger() {
        for text in ["", "é", "a\r\nb", "\u{2028}x\r"] {
            for (start, end) in [(0, 0), (0, 1), (1, 1), (1, 99), (7, 3)] {
                let d = Diagnostic::new("E0101", "found the end").at(Span::new(start, end));
                assert!(render(&[d], "m", text, true).contains("E0101"));
            }
        }
    }
}

//! Aligned text, as wide as the terminal.

use gnnc::Metric;
use gnnc::ir::words::spelling::counted;
pub use gnnc::planner::report::grouped;
use gnnc::planner::report::{WIDTH, wrap};
use std::io::stdout;
use std::ops::RangeInclusive;

/// Widths of terminals for which text is wrapped.
const WIDTHS: RangeInclusive<usize> = 40..=1000;

/// Columns of a line of text: those of `COLUMNS` or of the terminal; 99 if there is neither.
pub fn width() -> usize {
    let told = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok());
    let seen = || terminal_size::terminal_size_of(stdout()).map(|(width, _)| width.0.into());
    let width: usize = told.or_else(seen).unwrap_or(WIDTH);
    width.clamp(*WIDTHS.start(), *WIDTHS.end())
}

/// A table. Each column is as wide as its widest cell, with two spaces between columns.
#[derive(Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Number of leading columns that are flush left; the others are flush right.
    left: usize,
    indent: usize,
}

impl Table {
    /// A table whose first `left` columns are flush left, indented by `indent` spaces.
    pub fn new(left: usize, indent: usize) -> Self {
        Self {
            left,
            indent,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The lines of the table; a line that is too long ends in `...`.
    pub fn lines(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = " ".repeat(self.indent);
            for (column, cell) in row.iter().enumerate() {
                if column > 0 {
                    line.push_str("  ");
                }
                let width = widths[column];
                if column < self.left {
                    line.push_str(&format!("{cell:<width$}"));
                } else {
                    line.push_str(&format!("{cell:>width$}"));
                }
            }
            text.push_str(&cut(line.trim_end()));
            text.push('\n');
        }
        text
    }
}

/// Cuts a line to the columns of the terminal, but to no less than [`WIDTH`]; a cut line ends in
/// `...`.
pub fn cut(line: &str) -> String {
    let most = width().max(WIDTH);
    if line.chars().count() <= most {
        return line.to_owned();
    }
    let kept: String = line.chars().take(most - 3).collect();
    format!("{}...", kept.trim_end())
}

/// Lines of `key  value`, with the values aligned and wrapped in their column.
pub fn facts(facts: &[(&str, String)]) -> String {
    facts_behind(0, facts)
}

/// [`facts`], indented by `margin` spaces.
pub fn facts_behind(margin: usize, facts: &[(&str, String)]) -> String {
    let keys = facts.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
    let columns = width();
    let mut text = String::new();
    for (key, value) in facts {
        let margin = format!("{:margin$}{key:<keys$}  ", "");
        wrap(&mut text, &margin, value, columns);
    }
    text
}

/// A number with its noun: `1 worker`, `2 workers`.
pub fn count(number: u64, what: &str) -> String {
    counted(grouped(number), what)
}

/// A fraction as percent: `81.30 %`.
pub fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// A fraction as percent, or `-` if there is none.
pub fn percent_or_dash(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), percent)
}

/// A score as text: shares in percent, errors as numbers.
pub fn score(metric: Metric, value: f64) -> String {
    metric.written(value)
}

/// A score as text, or `-` if there is none.
pub fn score_or_dash(metric: Metric, value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| score(metric, value))
}

/// A quantity with an SI prefix: `12.30 M`.
pub fn scaled(value: f64) -> String {
    for (prefix, size) in [("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)] {
        if value >= size {
            return format!("{:.2} {prefix}", value / size);
        }
    }
    format!("{value:.0} ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_aligned_and_narrow() {
        let mut table = Table::new(1, 2);
        table.row(["name", "n"]);
        table.row(["a", "100"]);
        assert_eq!(table.lines(), "  name    n\n  a     100\n");
        table.row(["b".repeat(200), String::new()]);
        assert!(table.lines().lines().all(|l| l.chars().count() <= WIDTH));
    }

    #[test]
    fn facts_are_wrapped_below_their_value() {
        let text = facts(&[("a", "word ".repeat(40)), ("long", "x".to_owned())]);
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH));
        assert!(
            text.lines()
                .nth(1)
                .is_some_and(|l| l.starts_with("      word"))
        );
        assert!(text.ends_with("long  x\n"));
        assert_eq!(facts_behind(2, &[("a", "x".to_owned())]), "  a  x\n");
    }

    #[test]
    fn numbers_are_readable() {
        assert_eq!(grouped(1_234_567), "1_234_567");
        assert_eq!(count(1, "worker"), "1 worker");
        assert_eq!(count(2000, "edge"), "2_000 edges");
        assert_eq!(percent(0.8125), "81.25 %");
        assert_eq!(percent_or_dash(Some(0.8125)), "81.25 %");
        assert_eq!(percent_or_dash(None), "-");
        assert_eq!(scaled(12_300_000.0), "12.30 M");
    }
}

//! `gnnc trace`: predicted and measured timelines.

use super::files::{MAX_TRACE, read_text};
use super::output::{Answer, Failure, Output, input};
use super::text::{Table, cut, facts, grouped};
use clap::{Args, Subcommand};
use gnnc::ir::program::trace::{Resource, Row, Total, Trace, TraceDiff, diff};
use gnnc::ir::words::spelling::counted;
use gnnc::ir::words::units::Seconds;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Commands on traces.
#[derive(Subcommand)]
pub enum TraceCommand {
    /// Compare two traces: totals, resources, the largest differences.
    Diff(Diff),
}

/// Arguments of `trace diff`.
#[derive(Args)]
pub struct Diff {
    /// A trace of `gnnc plan --trace` or `gnnc train --trace`.
    a: PathBuf,
    /// The trace to compare it with.
    b: PathBuf,
    /// Number of instructions to list.
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
}

impl TraceCommand {
    /// Runs the command.
    pub fn run(&self, out: &Output) -> Answer {
        match self {
            Self::Diff(command) => command.run(out),
        }
    }
}

impl Diff {
    fn run(&self, out: &Output) -> Answer {
        let (a, b) = (read(&self.a)?, read(&self.b)?);
        let found = diff(&a, &b);
        let described = |path: &Path, trace: &Trace| {
            json!({
                "file": path.display().to_string(),
                "kind": trace.kind,
                "model": trace.model,
                "graph": trace.graph,
                "ranks": trace.ranks,
                "events": trace.events.len(),
            })
        };
        out.report(
            || self.text(&a, &b, &found),
            &json!({
                "a": described(&self.a, &a),
                "b": described(&self.b, &b),
                "totals": found.totals,
                "rows": found.rows,
            }),
        )
    }

    fn text(&self, a: &Trace, b: &Trace, found: &TraceDiff) -> String {
        let describe = |path: &Path, trace: &Trace| {
            let Trace {
                kind,
                model,
                graph,
                ranks,
                ..
            } = trace;
            format!(
                "{kind}, {model} on {graph}, {}: {}",
                counted(ranks, "rank"),
                path.display()
            )
        };
        let mut text = facts(&[("a", describe(&self.a, a)), ("b", describe(&self.b, b))]);
        for total in &found.totals {
            text.push_str(&totals(total));
            let rows: Vec<&Row> = found
                .rows
                .iter()
                .filter(|r| r.phase == total.phase)
                .collect();
            text.push_str(&instructions(&rows[..rows.len().min(self.top)], rows.len()));
        }
        if found.totals.is_empty() {
            text.push_str("\nneither trace has any events\n");
        }
        text
    }
}

fn totals(total: &Total) -> String {
    let [a, b] = total.runs.map(grouped);
    let mut text = format!(
        "\n{}: median of {a} and {b} runs, mean over ranks\n",
        total.phase
    );
    let mut table = Table::new(1, 2);
    table.row(["", "a", "b", "b - a", "b / a"]);
    let mut row = |name: &str, seconds: [Seconds; 2]| table.row(cells(name, seconds.map(Some)));
    row("first start to last end", total.seconds);
    for resource in Resource::ALL {
        row(resource.name(), total.resources[resource as usize]);
    }
    row("waiting for other ranks", total.waiting);
    row("between instructions", total.between);
    text.push_str(&table.lines());
    let [a, b] = total.bytes.map(grouped);
    if total.bytes != [0, 0] {
        text.push_str(&cut(&format!("  sent by all ranks: {a} and {b} bytes")));
        text.push('\n');
    }
    text
}

fn instructions(rows: &[&Row], all: usize) -> String {
    let mut table = Table::new(3, 2);
    table.row(["at", "instruction", "resource", "a", "b", "b - a", "b / a"]);
    for row in rows {
        let [_, a, b, beyond, factor] = cells("", row.seconds);
        let head = [row.at.clone(), row.name.clone(), row.resource.to_string()];
        table.row(head.into_iter().chain([a, b, beyond, factor]));
    }
    let shown = rows.len();
    format!(
        "  largest differences, {shown} of {all} instructions\n{}",
        table.lines()
    )
}

/// Shortest time in seconds that is not shown as 0; less is rounding error.
const SHOWN: f64 = 0.05e-6;

/// A name, both times, their difference and their ratio.
fn cells(name: &str, seconds: [Option<Seconds>; 2]) -> [String; 5] {
    let shown = |s: Option<Seconds>| s.map_or_else(|| "-".to_owned(), |s| s.to_string());
    let (beyond, factor) = match seconds {
        [Some(a), Some(b)] => (
            signed(b.0 - a.0),
            match a.0 >= SHOWN {
                true => format!("{:.2}", b.0 / a.0),
                false => "-".to_owned(),
            },
        ),
        _ => ("-".to_owned(), "-".to_owned()),
    };
    let [a, b] = seconds.map(shown);
    [name.to_owned(), a, b, beyond, factor]
}

/// A difference of times with its sign.
pub fn signed(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "-" } else { "+" };
    format!("{sign}{}", Seconds(seconds.abs()))
}

fn read(path: &Path) -> Result<Trace, Failure> {
    let text = read_text(path, MAX_TRACE)?;
    Trace::from_chrome_json(&text).map_err(|e| input(format!("{}: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_as_nothing_divides_nothing() {
        let quotient = |a: f64| cells("", [a, 1e-5].map(|s| Some(Seconds(s))))[4].clone();
        assert_eq!([1e-19, 0.0, 5e-6].map(quotient), ["-", "-", "2.00"]);
    }
}

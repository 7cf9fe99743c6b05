//! `gnnc diff`: compares two plans.

use super::files::{MAX_PLAN, read_text};
use super::output::{Answer, Failure, Output, input};
use super::text::{Table, facts};
use super::trace::signed;
use clap::Args;
use gnnc::Error;
use gnnc::ir::plan::{Pair, Plan, PlanDiff, diff};
use gnnc::ir::words::units::Bytes;
use gnnc::planner::report::{short_bytes, short_seconds};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `diff`.
#[derive(Args)]
pub struct Diff {
    /// A plan from `gnnc plan --out`.
    a: PathBuf,
    /// The plan to compare it with.
    b: PathBuf,
}

impl Diff {
    /// Reads both plans and prints what differs.
    pub fn run(&self, out: &Output) -> Answer {
        let found = diff(&read(&self.a)?, &read(&self.b)?);
        let files = [&self.a, &self.b].map(|path| path.display().to_string());
        out.report(
            || text(&files, &found),
            &json!({
                "a": files[0],
                "b": files[1],
                "equal": found.equal,
                "changes": found.changes,
                "choice": found.choice,
                "breakdown": found.breakdown,
                "candidates": found.candidates,
            }),
        )
    }
}

/// Reads a plan file.
///
/// # Errors
/// A file that cannot be read or is not a plan; the message says what to do.
pub fn read(path: &Path) -> Result<Plan, Failure> {
    let text = read_text(path, MAX_PLAN)?;
    let shown = path.display();
    if text.contains("\"gnnc-trace\"") && text.contains("traceEvents") {
        return Err(input(format!(
            "{shown} is a trace, expected a plan; `gnnc trace diff` compares traces"
        )));
    }
    Plan::from_json(&text).map_err(|e| input(format!("{shown}: {}", Error::from(e))))
}

fn text(files: &[String; 2], found: &PlanDiff) -> String {
    let mut text = facts(&[("a", files[0].clone()), ("b", files[1].clone())]);
    if found.equal {
        text.push_str("\nthe plans are equal\n");
        return text;
    }
    if !found.changes.is_empty() {
        text.push('\n');
        let lines: Vec<(&str, String)> = found
            .changes
            .iter()
            .map(|c| (c.what.as_str(), format!("{} -> {}", c.says[0], c.says[1])))
            .collect();
        text.push_str(&facts(&lines));
    }
    if let Some(choice) = &found.choice {
        text.push_str("\nchosen candidates\n");
        let mut table = Table::new(1, 2);
        table.row(["", "a", "b", "b - a", "b / a"]);
        table.row(seconds("epoch", choice));
        table.row(amounts("memory", choice.memory));
        table.row(amounts("sent", choice.bytes));
        for kind in found
            .breakdown
            .iter()
            .filter(|k| k.seconds[0] != k.seconds[1])
        {
            table.row(seconds(&kind.name, kind));
        }
        text.push_str(&table.lines());
    }
    text.push_str("\nepoch times of all candidates (> marks the chosen ones)\n");
    let mut table = Table::new(2, 2);
    table.row(["", "candidate", "a", "b", "b - a", "b / a"]);
    for pair in &found.candidates {
        let mark = match pair.chosen {
            [true, true] => ">",
            [true, false] => "> a",
            [false, true] => "> b",
            [false, false] => "",
        };
        let [name, cells @ ..] = seconds(&pair.name, pair);
        table.row([mark.to_owned(), name].into_iter().chain(cells));
    }
    text.push_str(&table.lines());
    text
}

/// A name, both times, their difference and their ratio.
fn seconds(name: &str, pair: &Pair) -> [String; 5] {
    let [a, b] = pair.seconds;
    let shown = |s: Option<_>| {
        s.map_or_else(
            || "-".to_owned(),
            |s: gnnc::ir::words::units::Seconds| short_seconds(s.0),
        )
    };
    let beyond = a.zip(b).map(|(a, b)| signed(b.0 - a.0));
    let factor = a.zip(b).and_then(|(a, b)| quotient(a.0, b.0));
    row(name, [shown(a), shown(b)], beyond, factor)
}

/// A name, both amounts of memory, their difference and their ratio.
fn amounts(name: &str, pair: [Option<Bytes>; 2]) -> [String; 5] {
    let [a, b] = pair;
    let shown = |bytes: Option<Bytes>| bytes.map_or_else(|| "-".to_owned(), |b| short_bytes(b.0));
    let beyond = a.zip(b).map(|(a, b)| {
        let sign = if b < a { "-" } else { "+" };
        format!("{sign}{}", short_bytes(b.0.abs_diff(a.0)))
    });
    let factor = a.zip(b).and_then(|(a, b)| quotient(a.0 as f64, b.0 as f64));
    row(name, [shown(a), shown(b)], beyond, factor)
}

fn quotient(a: f64, b: f64) -> Option<String> {
    (a > 0.0).then(|| format!("{:.2}", b / a))
}

fn row(
    name: &str,
    [a, b]: [String; 2],
    beyond: Option<String>,
    factor: Option<String>,
) -> [String; 5] {
    let none = || "-".to_owned();
    let name = name.to_owned();
    [
        name,
        a,
        b,
        beyond.unwrap_or_else(none),
        factor.unwrap_or_else(none),
    ]
}

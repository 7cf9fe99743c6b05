//! Plans as text for people and as JSON for programs.

use gnnc_ir::cluster::{Basis, Cluster};
use gnnc_ir::plan::{Candidate, Layout, Plan, PlanError, candidate_name};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::workload::Origin;
use std::fmt::Write;

/// Most columns of a report.
const WIDTH: usize = 99;

/// The plan as JSON: equal plans give equal bytes.
///
/// # Errors
/// If a number is not finite.
pub fn json(plan: &Plan) -> Result<String, PlanError> {
    plan.to_json()
}

/// The plan as a table with a reason for each candidate, in fewer than 100 columns, without color.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_text(&mut out, plan);
    out
}

fn write_text(out: &mut String, plan: &Plan) -> std::fmt::Result {
    let (graph, cluster) = (&plan.workload, &plan.cluster);
    let origin = match graph.origin {
        Origin::Measured => "measured",
        Origin::Declared => "declared",
    };
    let head = [
        ("model", plan.model.clone()),
        (
            "graph",
            format!(
                "{}: {}, {}, {}, {} ({origin})",
                graph.name,
                counted(grouped(graph.vertices), "vertex"),
                counted(grouped(graph.edges), "edge"),
                counted(grouped(u64::from(graph.features)), "feature"),
                counted(grouped(u64::from(graph.classes)), "class"),
            ),
        ),
        ("cluster", {
            let mut text = format!(
                "{}: {} of {} x {}",
                cluster.name,
                counted(cluster.nodes, "node"),
                cluster.devices_per_node,
                cluster.device.name
            );
            if cluster.devices_per_node > 1 {
                let _ = write!(text, ", {} inside", cluster.inside.name);
            }
            if cluster.nodes > 1 {
                let _ = write!(text, ", {} between", cluster.between.name);
            }
            text
        }),
        ("objective", plan.objective.to_string()),
    ];
    for (key, value) in head {
        wrap(out, &format!("{key:<11}"), &value);
    }
    out.push('\n');
    let table = table(plan);
    if !table.is_empty() {
        out.push_str(&table);
        out.push('\n');
    }
    for (i, candidate) in plan.candidates.iter().enumerate() {
        wrap(out, &format!("   {:>2}  ", i + 1), &candidate.reason);
    }
    for rejected in &plan.rejected {
        let name = candidate_name(rejected.placement, &rejected.parameters);
        wrap(out, "    -  ", &format!("{name}: {}", rejected.reason));
    }
    out.push('\n');
    match plan.choice() {
        Some(choice) => write_choice(out, choice, &plan.cluster),
        None => wrap(out, "chosen     ", &format!("nothing: {}", unchosen(plan))),
    }
    wrap(out, "glossary   ", "docs/glossary.md");
    Ok(())
}

/// Why a plan chooses nothing, and which permission would choose what.
pub fn unchosen(plan: &Plan) -> String {
    let Some(best) = plan.candidates.first() else {
        let why = if plan.rejected.is_empty() {
            "no candidate matches --pin"
        } else {
            "no candidate can run"
        };
        return why.to_owned();
    };
    // Candidates that fit come before those that do not.
    if !best.fits {
        return "no candidate fits".to_owned();
    }
    let needed = best.relaxations.iter().map(|r| r.permission().name());
    let needed: Vec<&str> = needed.collect();
    format!(
        "no candidate that fits is allowed; --allow {} would choose {}",
        needed.join(","),
        best.name()
    )
}

/// The candidates of a plan, one per line; empty without candidates.
pub fn table(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_table(&mut out, plan);
    out
}

fn write_table(out: &mut String, plan: &Plan) -> std::fmt::Result {
    let names: Vec<String> = plan.candidates.iter().map(Candidate::name).collect();
    let width = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
        .max("candidate".len());
    let mut row = |mark: char, number: &str, name: &str, cells: [&str; 6]| {
        let [epoch, compute, exposed, bubble, sent, memory] = cells;
        let line = format!(
            " {mark} {number:>2}  {name:<width$}  {epoch:>7}  {compute:>7}  {exposed:>7}  {bubble:>7}  {sent:>8}  {memory:>8}"
        );
        writeln!(out, "{}", line.trim_end())
    };
    if !plan.candidates.is_empty() {
        row(
            ' ',
            "#",
            "candidate",
            ["epoch", "compute", "exposed", "bubble", "sent", "memory"],
        )?;
    }
    for (i, candidate) in plan.candidates.iter().enumerate() {
        let mark = if plan.chosen == Some(i) { '>' } else { ' ' };
        let times = [
            candidate.epoch_seconds,
            candidate.compute_seconds,
            candidate.exposed_communication_seconds,
            candidate.bubble_seconds,
        ];
        let [epoch, compute, exposed, bubble] = times.map(|t| short_seconds(t.0));
        let [sent, memory] =
            [candidate.bytes, candidate.peak_memory_bytes].map(|b| short_bytes(b.0));
        let cells = [&epoch, &compute, &exposed, &bubble, &sent, &memory].map(String::as_str);
        row(mark, &(i + 1).to_string(), &names[i], cells)?;
    }
    Ok(())
}

fn write_choice(out: &mut String, choice: &Candidate, cluster: &Cluster) {
    wrap(out, "chosen     ", &choice.name());
    let (low, high) = (choice.range.low, choice.range.high);
    wrap(
        out,
        "epoch      ",
        &format!("{}, between {low} and {high}", choice.epoch_seconds),
    );
    let mut basis = match choice.basis {
        Basis::Measured => measured(cluster),
        Basis::Profile => "built-in machine profile".to_owned(),
        Basis::Declared => "declared or estimated statistics".to_owned(),
    };
    let parameters = &choice.parameters;
    if let (Some(alpha), Some(alpha_basis)) = (parameters.alpha, parameters.alpha_basis) {
        let _ = write!(basis, "; replication factor {alpha:.3} ({alpha_basis})");
    }
    if let (Some(imbalance), Some(how)) =
        (parameters.edge_imbalance, parameters.edge_imbalance_basis)
    {
        let _ = write!(basis, ", edge imbalance {imbalance:.2} ({how})");
    }
    wrap(out, "basis      ", &basis);
    let mut lie: Vec<String> = Vec::new();
    let found = parameters.knobs.layouts();
    if found.features == Layout::Columns {
        lie.push(format!("features by {}", found.features));
    }
    if !found.epoch.is_empty() {
        let (epoch, eval) = (layouts(&found.epoch), layouts(&found.eval));
        lie.push(format!("training {epoch}; evaluation {eval}"));
    }
    if !lie.is_empty() {
        wrap(out, "layouts    ", &lie.join("; "));
    }
    if parameters.knobs.overlap == Some(false) {
        wrap(
            out,
            "overlap    ",
            "none: communication does not overlap with computation",
        );
    }
    if parameters.knobs.interior == Some(true) {
        let says = "interior rows are computed while halo rows are in flight";
        wrap(out, "overlap    ", says);
    }
    let kinds = choice
        .breakdown
        .iter()
        .filter(|kind| kind.seconds.0 > 0.0)
        .take(6);
    let kinds: Vec<String> = kinds
        .map(|kind| format!("{} {}", kind.name, kind.seconds))
        .collect();
    wrap(out, "breakdown  ", &kinds.join(", "));
}

/// Which machine was measured, and when.
fn measured(cluster: &Cluster) -> String {
    let Some(measured) = &cluster.calibration.measured else {
        return "measured".to_owned();
    };
    match measured.machine.as_str() {
        "" => "measured on an unnamed machine".to_owned(),
        machine => format!("measured on {machine}, {}", measured.date),
    }
}

/// Layouts such as `rows, columns x 2, rows`.
fn layouts(list: &[Layout]) -> String {
    let mut runs: Vec<(Layout, usize)> = Vec::new();
    for layout in list {
        match runs.last_mut() {
            Some((last, count)) if last == layout => *count += 1,
            _ => runs.push((*layout, 1)),
        }
    }
    let runs = runs.into_iter().map(|(layout, count)| match count {
        1 => layout.to_string(),
        _ => format!("{layout} x {count}"),
    });
    runs.collect::<Vec<_>>().join(", ")
}

/// A duration in at most 7 columns (up to 10,000 s).
pub fn short_seconds(seconds: f64) -> String {
    let micros = seconds * 1e6;
    match micros {
        m if m <= 0.0 => "0 s".to_owned(),
        m if m < 999.5 => format!("{} us", three_digits(m)),
        m if m < 999.5e3 => format!("{} ms", three_digits(m / 1e3)),
        _ => format!("{} s", three_digits(seconds)),
    }
}

/// An amount of memory in at most 8 columns (up to 10,000 TiB).
pub fn short_bytes(bytes: u64) -> String {
    let (mut value, mut units) = (bytes as f64, ["B", "KiB", "MiB", "GiB", "TiB"].into_iter());
    let mut unit = units.next().unwrap_or_default();
    while value >= 1023.5 {
        let Some(larger) = units.next() else { break };
        (value, unit) = (value / 1024.0, larger);
    }
    if unit == "B" {
        format!("{bytes} B")
    } else {
        format!("{} {unit}", three_digits(value))
    }
}

/// Three significant digits, but all digits before the point.
fn three_digits(value: f64) -> String {
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Appends text behind a margin, wrapped at 99 columns; later lines are indented to match. A number
/// stays on one line with its unit.
pub fn wrap(out: &mut String, margin: &str, text: &str) {
    let indent = " ".repeat(margin.chars().count());
    let mut line = margin.to_owned();
    let mut empty = true;
    for piece in pieces(text) {
        if !empty && line.chars().count() + 1 + piece.chars().count() > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line.clone_from(&indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(&piece);
        empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// Words, keeping a number with the word after it, as in `3.62 ms`.
fn pieces(text: &str) -> Vec<String> {
    let digit = |c: char| c.is_ascii_digit();
    let mut pieces: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match pieces.last_mut() {
            Some(last)
                if last.starts_with(digit)
                    && last.ends_with(digit)
                    && !last.contains(' ')
                    && !word.starts_with(digit) =>
            {
                last.push(' ');
                last.push_str(word);
            }
            _ => pieces.push(word.to_owned()),
        }
    }
    pieces
}

/// A number with grouped thousands: `1_234_567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_with_its_unit() {
        assert_eq!(
            pieces("map 3.62 ms, x 8 9 GiB"),
            ["map", "3.62 ms,", "x", "8", "9 GiB"]
        );
        for length in 0..120 {
            let mut out = String::new();
            let filler = "y".repeat(length % 90);
            wrap(
                &mut out,
                "mostly  ",
                &format!("{filler} gemm 1.57 ms, sent 4.1 GiB"),
            );
            assert!(out.contains("1.57 ms") && out.contains("4.1 GiB"), "{out}");
            assert!(out.lines().all(|l| l.chars().count() <= WIDTH), "{out}");
            assert!(
                out.lines().skip(1).all(|l| l.starts_with("        ")),
                "{out}"
            );
        }
    }

    #[test]
    fn short_numbers_keep_their_width() {
        let mut seconds = 1e-9;
        while seconds < 9_999.0 {
            assert!(
                short_seconds(seconds).len() <= 7,
                "{}",
                short_seconds(seconds)
            );
            seconds *= 1.01;
        }
        let mut bytes = 1.0;
        while bytes < 1e16 {
            assert!(
                short_bytes(bytes as u64).len() <= 8,
                "{}",
                short_bytes(bytes as u64)
            );
            bytes *= 1.01;
        }
        assert_eq!(
            [0.0, 12.34e-6, 0.0999, 0.9996, 123.4].map(short_seconds),
            ["0 s", "12.3 us", "99.9 ms", "1.00 s", "123 s"]
        );
        assert_eq!(
            [0, 1023, 1024, 1 << 30].map(short_bytes),
            ["0 B", "1023 B", "1.00 KiB", "1.00 GiB"]
        );
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1_000", "1_234_567"]
        );
    }
}

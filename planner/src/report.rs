//! Plans as text for people and as JSON for programs.

mod choice;
mod target;
mod words;

pub use choice::cost;
pub use words::{grouped, short_bytes, short_seconds, wrap};

use choice::write_choice;
use gnnc_ir::plan::{Candidate, Objective, Plan, PlanError, candidate_name};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::workload::Origin;
use std::fmt::Write;

/// Columns of a report for no particular terminal.
pub const WIDTH: usize = 99;

/// What a report shows of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Columns at which lines are wrapped. Lines of tables may have [`WIDTH`] nevertheless.
    pub width: usize,
    /// Most candidates to list; `None` lists all.
    pub most: Option<usize>,
    /// Whether to show where the time of each candidate goes and the reasons for its rank.
    pub why: bool,
}

impl Default for View {
    /// The best five candidates, without reasons.
    fn default() -> Self {
        Self {
            width: WIDTH,
            most: Some(5),
            why: false,
        }
    }
}

/// The plan as JSON: equal plans give equal bytes.
///
/// # Errors
/// If a number is not finite.
pub fn json(plan: &Plan) -> Result<String, PlanError> {
    plan.to_json()
}

/// The plan as a table of its candidates and facts about the chosen one, without color.
pub fn text(plan: &Plan, view: &View) -> String {
    let mut out = String::new();
    let (graph, cluster) = (&plan.workload, &plan.cluster);
    let to_target = plan.objective == Objective::TimeToAccuracy;
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
            if !cluster.software.is_own() {
                let software = &cluster.software;
                let [launch, message] = [software.launch, software.message];
                let name = &software.name;
                let _ = write!(
                    text,
                    ", software {name} (kernels take {launch} at least, messages {message} to start)"
                );
            }
            text
        }),
        (
            "objective",
            match to_target {
                true => target::objective(plan),
                false => plan.objective.to_string(),
            },
        ),
    ];
    for (key, value) in head {
        wrap(&mut out, &format!("{key:<11}"), &value, view.width);
    }
    out.push('\n');
    let most = view.most.unwrap_or(usize::MAX);
    // The best candidate of each class is always shown.
    let most = most.max(target::best_of_classes(plan));
    let listed = most.min(plan.candidates.len());
    let listed = &plan.candidates[..listed];
    match (to_target, view.why) {
        (true, _) => out.push_str(&target::table(plan, listed)),
        (false, true) => out.push_str(&table_of_times(plan, listed)),
        (false, false) => out.push_str(&table_of_fits(plan, listed)),
    }
    let mut more = |text: &str| wrap(&mut out, "        ", text, view.width);
    let left = plan.candidates.len() - listed.len();
    if left > 0 {
        more(&format!(
            "and {}; --all lists them",
            counted(left, "more candidate")
        ));
    }
    let told = view.why || plan.candidates.is_empty();
    if !told && !plan.rejected.is_empty() {
        let kinds = counted(plan.rejected.len(), "placement");
        more(&format!("not possible: {kinds}; --why says why"));
    }
    if !plan.candidates.is_empty() {
        out.push('\n');
    }
    if to_target {
        target::write_classes(&mut out, plan, view);
    }
    if view.why {
        for (number, candidate) in (1..).zip(listed) {
            wrap(
                &mut out,
                &format!("   {number:>2}  "),
                &candidate.reason,
                view.width,
            );
        }
    }
    if told {
        for rejected in &plan.rejected {
            let name = candidate_name(rejected.placement, &rejected.parameters);
            let says = format!("{name}: {}", rejected.reason);
            wrap(&mut out, "    -  ", &says, view.width);
        }
        if !(listed.is_empty() && plan.rejected.is_empty()) {
            out.push('\n');
        }
    }
    write_choice(&mut out, plan, view);
    wrap(&mut out, "glossary   ", "docs/glossary.md", view.width);
    out
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
    if let Some(goal) = plan.goal.as_ref().filter(|_| best.allowed) {
        return format!(
            "no candidate that fits and is allowed is of a class that reached {} in the pilot; give it a larger budget or \
             more epochs, or a lower target",
            goal.score()
        );
    }
    format!(
        "no candidate that fits is allowed; --allow {} would choose {}",
        permissions(best),
        best.name()
    )
}

/// What `--allow` must name for a candidate.
fn permissions(candidate: &Candidate) -> String {
    let needed = candidate.relaxations.iter();
    let mut needed: Vec<&str> = needed.map(|r| r.permission().name()).collect();
    needed.dedup();
    needed.join(",")
}

/// All candidates of a plan with where their time goes, one per line; empty without candidates.
pub fn table(plan: &Plan) -> String {
    table_of_times(plan, &plan.candidates)
}

/// A line of a table of candidates.
struct Row<'a> {
    chosen: bool,
    /// Number of the candidate; empty in the head.
    number: String,
    name: String,
    /// Cells and their widths; the last one may be longer.
    cells: &'a [(String, usize)],
}

impl Row<'_> {
    fn line(&self, width: usize) -> String {
        let mark = if self.chosen { '>' } else { ' ' };
        let mut line = format!(" {mark} {:>2}  {:<width$}", self.number, self.name);
        for (cell, width) in self.cells {
            let _ = write!(line, "  {cell:>width$}");
        }
        format!("{}\n", line.trim_end())
    }
}

/// A table of candidates; `cells` are those of a candidate, or of the head.
fn rows(
    plan: &Plan,
    listed: &[Candidate],
    cells: impl Fn(Option<&Candidate>) -> Vec<(String, usize)>,
) -> String {
    let head = "candidate".to_owned();
    let mut names: Vec<String> = listed.iter().map(Candidate::name).collect();
    names.insert(0, head);
    let width = names.iter().map(|name| name.chars().count()).max();
    let all = std::iter::once(None).chain(listed.iter().map(Some));
    let lines = names
        .into_iter()
        .zip(all)
        .enumerate()
        .map(|(i, (name, candidate))| {
            let row = Row {
                chosen: candidate.is_some() && plan.chosen.map(|chosen| chosen + 1) == Some(i),
                number: candidate.map_or_else(|| "#".to_owned(), |_| i.to_string()),
                name,
                cells: &cells(candidate),
            };
            row.line(width.unwrap_or(0))
        });
    match listed.is_empty() {
        true => String::new(),
        false => lines.collect(),
    }
}

/// Where the time of each candidate goes.
fn table_of_times(plan: &Plan, listed: &[Candidate]) -> String {
    rows(plan, listed, |candidate| {
        let heads = ["epoch", "compute", "exposed", "bubble", "sent", "memory"];
        let widths = [7, 7, 7, 7, 8, 8];
        let cells = match candidate {
            None => heads.map(str::to_owned),
            Some(candidate) => [
                short_seconds(candidate.epoch_seconds.0),
                short_seconds(candidate.compute_seconds.0),
                short_seconds(candidate.exposed_communication_seconds.0),
                short_seconds(candidate.bubble_seconds.0),
                short_bytes(candidate.bytes.0),
                short_bytes(candidate.peak_memory_bytes.0),
            ],
        };
        cells.into_iter().zip(widths).collect()
    })
}

/// Whether each candidate fits and is allowed.
fn table_of_fits(plan: &Plan, listed: &[Candidate]) -> String {
    rows(plan, listed, |candidate| {
        let heads = ["epoch", "sent", "memory", "fits", "allowed"];
        let cells = match candidate {
            None => heads.map(str::to_owned),
            Some(candidate) => [
                short_seconds(candidate.epoch_seconds.0),
                short_bytes(candidate.bytes.0),
                short_bytes(candidate.peak_memory_bytes.0),
                match (candidate.fits, candidate.host) {
                    (false, _) => "no".to_owned(),
                    (true, Some(_)) => "host".to_owned(),
                    (true, None) => "fits".to_owned(),
                },
                match candidate.allowed {
                    true => "allowed".to_owned(),
                    false => format!("needs --allow {}", permissions(candidate)),
                },
            ],
        };
        cells.into_iter().zip([7, 8, 8, 4, 0]).collect()
    })
}

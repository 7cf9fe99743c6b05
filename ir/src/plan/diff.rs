//! Comparison of two plans.

use super::{Candidate, Layout, Plan};
use crate::words::units::{Bytes, Seconds};
use serde::Serialize;
use std::collections::BTreeMap;

/// A fact that two plans state differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Name of the fact.
    pub what: String,
    /// What each plan states.
    pub says: [String; 2],
}

/// What two plans expect of one candidate, or of one kind of its instructions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// The candidate, or the name of the instructions.
    pub name: String,
    /// Time of an epoch; `None` if a plan lacks it.
    pub seconds: [Option<Seconds>; 2],
    /// Bytes sent in an epoch; `None` for instructions.
    pub bytes: [Option<Bytes>; 2],
    /// Peak memory; `None` for instructions.
    pub memory: [Option<Bytes>; 2],
    /// Whether it is each plan's choice.
    pub chosen: [bool; 2],
}

/// The differences of two plans.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanDiff {
    /// Whether the plans are equal, except for the wording of reasons.
    pub equal: bool,
    /// Differences in what the plans were made for and in what they choose.
    pub changes: Vec<Change>,
    /// The two choices side by side.
    pub choice: Option<Pair>,
    /// The choices' epochs by kind of instruction, largest difference first.
    pub breakdown: Vec<Pair>,
    /// Candidates in the order of the first plan, then those found only in the second.
    pub candidates: Vec<Pair>,
}

/// Compares two plans.
pub fn diff(a: &Plan, b: &Plan) -> PlanDiff {
    let choices = [a.choice(), b.choice()];
    let changes = changes(a, b);
    let candidates = candidates([a, b]);
    let choice = (choices != [None, None]).then(|| pair("chosen", choices, [true; 2]));
    let same = |p: &Pair| {
        p.seconds[0] == p.seconds[1] && p.bytes[0] == p.bytes[1] && p.memory[0] == p.memory[1]
    };
    PlanDiff {
        equal: changes.is_empty() && candidates.iter().all(same),
        changes,
        choice,
        breakdown: breakdown(choices),
        candidates,
    }
}

fn changes(a: &Plan, b: &Plan) -> Vec<Change> {
    let says = |plan: &Plan| -> Vec<(&'static str, String)> {
        let (graph, cluster) = (&plan.workload, &plan.cluster);
        let source = plan.source.clone().unwrap_or_default();
        let devices = format!(
            "{} x {} {}",
            cluster.nodes, cluster.devices_per_node, cluster.device.name
        );
        let chosen = plan
            .choice()
            .map_or_else(|| "nothing".to_owned(), Candidate::name);
        vec![
            ("model", plan.model.clone()),
            ("model's operators", source.fingerprint),
            ("graph", graph.name.clone()),
            ("vertices", graph.vertices.to_string()),
            ("edges", graph.edges.to_string()),
            ("features", graph.features.to_string()),
            ("classes", graph.classes.to_string()),
            ("cluster", cluster.name.clone()),
            ("devices", devices),
            ("device memory", cluster.device.memory.to_string()),
            ("calibration", cluster.calibration.basis.to_string()),
            ("objective", plan.objective.to_string()),
            ("chosen", chosen),
            ("layouts", layouts(plan.choice())),
        ]
    };
    let pairs = says(a).into_iter().zip(says(b));
    pairs
        .filter(|(a, b)| a.1 != b.1)
        .map(|((what, a), (_, b))| Change {
            what: what.to_owned(),
            says: [a, b],
        })
        .collect()
}

/// Layouts of a mixed placement, as text.
fn layouts(choice: Option<&Candidate>) -> String {
    let Some(layouts) = choice.map(|c| c.parameters.knobs.layouts()) else {
        return "none".to_owned();
    };
    let by_columns = layouts.features == Layout::Columns;
    let features = by_columns.then(|| format!("features {}", layouts.features));
    let list = |what: &str, list: &[Layout]| {
        let names: Vec<&str> = list.iter().map(|l| l.name()).collect();
        (!names.is_empty()).then(|| format!("{what} {}", names.join(" ")))
    };
    let lists = [
        features,
        list("training", &layouts.epoch),
        list("evaluation", &layouts.eval),
    ];
    let said: Vec<String> = lists.into_iter().flatten().collect();
    match said.is_empty() {
        true => "not mixed".to_owned(),
        false => said.join(", "),
    }
}

fn candidates(plans: [&Plan; 2]) -> Vec<Pair> {
    // Candidates of several classes may share a placement.
    let named = |candidate: &Candidate| match &candidate.to_target {
        Some(known) => format!("{} ({})", candidate.name(), known.class),
        None => candidate.name(),
    };
    let mut names: Vec<String> = Vec::new();
    for candidate in plans.iter().flat_map(|plan| &plan.candidates) {
        let name = named(candidate);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let find = |plan: &Plan, name: &str| plan.candidates.iter().position(|c| named(c) == name);
    names
        .iter()
        .map(|name| {
            let found = plans.map(|plan| find(plan, name));
            let of = |i: usize| found[i].and_then(|n| plans[i].candidates.get(n));
            let chosen = [0, 1].map(|i| found[i].is_some() && found[i] == plans[i].chosen);
            pair(name, [of(0), of(1)], chosen)
        })
        .collect()
}

fn pair(name: &str, found: [Option<&Candidate>; 2], chosen: [bool; 2]) -> Pair {
    Pair {
        name: name.to_owned(),
        seconds: found.map(|c| c.map(|c| c.epoch_seconds)),
        bytes: found.map(|c| c.map(|c| c.bytes)),
        memory: found.map(|c| c.map(|c| c.peak_memory_bytes)),
        chosen,
    }
}

fn breakdown(choices: [Option<&Candidate>; 2]) -> Vec<Pair> {
    let mut kinds: BTreeMap<&str, [Option<Seconds>; 2]> = BTreeMap::new();
    for (i, choice) in choices.iter().enumerate() {
        for kind in choice.iter().flat_map(|c| &c.breakdown) {
            kinds.entry(&kind.name).or_default()[i] = Some(kind.seconds);
        }
    }
    let waiting = choices.map(|choice| choice.map(|c| c.bubble_seconds));
    kinds.insert("waiting for other ranks", waiting);
    let mut pairs: Vec<Pair> = kinds
        .into_iter()
        .map(|(name, seconds)| Pair {
            seconds,
            ..pair(name, [None; 2], [false; 2])
        })
        .collect();
    let beyond = |p: &Pair| {
        let [a, b] = p.seconds.map(|s| s.map_or(0.0, |s| s.0));
        (b - a).abs()
    };
    pairs.sort_by(|a, b| beyond(b).total_cmp(&beyond(a)));
    pairs
}

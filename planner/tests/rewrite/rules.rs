//! One file per rule in `rules/`: what it proves, and what must not be proved.
//!
//! Cases are separated by blank lines. A case is a graph without result, a line `from`, and
//! lines to compare it with:
//! - `to`: the rule alone, applied once, leads there, and the numbers agree;
//! - `not`: all rules together do not lead there, and the numbers differ;
//! - `unproved`: all rules together do not lead there, though the numbers may agree.

use crate::{numbers, text};
use gnnc_ir::words::types::NamedEdges;
use gnnc_ir::{Graph, Op};
use gnnc_planner::facts::{Facts, Known, Value};
use gnnc_planner::language::{EGraph, ENode, Symbol, Values};
use gnnc_planner::proof::{Explanation, Step, check_explanation};
use gnnc_planner::rules::{find, table};
use gnnc_planner::saturate::step;
use std::collections::BTreeSet;
use std::path::Path;

const FACTS: Facts = Facts {
    named_edges: NamedEdges::NONE,
    vertices: 7,
    edges: 11,
    features: 4,
    feature_nonzeros: 28,
    sparse_features: false,
    classes: 2,
    train: true,
};

/// Names and texts of the case files.
fn files() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rewrite/rules");
    let mut files: Vec<(String, String)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// `(kind, from, to)` of every comparison in a file.
fn cases(file: &str) -> Vec<(String, Graph, Graph)> {
    let mut cases = Vec::new();
    for block in file.split("\n\n") {
        let lines: Vec<&str> = block
            .lines()
            .map(|line| line.split('#').next().unwrap().trim())
            .filter(|line| !line.is_empty())
            .collect();
        let is_case = |line: &&&str| {
            ["from ", "to ", "not ", "unproved "]
                .iter()
                .any(|word| line.starts_with(word))
        };
        let setup: Vec<&str> = lines
            .iter()
            .filter(|line| !is_case(line))
            .copied()
            .collect();
        let graph = |expr: &str| text::graph(&format!("{}\nresult {expr}", setup.join("\n")));
        let mut from = None;
        for line in lines.iter().filter(is_case) {
            let (kind, expr) = line.split_once(' ').unwrap();
            match (kind, &from) {
                ("from", _) => from = Some(graph(expr)),
                (_, Some(from)) => cases.push((kind.to_owned(), from.clone(), graph(expr))),
                _ => panic!("`{line}` comes before `from`"),
            }
        }
        assert!(
            lines.is_empty() || from.is_some(),
            "a case without `from`:\n{block}"
        );
    }
    cases
}

fn leaves(graph: &Graph) -> Vec<Value> {
    graph
        .args
        .iter()
        .map(|ty| Value {
            ty: *ty,
            known: Known::PARAM,
        })
        .collect()
}

/// Adds a graph with arguments to an e-graph.
fn add(egraph: &mut EGraph, graph: &Graph) -> egg::Id {
    let mut ids: Vec<egg::Id> = Vec::new();
    for node in &graph.nodes {
        let symbol = match &node.op {
            Op::Arg(n) => Symbol::Leaf(*n),
            op => Symbol::Op(op.clone()),
        };
        let kids = node.inputs.iter().map(|id| ids[id.0 as usize]).collect();
        ids.push(egraph.add(ENode { symbol, kids }));
    }
    ids[graph.results[0].0 as usize]
}

/// Whether the rules prove two graphs equal.
fn proved(from: &Graph, to: &Graph) -> bool {
    let mut egraph = EGraph::new(Values::new(FACTS, from.features, leaves(from)));
    let (a, b) = (add(&mut egraph, from), add(&mut egraph, to));
    egraph.rebuild();
    let rules: Vec<_> = table().collect();
    for _ in 0..10 {
        if !step(&mut egraph, &rules, 5000).changed {
            break;
        }
    }
    assert_eq!(egraph.analysis.fault, None);
    egraph.find(a) == egraph.find(b)
}

/// Whether one application of a rule leads from one graph to another.
fn follows(rule: &str, from: &Graph, to: &Graph) -> bool {
    let leaves = leaves(from).iter().map(|leaf| leaf.known).collect();
    let step = Step {
        rule: rule.to_owned(),
        forward: true,
        graph: to.clone(),
    };
    let explanation = Explanation {
        leaves,
        start: from.clone(),
        steps: vec![step],
    };
    check_explanation(&explanation, &FACTS).is_ok()
}

#[test]
fn every_rule_has_cases_and_every_file_a_rule() {
    let files = files();
    for (name, text) in &files {
        assert!(find(name).is_some(), "{name}.txt: there is no such rule");
        let kinds: BTreeSet<String> = cases(text).into_iter().map(|(kind, ..)| kind).collect();
        assert!(kinds.contains("to"), "{name}.txt has no positive case");
        let negative = kinds.contains("not") || kinds.contains("unproved");
        assert!(negative, "{name}.txt has no negative case");
    }
    let names: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    let missing: Vec<&str> = table()
        .map(|rule| rule.name)
        .filter(|name| !names.contains(name))
        .collect();
    assert!(
        missing.is_empty(),
        "rules without a file in tests/rewrite/rules: {missing:?}"
    );
    let unique: BTreeSet<&str> = table().map(|rule| rule.name).collect();
    assert_eq!(unique.len(), table().count(), "two rules have one name");
}

#[test]
fn rules_prove_what_their_files_say() {
    let mut failures = Vec::new();
    for (name, text) in files() {
        for (kind, from, to) in cases(&text) {
            let shown = format!("{name}.txt, {kind}:\n{from}{to}");
            let agree = numbers::agree(&from, &to);
            match kind.as_str() {
                "to" => {
                    if !follows(&name, &from, &to) {
                        failures.push(format!("not proved: {shown}"));
                    }
                    if !agree {
                        failures.push(format!("the numbers differ: {shown}"));
                    }
                }
                _ => {
                    if proved(&from, &to) {
                        failures.push(format!("proved: {shown}"));
                    }
                    if kind == "not" && agree {
                        failures.push(format!("the numbers agree: {shown}"));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_reference_lists_every_rule() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/rewrites.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rules = text.lines().skip_while(|line| *line != "## Rules").skip(1);
    let written: Vec<&str> = rules
        .take_while(|line| !line.starts_with("## "))
        .filter(|line| line.starts_with("| `"))
        .collect();
    let expected: Vec<String> = table()
        .map(|rule| {
            format!(
                "| `{}` | `{}` | {} | {} |",
                rule.name, rule.equation, rule.condition, rule.source
            )
        })
        .collect();
    assert_eq!(
        written.join("\n"),
        expected.join("\n"),
        "docs/rewrites.md: the tables differ"
    );
}

//! Equality saturation: applies rules until nothing new is found or a bound is reached.
//!
//! Bounds count iterations and e-nodes, never time. Matches are applied in the order of class,
//! e-node and rule. The outcome is a function of the initial term.

use crate::language::{EGraph, ENode, Symbol, Values};
use crate::rules::{Found, Rule, Term, View};
use egg::{Id, Language, RecExpr};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Why saturation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// No rule finds anything new.
    Saturated,
    /// The bound on iterations was reached.
    Iterations,
    /// The bound on e-nodes was reached.
    Nodes,
}

/// Bounds of a saturation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most iterations.
    pub iterations: u32,
    /// Most e-nodes.
    pub nodes: usize,
}

/// A saturated e-graph.
pub struct Saturated {
    /// The e-graph, rebuilt.
    pub egraph: EGraph,
    /// The class of the initial term.
    pub root: Id,
    /// Iterations run.
    pub iterations: u32,
    /// Why it ended.
    pub stop: Stop,
    /// Names of the rules that matched somewhere.
    pub matched: BTreeSet<&'static str>,
}

/// The effect of one iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Whether any two values were newly found equal.
    pub changed: bool,
    /// Whether the bound on e-nodes was reached.
    pub full: bool,
    /// Names of the rules that matched somewhere.
    pub matched: BTreeSet<&'static str>,
}

/// Saturates a term with rules.
pub fn saturate(
    values: Values,
    term: &RecExpr<ENode>,
    rules: &[&'static Rule],
    limits: Limits,
    explain: bool,
) -> Saturated {
    let mut egraph = EGraph::new(values);
    if explain {
        egraph = egraph
            .with_explanations_enabled()
            .without_explanation_length_optimization();
    }
    let root = egraph.add_expr(term);
    egraph.rebuild();
    let (mut iterations, mut stop) = (0, Stop::Iterations);
    let mut matched = BTreeSet::new();
    while iterations < limits.iterations {
        iterations += 1;
        let outcome = step(&mut egraph, rules, limits.nodes);
        matched.extend(outcome.matched);
        if outcome.full {
            stop = Stop::Nodes;
            break;
        }
        if !outcome.changed {
            stop = Stop::Saturated;
            break;
        }
    }
    let root = egraph.find(root);
    Saturated {
        egraph,
        root,
        iterations,
        stop,
        matched,
    }
}

/// Applies every match once, up to a bound on e-nodes.
pub fn step(egraph: &mut EGraph, rules: &[&'static Rule], nodes: usize) -> Outcome {
    let mut outcome = Outcome::default();
    for (rule, left, right) in matches(egraph, rules, &mut outcome.matched) {
        if egraph.total_size() > nodes {
            outcome.full = true;
            break;
        }
        outcome.changed |= merge(egraph, rule, &left, &right);
    }
    egraph.rebuild();
    outcome
}

/// Every match that adds something new, as `(rule, found term, equal term)`.
fn matches(
    egraph: &mut EGraph,
    rules: &[&'static Rule],
    matched: &mut BTreeSet<&'static str>,
) -> Vec<(&'static Rule, Term, Term)> {
    let mut classes: Vec<Id> = egraph.classes().map(|class| class.id).collect();
    classes.sort_unstable();
    let view = View::new(egraph);
    let (mut all, mut fault) = (Vec::new(), None);
    for class in classes {
        for node in &egraph[class].nodes {
            let Symbol::Op(op) = &node.symbol else {
                continue;
            };
            for rule in rules {
                let mut found = Found::default();
                (rule.search)(&view, op, node.children(), &mut found);
                if !found.pairs.is_empty() {
                    matched.insert(rule.name);
                }
                for (left, right) in found.pairs {
                    if lookup(egraph, &left) != Some(class) {
                        let name = rule.name;
                        fault.get_or_insert(format!("rule `{name}` found what is not there"));
                    } else if lookup(egraph, &right) != Some(class) {
                        all.push((*rule, left, right));
                    }
                }
            }
        }
    }
    if egraph.analysis.fault.is_none() {
        egraph.analysis.fault = fault;
    }
    all
}

/// Makes two terms equal if their types are. Returns whether that was new.
fn merge(egraph: &mut EGraph, rule: &Rule, left: &Term, right: &Term) -> bool {
    let (Some(old), Some(new)) = (left.value(egraph), right.value(egraph)) else {
        return false;
    };
    if old.ty != new.ty {
        return false;
    }
    let (left, right) = (left.add(egraph), right.add(egraph));
    egraph.union_trusted(left, right, rule.name)
}

/// The class of a term that is in the e-graph.
fn lookup(egraph: &EGraph, term: &Term) -> Option<Id> {
    match term {
        Term::Class(id) => Some(egraph.find(*id)),
        Term::Apply(op, kids) => {
            let kids: Option<Vec<Id>> = kids.iter().map(|kid| lookup(egraph, kid)).collect();
            egraph.lookup(ENode::op(op.clone(), kids?))
        }
    }
}

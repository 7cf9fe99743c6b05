//! Extraction: the cheapest term of an e-graph, counting shared values once.
//!
//! A greedy choice is improved by exchanging single nodes. Small problems then go to an integer
//! program (`ilp`). The printed term breaks ties.

mod ilp;

use crate::cost::{picked, work};
use crate::facts::Value;
use crate::language::{EGraph, ENode, Symbol};
use egg::{Id, Language, RecExpr};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How the chosen term was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The integer program proved it the cheapest.
    Optimal,
    /// Greedy choice, improved by single exchanges; the problem is too large for a proof.
    Greedy,
}

/// The classes below a root, and the costs of their nodes.
pub(crate) struct Problem {
    /// Nodes of each class; class 0 is the root.
    classes: Vec<Vec<Candidate>>,
}

/// A node that can compute its class.
#[derive(Clone, Debug)]
struct Candidate {
    node: ENode,
    seconds: f64,
    /// Classes of the operands, in order.
    kids: Vec<usize>,
}

/// The chosen candidate of each class in a term.
type Choice = BTreeMap<usize, usize>;

/// Relative difference below which costs count as equal.
const EQUAL: f64 = 1e-9;

/// The cheapest term of class `root`, and how it was found. The integer program is skipped if there
/// are more than `ilp_variables` undecided nodes.
pub fn extract(egraph: &EGraph, root: Id, ilp_variables: usize) -> (RecExpr<ENode>, Method) {
    let mut problem = Problem::new(egraph, root);
    let tree = problem.tree();
    let mut best = problem.needed(|class| tree[class]);
    let greedy = problem.greedy_choice();
    if problem.cost(&greedy).unwrap_or(f64::INFINITY) < problem.cost(&best).unwrap_or(f64::INFINITY)
    {
        best = greedy;
    }
    problem.improve(&mut best);
    let bound = problem.cost(&best).unwrap_or(f64::INFINITY);
    problem.prune(&best, bound);
    let mut method = Method::Greedy;
    if problem.undecided() <= ilp_variables
        && let Some(choice) = ilp::solve(&problem, bound)
    {
        method = Method::Optimal;
        if problem.cost(&choice).unwrap_or(f64::INFINITY) < bound * (1.0 - EQUAL) {
            best = choice;
            problem.improve(&mut best);
        }
    }
    (problem.term(&best), method)
}

/// A term as text, naming shared values once; breaks ties between equal costs.
fn print(problem: &Problem, choice: &Choice) -> String {
    let mut text = String::new();
    for node in problem.term(choice).iter() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}{:?}", node.symbol, node.kids);
    }
    text
}

impl Problem {
    fn new(egraph: &EGraph, root: Id) -> Self {
        let mut number = BTreeMap::from([(egraph.find(root), 0)]);
        let mut order = vec![egraph.find(root)];
        let mut classes = Vec::new();
        let facts = &egraph.analysis.facts;
        while let Some(id) = order.get(classes.len()).copied() {
            let class = &egraph[id];
            let mut candidates = Vec::with_capacity(class.nodes.len());
            for node in &class.nodes {
                let mut kids = Vec::with_capacity(node.kids.len());
                for kid in node.children() {
                    let kid = egraph.find(*kid);
                    let next = number.len();
                    kids.push(*number.entry(kid).or_insert(next));
                    if number.len() > next {
                        order.push(kid);
                    }
                }
                candidates.push(Candidate {
                    node: node.clone(),
                    seconds: 0.0,
                    kids,
                });
            }
            candidates.retain(|c| !c.kids.contains(&classes.len()));
            classes.push(candidates);
        }
        let all = classes.iter().flatten();
        let picked = picked(classes.len(), all.map(|c| (&c.node.symbol, &c.kids[..])));
        for ((candidates, id), picked) in classes.iter_mut().zip(order).zip(picked) {
            for candidate in candidates {
                let kids = candidate.node.kids.iter();
                let values: Vec<Value> = kids.map(|kid| egraph[*kid].data).collect();
                if let Symbol::Op(op) = &candidate.node.symbol {
                    let work = work(op, egraph[id].data, &values, facts, picked);
                    candidate.seconds = work.seconds;
                }
            }
        }
        Self { classes }
    }

    /// The cheapest node of every class, counting shared values every time; never cyclic.
    fn tree(&self) -> Vec<usize> {
        let mut best = vec![(f64::INFINITY, 0); self.classes.len()];
        loop {
            let mut changed = false;
            for (class, candidates) in self.classes.iter().enumerate() {
                for (i, c) in candidates.iter().enumerate() {
                    // The small constant makes every node cost something, which rules out cycles.
                    let kids: f64 = c.kids.iter().map(|kid| best[*kid].0).sum();
                    let cost = 1e-12 + c.seconds + kids;
                    if cost < best[class].0 * (1.0 - EQUAL) {
                        (best[class], changed) = ((cost, i), true);
                    }
                }
            }
            if !changed {
                return best.into_iter().map(|(_, i)| i).collect();
            }
        }
    }

    /// Greedy choice that counts shared values once: each class remembers all classes below its
    /// best node, and a node costs the union of its operands' sets.
    fn greedy_choice(&self) -> Choice {
        let n = self.classes.len();
        let words = n.div_ceil(64);
        let mut best: Vec<Option<(f64, usize, Vec<u64>)>> = vec![None; n];
        let mut own = vec![0.0; n];
        // Sets grow stale as choices below change; a few rounds settle nearly all of them.
        for _ in 0..n.min(30) {
            let mut changed = false;
            for (class, candidates) in self.classes.iter().enumerate() {
                for (i, c) in candidates.iter().enumerate() {
                    let mut set = vec![0u64; words];
                    let known = c.kids.iter().all(|kid| match &best[*kid] {
                        Some((.., below)) => {
                            set.iter_mut().zip(below).for_each(|(a, b)| *a |= b);
                            true
                        }
                        None => false,
                    });
                    if !known || set[class / 64] >> (class % 64) & 1 == 1 {
                        continue;
                    }
                    let below: f64 = bits(&set).map(|member| own[member]).sum();
                    let cost = c.seconds + below;
                    if best[class]
                        .as_ref()
                        .is_none_or(|(old, ..)| cost < old * (1.0 - EQUAL))
                    {
                        set[class / 64] |= 1 << (class % 64);
                        own[class] = c.seconds;
                        best[class] = Some((cost, i, set));
                        changed = true;
                    }
                }
            }
            if !changed {
                break;
            }
        }
        self.needed(|class| best[class].as_ref().map_or(0, |(_, i, _)| *i))
    }

    /// The part of a choice that the root needs.
    fn needed(&self, chosen: impl Fn(usize) -> usize) -> Choice {
        let mut choice = Choice::new();
        let mut work = vec![0];
        while let Some(class) = work.pop() {
            if choice.contains_key(&class) {
                continue;
            }
            choice.insert(class, chosen(class));
            if let Some(c) = self.classes[class].get(chosen(class)) {
                work.extend(&c.kids);
            }
        }
        choice
    }

    /// Seconds of the part of a choice that the root needs; `None` if it is cyclic or incomplete.
    fn cost(&self, choice: &Choice) -> Option<f64> {
        let mut cost = 0.0;
        for class in self.order(choice)? {
            cost += self.classes[class][choice[&class]].seconds;
        }
        Some(cost)
    }

    /// Classes the root needs, operands first; `None` if a choice is cyclic or incomplete.
    fn order(&self, choice: &Choice) -> Option<Vec<usize>> {
        #[derive(Clone, Copy, PartialEq)]
        enum State {
            New,
            Open,
            Done,
        }
        let mut state = vec![State::New; self.classes.len()];
        let mut order = Vec::new();
        let mut stack = vec![0];
        while let Some(class) = stack.last().copied() {
            let kids = &self.classes[class].get(*choice.get(&class)?)?.kids;
            match state[class] {
                State::Done => {
                    stack.pop();
                }
                State::New => {
                    state[class] = State::Open;
                    for kid in kids.iter().rev() {
                        match state[*kid] {
                            State::New => stack.push(*kid),
                            State::Open => return None,
                            State::Done => {}
                        }
                    }
                }
                State::Open => {
                    state[class] = State::Done;
                    order.push(class);
                    stack.pop();
                }
            }
        }
        Some(order)
    }

    /// Exchanges single nodes as long as the term gets cheaper, or stays equal and prints earlier.
    /// Newly needed classes are computed by their cheapest tree.
    fn improve(&self, choice: &mut Choice) {
        let fallback = self.tree();
        let Some(mut cost) = self.cost(choice) else {
            return;
        };
        let mut text = print(self, choice);
        loop {
            let mut changed = false;
            for class in self.order(choice).unwrap_or_default() {
                let Some(current) = choice.get(&class).copied() else {
                    continue;
                };
                for i in (0..self.classes[class].len()).filter(|i| *i != current) {
                    let pick = |c: usize| match choice.get(&c) {
                        _ if c == class => i,
                        Some(old) => *old,
                        None => fallback[c],
                    };
                    let other = self.needed(pick);
                    let Some(new) = self.cost(&other) else {
                        continue;
                    };
                    if new > cost * (1.0 + EQUAL) {
                        continue;
                    }
                    let printed = print(self, &other);
                    if new < cost * (1.0 - EQUAL) || printed < text {
                        (*choice, cost, text, changed) = (other, new, printed, true);
                        break;
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// Drops nodes that no term cheaper than `bound` can contain, except those in `keep`.
    fn prune(&mut self, keep: &Choice, bound: f64) {
        // A term costs at least any of its nodes plus the costliest chain below that node.
        let mut least = vec![0.0f64; self.classes.len()];
        let chain = |c: &Candidate, least: &[f64]| {
            c.seconds + c.kids.iter().map(|kid| least[*kid]).fold(0.0, f64::max)
        };
        for _ in 0..self.classes.len() {
            let mut changed = false;
            for class in 0..self.classes.len() {
                let value = self.classes[class]
                    .iter()
                    .map(|c| chain(c, &least))
                    .fold(f64::INFINITY, f64::min);
                changed |= value > least[class];
                least[class] = least[class].max(value);
            }
            if !changed {
                break;
            }
        }
        for (class, candidates) in self.classes.iter_mut().enumerate() {
            let kept = keep.get(&class).copied();
            for i in 0..candidates.len() {
                let c = &candidates[i];
                let dominated = candidates.iter().enumerate().any(|(j, d)| {
                    let subset = d.kids.iter().all(|kid| c.kids.contains(kid));
                    let by_size = (d.kids.len(), j) < (c.kids.len(), i);
                    let better = d.seconds < c.seconds || d.seconds == c.seconds && by_size;
                    j != i && subset && better
                });
                if kept != Some(i) && (chain(c, &least) > bound || dominated) {
                    candidates[i].seconds = f64::INFINITY;
                }
            }
        }
        // Removed nodes stay in place with infinite cost, so that indices stay valid.
    }

    /// Number of nodes in reachable classes that still have a choice.
    fn undecided(&self) -> usize {
        self.reachable()
            .into_iter()
            .map(|class| self.usable(class).count())
            .filter(|count| *count > 1)
            .sum()
    }

    /// Candidates of a class that survived pruning.
    fn usable(&self, class: usize) -> impl Iterator<Item = (usize, &Candidate)> {
        self.classes[class]
            .iter()
            .enumerate()
            .filter(|(_, c)| c.seconds.is_finite())
    }

    /// Classes reachable from the root through usable nodes.
    fn reachable(&self) -> Vec<usize> {
        let mut seen = vec![false; self.classes.len()];
        let mut order = vec![0];
        seen[0] = true;
        let mut next = 0;
        while let Some(class) = order.get(next).copied() {
            next += 1;
            for (_, c) in self.usable(class) {
                for kid in &c.kids {
                    if !std::mem::replace(&mut seen[*kid], true) {
                        order.push(*kid);
                    }
                }
            }
        }
        order
    }

    /// The term of an acyclic choice.
    fn term(&self, choice: &Choice) -> RecExpr<ENode> {
        let mut term = RecExpr::default();
        let mut id = BTreeMap::new();
        for class in self.order(choice).unwrap_or_default() {
            let c = &self.classes[class][choice[&class]];
            let kids = c.kids.iter().map(|kid| id[kid]).collect();
            id.insert(
                class,
                term.add(ENode {
                    symbol: c.node.symbol.clone(),
                    kids,
                }),
            );
        }
        term
    }
}

/// The members of a bit set.
fn bits(set: &[u64]) -> impl Iterator<Item = usize> + '_ {
    set.iter().enumerate().flat_map(|(word, bits)| {
        let mut rest = *bits;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(word * 64 + bit)
        })
    })
}

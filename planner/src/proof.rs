//! Explanations: the steps from a region to its form, and a checker for them.

use crate::facts::{Facts, Known, Value};
use crate::language::{EGraph, ENode, Symbol, Values, is_opaque};
use crate::rules::{self, Rule};
use crate::saturate::{Saturated, step};
use egg::{FlatTerm, Id, RecExpr};
use gnnc_ir::graph::infer::TypeError;
use gnnc_ir::graph::{NodeId, VerifyError};
use gnnc_ir::{Graph, Op};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Why a form equals the model, one rule at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// Facts about the arguments of the graphs below, which stand for the region's leaves.
    pub leaves: Vec<Known>,
    /// The region as written.
    pub start: Graph,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// One application of a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Name of the rule.
    pub rule: String,
    /// Whether the rule is applied from left to right.
    pub forward: bool,
    /// The region after the step.
    pub graph: Graph,
}

/// A step that does not follow.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProofError {
    /// A step names a rule that is not in the table.
    #[error("step {step} uses rule `{rule}`, which does not exist")]
    Rule {
        /// Number of the step, from 1.
        step: usize,
        /// The name.
        rule: String,
    },
    /// A graph violates an invariant.
    #[error("the graph after step {step} is not valid: {error}")]
    Graph {
        /// Number of the step; 0 is the start.
        step: usize,
        /// The invariant.
        error: VerifyError,
    },
    /// A graph's arguments differ from those the explanation describes.
    #[error("the graph after step {step} has {found} arguments, expected {expected}")]
    Arguments {
        /// Number of the step; 0 is the start.
        step: usize,
        /// Arguments of the graph.
        found: usize,
        /// Leaves of the explanation.
        expected: usize,
    },
    /// The rule does not lead from one graph to the next.
    #[error("step {step} does not follow from rule `{rule}`")]
    Step {
        /// Number of the step, from 1.
        step: usize,
        /// The rule.
        rule: String,
    },
}

/// Rules that only add facts, for the conditions of other rules.
const KNOWLEDGE: [&str; 1] = ["degree-guard"];

/// Checks every step: an e-graph with both graphs of a step must find them equal after applying the
/// step's rule once.
///
/// # Errors
/// The first step that does not follow.
pub fn check_explanation(explanation: &Explanation, facts: &Facts) -> Result<(), ProofError> {
    let start = &explanation.start;
    let leaf = |(ty, known): (&gnnc_ir::Type, &Known)| Value {
        ty: *ty,
        known: *known,
    };
    let leaves = start
        .args
        .iter()
        .zip(&explanation.leaves)
        .map(leaf)
        .collect();
    let mut egraph = EGraph::new(Values::new(*facts, start.features, leaves));
    let knowledge: Vec<&'static Rule> = KNOWLEDGE.iter().filter_map(|n| rules::find(n)).collect();
    let mut last = add(&mut egraph, explanation, start, 0)?;
    for (i, step_taken) in explanation.steps.iter().enumerate() {
        let number = i + 1;
        let rule = rules::find(&step_taken.rule).ok_or_else(|| ProofError::Rule {
            step: number,
            rule: step_taken.rule.clone(),
        })?;
        let next = add(&mut egraph, explanation, &step_taken.graph, number)?;
        step(&mut egraph, &knowledge, usize::MAX);
        step(&mut egraph, &[rule], usize::MAX);
        if egraph.find(last) != egraph.find(next) {
            return Err(ProofError::Step {
                step: number,
                rule: step_taken.rule.clone(),
            });
        }
        last = next;
    }
    Ok(())
}

fn add(
    egraph: &mut EGraph,
    explanation: &Explanation,
    graph: &Graph,
    step: usize,
) -> Result<Id, ProofError> {
    graph
        .verify()
        .map_err(|error| ProofError::Graph { step, error })?;
    if graph.args != explanation.start.args || graph.args.len() != explanation.leaves.len() {
        let (found, expected) = (graph.args.len(), explanation.leaves.len());
        return Err(ProofError::Arguments {
            step,
            found,
            expected,
        });
    }
    let mut ids: Vec<Id> = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        let symbol = if let Op::Arg(n) = node.op {
            Symbol::Leaf(n)
        } else if is_opaque(&node.op) {
            let (found, expected) = (graph.args.len() + 1, explanation.leaves.len());
            return Err(ProofError::Arguments {
                step,
                found,
                expected,
            });
        } else {
            Symbol::Op(node.op.clone())
        };
        let kids = node.inputs.iter().map(|id| ids[id.0 as usize]).collect();
        ids.push(egraph.add(ENode { symbol, kids }));
    }
    let kids = graph.results.iter().map(|id| ids[id.0 as usize]).collect();
    let id = egraph.add(ENode {
        symbol: Symbol::Results,
        kids,
    });
    egraph.rebuild();
    Ok(id)
}

/// A term over leaves as a graph whose arguments are the leaves; equal nodes appear once.
///
/// # Errors
/// If the term is ill-typed.
pub fn to_graph(term: &[ENode], leaves: &[Value], features: u32) -> Result<Graph, TypeError> {
    let mut graph = Graph::body(features, leaves.iter().map(|leaf| leaf.ty).collect());
    let mut ids: Vec<NodeId> = Vec::with_capacity(term.len());
    let mut seen: BTreeMap<(Symbol, Vec<NodeId>), NodeId> = BTreeMap::new();
    for node in term {
        let kids: Vec<NodeId> = node.kids.iter().map(|id| ids[usize::from(*id)]).collect();
        let op = match &node.symbol {
            Symbol::Results => {
                graph.results = kids;
                break;
            }
            Symbol::Leaf(n) => Op::Arg(*n),
            Symbol::Op(op) => op.clone(),
        };
        let key = (node.symbol.clone(), kids.clone());
        let id = match seen.get(&key) {
            Some(id) => *id,
            None => graph.add(op, &kids, 0)?,
        };
        seen.insert(key, id);
        ids.push(id);
    }
    Ok(graph)
}

/// The steps by which an e-graph with explanations found two terms equal; `None` if it did not, or
/// if a term with shared values written out has more than `most` nodes.
pub(crate) fn explain(
    saturated: &mut Saturated,
    from: &RecExpr<ENode>,
    to: &RecExpr<ENode>,
    most: usize,
) -> Result<Option<Explanation>, TypeError> {
    let values = saturated.egraph.analysis.clone();
    let too_large = tree_size(from).max(tree_size(to)) > most as f64;
    if too_large || saturated.egraph.lookup_expr(to) != Some(saturated.root) {
        return Ok(None);
    }
    let graph = |term: &[ENode]| to_graph(term, &values.leaves, values.features);
    let mut explanation = saturated.egraph.explain_equivalence(from, to);
    let flat = explanation.make_flat_explanation();
    let leaves = values.leaves.iter().map(|leaf| leaf.known).collect();
    let mut terms = Terms::default();
    let local = match flat.first() {
        Some(first) => local_steps(&mut terms, first, flat),
        None => Vec::new(),
    };
    // Rewrite a shared value once for all its readers. If that gives no proof (because one reader
    // keeps the old value, say), rewrite its copies one by one.
    let target = terms.intern(to.as_ref());
    let shared = terms
        .replay(from, &local)
        .filter(|steps| match steps.last() {
            Some((.., term)) => *term == target,
            None => from == to,
        });
    if let Some(steps) = shared {
        let steps: Result<Vec<Step>, TypeError> = steps
            .into_iter()
            .map(|(rule, forward, term)| {
                Ok(Step {
                    rule,
                    forward,
                    graph: graph(&terms.write(term))?,
                })
            })
            .collect();
        let shared = Explanation {
            leaves,
            start: graph(from.as_ref())?,
            steps: steps?,
        };
        if check_explanation(&shared, &values.facts).is_ok() {
            return Ok(Some(shared));
        }
    }
    let leaves = values.leaves.iter().map(|leaf| leaf.known).collect();
    let mut steps = Vec::new();
    for LocalStep {
        rule,
        forward,
        whole,
        ..
    } in local
    {
        steps.push(Step {
            rule,
            forward,
            graph: graph(&terms.write(whole))?,
        });
    }
    Ok(Some(Explanation {
        leaves,
        start: graph(from.as_ref())?,
        steps,
    }))
}

/// One step of a flat explanation.
struct LocalStep {
    rule: String,
    forward: bool,
    /// The subterm to rewrite.
    before: usize,
    /// The subterm after the step.
    after: usize,
    /// The whole term after the step.
    whole: usize,
}

fn local_steps(
    terms: &mut Terms,
    first: &FlatTerm<ENode>,
    flat: &[FlatTerm<ENode>],
) -> Vec<LocalStep> {
    let mut last = first;
    let mut steps = Vec::new();
    for next in flat.iter().skip(1) {
        if let Some((rule, forward, before, after)) = change(last, next) {
            let (before, after) = (terms.intern_flat(before), terms.intern_flat(after));
            let whole = terms.intern_flat(next);
            steps.push(LocalStep {
                rule,
                forward,
                before,
                after,
                whole,
            });
        }
        last = next;
    }
    steps
}

/// Depth of nested replacements from which a replay counts as circular.
const DEPTH: usize = 600;

/// Terms whose equal subterms are stored once.
#[derive(Default)]
struct Terms {
    nodes: Vec<(Symbol, Vec<usize>)>,
    index: BTreeMap<(Symbol, Vec<usize>), usize>,
}

impl Terms {
    fn add(&mut self, symbol: Symbol, kids: Vec<usize>) -> usize {
        let next = self.nodes.len();
        let id = *self
            .index
            .entry((symbol.clone(), kids.clone()))
            .or_insert(next);
        if id == next {
            self.nodes.push((symbol, kids));
        }
        id
    }

    fn intern(&mut self, term: &[ENode]) -> usize {
        let mut ids: Vec<usize> = Vec::with_capacity(term.len());
        for node in term {
            let kids = node.kids.iter().map(|id| ids[usize::from(*id)]).collect();
            ids.push(self.add(node.symbol.clone(), kids));
        }
        ids.last().copied().unwrap_or(0)
    }

    fn intern_flat(&mut self, flat: &FlatTerm<ENode>) -> usize {
        let kids = flat
            .children
            .iter()
            .map(|kid| self.intern_flat(kid))
            .collect();
        self.add(flat.node.symbol.clone(), kids)
    }

    /// Applies the steps in order, each to all copies of its subterm. A step whose subterm no
    /// longer exists has already been applied. Returns the whole term after every step; `None` if
    /// the steps are circular.
    fn replay(
        &mut self,
        from: &RecExpr<ENode>,
        steps: &[LocalStep],
    ) -> Option<Vec<(String, bool, usize)>> {
        let start = self.intern(from.as_ref());
        let mut whole = start;
        let mut replaced = BTreeMap::new();
        let mut taken = Vec::new();
        for step in steps {
            let mut memo = BTreeMap::new();
            let before = self.normal(step.before, &replaced, &mut memo, 0)?;
            let after = self.normal(step.after, &replaced, &mut memo, 0)?;
            if before == after {
                continue;
            }
            replaced.insert(before, after);
            let next = self.normal(start, &replaced, &mut BTreeMap::new(), 0)?;
            if next != whole {
                whole = next;
                taken.push((step.rule.clone(), step.forward, whole));
            }
        }
        Some(taken)
    }

    /// A term after all replacements so far.
    fn normal(
        &mut self,
        term: usize,
        replaced: &BTreeMap<usize, usize>,
        memo: &mut BTreeMap<usize, usize>,
        depth: usize,
    ) -> Option<usize> {
        if let Some(known) = memo.get(&term) {
            return Some(*known);
        }
        if depth > DEPTH {
            return None;
        }
        let (symbol, kids) = self.nodes[term].clone();
        let mut new = Vec::with_capacity(kids.len());
        for kid in kids {
            new.push(self.normal(kid, replaced, memo, depth + 1)?);
        }
        let id = self.add(symbol, new);
        let result = match replaced.get(&id) {
            Some(next) => self.normal(*next, replaced, memo, depth + 1)?,
            None => id,
        };
        memo.insert(term, result);
        Some(result)
    }

    /// The nodes of a term, operands first: operands are always stored before their users.
    fn below(&self, term: usize) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut work = vec![term];
        while let Some(id) = work.pop() {
            if found.insert(id) {
                work.extend(&self.nodes[id].1);
            }
        }
        found
    }

    fn write(&self, term: usize) -> Vec<ENode> {
        let nodes = self.below(term);
        let place: BTreeMap<usize, Id> = nodes.iter().copied().zip((0..).map(Id::from)).collect();
        let node = |id: &usize| {
            let (symbol, kids) = &self.nodes[*id];
            ENode {
                symbol: symbol.clone(),
                kids: kids.iter().map(|kid| place[kid]).collect(),
            }
        };
        nodes.iter().map(node).collect()
    }
}

fn tree_size(term: &RecExpr<ENode>) -> f64 {
    let mut sizes: Vec<f64> = Vec::with_capacity(term.as_ref().len());
    for node in term.as_ref() {
        sizes.push(
            1.0 + node
                .kids
                .iter()
                .map(|id| sizes[usize::from(*id)])
                .sum::<f64>(),
        );
    }
    sizes.last().copied().unwrap_or(0.0)
}

/// The rule that leads from one term to the next, and the subterms where it applies.
fn change<'a>(
    last: &'a FlatTerm<ENode>,
    next: &'a FlatTerm<ENode>,
) -> Option<(String, bool, &'a FlatTerm<ENode>, &'a FlatTerm<ENode>)> {
    match (&next.forward_rule, &next.backward_rule) {
        (Some(rule), _) => Some((rule.to_string(), true, last, next)),
        (_, Some(rule)) => Some((rule.to_string(), false, last, next)),
        _ => last
            .children
            .iter()
            .zip(&next.children)
            .find_map(|(a, b)| change(a, b)),
    }
}

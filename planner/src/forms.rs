//! Forms: a model rewritten into an equal, cheaper one.

use crate::cost::{Work, picked, work};
use crate::extract::{Method, extract};
use crate::facts::{Facts, Known, Value};
use crate::language::{ENode, Symbol, Values, is_opaque};
use crate::proof::{Explanation, explain};
use crate::region::{Placed, Region, regions, surroundings};
use crate::rules::{self, Rule};
use crate::saturate::{Limits, Stop, saturate};
use egg::{Id, RecExpr};
use gnnc_ir::graph::VerifyError;
use gnnc_ir::graph::infer::TypeError;
use gnnc_ir::{Graph, Op};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod assemble;
mod hoist;

/// What rewriting may do, and its bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteOptions {
    /// Rules to disable.
    pub without: Vec<String>,
    /// Most iterations per saturation.
    pub iterations: u32,
    /// Most e-nodes per saturation.
    pub nodes: usize,
    /// Most operators of a region.
    pub region: usize,
    /// Most undecided e-nodes for which the form is proved to be the cheapest.
    pub ilp_variables: usize,
    /// Whether the report explains each form and lists what each rule saved.
    pub explain: bool,
}

impl Default for RewriteOptions {
    fn default() -> Self {
        Self {
            without: Vec::new(),
            iterations: 12,
            nodes: 2000,
            region: 96,
            ilp_variables: 80,
            explain: false,
        }
    }
}

impl RewriteOptions {
    /// Enables only the named rules.
    pub fn only(names: &[&str]) -> Self {
        let others = rules::table().filter(|rule| !names.contains(&rule.name));
        Self {
            without: others.map(|rule| rule.name.to_owned()).collect(),
            ..Self::default()
        }
    }
}

/// A rewritten model.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// The model; parameters, arguments and results are those of the original.
    pub graph: Graph,
    /// What was done.
    pub report: RewriteReport,
}

/// The effect of rewriting.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RewriteReport {
    /// Work of one epoch of the model as written.
    pub before: Work,
    /// Work of one epoch of the form.
    pub after: Work,
    /// One entry per distinct region.
    pub regions: Vec<RegionReport>,
}

/// The effect of rewriting on one distinct region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RegionReport {
    /// The layer in which the first one begins; empty outside layers.
    pub scope: String,
    /// How many equal regions there are, not counting loop iterations.
    pub instances: u32,
    /// How often the region runs per epoch.
    pub repeats: u32,
    /// Nodes of the saturated e-graph.
    pub nodes: usize,
    /// Classes of the saturated e-graph.
    pub classes: usize,
    /// Iterations of the saturation.
    pub iterations: u32,
    /// Why saturation ended.
    pub stop: Stop,
    /// How the form was chosen.
    pub method: Method,
    /// Work of one run of the region as written.
    pub before: Work,
    /// Work of one run of its form.
    pub after: Work,
    /// The rules the form needs, in table order. Only with [`RewriteOptions::explain`].
    pub rules: Vec<RuleUse>,
    /// Why the form is equal to the model as written. Only with [`RewriteOptions::explain`], and
    /// only if the region is small enough to write out.
    pub explanation: Option<Explanation>,
}

/// The effect of one rule on a form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleUse {
    /// Name of the rule.
    pub rule: String,
    /// Number of explanation steps that apply it.
    pub applications: u32,
    /// Seconds, by the cost model, that the best form without this rule is slower. Rules that only
    /// work together each count the full saving; 0 if other rules lead to an equally cheap form.
    pub saved_seconds: f64,
}

/// Why a graph cannot be rewritten.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FormError {
    /// The graph violates an invariant.
    #[error("the graph to rewrite is not valid: {0}")]
    Invalid(VerifyError),
    /// The options name a rule that does not exist.
    #[error("there is no rule `{0}`; docs/rewrites.md lists them")]
    UnknownRule(String),
    /// Rules produced an ill-typed term, which is a bug in a rule.
    #[error("rewriting `{scope}` failed: {why}")]
    Unsound {
        /// The layer instance.
        scope: String,
        /// The problem found.
        why: String,
    },
    /// The rewritten graph violates an invariant, which is a bug.
    #[error("the rewritten graph is not valid: {0}")]
    Broken(VerifyError),
    /// The rewritten graph is ill-typed, which is a bug.
    #[error("the rewritten graph is not valid: {0}")]
    IllTyped(#[from] TypeError),
}

/// Most nodes of a term that is explained, with shared values written out.
const EXPLAINED: usize = 1500;

/// Rewrites a forward graph to the cheapest equal one that the rules reach.
///
/// Every distinct region is saturated once. Bodies of scans are regions of their own; values that
/// are the same in every iteration and worth keeping are hoisted out of them. The result depends
/// only on the arguments.
///
/// # Errors
/// If the graph violates an invariant, or the options name an unknown rule.
pub fn rewrite(graph: &Graph, facts: &Facts, options: &RewriteOptions) -> Result<Form, FormError> {
    rewrite_with_args(graph, &[], facts, options)
}

/// Rewrites a graph with arguments, such as the body of a scan. `args` holds facts about them;
/// arguments it leaves out have none.
///
/// # Errors
/// As [`rewrite`].
pub fn rewrite_with_args(
    graph: &Graph,
    args: &[Known],
    facts: &Facts,
    options: &RewriteOptions,
) -> Result<Form, FormError> {
    graph.verify().map_err(FormError::Invalid)?;
    let mut rewriter = Rewriter {
        facts: *facts,
        options,
        rules: chosen_rules(options)?,
        done: BTreeMap::new(),
        reports: Vec::new(),
    };
    let graph = rewriter.graph(graph, args, 1)?;
    graph.verify().map_err(FormError::Broken)?;
    let total = |work: fn(&RegionReport) -> Work| {
        rewriter
            .reports
            .iter()
            .map(|r| work(r).times(f64::from(r.repeats)))
            .sum()
    };
    let (before, after) = (total(|r| r.before), total(|r| r.after));
    let report = RewriteReport {
        before,
        after,
        regions: rewriter.reports,
    };
    Ok(Form { graph, report })
}

fn chosen_rules(options: &RewriteOptions) -> Result<Vec<&'static Rule>, FormError> {
    let unknown = |name: &&String| rules::find(name).is_none();
    if let Some(name) = options.without.iter().find(unknown) {
        return Err(FormError::UnknownRule(name.clone()));
    }
    let used = |rule: &&Rule| !options.without.iter().any(|name| name == rule.name);
    Ok(rules::table().filter(used).collect())
}

/// The form of a distinct region.
#[derive(Clone, Debug)]
struct RegionForm {
    term: RecExpr<ENode>,
    /// For each node of `term`, the node of the region that computes the same value.
    origin: Vec<Option<usize>>,
    /// Index of its report.
    report: usize,
}

struct Rewriter<'a> {
    facts: Facts,
    options: &'a RewriteOptions,
    rules: Vec<&'static Rule>,
    /// Forms of the regions seen so far.
    done: BTreeMap<Region, RegionForm>,
    reports: Vec<RegionReport>,
}

impl Rewriter<'_> {
    fn graph(&mut self, graph: &Graph, args: &[Known], repeats: u32) -> Result<Graph, FormError> {
        let mut graph = graph.pruned();
        let mut around = surroundings(&graph, args, &self.facts);
        for (id, known) in &around.bodies {
            if let Op::Scan(scan) = &mut graph.nodes[id.0 as usize].op {
                let repeats = repeats.saturating_mul(scan.count);
                scan.body = self.graph(&scan.body, known, repeats)?;
            }
        }
        if !around.bodies.is_empty() {
            graph = hoist::hoist(&graph)?;
            around = surroundings(&graph, args, &self.facts);
        }
        let mut parts = Vec::new();
        for placed in regions(&graph, &around, self.options.region) {
            let form = self.region(&graph, &placed, repeats)?;
            parts.push((placed, form));
        }
        Ok(assemble::assemble(&graph, &parts)?)
    }

    fn region(
        &mut self,
        graph: &Graph,
        placed: &Placed,
        repeats: u32,
    ) -> Result<RegionForm, FormError> {
        if let Some(form) = self.done.get(&placed.region) {
            let report = &mut self.reports[form.report];
            report.instances += 1;
            report.repeats = report.repeats.saturating_add(repeats);
            return Ok(form.clone());
        }
        let scope = graph
            .scopes
            .get(placed.scope as usize)
            .cloned()
            .unwrap_or_default();
        let unsound = |why: String| FormError::Unsound {
            scope: scope.clone(),
            why,
        };
        let region = &placed.region;
        let saturated = saturate(
            self.values(region),
            &region.term,
            &self.rules,
            self.limits(),
            false,
        );
        if let Some(why) = &saturated.egraph.analysis.fault {
            return Err(unsound(why.clone()));
        }
        let (term, method) = extract(
            &saturated.egraph,
            saturated.root,
            self.options.ilp_variables,
        );
        let before = self.work(region, &region.term).map_err(unsound)?;
        let mut after = self.work(region, &term).map_err(unsound)?;
        // Saturation can know more about a value than its term shows. Keep the term as written
        // unless the form is also cheaper by itself.
        let keep = after.seconds > before.seconds;
        let term = if keep { region.term.clone() } else { term };
        if keep {
            after = before;
        }
        let (rules, explanation) = match self.options.explain {
            true => self.explain(region, &term, after)?,
            false => (Vec::new(), None),
        };
        let class = |id: usize, term: &RecExpr<ENode>| {
            let ids = saturated.egraph.lookup_expr_ids(term)?;
            ids.get(id).copied()
        };
        let original: Vec<Option<Id>> = (0..placed.nodes.len())
            .map(|i| class(i, &region.term))
            .collect();
        let ids = saturated.egraph.lookup_expr_ids(&term).unwrap_or_default();
        let origin = (0..term.as_ref().len())
            .map(|i| {
                original
                    .iter()
                    .position(|id| id.is_some() && *id == ids.get(i).copied())
            })
            .collect();
        self.reports.push(RegionReport {
            scope,
            instances: 1,
            repeats,
            nodes: saturated.egraph.total_number_of_nodes(),
            classes: saturated.egraph.number_of_classes(),
            iterations: saturated.iterations,
            stop: saturated.stop,
            method,
            before,
            after,
            rules,
            explanation,
        });
        let form = RegionForm {
            term,
            origin,
            report: self.reports.len() - 1,
        };
        self.done.insert(region.clone(), form.clone());
        Ok(form)
    }

    fn values(&self, region: &Region) -> Values {
        Values::new(self.facts, region.features, region.leaves.clone())
    }

    fn limits(&self) -> Limits {
        Limits {
            iterations: self.options.iterations,
            nodes: self.options.nodes,
        }
    }

    /// Work of a term of a region, using only facts that follow from its own nodes.
    fn work(&self, region: &Region, term: &RecExpr<ENode>) -> Result<Work, String> {
        let values = self.values(region);
        let nodes = term.as_ref();
        let operands: Vec<Vec<usize>> = nodes
            .iter()
            .map(|node| node.kids.iter().map(|id| usize::from(*id)).collect())
            .collect();
        let operators = nodes.iter().zip(&operands);
        let operators = operators.map(|(node, operands)| (&node.symbol, &operands[..]));
        let picked = picked(nodes.len(), operators);
        let mut known: Vec<Value> = Vec::with_capacity(nodes.len());
        let mut total = Work::default();
        for (n, node) in nodes.iter().enumerate() {
            let kids: Vec<Value> = operands[n].iter().map(|kid| known[*kid]).collect();
            let value = values.value(node, &kids)?;
            if let Symbol::Op(op) = &node.symbol {
                total = total + work(op, value, &kids, &self.facts, picked[n]);
            }
            known.push(value);
        }
        Ok(total)
    }

    /// The rules a form needs, with the saving of each, and the steps to the form.
    fn explain(
        &self,
        region: &Region,
        form: &RecExpr<ENode>,
        after: Work,
    ) -> Result<(Vec<RuleUse>, Option<Explanation>), FormError> {
        let run = |rules: &[&'static Rule], explained: bool| {
            saturate(
                self.values(region),
                &region.term,
                rules,
                self.limits(),
                explained,
            )
        };
        // Drop rules one by one while the form is still reached without them, so that the proof has
        // no detours.
        let all = run(&self.rules, false);
        let matched = |rule: &&'static Rule| all.matched.contains(rule.name);
        let mut needed: Vec<&'static Rule> = self.rules.iter().copied().filter(matched).collect();
        for rule in needed.clone().into_iter().rev() {
            let fewer: Vec<&'static Rule> = needed
                .iter()
                .copied()
                .filter(|other| other.name != rule.name)
                .collect();
            let saturated = run(&fewer, false);
            if saturated.egraph.lookup_expr(form) == Some(saturated.root) {
                needed = fewer;
            }
        }
        let explanation = explain(&mut run(&needed, true), &region.term, form, EXPLAINED)?;
        let steps = explanation
            .iter()
            .flat_map(|explanation| &explanation.steps);
        let mut uses = Vec::new();
        for rule in needed {
            let applications = steps.clone().filter(|step| step.rule == rule.name).count();
            if applications == 0 && explanation.is_some() {
                continue;
            }
            let others: Vec<&'static Rule> = self
                .rules
                .iter()
                .copied()
                .filter(|other| other.name != rule.name)
                .collect();
            let saturated = run(&others, false);
            let (best, _) = extract(
                &saturated.egraph,
                saturated.root,
                self.options.ilp_variables,
            );
            let seconds = self
                .work(region, &best)
                .map_or(after.seconds, |work| work.seconds);
            uses.push(RuleUse {
                rule: rule.name.to_owned(),
                applications: applications as u32,
                saved_seconds: (seconds - after.seconds).max(0.0),
            });
        }
        Ok((uses, explanation))
    }
}

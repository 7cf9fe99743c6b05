//! `gnnc explain`: which rewrites fired, why the result is equal, what each saved; or which decision introduced each layout
//! and message of the best plan.

use super::inputs::{ModelArgs, headline};
use super::layouts::layouts;
use super::machine::{MachineArgs, warn};
use super::output::{Answer, Output};
use super::text::{Table, count, facts, facts_behind, scaled};
use clap::Args;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::words::units::{Bytes, Seconds};
use gnnc::planner::cost::Work;
use gnnc::planner::extract::Method;
use gnnc::planner::facts::Facts;
use gnnc::planner::forms::{RegionReport, RewriteReport};
use gnnc::planner::proof::{ProofError, check_explanation};
use gnnc::planner::rules;
use gnnc::planner::saturate::Stop;
use gnnc::provenance::provenance;
use gnnc::{Compiled, Loaded, Planner};
use serde_json::{Value, json};

/// Arguments of `explain`.
#[derive(Args)]
pub struct Explain {
    #[command(flatten)]
    model: ModelArgs,
    /// Print the operators after each step.
    #[arg(long)]
    steps: bool,
    /// Print which decision introduced each layout and each message of the best plan, in place of the rewrites.
    #[arg(long, conflicts_with = "steps")]
    layouts: bool,
    #[command(flatten, next_help_heading = "Plan of --layouts")]
    machines: MachineArgs,
}

/// Whether a region's explanation holds; `None` if there is no explanation.
type Checked = Option<Result<(), ProofError>>;

impl Explain {
    /// Rewrites the model, checks every step of the explanation and prints both.
    pub fn run(&self, out: &Output) -> Answer {
        if self.layouts {
            return self.origins(out);
        }
        let loaded = self.model.load(out)?;
        let compiled = gnnc::compile_explained(&loaded.model, &loaded.workload)?;
        let report = &compiled.form.report;
        let known = Facts::new(&loaded.workload, true);
        let check = |region: &RegionReport| {
            let explanation = region.explanation.as_ref();
            explanation.map(|e| check_explanation(e, &known))
        };
        let checks: Vec<Checked> = report.regions.iter().map(check).collect();
        if out.is_json() {
            out.json(&as_json(&loaded, report, &checks))
        } else {
            out.text(&self.as_text(&loaded, &compiled, &checks))
        }
    }

    /// Plans, and prints where the layouts and messages of the best candidate come from.
    fn origins(&self, out: &Output) -> Answer {
        let options = self.machines.options(out)?;
        warn(options.pin.knobs.skip, out);
        let loaded = self.model.load(out)?;
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let planner = Planner::new(&loaded, &compiled, &options)?;
        planner.check_pins()?;
        let found = provenance(&planner, &compiled, &options)?;
        match out.is_json() {
            true => out.json(&json!(found)),
            false => out.text(&format!("{}{}", headline(&loaded), layouts(&found))),
        }
    }

    fn as_text(&self, loaded: &Loaded, compiled: &Compiled, checks: &[Checked]) -> String {
        let report = &compiled.form.report;
        let mut text = headline(loaded);
        text.push('\n');
        text.push_str(&facts(&[
            ("as written", work(&report.before)),
            ("rewritten", work(&report.after)),
            ("gain", gain(&report.before, &report.after)),
        ]));
        text.push_str(
            "(one epoch on the rewriter's reference machine: to rank forms, not a forecast)\n",
        );
        for (region, checked) in report.regions.iter().zip(checks) {
            text.push('\n');
            self.region(&mut text, region, checked);
        }
        text.push_str("\nrelaxations (they change the model or its gradients)\n");
        let mut table = Table::new(4, 2);
        for relaxation in Relaxation::ALL {
            let permitted = if loaded.model.train.allow.contains(&relaxation) {
                "permitted by the model"
            } else {
                "not permitted"
            };
            let what = match relaxation {
                Relaxation::Decouple => match &compiled.decoupled {
                    Ok(_) => "all transforms first, then all aggregations".to_owned(),
                    Err(why) => format!("impossible: {why}"),
                },
                Relaxation::Stale => "embeddings or weights of earlier epochs".to_owned(),
                Relaxation::Sample => "sampled neighbors".to_owned(),
                Relaxation::Quantise => "rows sent between workers in fewer bits".to_owned(),
            };
            table.row([relaxation.name(), "not used", permitted, &what]);
        }
        text.push_str(&table.lines());
        text
    }

    fn region(&self, text: &mut String, region: &RegionReport, checked: &Checked) {
        let name = match region.scope.as_str() {
            "" => "the whole model",
            scope => scope,
        };
        text.push_str(&format!(
            "region {name}: {}, runs {} an epoch\n",
            count(u64::from(region.instances), "instance"),
            count(u64::from(region.repeats), "time"),
        ));
        let stop = match region.stop {
            Stop::Saturated => "saturated",
            Stop::Iterations => "stopped at the iteration limit",
            Stop::Nodes => "stopped at the node limit",
        };
        let method = match region.method {
            Method::Optimal => "the cheapest form, proved optimal",
            Method::Greedy => "a cheap form, chosen greedily",
        };
        text.push_str(&facts_behind(
            2,
            &[
                (
                    "forms",
                    format!(
                        "{} e-nodes in {} e-classes after {}, {stop}; {method}",
                        region.nodes,
                        region.classes,
                        count(u64::from(region.iterations), "iteration")
                    ),
                ),
                ("as written", work(&region.before)),
                ("rewritten", work(&region.after)),
                ("gain", gain(&region.before, &region.after)),
            ],
        ));
        if region.rules.is_empty() {
            text.push_str("  no rewrite: the region is cheapest as written\n");
        } else {
            let mut table = Table::new(1, 2);
            table.row(["rule", "steps", "saves"]);
            for rule in &region.rules {
                let saved = match rule.saved_seconds {
                    s if s > 0.0 => Seconds(s).to_string(),
                    _ => "nothing by itself".to_owned(),
                };
                table.row([rule.rule.clone(), rule.applications.to_string(), saved]);
            }
            text.push_str(&table.lines());
        }
        self.explanation(text, region, checked);
    }

    fn explanation(&self, text: &mut String, region: &RegionReport, checked: &Checked) {
        let Some(explanation) = &region.explanation else {
            text.push_str("  explanation: omitted, the region is too large\n");
            return;
        };
        match checked {
            Some(Err(error)) => text.push_str(&format!("  explanation: WRONG: {error}\n")),
            _ if explanation.steps.is_empty() => return,
            _ => text.push_str("  explanation (every step checked)\n"),
        }
        if self.steps {
            text.push_str(&indented(&indented(&explanation.start.to_string())));
        }
        let mut table = Table::new(4, 4);
        for (i, step) in explanation.steps.iter().enumerate() {
            let direction = if step.forward { "->" } else { "<-" };
            let equation = rules::find(&step.rule).map_or("", |rule| rule.equation);
            let number = (i + 1).to_string();
            if self.steps {
                text.push_str(&format!(
                    "    {number}  {direction} {}  {equation}\n",
                    step.rule
                ));
                text.push_str(&indented(&indented(&step.graph.to_string())));
            } else {
                table.row([&number, direction, &step.rule, equation]);
            }
        }
        text.push_str(&table.lines());
    }
}

fn as_json(loaded: &Loaded, report: &RewriteReport, checks: &[Checked]) -> Value {
    let checked = |checked: &Checked| match checked {
        None => Value::Null,
        Some(Ok(())) => json!({ "holds": true }),
        Some(Err(error)) => json!({ "holds": false, "error": error.to_string() }),
    };
    let permitted: Vec<&str> = loaded.model.train.allow.iter().map(|r| r.name()).collect();
    json!({
        "model": loaded.model.name,
        "graph": loaded.workload.name,
        "report": report,
        "checks": checks.iter().map(checked).collect::<Vec<_>>(),
        "relaxations": { "permitted": permitted, "used": [] },
    })
}

fn work(work: &Work) -> String {
    format!(
        "{}, {}flop, {}",
        Seconds(work.seconds),
        scaled(work.flops),
        Bytes(work.bytes.max(0.0) as u64)
    )
}

fn gain(before: &Work, after: &Work) -> String {
    let factor = before.seconds / after.seconds.max(f64::MIN_POSITIVE);
    format!("{factor:.2} times less work")
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

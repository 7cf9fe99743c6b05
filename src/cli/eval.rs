//! `gnnc eval`.

use super::inputs::ModelArgs;
use super::output::{Answer, Failure, Output, input};
use super::predict::Which;
use super::text::{facts, score_or_dash};
use super::trained::TrainedArgs;
use clap::{Args, ValueEnum};
use gnnc::graph::GraphData;
use gnnc::ir::words::spelling::counted;
use gnnc::metrics::{self, Scored};
use gnnc::ranking::{self, Asked};
use gnnc::{Loaded, Metric};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

/// Arguments of `eval`.
#[derive(Args)]
pub struct Eval {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    trained: TrainedArgs,
    /// The scores: accuracy, micro-f1, macro-f1, roc-auc, average-precision, mrr, hits@10 to hits@100, mae, rmse, r2; by
    /// default the model's.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    metric: Vec<Metric>,
    /// Only these vertices, of those with labels.
    #[arg(long, value_enum, value_name = "WHICH", default_value = "test")]
    vertices: Which,
    /// Rank each link of these pairs among all vertices that could be at one of its ends (`all`), or among those
    /// whose ids are in a file, one a line, without known neighbors. By default mrr, hits@10, hits@50 and hits@100.
    #[arg(long, value_name = "all|FILE")]
    rank: Option<String>,
}

/// Largest file of candidates, in bytes.
const MOST_CANDIDATES: u64 = 1 << 30;

/// What ranks are scored by if nothing is asked for.
const OF_RANKS: [Metric; 4] = [Metric::Mrr, Metric::Hits10, Metric::Hits50, Metric::Hits100];

/// The vertices that a file names by their ids, one a line.
fn candidates(path: &Path, data: &GraphData) -> Result<Vec<u32>, Failure> {
    let text = gnnc_files::read_text(path, MOST_CANDIDATES)
        .map_err(|error| input(format!("cannot read {}: {error}", path.display())))?;
    let ends = 0..data.subjects().start;
    let known: HashMap<String, u32> = ends.map(|v| (data.id_of(v).into_owned(), v)).collect();
    let mut found = BTreeSet::new();
    for (number, line) in (1..).zip(text.lines()) {
        let id = line.trim();
        if id.is_empty() {
            continue;
        }
        let vertex = known.get(id).ok_or_else(|| {
            input(format!(
                "{}, line {number}: no vertex has the id {id:?}, expected one id a line",
                path.display()
            ))
        })?;
        found.insert(*vertex);
    }
    match found.is_empty() {
        false => Ok(found.into_iter().collect()),
        true => Err(input(format!("{} names no vertex", path.display()))),
    }
}

/// What an evaluation found.
struct EvalReport<'a> {
    model: &'a str,
    /// The checkpoint.
    from: &'a Path,
    /// Epochs that it was trained for.
    epochs: u64,
    /// What was scored, and how many.
    of: (&'static str, String),
    scores: &'a [(Metric, Option<f64>)],
}

impl EvalReport<'_> {
    fn text(&self) -> String {
        let epochs = counted(self.epochs, "epoch");
        let model = format!("{} of {} after {epochs}", self.model, self.from.display());
        let mut lines = vec![("model", model), self.of.clone()];
        for (metric, score) in self.scores {
            lines.push((metric.name(), score_or_dash(*metric, *score)));
        }
        facts(&lines)
    }

    fn by_key(&self) -> serde_json::Map<String, Value> {
        let scores = self.scores.iter();
        let keyed = scores.map(|(metric, score)| (metric.key().to_owned(), json!(score)));
        keyed.collect()
    }
}

impl Eval {
    /// Ranks links.
    fn ranked(&self, loaded: &Loaded, data: &GraphData, among: &str, out: &Output) -> Answer {
        let asked = match self.metric.is_empty() {
            true => OF_RANKS.to_vec(),
            false => self.metric.clone(),
        };
        for metric in &asked {
            ranking::fits(*metric).map_err(input)?;
        }
        let candidates = match among {
            "all" => None,
            file => Some(candidates(Path::new(file), data)?),
        };
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let options = self.trained.options(out)?;
        let pairs = (data.subjects()).filter(|v| self.vertices.has(data, *v as usize));
        let among = candidates
            .as_ref()
            .map_or(data.subjects().start as usize, Vec::len);
        let wanted = Asked {
            pairs: pairs.collect(),
            candidates,
        };
        let from = self.trained.weights();
        let found = ranking::ranks(loaded, &compiled, &options, from, &wanted)?;
        let scores = asked.iter().map(|metric| (*metric, found.score(*metric)));
        let scores: Vec<(Metric, Option<f64>)> = scores.collect();
        let ranks = format!(
            "{} among {}",
            counted(found.ranks.len(), "rank"),
            counted(among, "vertex")
        );
        let report = EvalReport {
            model: &loaded.model.name,
            from: &found.from,
            epochs: found.epochs,
            of: ("ranks", ranks),
            scores: &scores,
        };
        out.report(
            || report.text(),
            &json!({
                "model": loaded.model.name,
                "graph": loaded.workload.name,
                "checkpoint": found.from.display().to_string(),
                "epochs": found.epochs,
                "ranks": found.ranks.len(),
                "candidates": among,
                "scored": found.scored,
                "scores": report.by_key(),
            }),
        )
    }

    /// Scores a trained model.
    pub fn run(&self, out: &Output) -> Answer {
        let loaded = self.model.load_trained(out)?;
        let data = loaded.labeled()?;
        if let Some(among) = &self.rank {
            return self.ranked(&loaded, data, among, out);
        }
        let asked = match self.metric.is_empty() {
            true => vec![loaded.metric()],
            false => self.metric.clone(),
        };
        for metric in &asked {
            metrics::fits(*metric, loaded.model.loss.labels()).map_err(input)?;
        }
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let options = self.trained.options(out)?;
        let found = gnnc::outputs(&loaded, &compiled, &options, self.trained.weights())?;
        let vertices = 0..data.vertices() as usize;
        let wanted: Vec<usize> = vertices.filter(|v| self.vertices.has(data, *v)).collect();
        let rivals = data.rivals();
        let scored = Scored {
            rivals: &rivals,
            logits: &found.logits,
            classes: found.classes,
            labels: &data.labels,
            kind: loaded.model.loss.labels(),
        };
        let score = |metric: &Metric| (*metric, scored.score(*metric, wanted.iter().copied()));
        let scores: Vec<(Metric, Option<f64>)> = asked.iter().map(score).collect();
        let which = self.vertices.to_possible_value();
        let which = which.map_or_else(String::new, |value| value.get_name().to_owned());
        let report = EvalReport {
            model: &loaded.model.name,
            from: &found.from,
            epochs: found.epochs,
            of: ("vertices", format!("{} ({which})", wanted.len())),
            scores: &scores,
        };
        out.report(
            || report.text(),
            &json!({
                "model": loaded.model.name,
                "graph": loaded.workload.name,
                "checkpoint": found.from.display().to_string(),
                "epochs": found.epochs,
                "set": which,
                "vertices": wanted.len(),
                "scores": report.by_key(),
            }),
        )
    }
}

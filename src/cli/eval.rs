//! `gnnc eval`.

use super::inputs::ModelArgs;
use super::output::{Answer, Output, input};
use super::predict::Which;
use super::text::{facts, score_or_dash};
use super::trained::TrainedArgs;
use clap::{Args, ValueEnum};
use gnnc::Metric;
use gnnc::ir::words::spelling::counted;
use gnnc::metrics::{self, Scored};
use serde_json::json;

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
}

impl Eval {
    /// Scores a trained model.
    pub fn run(&self, out: &Output) -> Answer {
        let loaded = self.model.load_trained(out)?;
        let data = loaded.labeled()?;
        let asked = match self.metric.is_empty() {
            true => vec![loaded.metric()],
            false => self.metric.clone(),
        };
        for metric in &asked {
            metrics::fits(*metric, loaded.model.loss.labels()).map_err(input)?;
        }
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let options = self.trained.options(out)?;
        let trained = &self.trained;
        let found = gnnc::outputs(
            &loaded,
            &compiled,
            &options,
            &trained.checkpoint,
            trained.last,
        )?;
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
        let text = || {
            let epochs = counted(found.epochs, "epoch");
            let model = format!(
                "{} of {} after {epochs}",
                loaded.model.name,
                found.from.display()
            );
            let mut lines = vec![
                ("model", model),
                ("vertices", format!("{} ({which})", wanted.len())),
            ];
            let score = |(metric, score): &(Metric, Option<f64>)| {
                (metric.name(), score_or_dash(*metric, *score))
            };
            lines.extend(scores.iter().map(score));
            facts(&lines)
        };
        let keyed = scores
            .iter()
            .map(|(metric, score)| (metric.key().to_owned(), json!(score)));
        out.report(
            text,
            &json!({
                "model": loaded.model.name,
                "graph": loaded.workload.name,
                "checkpoint": found.from.display().to_string(),
                "epochs": found.epochs,
                "set": which,
                "vertices": wanted.len(),
                "scores": keyed.collect::<serde_json::Map<_, _>>(),
            }),
        )
    }
}

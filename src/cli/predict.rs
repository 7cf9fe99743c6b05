//! `gnnc predict`.

use super::files::{replace, writable};
use super::inputs::ModelArgs;
use super::output::{Answer, Output, input};
use super::text::{facts, score_or_dash};
use super::trained::TrainedArgs;
use clap::{Args, ValueEnum};
use gnnc::Predictions;
use gnnc::graph::GraphData;
use gnnc::ir::graph::op::LabelKind;
use gnnc::ir::words::spelling::counted;
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `predict`.
#[derive(Args)]
pub struct Predict {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    trained: TrainedArgs,
    /// The table to write: the id of each vertex and its class, as CSV.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Also write the probability of each class.
    #[arg(long)]
    probabilities: bool,
    /// Only these vertices.
    #[arg(long, value_enum, value_name = "WHICH", default_value = "all")]
    vertices: Which,
}

/// Vertices of a graph.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Which {
    /// All vertices.
    All,
    /// Those of the training split.
    Train,
    /// Those of the validation split.
    Val,
    /// Those of the test split.
    Test,
    /// Those of no split.
    Rest,
}

impl Predict {
    /// Predicts the classes of vertices.
    pub fn run(&self, out: &Output) -> Answer {
        writable(&self.out, "predictions")?;
        let loaded = self.model.load(out)?;
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let options = self.trained.options(out)?;
        let trained = &self.trained;
        let found = gnnc::predict(
            &loaded,
            &compiled,
            &options,
            &trained.checkpoint,
            trained.last,
        )?;
        let Some(data) = &loaded.data else {
            return Err(input(
                "a model of statistics has no vertices to predict; give --graph FILE",
            ));
        };
        let wanted: Vec<usize> = (0..data.vertices() as usize)
            .filter(|v| self.vertices.has(data, *v))
            .collect();
        let written = table(data, &found, &wanted, self.probabilities);
        let written = written.map_err(|e| input(format!("cannot write a table: {e}")))?;
        replace(&self.out, &written)?;
        let scores = &found.scores;
        let text = || {
            let name = scores.metric.name();
            facts(&[
                (
                    "predictions",
                    format!("{} in {}", wanted.len(), self.out.display()),
                ),
                (
                    "model",
                    format!(
                        "{} of {} after {}",
                        loaded.model.name,
                        found.from.display(),
                        counted(found.epochs, "epoch")
                    ),
                ),
                (
                    &format!("val {name}"),
                    score_or_dash(scores.metric, scores.val),
                ),
                (
                    &format!("test {name}"),
                    score_or_dash(scores.metric, scores.test),
                ),
            ])
        };
        out.report(
            text,
            &json!({
                "predictions": wanted.len(),
                "out": self.out.display().to_string(),
                "model": loaded.model.name,
                "checkpoint": found.from.display().to_string(),
                "epochs": found.epochs,
                "scores": scores,
            }),
        )
    }
}

impl Which {
    /// Whether a vertex is one of them.
    pub(super) fn has(self, data: &GraphData, v: usize) -> bool {
        let predicted = data.subjects().contains(&(v as u32));
        match self {
            Self::All => predicted,
            Self::Train => data.train[v],
            Self::Val => data.val[v],
            Self::Test => data.test[v],
            Self::Rest => predicted && !(data.train[v] || data.val[v] || data.test[v]),
        }
    }
}

/// The predictions for some vertices, as CSV.
fn table(
    data: &GraphData,
    found: &Predictions,
    wanted: &[usize],
    probabilities: bool,
) -> Result<Vec<u8>, csv::Error> {
    let class = |number: usize| match data.class_names.get(number) {
        Some(name) => name.to_owned(),
        None => number.to_string(),
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut head = vec!["id".to_owned()];
    let numbers = found.labels == LabelKind::Numbers;
    match (numbers, found.width) {
        (true, 1) => head.push("value".to_owned()),
        (true, width) => head.extend((0..width).map(|column| format!("value_{column}"))),
        (false, _) => head.push("class".to_owned()),
    }
    if probabilities && !numbers {
        head.extend((0..found.width).map(|number| format!("p({})", class(number))));
    }
    writer.write_record(&head)?;
    for &v in wanted {
        let mut row = vec![data.id_of(v as u32).into_owned()];
        if !numbers {
            let classes: Vec<String> = found.of(v).into_iter().map(class).collect();
            row.push(classes.join(";"));
        }
        if probabilities || numbers {
            row.extend(found.row(v).iter().map(f32::to_string));
        }
        writer.write_record(&row)?;
    }
    writer.into_inner().map_err(|e| e.into_error().into())
}

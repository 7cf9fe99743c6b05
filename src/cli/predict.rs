//! `gnnc predict`.

mod format;
mod table;

use super::files::{replace, writable};
use super::inputs::ModelArgs;
use super::output::{Answer, Failure, Output, input};
use super::text::{facts, score_or_dash};
use super::trained::TrainedArgs;
use clap::{Args, ValueEnum};
use format::Format;
use gnnc::graph::GraphData;
use gnnc::ir::words::spelling::counted;
use gnnc::{Loaded, Scores};
use serde_json::json;
use std::path::{Path, PathBuf};
use table::{Said, Table};

/// Arguments of `predict`.
#[derive(Args)]
pub struct Predict {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    trained: TrainedArgs,
    /// The file to write: the id of each vertex and its class, as .csv, .npz or .parquet.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Also write the probability of each class.
    #[arg(long)]
    probabilities: bool,
    /// Write the rows of the tensor that `let NAME = ..` of the model binds, in place of classes.
    #[arg(long, value_name = "NAME", conflicts_with = "probabilities")]
    embeddings: Option<String>,
    /// Only these vertices.
    #[arg(long, value_enum, value_name = "WHICH", default_value = "all")]
    vertices: Which,
    /// Only vertices of this type, of a graph with several types.
    #[arg(long, value_name = "TYPE")]
    vertex_type: Option<String>,
}

/// Vertices of a graph.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Which {
    /// All vertices; in a file of graphs or pairs, all graphs or pairs.
    All,
    /// The vertices inside graphs, or at the ends of pairs.
    Inside,
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
    /// Predicts the classes of vertices, or writes the rows of a tensor.
    pub fn run(&self, out: &Output) -> Answer {
        let format = Format::of(&self.out)?;
        writable(&self.out, "predictions")?;
        let loaded = self.model.load_trained(out)?;
        match &self.embeddings {
            None => self.predictions(&loaded, format, out),
            Some(name) => self.rows_of(&loaded, name, format, out),
        }
    }

    fn predictions(&self, loaded: &Loaded, format: Format, out: &Output) -> Answer {
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let options = self.trained.options(out)?;
        let found = gnnc::predict(loaded, &compiled, &options, self.trained.weights())?;
        let said = Said::Predictions {
            found: &found,
            probabilities: self.probabilities,
        };
        let written = self.write(loaded, said, format)?;
        let shown = |scores: &Scores| {
            let name = scores.metric.name();
            let sets = [("val", scores.val), ("test", scores.test)];
            sets.map(|(set, score)| (format!("{set} {name}"), score_or_dash(scores.metric, score)))
        };
        let scores = found.scores.as_ref().map(shown);
        let text = || {
            let mut lines = vec![
                ("predictions", self.written(written)),
                ("model", of(loaded, &found.from, found.epochs)),
            ];
            let scores = scores.iter().flatten();
            lines.extend(scores.map(|(name, score)| (name.as_str(), score.clone())));
            facts(&lines)
        };
        out.report(
            text,
            &json!({
                "predictions": written,
                "out": self.out.display().to_string(),
                "model": loaded.model.name,
                "checkpoint": found.from.display().to_string(),
                "epochs": found.epochs,
                "scores": found.scores,
            }),
        )
    }

    /// Writes the rows of a tensor.
    fn rows_of(&self, loaded: &Loaded, name: &str, format: Format, out: &Output) -> Answer {
        let options = self.trained.options(out)?;
        let found = gnnc::embeddings(loaded, name, &options, self.trained.weights())?;
        let written = self.write(loaded, Said::Embeddings(&found), format)?;
        let text = || {
            facts(&[
                ("embeddings", self.written(written)),
                (
                    "tensor",
                    format!("{name}, {} a vertex", counted(found.width, "number")),
                ),
                ("model", of(loaded, &found.from, found.epochs)),
            ])
        };
        out.report(
            text,
            &json!({
                "embeddings": written,
                "tensor": name,
                "width": found.width,
                "out": self.out.display().to_string(),
                "model": loaded.model.name,
                "checkpoint": found.from.display().to_string(),
                "epochs": found.epochs,
            }),
        )
    }

    /// Writes the table of the chosen vertices; returns how many these are.
    fn write(&self, loaded: &Loaded, said: Said, format: Format) -> Result<usize, Failure> {
        let Some(data) = &loaded.data else {
            return Err(input(
                "a model of statistics has no vertices to predict; give --graph FILE",
            ));
        };
        let of_type = match &self.vertex_type {
            None => (0..data.vertices()).collect(),
            Some(name) => data
                .vertices_of_type(name)
                .ok_or_else(|| unknown_type(name, data))?,
        };
        let all = of_type.into_iter().map(|v| v as usize);
        let wanted: Vec<usize> = all.filter(|v| self.vertices.has(data, *v)).collect();
        let table = Table {
            data,
            wanted: &wanted,
            said,
        };
        replace(&self.out, &format.bytes(&table)?)?;
        Ok(wanted.len())
    }

    fn written(&self, rows: usize) -> String {
        format!("{rows} in {}", self.out.display())
    }
}

/// The error about a type that the graph does not have.
fn unknown_type(name: &str, data: &GraphData) -> Failure {
    let types: Vec<&str> = data.vertex_types.iter().collect();
    let expected = match types.is_empty() {
        true => "no --vertex-type, since the vertices of the graph have no types".to_owned(),
        false => format!("one of {}", types.join(", ")),
    };
    input(format!("found --vertex-type {name}, expected {expected}"))
}

/// A trained model in a report: its name, the file of its parameters, and the epochs that these were trained for.
fn of(loaded: &Loaded, from: &Path, epochs: u64) -> String {
    let (model, epochs) = (&loaded.model.name, counted(epochs, "epoch"));
    format!("{model} of {} after {epochs}", from.display())
}

impl Which {
    /// Whether a vertex is one of them.
    pub(super) fn has(self, data: &GraphData, v: usize) -> bool {
        let predicted = data.subjects().contains(&(v as u32));
        match self {
            Self::All => predicted,
            Self::Inside => data.subjects().len() < data.vertices() as usize && !predicted,
            Self::Train => data.train[v],
            Self::Val => data.val[v],
            Self::Test => data.test[v],
            Self::Rest => predicted && !(data.train[v] || data.val[v] || data.test[v]),
        }
    }
}

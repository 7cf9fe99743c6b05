//! `gnnc graph import`.

use super::files::writable;
use super::output::{Answer, Output, input};
use super::text::facts;
use clap::{Args, ValueEnum};
use gnnc::graph::import::{Import, Note, Shares, import};
use gnnc::graph::read::Format;
use gnnc::graph::{Features, write};
use gnnc::ir::words::spelling::counted;
use gnnc::numbers::{SEEDS, within};
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `graph import`.
#[derive(Args)]
pub struct ImportCommand {
    /// The edges: a table with a source and a target in each row, with any separator, also with .gz, or
    /// in Parquet; `-` is standard input. Or all of the graph: the folder of a data set of OGB, of DGL's
    /// CSVDataset or of TU Dortmund, GraphML, NetworkX's JSON, or a graph file.
    edges: PathBuf,
    /// The vertices: a table with an id in each row, and possibly a label, a split and features.
    #[arg(long, value_name = "FILE")]
    nodes: Option<PathBuf>,
    /// The file to write, an .npz archive.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Whether first rows have the names of the columns [default: found by looking].
    #[arg(long, value_enum, value_name = "YES|NO")]
    header: Option<Header>,
    /// Column of an edge's source [default: `source`, `src`, `from`, `u`, .., or else the first].
    #[arg(long, value_name = "COLUMN")]
    source: Option<String>,
    /// Column of an edge's target [default: `target`, `dst`, `to`, `v`, .., or else the second].
    #[arg(long, value_name = "COLUMN")]
    target: Option<String>,
    /// Column of an edge's type [default: `type`, `edge_type`, `relation`, .., or else none].
    #[arg(long = "type", value_name = "COLUMN")]
    kind: Option<String>,
    /// Column of a vertex's id [default: `id`, `node`, `node_id`, `vertex` or `name`].
    #[arg(long, value_name = "COLUMN")]
    id: Option<String>,
    /// Column of a vertex's label [default: `label`, `class`, `y` or `target`, or else none].
    #[arg(long, value_name = "COLUMN")]
    label: Option<String>,
    /// Column that says train, val or test [default: `split`, `set`, `fold` or `subset`, or else none].
    #[arg(long, value_name = "COLUMN")]
    split_column: Option<String>,
    /// Column of a vertex's type [default: `type`, `vertex_type`, `node_type` or `ntype`, or else none].
    #[arg(long, value_name = "COLUMN")]
    vertex_type: Option<String>,
    /// Take the labels and the split of this type of vertices, if several types have labels.
    #[arg(long, value_name = "TYPE")]
    label_type: Option<String>,
    /// Columns of the vertices that are no features.
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    without: Vec<String>,
    /// Columns of the edges that are features, or `none` [default: all that have only numbers].
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',')]
    edge_features: Option<Vec<String>>,
    /// The split to take, of a data set with several.
    #[arg(long, value_name = "NAME")]
    split_name: Option<String>,
    /// Labels in place of those of the source: .npy, or a table of one label for each vertex (or graph) or of
    /// ids and labels.
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Splits in place of those of the source: .npy or a table as for labels, or a folder with the lists
    /// train, val and test.
    #[arg(long, value_name = "PATH", conflicts_with = "split")]
    splits: Option<PathBuf>,
    /// Dense features in place of those of the source, from a .npy file.
    #[arg(long, value_name = "FILE")]
    features: Option<PathBuf>,
    /// Split the labeled vertices, or graphs, at random into these shares, such as 0.6,0.2,0.2.
    #[arg(long, value_name = "TRAIN,VAL,TEST", value_delimiter = ',')]
    split: Vec<f64>,
    /// Split every class alike.
    #[arg(long, requires = "split")]
    stratified: bool,
    /// Seed of the split.
    #[arg(long, value_name = "N", default_value = "0", value_parser = within(SEEDS))]
    seed: u64,
    /// Add the missing reverse edges.
    #[arg(long = "symmetrize", alias = "symmetrise")]
    symmetrise: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Header {
    Yes,
    No,
}

impl ImportCommand {
    /// The columns of the edges that the command line names.
    fn edge_columns(&self) -> Option<Vec<String>> {
        let names = self.edge_features.clone()?;
        let none = names.len() == 1 && names[0] == "none";
        Some(if none { Vec::new() } else { names })
    }

    /// Reads the tables and writes the graph.
    pub fn run(&self, out: &Output) -> Answer {
        if Format::of_name(&self.out) != Some(Format::Npz) {
            return Err(input(format!(
                "found --out {}, expected a name that ends with .npz, which holds all of a graph",
                self.out.display()
            )));
        }
        writable(&self.out, "graph")?;
        let imported = import(&Import {
            edges: self.edges.clone(),
            nodes: self.nodes.clone(),
            header: self.header.map(|header| header == Header::Yes),
            source: self.source.clone(),
            target: self.target.clone(),
            kind: self.kind.clone(),
            id: self.id.clone(),
            label: self.label.clone(),
            split: self.split_column.clone(),
            vertex_type: self.vertex_type.clone(),
            label_type: self.label_type.clone(),
            without: self.without.clone(),
            edge_features: self.edge_columns(),
            split_name: self.split_name.clone(),
            labels: self.labels.clone(),
            splits: self.splits.clone(),
            features: self.features.clone(),
            symmetrise: self.symmetrise,
            shares: self.shares()?,
        })?;
        for Note(note) in &imported.notes {
            out.note(&format!("{note}\n"));
        }
        let (data, dropped) = (&imported.data, &imported.dropped);
        out.not_used(&self.edges.display().to_string(), &dropped.not_used);
        write::save(data, &self.out)?;
        let split = [&data.train, &data.val, &data.test]
            .map(|mask| mask.iter().filter(|there| **there).count());
        let features = match &data.features {
            Features::None => 0,
            features => features.columns(),
        };
        let text = || {
            let [train, val, test] = split;
            facts(&[
                ("graph", self.out.display().to_string()),
                ("vertices", data.vertices().to_string()),
                ("edges", data.topology.edges().to_string()),
                (
                    "left out",
                    format!(
                        "{}, {}",
                        counted(dropped.self_loops, "self loop"),
                        counted(dropped.repeats, "repeated edge")
                    ),
                ),
                ("features", features.to_string()),
                ("labels", data.label_text()),
                ("split", format!("{train} train, {val} val, {test} test")),
            ])
        };
        out.report(
            text,
            &json!({
                "graph": self.out.display().to_string(),
                "vertices": data.vertices(),
                "edges": data.topology.edges(),
                "relations": data.topology.relations(),
                "edge_features": data.edge_features.columns,
                "self_loops": dropped.self_loops,
                "repeats": dropped.repeats,
                "not_used": dropped.not_used,
                "features": features,
                "classes": data.classes(),
                "split": split,
                "notes": imported.notes.iter().map(|note| note.0.clone()).collect::<Vec<_>>(),
            }),
        )
    }

    fn shares(&self) -> Result<Option<Shares>, super::output::Failure> {
        let valid = |shares: &[f64]| {
            let sum: f64 = shares.iter().sum();
            shares.iter().all(|share| (0.0..=1.0).contains(share)) && sum <= 1.0 + 1e-9
        };
        match self.split[..] {
            [] => Ok(None),
            [train, val, test] if valid(&self.split) => Ok(Some(Shares {
                shares: [train, val, test],
                stratified: self.stratified,
                seed: self.seed,
            })),
            _ => Err(input(format!(
                "found --split {}, expected three shares that are at most 1 together, such as 0.6,0.2,0.2",
                self.split
                    .iter()
                    .map(f64::to_string)
                    .collect::<Vec<_>>()
                    .join(",")
            ))),
        }
    }
}

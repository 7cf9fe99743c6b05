//! `gnnc new`: a model to begin with, for a data file.

use super::files::{replace, writable};
use super::output::{Answer, Failure, Output, input};
use super::text::{count, facts};
use clap::{Args, ValueEnum};
use gnnc::graph::read::{LoadOptions as ReadOptions, load};
use gnnc::graph::{Features, GraphData, Labels, many};
use gnnc::ir::EdgeSet;
use gnnc::{LoadOptions, Loaded, Source};
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};

/// Edges from which the model mentions sampled batches.
const MANY_EDGES: u64 = 5_000_000;

/// Arguments of `new`.
#[derive(Args)]
pub struct New {
    /// The data file, such as one that `gnnc graph import` makes.
    data: PathBuf,
    /// The layers: gcn, sage, gat, gin or rgcn; by default rgcn if edges have types, gcn otherwise.
    #[arg(long, value_name = "NAME", value_enum, hide_possible_values = true)]
    layer: Option<Layer>,
    /// Write the model to this file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Overwrite the file if it exists.
    #[arg(long)]
    force: bool,
}

/// The layers of a model.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layer {
    /// Graph convolutions.
    Gcn,
    /// The mean of the neighbors beside the own row.
    Sage,
    /// Attention.
    Gat,
    /// Sums and small networks.
    Gin,
    /// A weight for each type of edges.
    Rgcn,
}

/// What a layer brings into a model.
struct Form {
    name: &'static str,
    what: &'static str,
    parameters: &'static str,
    /// The first layer, and its activation.
    first: &'static str,
    second: &'static str,
    /// Behind the second layer.
    last: &'static str,
}

impl Layer {
    /// The form for vertices of one type, or of several.
    fn form(self, several: bool) -> Form {
        let form = |name, what, parameters, first, second| Form {
            name,
            what,
            parameters,
            first,
            second,
            last: "",
        };
        match self {
            Self::Gcn => form(
                "gcn",
                "Graph convolutions (Kipf and Welling, 2017)",
                "hidden = 64, dropout = 0.5",
                "gcn_conv(hidden) |> relu",
                "gcn_conv(classes)",
            ),
            Self::Sage => form(
                "sage",
                "GraphSAGE with the mean (Hamilton et al., 2017)",
                "hidden = 64, dropout = 0.5",
                "sage_conv(hidden) |> relu",
                "sage_conv(classes)",
            ),
            Self::Gat => form(
                "gat",
                "Graph attention (Velickovic et al., 2018): `hidden` columns a head",
                "hidden = 8, heads = 8, dropout = 0.5",
                "gat_conv(hidden, heads = heads, dropout = dropout) |> elu",
                "gat_conv(classes, concat = false, dropout = dropout)",
            ),
            Self::Gin => Form {
                last: " |> relu |> linear(classes)",
                ..form(
                    "gin",
                    "Graph isomorphism network (Xu et al., 2019)",
                    "hidden = 64, dropout = 0.5",
                    "gin_conv(hidden) |> relu",
                    "gin_conv(hidden)",
                )
            },
            Self::Rgcn if several => form(
                "rgcn",
                "Relational graph convolutions (Schlichtkrull et al., 2018); `bases = 0` is a weight for each type of edges, \
                 `typed` one for each type of vertices",
                "hidden = 16, bases = 0, dropout = 0.5",
                "rgcn_conv(hidden, bases, typed = true) |> relu",
                "rgcn_conv(classes, bases, typed = true)",
            ),
            Self::Rgcn => form(
                "rgcn",
                "Relational graph convolutions (Schlichtkrull et al., 2018); `bases = 0` is a weight for each type of edges",
                "hidden = 16, bases = 0, dropout = 0.5",
                "rgcn_conv(hidden, bases) |> relu",
                "rgcn_conv(classes, bases)",
            ),
        }
    }
}

impl New {
    /// Looks at the data and writes a model for it.
    pub fn run(&self, out: &Output) -> Answer {
        let shown = self.out.display();
        writable(&self.out, "model")?;
        if !self.force && fs::symlink_metadata(&self.out).is_ok() {
            return Err(input(format!(
                "{shown} exists already; name another file, or overwrite it with --force"
            )));
        }
        let data = load(&self.data, &ReadOptions::default())?;
        let layer = self.layer.unwrap_or(match data.topology.relations() {
            0 | 1 => Layer::Gcn,
            _ => Layer::Rgcn,
        });
        let text = model(&data, layer, &self.path()?, &self.data)?;
        // What cannot be trained is not written.
        let source = Source::new(&self.out, text);
        let loaded = Loaded::new(&source, &LoadOptions::default())?;
        replace(&self.out, source.text.as_bytes())?;
        let name = &loaded.model.name;
        let next = format!("gnnc check {shown}, then gnnc train {shown}");
        out.report(
            || {
                facts(&[
                    ("wrote", shown.to_string()),
                    ("model", name.clone()),
                    ("next", next),
                ])
            },
            &json!({ "out": self.out.display().to_string(), "model": name }),
        )
    }

    /// The path of the data as the model says it: as given if that is right from the folder of the
    /// model, otherwise from the root.
    fn path(&self) -> Result<PathBuf, Failure> {
        let folder = self.out.parent().unwrap_or(Path::new(""));
        if self.data.is_absolute() || folder == Path::new("") || folder == Path::new(".") {
            return Ok(self.data.clone());
        }
        let absolute = |path: &Path| {
            fs::canonicalize(path).map_err(|source| gnnc::Error::File {
                action: "read",
                path: path.to_owned(),
                source,
            })
        };
        let data = absolute(&self.data)?;
        let below = data.strip_prefix(absolute(folder)?).map(Path::to_owned);
        Ok(below.unwrap_or(data))
    }
}

/// What a label belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    Vertex,
    Graph,
    Pair,
}

impl Subject {
    fn of(data: &GraphData) -> Self {
        let has = |name: &str| data.topology.set_names().iter().any(|set| set == name);
        if has(many::GRAPHS) {
            Self::Graph
        } else if data.has_pairs() {
            Self::Pair
        } else {
            Self::Vertex
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Vertex => "vertex",
            Self::Graph => "graph",
            Self::Pair => "pair",
        }
    }
}

impl Form {
    /// The form for what labels belong to: graphs pool the rows of their vertices, and pairs compare
    /// those of their ends.
    fn for_subject(&self, subject: Subject) -> (String, String) {
        let (second, last) = (self.second.to_owned(), self.last.to_owned());
        match subject {
            Subject::Vertex => (second, last),
            Subject::Graph => (second, last + " |> pool"),
            Subject::Pair => (
                second.replace("classes", "hidden"),
                " |> dot_decoder".to_owned(),
            ),
        }
    }
}

/// The text of a model for the data at `path`, which the user calls `given`.
fn model(data: &GraphData, layer: Layer, path: &Path, given: &Path) -> Result<String, Failure> {
    let (shown, subject) = (given.display(), Subject::of(data));
    let of = subject.name();
    let loss = match &data.labels {
        Labels::None => {
            return Err(input(format!(
                "{shown} has no labels, so there is nothing to learn; `gnnc graph import EDGES --nodes NODES` takes \
                 them from a column `label`"
            )));
        }
        Labels::Single(_) => (
            format!("One class for each {of}."),
            "cross_entropy",
            "class",
        ),
        Labels::Values { width: 1, .. } if subject == Subject::Pair => (
            "Whether each pair is a link; those that are weigh as much as those that are not."
                .to_owned(),
            "bce_with_logits",
            "label",
        ),
        Labels::Values { values, .. }
            if values.iter().all(|v| v.is_nan() || [0.0, 1.0].contains(v)) =>
        {
            (
                format!("Any number of classes for each {of}; `mse` would take them for numbers."),
                "bce_with_logits",
                "class",
            )
        }
        Labels::Values { .. } => (
            format!("Numbers for each {of}: `mae` and `huber` forgive outliers."),
            "mse",
            "target",
        ),
    };
    if !data.train.contains(&true) {
        return Err(input(format!(
            "{shown} has no training vertices; save them as `train_mask`, or let `gnnc graph import` choose them \
             with --split 0.6,0.2,0.2"
        )));
    }
    if layer == Layer::Rgcn && data.topology.relations() == 0 {
        return Err(input(format!(
            "rgcn needs types of edges, and {shown} has none; expected --layer gcn, sage, gat or gin"
        )));
    }
    let form = layer.form(!data.vertex_types.is_empty());
    let own = count(u64::from(data.own_features()), "feature");
    let (options, features) = match &data.features {
        _ if data.own_features() == 0 => (
            "\n  # There are no features, so each vertex gets its own: a row of the first weight.\
             \n  features = identity",
            "no features".to_owned(),
        ),
        Features::Sparse { .. } if subject != Subject::Graph => (
            "\n  # Scales the features of each vertex to sum 1, as usual for counts of words.\
             \n  normalize_features = true",
            own,
        ),
        Features::None | Features::Sparse { .. } | Features::Dense { .. } => ("", own),
    };
    // Rows of an identity matrix are not dropped: that would drop vertices.
    let first = match data.own_features() {
        0 => "x",
        _ => "x |> dropout(dropout)",
    };
    let edges = data.topology.edges_of(EdgeSet::Plain);
    let mut size = vec![
        count(u64::from(data.vertices()), "vertex"),
        count(edges, "edge"),
        features,
        count(u64::from(data.classes()), loss.2),
    ];
    if data.topology.relations() > 1 {
        size.insert(2, count(u64::from(data.topology.relations()), "edge type"));
    }
    if !data.vertex_types.is_empty() {
        size.insert(1, count(data.vertex_types.len() as u64, "vertex type"));
    }
    let mut train =
        String::from("  optimizer = adam(lr = 0.01)\n  weight_decay = 5e-4\n  epochs = 200\n");
    if subject == Subject::Pair {
        train += "  metric = \"roc_auc\"\n";
    }
    if data.val.contains(&true) {
        train +=
            "  # Stops after so many epochs without a better validation loss.\n  patience = 50\n";
    }
    if subject == Subject::Graph {
        train += "  # For training on batches of graphs; each `all` keeps the edges that a layer runs over:\n  \
                  # allow = [sample]\n  # batch = 32\n  # fanouts = [all, all, all]\n";
    } else if edges >= MANY_EDGES && subject == Subject::Vertex {
        train += "  # For training on sampled batches, if the whole graph takes too long or does not fit:\n  \
                  # allow = [sample]\n  # batch = 1000\n  # fanouts = [25, 10]\n";
    }
    let graph = identifier(&path.file_stem().unwrap_or_default().to_string_lossy());
    let path = path.display().to_string();
    let path = path.replace('\\', "\\\\").replace('"', "\\\"");
    let path = path.replace('\n', "\\n").replace('\t', "\\t");
    let block = match options {
        "" => String::new(),
        options => format!(" {{{options}\n}}"),
    };
    let (second, last) = form.for_subject(subject);
    let Form {
        name,
        what,
        parameters,
        first: conv,
        ..
    } = form;
    let (about, loss, _) = loss;
    let weights = match &data.labels {
        Labels::Values { values, .. } if subject == Subject::Pair => {
            let trained = values
                .iter()
                .zip(&data.train)
                .filter(|(_, trained)| **trained);
            let links = trained.clone().filter(|(label, _)| **label == 1.0).count();
            let others = trained.count() - links;
            match links * others {
                0 => String::new(),
                _ => format!(
                    ", weights = [{:.4}]",
                    (others as f64 / links as f64).min(1e6)
                ),
            }
        }
        Labels::None | Labels::Single(_) | Labels::Values { .. } => String::new(),
    };
    let size = size.join(", ");
    let unread = match data.edge_features.columns {
        0 => String::new(),
        columns => format!(
            "# These layers do not read the {} of the edges; a layer of your own may: `edge_features`.\n",
            count(u64::from(columns), "feature")
        ),
    };
    Ok(format!(
        "# {what}.\n\
         # The data has {size}.\n\
         {unread}\
         graph {graph} = \"{path}\"{block}\n\n\
         # `--set hidden=128` changes a parameter for one run.\n\
         model {name}({parameters}) on {graph} {{\n  \
         let h = {first} |> {conv}\n  \
         let z = h |> dropout(dropout) |> {second}{last}\n  \
         # {about}\n  \
         loss {loss}(z, labels, on = train{weights})\n\
         }}\n\n\
         train {{\n{train}}}\n"
    ))
}

/// A name that the language accepts.
fn identifier(text: &str) -> String {
    let keep = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = text.chars().take(40).map(keep).collect();
    format!("data_{}", name.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_become_names_of_graphs() {
        assert_eq!(identifier("cora"), "data_cora");
        assert_eq!(identifier("7 männer.v2"), "data_7_m_nner_v2");
        assert_eq!(identifier(""), "data_");
    }
}

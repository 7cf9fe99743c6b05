//! Reads files into a checked model with its data graph.

mod own;

use crate::{ByPart, Error, Metric};
use gnnc_graph::links::{LinkOptions, with_pairs};
use gnnc_graph::parts::Parts;
use gnnc_graph::read;
use gnnc_graph::{Dropped, Features, GraphData};
use gnnc_ir::Workload;
use gnnc_ir::graph::model::{DataOptions, GraphSource, Model};
use gnnc_ir::graph::op::LabelKind;
use gnnc_ir::words::json::explain;
use gnnc_ir::workload::GraphFacts;
use gnnc_lang::diagnostic::has_errors;
use gnnc_lang::syntax::{Module, parse};
use gnnc_lang::{Diagnostic, check};
use std::path::{Path, PathBuf};

/// Longest model that is read, in bytes.
const MAX_MODEL: u64 = 4 << 20;
/// Longest workload that is read, in bytes.
const MAX_WORKLOAD: u64 = 64 << 20;

/// A `.gir` file.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file's path; data graphs are looked for in its folder.
    pub path: PathBuf,
    /// Its text.
    pub text: String,
    /// The parsed module, even after errors.
    pub module: Module,
    /// The parser's diagnostics.
    pub diagnostics: Vec<Diagnostic>,
}

/// Overrides for parts of the file.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Values of model parameters (`--set depth=64`).
    pub set: Vec<(String, f64)>,
    /// A graph file instead of the model's.
    pub graph: Option<PathBuf>,
    /// A workload (JSON) instead of the model's graph: enough to plan.
    pub workload: Option<PathBuf>,
    /// Whether the model is trained already. Another graph may then be without labels, and its classes are those
    /// of the model's own graph.
    pub trained: bool,
}

/// A checked model with its data graph, or statistics of it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The model.
    pub model: Model,
    /// The statistics of the graph for the planner.
    pub workload: Workload,
    /// The graph itself, if the model names a file.
    pub data: Option<GraphData>,
    /// The graph, if it lies in a folder of parts.
    pub by_part: Option<ByPart>,
    /// Content of the graph file that no model can use, such as edge weights.
    pub not_used: Vec<String>,
    /// Warnings.
    pub diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    /// Frees the memory of the graph's features, once ranks hold theirs. Nothing can be trained on the
    /// graph afterwards but by these.
    pub fn forget_features(&mut self) {
        let vertices = self.by_part.as_mut().map(|by_part| &mut by_part.vertices);
        for data in self.data.as_mut().into_iter().chain(vertices) {
            data.features = Features::None;
        }
    }
}

impl Source {
    /// Reads and parses a file, or standard input if the path is `-`.
    ///
    /// # Errors
    /// The file cannot be read. Errors in the text become diagnostics.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let read = gnnc_files::read_input(path, MAX_MODEL).and_then(gnnc_files::utf8);
        let text = read.map_err(|source| Error::File {
            action: "read",
            path: path.to_owned(),
            source,
        })?;
        Ok(Self::new(path, text))
    }

    /// Parses `text` as the content of the file at `path`.
    pub fn new(path: impl Into<PathBuf>, text: String) -> Self {
        let (module, diagnostics) = parse(&text);
        Self {
            path: path.into(),
            text,
            module,
            diagnostics,
        }
    }

    /// The file's name in messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Checks the model against facts about its data graph.
    pub fn check(
        &self,
        facts: &GraphFacts,
        set: &[(String, f64)],
    ) -> (Option<Model>, Vec<Diagnostic>) {
        let (model, found) = check::elaborate(&self.module, facts, set);
        let mut all = self.diagnostics.clone();
        all.extend(found);
        let model = model.filter(|_| !has_errors(&all));
        (model, all)
    }

    /// The options of the model's graph block.
    fn data_options(&self) -> DataOptions {
        match self.module.graph_source() {
            Some(GraphSource::Data { options, .. }) => options,
            _ => DataOptions::default(),
        }
    }

    /// A file that the model names.
    fn beside(&self, path: &str) -> PathBuf {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        folder.join(path)
    }

    fn refuse(&self, diagnostics: Vec<Diagnostic>) -> Error {
        Error::Model {
            file: self.name(),
            text: self.text.clone(),
            diagnostics,
        }
    }
}

impl Loaded {
    /// Checks the model against a graph in memory, which takes the place of the model's own; if that is only statistics,
    /// they say how many classes there are. `not_used` is content of the graph's source that no model can use.
    ///
    /// # Errors
    /// The model has errors, or the graph is invalid.
    pub fn with_graph(
        source: &Source,
        data: GraphData,
        not_used: Vec<String>,
        options: &LoadOptions,
    ) -> Result<Self, Error> {
        let at = PathBuf::from(&data.name);
        let mut made = source.data_options();
        let mut trained = options.trained;
        if let Some(GraphSource::Statistics(declared)) = source.module.graph_source() {
            made.identity_features = declared.identity_features;
            trained = true;
        }
        let data = with_links(&at, data, &made)?;
        let (workload, data) = prepared(&at, data, &made, source, trained)?;
        let (model, diagnostics) = source.check(&workload.facts(), &options.set);
        let model = model.ok_or_else(|| source.refuse(diagnostics.clone()))?;
        Ok(Self {
            model,
            workload,
            data: Some(data),
            by_part: None,
            not_used,
            diagnostics,
        })
    }

    /// Reads the model's data graph and checks the model against it.
    ///
    /// # Errors
    /// The model has errors, or the graph cannot be read or is invalid.
    pub fn new(source: &Source, options: &LoadOptions) -> Result<Self, Error> {
        let mut not_used = Vec::new();
        let mut by_part = None;
        let (workload, data) = match (&options.workload, &options.graph) {
            (Some(path), _) => (read_workload(path)?, None),
            (None, Some(path)) => {
                if Parts::is_folder(path) {
                    by_part = Some(ByPart::open(path, &source.data_options())?);
                }
                match &by_part {
                    Some(by_part) => (by_part.parts.manifest.workload.clone(), None),
                    None => {
                        let data = DataOptions::default();
                        Self::data(path, &data, source, options.trained, &mut not_used)?
                    }
                }
            }
            (None, None) => match source.module.graph_source() {
                Some(GraphSource::Data {
                    path,
                    options: data,
                    ..
                }) => {
                    let path = source.beside(&path);
                    if Parts::is_folder(&path) {
                        by_part = Some(ByPart::open(&path, &data)?);
                    }
                    match &by_part {
                        Some(by_part) => (by_part.parts.manifest.workload.clone(), None),
                        None => Self::data(&path, &data, source, false, &mut not_used)?,
                    }
                }
                Some(GraphSource::Statistics(workload)) => (workload, None),
                None => {
                    let (_, diagnostics) = source.check(&GraphFacts::PLACEHOLDER, &options.set);
                    return Err(source.refuse(diagnostics));
                }
            },
        };
        let (model, diagnostics) = source.check(&workload.facts(), &options.set);
        match model {
            Some(model) => Ok(Self {
                model,
                workload,
                data,
                by_part,
                not_used,
                diagnostics,
            }),
            None => Err(source.refuse(diagnostics)),
        }
    }

    /// The score for predictions on the graph: the model's, or the one that fits its loss.
    pub fn metric(&self) -> Metric {
        self.model.train.metric.unwrap_or(self.counted())
    }

    /// The score that evaluations count: the one that fits the model's loss.
    pub fn counted(&self) -> Metric {
        match self.model.loss.labels() {
            LabelKind::Class => Metric::Accuracy,
            LabelKind::Several => Metric::MicroF1,
            LabelKind::Numbers => Metric::Mae,
        }
    }

    fn data(
        path: &Path,
        options: &DataOptions,
        source: &Source,
        trained: bool,
        not_used: &mut Vec<String>,
    ) -> Result<(Workload, Option<GraphData>), Error> {
        let named = source.module.graph_source();
        let options = match named {
            Some(GraphSource::Data { options, .. }) => options,
            _ => *options,
        };
        let (data, dropped) = open(path, &options)?;
        *not_used = dropped.not_used;
        let (workload, data) = prepared(path, data, &options, source, trained)?;
        Ok((workload, Some(data)))
    }
}

/// A graph as models use it, with its statistics. `path` names it in messages.
fn prepared(
    path: &Path,
    mut data: GraphData,
    options: &DataOptions,
    source: &Source,
    trained: bool,
) -> Result<(Workload, GraphData), Error> {
    if options.identity_features {
        let own = identity(path, &data)?;
        data.set_own_features(own);
    }
    let problems = data.validate();
    if !problems.is_empty() {
        let list: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let found = list.join("\n  ");
        return Err(Error::Input(format!(
            "{} cannot be used:\n  {found}",
            path.display()
        )));
    }
    if options.normalize_features {
        data.features = data.features.row_normalized(data.own_features());
    }
    data.features = data.features.in_best_storage();
    let mut workload = gnnc_graph::summary::summarise(&data, &[])?;
    if trained {
        source.fit(path, &mut data, &mut workload)?;
    }
    let lacks = match (workload.features, workload.classes) {
        (0, _) => {
            "input features; add them with `gnnc graph convert IN OUT.npz --features FILE.npy`, or write \
                 `features = identity` in the model's graph block, which gives each vertex its own feature"
        }
        (_, 0) => "labels; save them as the array `labels` of an .npz file",
        _ => return Ok((workload, data)),
    };
    Err(Error::Input(format!(
        "the graph {} has no {lacks}",
        path.display()
    )))
}

/// Reads a graph, and makes pairs to predict links on if these are asked for and the file has none.
fn open(path: &Path, options: &DataOptions) -> Result<(GraphData, Dropped), Error> {
    let (data, dropped) = gnnc_graph::import::open(path, &read::LoadOptions::default())?;
    Ok((with_links(path, data, options)?, dropped))
}

/// The graph with pairs to predict links on, if these are asked for and it has none.
fn with_links(path: &Path, data: GraphData, options: &DataOptions) -> Result<GraphData, Error> {
    let Some(negatives) = options.links.filter(|_| !data.has_pairs()) else {
        return Ok(data);
    };
    let drawn = LinkOptions {
        negatives,
        ..LinkOptions::default()
    };
    with_pairs(&data, &drawn).map_err(|error| {
        Error::Input(format!(
            "`links` in the graph block makes pairs of the vertices of {}: {error}",
            path.display()
        ))
    })
}

/// The identity matrix as features: each vertex has its own.
fn identity(path: &Path, data: &GraphData) -> Result<Features, Error> {
    let (vertices, most) = (data.vertices(), gnnc_ir::workload::MAX_WIDTH);
    match vertices <= most {
        true => Ok(Features::identity(vertices)),
        false => Err(Error::Input(format!(
            "`features = identity` gives each vertex of {} {vertices} features, expected at most {most}; add \
             features with `gnnc graph convert IN OUT.npz --features FILE.npy`",
            path.display()
        ))),
    }
}

/// Reads a workload file.
fn read_workload(path: &Path) -> Result<Workload, Error> {
    let text = gnnc_files::read_text(path, MAX_WORKLOAD).map_err(|source| Error::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    let refuse = |why: String| {
        Error::Input(format!(
            "{} is not a workload: {why}; `gnnc graph stats --format json` writes one",
            path.display()
        ))
    };
    let workload: Workload = serde_json::from_str(&text).map_err(|e| {
        let field = key_before(&text, e.line(), e.column());
        let said = explain(&e);
        refuse(match field {
            Some(field) => format!("`{field}`: {said}"),
            None => said,
        })
    })?;
    workload.check().map_err(|e| refuse(e.to_string()))?;
    Ok(workload)
}

/// The last object key before a place in JSON. The reader reports a value of the wrong type only by its place;
/// this is its key.
fn key_before(json: &str, line: usize, column: usize) -> Option<&str> {
    let lines = json.split_inclusive('\n');
    let before: usize = lines.take(line.checked_sub(1)?).map(str::len).sum();
    let text = json.get(..(before + column).min(json.len()))?;
    let ends = text
        .rmatch_indices(':')
        .map(|(at, _)| text[..at].trim_end());
    let key = ends.filter_map(|key| key.strip_suffix('"')).next()?;
    key.rsplit_once('"').map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_of_a_wrong_value_is_found() {
        let json = "{\n  \"name\": \"a:b\",\n  \"split\" : [1, -2]\n}";
        assert_eq!(key_before(json, 3, 15), Some("split"));
        assert_eq!(key_before(json, 2, 12), Some("name"));
        assert_eq!(key_before(json, 1, 1), None);
        assert_eq!(key_before(json, 0, 0), None);
        assert_eq!(key_before("\u{e4}:", 1, 1), None);
    }
}

//! What is done with a model but training it: checks, plans and predictions.

use crate::arrays::{Floats, matrix};
use crate::errors::{detached, input, raised};
use crate::graph::Graph;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::graph::op::LabelKind;
use gnnc::ir::plan::{Objective, PlanSource};
use gnnc::ir::words::storage::Storage;
use gnnc::planner::report::{self, View};
use gnnc::planner::search::Pin;
use gnnc::runtime::Tensor;
use gnnc::{
    Cache, Error, LoadOptions, Loaded, PlanOptions, Planner, Scores, Source, TrainOptions, Weights,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A model's text and the values of its parameters.
#[derive(FromPyObject)]
pub struct Model {
    text: String,
    path: PathBuf,
    /// Whether the text was read from the path.
    is_file: bool,
    set: Vec<(String, f64)>,
}

impl Model {
    /// The model with its graph: the given one, or else its own. `trained` is as in [`LoadOptions`].
    ///
    /// # Errors
    /// Those of [`Loaded::new`].
    pub fn load(&self, graph: Option<&Graph>, trained: bool) -> Result<Loaded, Error> {
        let source = Source::new(&self.path, self.text.clone());
        let options = LoadOptions {
            set: self.set.clone(),
            trained,
            ..LoadOptions::default()
        };
        match graph {
            Some(graph) => {
                let not_used = graph.dropped.not_used.clone();
                Loaded::with_graph(&source, graph.data.clone(), not_used, &options)
            }
            None => Loaded::new(&source, &options),
        }
    }
}

/// Reads words from Python.
///
/// # Errors
/// A word that is none of them.
pub fn word<T: Copy>(
    py: Python<'_>,
    what: &str,
    word: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> PyResult<T> {
    let found = all.iter().copied().find(|one| name(*one) == word);
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|one| name(*one)).collect();
        let names = names.join(", ");
        input(
            py,
            &format!("found {what} `{word}`, expected one of {names}"),
        )
    })
}

/// Reads permissions.
///
/// # Errors
/// As [`word`].
pub fn permissions(py: Python<'_>, words: &[String]) -> PyResult<Vec<Relaxation>> {
    let one = |name: &String| word(py, "a permission", name, &Relaxation::ALL, Relaxation::name);
    words.iter().map(one).collect()
}

/// Reads the name of a storage format.
///
/// # Errors
/// As [`word`].
pub fn storage(py: Python<'_>, name: &str) -> PyResult<Storage> {
    word(py, "the storage", name, Storage::ALL, Storage::name)
}

/// The cache of kernels and partitions; none if its folder cannot be used.
///
/// # Errors
/// A relative path in `GNNC_CACHE`.
pub fn cache() -> Result<Option<Cache>, Error> {
    let folder = gnnc::cache_folder()?;
    Ok(folder.and_then(|folder| Cache::open(&folder).ok()))
}

/// Reads parameters: names, with matrices of all iterations one below the other.
///
/// # Errors
/// Arrays that are no matrices of float32.
pub fn tensors(weights: &Bound<'_, PyDict>) -> PyResult<Vec<Tensor>> {
    let mut found = Vec::new();
    for (name, about) in weights {
        let (shape, array): ([u32; 3], Bound<'_, PyAny>) = about.extract()?;
        found.push(Tensor {
            name: name.cast::<PyString>()?.to_string(),
            shape,
            values: matrix(&array)?.values.to_vec(),
        });
    }
    Ok(found)
}

/// Checks a model; returns its name and its warnings as the command line prints them.
#[pyfunction]
#[pyo3(signature = (model, graph=None))]
pub fn check(
    py: Python<'_>,
    model: Model,
    graph: Option<PyRef<'_, Graph>>,
) -> PyResult<(String, String)> {
    let graph = graph.as_deref();
    detached(py, || {
        let loaded = model.load(graph, false)?;
        let path = model.path.display().to_string();
        let warnings = match loaded.diagnostics.is_empty() {
            true => String::new(),
            false => gnnc::lang::diagnostic::render(&loaded.diagnostics, &path, &model.text, false),
        };
        Ok((loaded.model.name, warnings))
    })
}

/// How to plan.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Planned {
    cluster: Option<String>,
    gpus: Option<u32>,
    nodes: Option<u32>,
    objective: String,
    allow: Vec<String>,
    storage: String,
    /// Keys and values, as the command line writes them.
    pin: Vec<(String, String)>,
    overlap: bool,
    top: Option<usize>,
    evaluate_every: Option<u32>,
}

/// Plans a model; returns the plan as JSON, the text of the command line, the longer one of `--why --all`, and the names of
/// the candidates.
#[pyfunction]
#[pyo3(signature = (model, graph, how))]
pub fn plan(
    py: Python<'_>,
    model: Model,
    graph: Option<PyRef<'_, Graph>>,
    how: &Bound<'_, PyDict>,
) -> PyResult<(String, String, String, Vec<String>)> {
    let how: Planned = how.extract()?;
    let goals = [Objective::Time, Objective::Memory, Objective::Bytes];
    let name = |goal: Objective| match goal {
        Objective::Time => "time",
        Objective::Memory => "memory",
        Objective::Bytes => "bytes",
        Objective::TimeToAccuracy => "time-to-accuracy",
    };
    let objective = word(py, "the objective", &how.objective, &goals, name)?;
    let (allow, storage) = (permissions(py, &how.allow)?, storage(py, &how.storage)?);
    let mut pin = Pin::default();
    for (key, value) in &how.pin {
        let set = gnnc::knobs::pin(&mut pin, key, value);
        set.map_err(|expected| {
            input(
                py,
                &format!("found the pin {key}={value}, expected {expected}"),
            )
        })?;
    }
    let graph = graph.as_deref();
    detached(py, || {
        let usual = gnnc::usual_cluster(how.gpus, how.nodes);
        let cluster = gnnc::cluster(how.cluster.as_deref().unwrap_or(usual))?;
        let mut options = PlanOptions::new(cluster.resized(how.gpus, how.nodes)?);
        options.objective = objective;
        options.allow = allow;
        options.pin = pin;
        options.pin.knobs.storage = storage;
        options.pin.knobs.overlap = (!how.overlap).then_some(false);
        options.top = how.top;
        options.evaluate_every = how.evaluate_every;
        options.cache = cache()?;
        let loaded = model.load(graph, false)?;
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let planner = Planner::new(&loaded, &compiled, &options)?;
        planner.check_pins()?;
        let mut plan = planner.plan();
        let read = graph.is_none_or(|graph| graph.path.is_some());
        if model.is_file && read {
            let shown = |path: &Path| path.display().to_string();
            plan.source = Some(PlanSource {
                model: shown(&model.path),
                fingerprint: format!("{:016x}", loaded.model.fingerprint()),
                set: model.set.iter().cloned().collect(),
                graph: graph.and_then(|graph| graph.path.as_deref()).map(shown),
            });
        }
        let few = View::default();
        let view = View {
            most: how.top.or(few.most),
            ..few
        };
        let all = View {
            most: None,
            why: true,
            ..few
        };
        let [text, why] = [view, all].map(|view| report::text(&plan, &view));
        let names = plan.candidates.iter().map(|candidate| candidate.name());
        Ok((report::json(&plan)?, text, why, names.collect()))
    })
}

/// Scores by name: the metric, and those of the training, validation and test vertices.
pub fn scores<'py>(py: Python<'py>, scores: &Scores) -> PyResult<Bound<'py, PyDict>> {
    let about = PyDict::new(py);
    about.set_item("metric", scores.metric.key())?;
    about.set_item("train", scores.train)?;
    about.set_item("val", scores.val)?;
    about.set_item("test", scores.test)?;
    Ok(about)
}

/// The parameters of a model: in memory, or in a checkpoint.
struct Given {
    tensors: Vec<Tensor>,
    checkpoint: Option<PathBuf>,
    last: bool,
}

impl Given {
    fn of(weights: &Bound<'_, PyDict>, checkpoint: Option<PathBuf>, last: bool) -> PyResult<Self> {
        Ok(Self {
            tensors: tensors(weights)?,
            checkpoint,
            last,
        })
    }

    fn weights(&self) -> Weights<'_> {
        match &self.checkpoint {
            Some(checkpoint) => Weights::Run {
                checkpoint,
                last: self.last,
            },
            None => Weights::Given(&self.tensors),
        }
    }
}

fn evaluation(workers: u32, threads: usize) -> Result<TrainOptions, Error> {
    Ok(TrainOptions {
        workers,
        threads,
        cache: cache()?,
        ..TrainOptions::default()
    })
}

/// What a model says about all vertices: logits, what the labels are, and scores if there are labels.
#[pyfunction]
#[pyo3(signature = (model, graph, weights, checkpoint, last, workers, threads))]
pub fn predict<'py>(
    py: Python<'py>,
    model: Model,
    graph: Option<PyRef<'py, Graph>>,
    weights: &Bound<'py, PyDict>,
    checkpoint: Option<PathBuf>,
    last: bool,
    workers: u32,
    threads: usize,
) -> PyResult<Bound<'py, PyDict>> {
    let given = Given::of(weights, checkpoint, last)?;
    let of_graph = graph.as_deref();
    let (found, labels) = detached(py, || {
        let loaded = model.load(of_graph, of_graph.is_some())?;
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let options = evaluation(workers, threads)?;
        let mut found = gnnc::outputs(&loaded, &compiled, &options, given.weights())?;
        // Of many graphs, and of pairs, the vertices inside them have no predictions.
        let data = loaded.data.as_ref();
        let first = data.map_or(0, |data| data.subjects().start as usize);
        found.logits.drain(..first * found.classes);
        Ok((found, loaded.model.loss.labels()))
    })?;
    let about = PyDict::new(py);
    let rows = found.logits.len() / found.classes.max(1);
    let logits = Floats::new(found.logits, &[rows, found.classes]);
    about.set_item("logits", Py::new(py, logits)?)?;
    about.set_item(
        "labels",
        match labels {
            LabelKind::Class => "class",
            LabelKind::Several => "several",
            LabelKind::Numbers => "numbers",
        },
    )?;
    let scored = found.scores.as_ref().map(|found| scores(py, found));
    about.set_item("scores", scored.transpose()?)?;
    Ok(about)
}

/// The rows of a named tensor of a model.
#[pyfunction]
#[pyo3(signature = (model, graph, name, weights, checkpoint, last, workers, threads))]
pub fn rows_of(
    py: Python<'_>,
    model: Model,
    graph: Option<PyRef<'_, Graph>>,
    name: &str,
    weights: &Bound<'_, PyDict>,
    checkpoint: Option<PathBuf>,
    last: bool,
    workers: u32,
    threads: usize,
) -> PyResult<Floats> {
    let given = Given::of(weights, checkpoint, last)?;
    let of_graph = graph.as_deref();
    let found = detached(py, || {
        let loaded = model.load(of_graph, of_graph.is_some())?;
        let options = evaluation(workers, threads)?;
        gnnc::embeddings(&loaded, name, &options, given.weights())
    })?;
    let rows = found.values.len() / found.width.max(1);
    Ok(Floats::new(found.values, &[rows, found.width]))
}

/// Raises an error of the facade where Python's lock is held.
pub fn held<T>(py: Python<'_>, result: Result<T, Error>) -> PyResult<T> {
    result.map_err(|error| raised(py, &error))
}

/// Parameters for Python: by name, the shape and the values.
pub fn named<'py>(py: Python<'py>, tensors: Vec<Tensor>) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    let sorted: BTreeMap<String, Tensor> = tensors
        .into_iter()
        .map(|tensor| (tensor.name.clone(), tensor))
        .collect();
    for (name, tensor) in sorted {
        let shape = tensor.shape.map(|n| n as usize);
        all.set_item(name, Py::new(py, Floats::new(tensor.values, &shape))?)?;
    }
    Ok(all)
}

//! Training runs, which Python watches and interrupts.

use crate::errors::{input, machine, raised};
use crate::graph::Graph;
use crate::model::{Model, cache, held, named, permissions, scores, storage, tensors, word};
use gnnc::device::{Device, library_folders};
use gnnc::ir::plan::{Candidate, Knobs, Placement, Plan};
use gnnc::planner::placement::TABLE;
use gnnc::planner::search::Pin;
use gnnc::runtime::device::cuda::LiveOptions;
use gnnc::runtime::{Stop, Tensor};
use gnnc::{Error, PlanOptions, Progress, Summary, TrainOptions, choose, machines, train_once};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// How often Python's signals are asked for.
const TICK: Duration = Duration::from_millis(50);

/// How to train, as Python says it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Asked {
    epochs: Option<u32>,
    seed: Option<u64>,
    lr: Option<f64>,
    workers: u32,
    threads: usize,
    device: String,
    placement: Option<String>,
    allow: Vec<String>,
    storage: String,
    cluster: Option<String>,
    evaluate_every: u32,
    target: Option<f64>,
    checkpoint: Option<PathBuf>,
    checkpoint_every: u32,
    resume: Option<PathBuf>,
    /// Names and values, as the command line writes them.
    knobs: Vec<(String, String)>,
    /// The JSON of a plan to follow.
    plan: Option<String>,
}

/// How to place a run.
enum Way {
    Usual,
    Best,
    Named(Placement),
    Planned(Box<Plan>),
}

fn way(py: Python<'_>, name: Option<&str>, plan: Option<&str>) -> PyResult<Way> {
    let all: Vec<Placement> = TABLE.iter().map(|row| row.placement).collect();
    if let Some(text) = plan {
        let plan = held(py, Plan::from_json(text).map_err(Error::from))?;
        return Ok(Way::Planned(Box::new(plan)));
    }
    match name {
        None => Ok(Way::Usual),
        Some("best") => Ok(Way::Best),
        Some(name) => word(py, "the placement", name, &all, Placement::name).map(Way::Named),
    }
}

/// Reads knobs.
///
/// # Errors
/// An unknown name, or a value that a knob does not take.
fn knobs(py: Python<'_>, words: &[(String, String)]) -> PyResult<Knobs> {
    let mut all = Knobs::default();
    for (name, value) in words {
        let set = gnnc::knobs::set(&mut all, name, value);
        set.map_err(|expected| input(py, &format!("found the knob {name}={value}, {expected}")))?;
    }
    Ok(all)
}

fn device(py: Python<'_>, name: &str) -> PyResult<Device> {
    let (kind, number) = name.split_once(':').unwrap_or((name, "0"));
    match (kind, number.parse()) {
        ("cpu", _) if name == "cpu" => Ok(Device::Cpu),
        ("cuda", Ok(gpu)) => Ok(Device::Cuda(LiveOptions {
            gpu,
            folders: library_folders(None),
            ..LiveOptions::default()
        })),
        _ => Err(input(
            py,
            &format!("found the device `{name}`, expected cpu, cuda or cuda:N"),
        )),
    }
}

/// What a thread trains.
struct Work<'a> {
    model: &'a Model,
    graph: Option<&'a Graph>,
    way: Way,
    options: TrainOptions,
    cluster: Option<&'a str>,
}

impl Work<'_> {
    /// The summary, and warnings about the plan.
    fn run(self, watch: &mut dyn FnMut(&Progress)) -> Result<(Summary, Vec<String>), Error> {
        let loaded = self.model.load(self.graph, false)?;
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let mut options = self.options;
        let mut warnings = Vec::new();
        options.cluster = self.cluster.map(gnnc::cluster).transpose()?;
        match self.way {
            Way::Usual => {
                let train = &loaded.model.train;
                options.placement = gnnc::usual_placement(train, &options.knobs, &options.allow);
            }
            Way::Named(placement) => options.placement = placement,
            Way::Planned(plan) => {
                let found = gnnc::verify(&plan, &loaded, &compiled, options.cache.as_ref())?;
                warnings = found.warnings;
                follow_choice(&mut options, found.choice);
            }
            Way::Best => {
                let cluster = machines(self.cluster, &options.device, options.workers)?;
                let choice = choose(
                    &loaded,
                    &compiled,
                    PlanOptions {
                        evaluate_every: Some(options.evaluate_every),
                        pin: Pin {
                            knobs: options.knobs.clone(),
                            ..Pin::default()
                        },
                        allow: options.allow.clone(),
                        cache: options.cache.clone(),
                        top: Some(1),
                        ..PlanOptions::new(cluster)
                    },
                )?;
                follow_choice(&mut options, choice.candidate);
            }
        }
        let (summary, _) = train_once(loaded, &compiled, &options, watch)?;
        Ok((summary, warnings))
    }
}

/// Trains as a plan chose.
fn follow_choice(options: &mut TrainOptions, choice: Candidate) {
    options.placement = choice.placement;
    options.workers = choice.parameters.ranks;
    options.knobs = choice.parameters.knobs;
    options.planned = true;
    options.allow = choice.relaxations.iter().map(|r| r.permission()).collect();
    options.device_memory = choice.host.map(|host| host.device.0);
}

/// Trains a model. `watch` is called with a dictionary after each epoch, and ends the run by returning `False`.
/// Returns a dictionary, and the exception that interrupted the run, if there is one.
#[pyfunction]
#[pyo3(signature = (model, graph, weights, how, watch=None))]
pub fn train<'py>(
    py: Python<'py>,
    model: Model,
    graph: Option<PyRef<'py, Graph>>,
    weights: &Bound<'py, PyDict>,
    how: &Bound<'py, PyDict>,
    watch: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyDict>, Option<PyErr>)> {
    let asked: Asked = how.extract()?;
    let stop = Stop::default();
    let work = Work {
        model: &model,
        graph: graph.as_deref(),
        way: way(py, asked.placement.as_deref(), asked.plan.as_deref())?,
        cluster: asked.cluster.as_deref(),
        options: TrainOptions {
            epochs: asked.epochs,
            seed: asked.seed,
            learning_rate: asked.lr,
            workers: asked.workers,
            threads: asked.threads,
            device: device(py, &asked.device)?,
            allow: permissions(py, &asked.allow)?,
            knobs: Knobs {
                storage: storage(py, &asked.storage)?,
                ..knobs(py, &asked.knobs)?
            },
            evaluate_every: asked.evaluate_every,
            target: asked.target,
            checkpoint: asked.checkpoint,
            checkpoint_every: asked.checkpoint_every,
            resume: asked.resume,
            cache: held(py, cache())?,
            parameters: tensors(weights)?,
            keep: true,
            stop: stop.clone(),
            ..TrainOptions::default()
        },
    };
    let (tell, told) = sync_channel(0);
    let (answer, answered) = sync_channel(0);
    let mut interrupted = None;
    let ended = thread::scope(|scope| {
        let named = thread::Builder::new().name("gnnc".to_owned());
        let worker = named.spawn_scoped(scope, move || watched(work, tell, answered))?;
        let told = Mutex::new(told);
        follow(py, &told, &answer, &stop, watch, &mut interrupted);
        drop(told);
        drop(answer);
        Ok::<_, PyErr>(py.detach(|| worker.join()))
    })?;
    let Ok(summary) = ended else {
        return Err(machine(
            py,
            "gnnc panicked: this is a bug, please report it with the model",
        ));
    };
    match (summary, interrupted) {
        (Ok((summary, warnings)), interrupted) => {
            let about = about(py, summary)?;
            about.set_item("warnings", warnings)?;
            Ok((about, interrupted))
        }
        // What the caller did comes first.
        (Err(_), Some(interrupted)) => Err(interrupted),
        (Err(error), None) => Err(raised(py, &error)),
    }
}

/// Trains, and waits after each epoch until Python has seen it.
fn watched(
    work: Work<'_>,
    tell: SyncSender<Progress>,
    answered: Receiver<()>,
) -> Result<(Summary, Vec<String>), Error> {
    work.run(&mut |progress| {
        // Nobody listens any more if Python has given up.
        if tell.send(*progress).is_ok() {
            let _ = answered.recv();
        }
    })
}

/// Passes epochs to Python until the run ends. Signals and exceptions stop it.
fn follow(
    py: Python<'_>,
    told: &Mutex<Receiver<Progress>>,
    answer: &SyncSender<()>,
    stop: &Stop,
    watch: Option<&Bound<'_, PyAny>>,
    interrupted: &mut Option<PyErr>,
) {
    loop {
        let news = py.detach(|| match told.lock() {
            Ok(told) => told.recv_timeout(TICK),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        });
        match news {
            Ok(progress) => {
                let watch = watch.filter(|_| interrupted.is_none());
                match watch.map(|watch| goes_on(py, watch, &progress)) {
                    Some(Err(error)) => {
                        *interrupted = Some(error);
                        stop.ask();
                    }
                    Some(Ok(false)) => stop.ask(),
                    Some(Ok(true)) | None => {}
                }
                if answer.send(()).is_err() {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if interrupted.is_none()
            && let Err(error) = py.check_signals()
        {
            *interrupted = Some(error);
            stop.ask_at_once();
        }
    }
}

/// Shows Python an epoch; returns whether it wants more.
fn goes_on(py: Python<'_>, watch: &Bound<'_, PyAny>, progress: &Progress) -> PyResult<bool> {
    let about = PyDict::new(py);
    about.set_item("epoch", progress.epoch.epoch)?;
    about.set_item("epochs", progress.epochs)?;
    about.set_item("loss", progress.epoch.loss)?;
    about.set_item("seconds", progress.epoch.seconds)?;
    about.set_item("learning_rate", progress.learning_rate)?;
    about.set_item("val_loss", progress.metrics.and_then(|m| m.val_loss))?;
    let found = progress.scores.as_ref().map(|found| scores(py, found));
    about.set_item("scores", found.transpose()?)?;
    let said = watch.call1((about,))?;
    Ok(said.is_none() || said.is_truthy()?)
}

/// The summary of a run, with its parameters.
fn about(py: Python<'_>, mut summary: Summary) -> PyResult<Bound<'_, PyDict>> {
    let about = PyDict::new(py);
    let none = || (Vec::new(), None);
    let (last, best): (Vec<Tensor>, Option<Vec<Tensor>>) = match summary.kept.take() {
        Some(kept) => (kept.last, kept.best),
        None => none(),
    };
    about.set_item("last", named(py, last)?)?;
    let best = best.map(|best| named(py, best)).transpose()?;
    about.set_item("best", best)?;
    about.set_item("losses", std::mem::take(&mut summary.losses))?;
    about.set_item("seconds", std::mem::take(&mut summary.seconds))?;
    about.set_item("scores", scores(py, &summary.scores)?)?;
    let json = serde_json::to_string(&summary).unwrap_or_default();
    about.set_item("summary", json)?;
    Ok(about)
}

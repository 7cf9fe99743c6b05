//! The model that most commands are about.

use super::numbers::{CHUNKS, within};
use super::output::{Failure, Output, input};
use super::text::{facts, grouped};
use clap::Args;
use gnnc::ir::graph::model::{Model, Relaxation};
use gnnc::ir::plan::{Placement, Plan, PlanSource};
use gnnc::ir::program::Skipping;
use gnnc::ir::words::storage::Storage;
use gnnc::planner::placement::{Flow, Stages, TABLE, names};
use gnnc::planner::search::Pin;
use gnnc::{LoadOptions, Loaded, Source};
use std::path::{Path, PathBuf};

/// A model, and what takes the place of parts of its file.
#[derive(Args)]
pub struct ModelArgs {
    /// The model, a .gir file.
    pub file: PathBuf,
    #[command(flatten)]
    pub changes: Changes,
}

/// What takes the place of parts of a file.
#[derive(Args)]
pub struct Changes {
    /// Set a parameter of the model.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, f64)>,
    /// Use this graph file in place of the model's.
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    /// Use these statistics (of `gnnc graph stats --format json`) in place of the model's graph.
    #[arg(long, value_name = "FILE", conflicts_with = "graph")]
    workload: Option<PathBuf>,
}

/// How communication and computing share the time.
#[derive(Args)]
pub struct FlowArgs {
    /// Let nothing be computed while messages are under way.
    #[arg(long)]
    no_overlap: bool,
    /// Compute rows that need nothing of other ranks while halo rows are under way.
    #[arg(long)]
    interior: bool,
    /// When exchanges are left out, where the placement may: fixed:EPOCHS, adaptive:EPOCHS or gap:DISTANCE (or gap-absolute, gap-rms),
    /// /cut behind it where readers are sent only the rows that they have edges from, /stop behind that where gradients of rows
    /// that were not sent are dropped, and /clip:LENGTH behind that where gradients of embeddings are clipped.
    #[arg(long, value_name = "RULE")]
    skip: Option<Skipping>,
    /// Chunks that work for all vertices is cut into where columns are sliced, 1 if not given; in a pipeline,
    /// chunks that pass through the stages, 4 for each stage if not given.
    #[arg(long, value_name = "N", value_parser = within(CHUNKS))]
    chunks: Option<u32>,
    /// Stages of a pipeline: a rank each if not given.
    #[arg(long, value_name = "N", value_parser = within(CHUNKS))]
    stages: Option<u32>,
    /// Runs of layers of each stage, which chunks go through one after the other: fewer chunks then leave stages
    /// waiting; 1 if not given.
    #[arg(long, value_name = "N", value_parser = within(CHUNKS))]
    turns: Option<u32>,
    /// Layers of each stage, as 4,3,3, or of each run, first those that come first; those that are fastest if not given.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = within(CHUNKS))]
    layers: Vec<u32>,
    /// Epochs for which a pipeline's histories stay as they are.
    #[arg(long, value_name = "N", value_parser = within(CHUNKS))]
    interval: Option<u32>,
    /// Take a pipeline's chunks in the same order in every epoch.
    #[arg(long)]
    no_shuffle: bool,
    /// How tensors lie in memory: f32 if not given, or in 16 bits as bf16 or f16; sums are always of 32 bits.
    #[arg(long, value_name = "NAME", value_parser = storage)]
    pub storage: Option<Storage>,
}

impl FlowArgs {
    /// When exchanges are left out.
    pub fn skip(&self) -> Option<Skipping> {
        self.skip
    }

    /// How tensors lie in memory.
    pub fn storage(&self) -> Storage {
        self.storage.unwrap_or_default()
    }

    /// The same as the library takes it.
    pub fn flow(&self) -> Flow {
        Flow {
            overlap: !self.no_overlap,
            chunks: self.chunks.unwrap_or(1),
            interior: self.interior,
        }
    }

    /// What candidates of a plan must be to be as is said.
    pub fn pin(&self) -> Pin {
        Pin {
            chunks: self.chunks,
            skip: self.skip,
            stages: self.stages,
            turns: self.turns,
            layers: (!self.layers.is_empty()).then(|| self.layers.clone()),
            interval: self.interval,
            storage: self.storage(),
            interior: self.interior.then_some(true),
            ..Pin::default()
        }
    }

    /// The first of these options that was given.
    pub fn given(&self) -> Option<&'static str> {
        let all = [
            ("--no-overlap", self.no_overlap),
            ("--interior", self.interior),
            ("--skip", self.skip.is_some()),
            ("--chunks", self.chunks.is_some()),
            ("--stages", self.stages.is_some()),
            ("--turns", self.turns.is_some()),
            ("--layers", !self.layers.is_empty()),
            ("--interval", self.interval.is_some()),
            ("--no-shuffle", self.no_shuffle),
            ("--storage", self.storage.is_some()),
        ];
        all.into_iter()
            .find(|(_, given)| *given)
            .map(|(name, _)| name)
    }

    /// Whether chunks come in the same order in every epoch.
    pub fn ordered(&self) -> bool {
        self.no_shuffle
    }

    /// The stages of a pipeline on so many ranks; how many of a hybrid is to be chosen if it is not said.
    pub fn stages(&self, placement: Placement, ranks: u32) -> Stages {
        let all = self
            .stages
            .map_or_else(|| Stages::of(placement, ranks), Stages::new);
        Stages {
            turns: self.turns.unwrap_or(all.turns),
            layers: self.layers.clone(),
            chunks: self.chunks.unwrap_or(all.chunks),
            shuffle: !self.no_shuffle,
            interval: self.interval.unwrap_or(all.interval),
            ..all
        }
    }
}

impl ModelArgs {
    /// Reads the model and its graph; warnings, and what of the graph is not used, go to
    /// standard error.
    ///
    /// # Errors
    /// Those of [`Source::read`] and [`Loaded::new`].
    pub fn load(&self, out: &Output) -> Result<Loaded, Failure> {
        load(&self.file, &self.changes.options(), out)
    }

    /// What a plan says about where it comes from.
    pub fn source(&self, model: &Model) -> PlanSource {
        let shown = |path: &Path| path.display().to_string();
        PlanSource {
            model: shown(&self.file),
            fingerprint: format!("{:016x}", model.fingerprint()),
            set: self.changes.set.iter().cloned().collect(),
            graph: self.changes.graph.as_deref().map(shown),
        }
    }
}

/// Reads the model of a plan file and its graph, with the changes that it was planned with.
///
/// # Errors
/// A plan that does not say of which model it is, a file that is not there, other changes.
pub fn load_planned(
    plan: &Plan,
    file: &Path,
    changes: &Changes,
    out: &Output,
) -> Result<Loaded, Failure> {
    let shown = file.display();
    let Some(source) = &plan.source else {
        return Err(input(format!(
            "{shown} does not say of which model it is (`source` is missing); make it with \
             `gnnc plan MODEL --out FILE`"
        )));
    };
    if !changes.set.is_empty() || changes.graph.is_some() || changes.workload.is_some() {
        return Err(input(format!(
            "{shown} says what it was planned with; leave out --set, --graph and --workload, or \
             make the plan again with them"
        )));
    }
    // As the plan was made, or else beside the plan.
    let found = |name: &str| -> Result<PathBuf, Failure> {
        let folder = file.parent().unwrap_or(Path::new("."));
        let places = [PathBuf::from(name), folder.join(name)];
        let there = places.into_iter().find(|path| path.exists());
        there.ok_or_else(|| {
            input(format!(
                "{shown} is a plan of {name}, which is neither here nor in the plan's folder; edit \
                 `source` in the plan"
            ))
        })
    };
    let options = LoadOptions {
        set: source.set.clone().into_iter().collect(),
        graph: source.graph.as_deref().map(found).transpose()?,
        workload: None,
    };
    load(&found(&source.model)?, &options, out)
}

fn load(file: &Path, options: &LoadOptions, out: &Output) -> Result<Loaded, Failure> {
    let source = Source::read(file)?;
    let loaded = Loaded::new(&source, options)?;
    out.diagnostics(&loaded.diagnostics, &source.name(), &source.text);
    out.not_used(&loaded.workload.name, &loaded.not_used);
    Ok(loaded)
}

impl Changes {
    /// The changes as the library takes them.
    pub fn options(&self) -> LoadOptions {
        LoadOptions {
            set: self.set.clone(),
            graph: self.graph.clone(),
            workload: self.workload.clone(),
        }
    }
}

/// What is run on what, in a line.
pub fn headline(loaded: &Loaded) -> String {
    let graph = &loaded.workload;
    facts(&[
        ("model", loaded.model.name.clone()),
        (
            "graph",
            format!(
                "{}: {} vertices, {} edges, {} features, {} classes",
                graph.name,
                grouped(graph.vertices),
                grouped(graph.edges),
                grouped(u64::from(graph.features)),
                graph.classes
            ),
        ),
    ])
}

/// `name=value`, the value a number or a truth value.
fn setting(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| "expected NAME=VALUE, as in hidden=64".to_owned())?;
    let value = value.trim();
    let number = match value {
        "true" => 1.0,
        "false" => 0.0,
        number => number
            .replace('_', "")
            .parse()
            .ok()
            .filter(|n: &f64| n.is_finite())
            .ok_or_else(|| format!("found `{number}`, expected a number, true or false"))?,
    };
    Ok((name.trim().to_owned(), number))
}

/// A placement by its name.
pub fn placement(name: &str) -> Result<Placement, String> {
    let found = TABLE.iter().map(|row| row.placement);
    found
        .into_iter()
        .find(|placement| placement.name() == name)
        .ok_or_else(|| format!("expected one of {}", names().join(", ")))
}

/// How a run is to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As a plan for the machine chooses.
    Best,
    /// By a placement of one's own choice.
    Placement(Placement),
}

/// A placement by its name, or the best one.
pub fn way(name: &str) -> Result<Way, String> {
    match name {
        "best" => Ok(Way::Best),
        name => placement(name)
            .map(Way::Placement)
            .map_err(|_| format!("expected best or one of {}", names().join(", "))),
    }
}

/// A storage by its name.
pub fn storage(name: &str) -> Result<Storage, String> {
    let found = Storage::ALL.iter().find(|storage| storage.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = Storage::ALL.iter().map(|s| s.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// A relaxation by its name.
pub fn relaxation(name: &str) -> Result<Relaxation, String> {
    let found = Relaxation::ALL.into_iter().find(|r| r.name() == name);
    found.ok_or_else(|| {
        let names = Relaxation::ALL.map(Relaxation::name);
        format!("expected some of {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_numbers_or_truth_values() {
        assert_eq!(setting("hidden=64"), Ok(("hidden".to_owned(), 64.0)));
        assert_eq!(setting("lr = 5e-3"), Ok(("lr".to_owned(), 5e-3)));
        assert_eq!(setting("bias=true"), Ok(("bias".to_owned(), 1.0)));
        assert_eq!(setting("hidden=1_024"), Ok(("hidden".to_owned(), 1024.0)));
        let found = setting("conv=sage_conv").unwrap_err();
        assert!(found.starts_with("found `sage_conv`, "), "{found}");
        for wrong in ["hidden", "hidden=", "hidden=x", "hidden=nan", "hidden=inf"] {
            assert!(setting(wrong).is_err(), "{wrong}");
        }
    }
}

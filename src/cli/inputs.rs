//! Arguments shared by the commands that work on a model.

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

/// A model file and overrides for parts of it.
#[derive(Args)]
pub struct ModelArgs {
    /// The model file (.gir).
    pub file: PathBuf,
    #[command(flatten)]
    pub changes: Changes,
}

/// Overrides for parts of a model file.
#[derive(Args)]
pub struct Changes {
    /// Set a parameter of the model.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, f64)>,
    /// Use this graph file instead of the model's.
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    /// Use these graph statistics (from `gnnc graph stats --format json`) instead of the model's graph.
    #[arg(long, value_name = "FILE", conflicts_with = "graph")]
    workload: Option<PathBuf>,
}

/// How work is split, overlapped, skipped and stored.
#[derive(Args)]
pub struct FlowArgs {
    /// Do not overlap communication with computation.
    #[arg(long)]
    no_overlap: bool,
    /// Compute interior rows (those that read no halo row) while halo rows are in flight.
    #[arg(long)]
    interior: bool,
    /// When to skip exchanges, if the placement allows it: fixed:EPOCHS, adaptive:EPOCHS or gap:DISTANCE (also gap-absolute,
    /// gap-rms). Append /cut to send each reader only the rows it has edges from, then /stop to drop the gradients of rows
    /// that were not sent, then /clip:LENGTH to clip the gradients of embeddings.
    #[arg(long, value_name = "RULE")]
    skip: Option<Skipping>,
    /// Number of chunks. Placements that slice columns cut the work on all vertices into them (default 1); a pipeline
    /// takes them as micro-batches of vertices (default 4 per stage).
    #[arg(long, value_name = "N", value_parser = within(CHUNKS))]
    chunks: Option<u32>,
    /// Stages of a pipeline; by default one per rank.
    #[arg(long, value_name = "N", value_parser = within(CHUNKS))]
    stages: Option<u32>,
    /// Virtual stages per stage: chunks pass through all stages once for each, so stages wait less when chunks are few.
    /// 1 by default.
    #[arg(long = "virtual-stages", alias = "turns", value_name = "N", value_parser = within(CHUNKS))]
    turns: Option<u32>,
    /// Layers of each stage, such as 4,3,3, or of each virtual stage in the order of the model; by default the fastest division.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = within(CHUNKS))]
    layers: Vec<u32>,
    /// Epochs between updates of a pipeline's histories.
    #[arg(long, value_name = "N", value_parser = within(CHUNKS))]
    interval: Option<u32>,
    /// Process a pipeline's chunks in the same order in every epoch.
    #[arg(long)]
    no_shuffle: bool,
    /// How tensors are stored: f32 (the default), bf16 or f16. Sums always use 32 bits.
    #[arg(long, value_name = "NAME", value_parser = storage)]
    pub storage: Option<Storage>,
}

impl FlowArgs {
    /// When to skip exchanges.
    pub fn skip(&self) -> Option<Skipping> {
        self.skip
    }

    /// How tensors are stored.
    pub fn storage(&self) -> Storage {
        self.storage.unwrap_or_default()
    }

    /// The options of the library.
    pub fn flow(&self) -> Flow {
        Flow {
            overlap: !self.no_overlap,
            chunks: self.chunks.unwrap_or(1),
            interior: self.interior,
        }
    }

    /// Search constraints implied by these flags.
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

    /// The first of these options on the command line, if any.
    pub fn given(&self) -> Option<&'static str> {
        let all = [
            ("--no-overlap", self.no_overlap),
            ("--interior", self.interior),
            ("--skip", self.skip.is_some()),
            ("--chunks", self.chunks.is_some()),
            ("--stages", self.stages.is_some()),
            ("--virtual-stages", self.turns.is_some()),
            ("--layers", !self.layers.is_empty()),
            ("--interval", self.interval.is_some()),
            ("--no-shuffle", self.no_shuffle),
            ("--storage", self.storage.is_some()),
        ];
        all.into_iter()
            .find(|(_, given)| *given)
            .map(|(name, _)| name)
    }

    /// Whether chunks keep the same order in every epoch.
    pub fn ordered(&self) -> bool {
        self.no_shuffle
    }

    /// The stages of a pipeline on `ranks` ranks. Without `--stages`, the number of stages of a hybrid is chosen later.
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
    /// Reads the model and its graph. Warnings and unused parts of the graph are listed on
    /// standard error.
    ///
    /// # Errors
    /// Those of [`Source::read`] and [`Loaded::new`].
    pub fn load(&self, out: &Output) -> Result<Loaded, Failure> {
        load(&self.file, &self.changes.options(), out)
    }

    /// What a plan records about its origin.
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

/// Reads the model and the graph that a plan was made for, with the plan's overrides.
///
/// # Errors
/// A plan that does not name its model, a missing file, or overrides on the command line.
pub fn load_planned(
    plan: &Plan,
    file: &Path,
    changes: &Changes,
    out: &Output,
) -> Result<Loaded, Failure> {
    let shown = file.display();
    let Some(source) = &plan.source else {
        return Err(input(format!(
            "{shown} does not name its model (`source` is missing); make it with \
             `gnnc plan MODEL --out FILE`"
        )));
    };
    if !changes.set.is_empty() || changes.graph.is_some() || changes.workload.is_some() {
        return Err(input(format!(
            "{shown} already fixes --set, --graph and --workload; leave them out, or make the plan \
             again with them"
        )));
    }
    // First the path as it was when the plan was made, then the plan's own folder.
    let found = |name: &str| -> Result<PathBuf, Failure> {
        let folder = file.parent().unwrap_or(Path::new("."));
        let places = [PathBuf::from(name), folder.join(name)];
        let there = places.into_iter().find(|path| path.exists());
        there.ok_or_else(|| {
            input(format!(
                "{shown} is a plan for {name}, which is neither here nor in the plan's folder; edit \
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
    /// The options of the library.
    pub fn options(&self) -> LoadOptions {
        LoadOptions {
            set: self.set.clone(),
            graph: self.graph.clone(),
            workload: self.workload.clone(),
        }
    }
}

/// Two lines that name the model and its graph.
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

/// Parses `NAME=VALUE`; the value is a number, `true` or `false`.
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

/// Parses the name of a placement.
pub fn placement(name: &str) -> Result<Placement, String> {
    let found = TABLE.iter().map(|row| row.placement);
    found
        .into_iter()
        .find(|placement| placement.name() == name)
        .ok_or_else(|| format!("expected one of {}", names().join(", ")))
}

/// How to place a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As a plan for this machine chooses.
    Best,
    /// With this placement.
    Placement(Placement),
}

/// Parses the name of a placement, or `best`.
pub fn way(name: &str) -> Result<Way, String> {
    match name {
        "best" => Ok(Way::Best),
        name => placement(name)
            .map(Way::Placement)
            .map_err(|_| format!("expected best or one of {}", names().join(", "))),
    }
}

/// Parses the name of a storage type.
pub fn storage(name: &str) -> Result<Storage, String> {
    let found = Storage::ALL.iter().find(|storage| storage.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<_> = Storage::ALL.iter().map(|s| s.name()).collect();
        format!("expected one of {}", names.join(", "))
    })
}

/// Parses the name of a relaxation.
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

//! Arguments shared by the commands that work on a model.

use super::output::{Failure, Output, input};
use super::text::{facts, grouped};
use clap::Args;
use gnnc::ir::graph::model::{Model, Relaxation};
use gnnc::ir::graph::op::LabelKind;
use gnnc::ir::plan::{Placement, Plan, PlanSource};
use gnnc::ir::words::spelling::counted;
use gnnc::ir::words::storage::Storage;
use gnnc::knobs::placement;
use gnnc::planner::placement::names;
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
    /// Set a parameter of the model, or a number of its `train` block, such as train.patience=20.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, f64)>,
    /// Use this graph file instead of the model's.
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    /// Use these graph statistics (from `gnnc graph stats --format json`) instead of the model's graph.
    #[arg(long, value_name = "FILE", conflicts_with = "graph")]
    workload: Option<PathBuf>,
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

    /// As [`ModelArgs::load`], for a model that is trained already.
    ///
    /// # Errors
    /// As [`ModelArgs::load`].
    pub fn load_trained(&self, out: &Output) -> Result<Loaded, Failure> {
        let options = LoadOptions {
            trained: true,
            ..self.changes.options()
        };
        load(&self.file, &options, out)
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
        ..LoadOptions::default()
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
            trained: false,
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
                "{}: {}, {}, {}, {}",
                graph.name,
                counted(grouped(graph.vertices), "vertex"),
                counted(grouped(graph.edges), "edge"),
                counted(grouped(u64::from(graph.features)), "feature"),
                match loaded.model.loss.labels() {
                    LabelKind::Class => counted(graph.classes, "class"),
                    LabelKind::Several => counted(graph.classes, "label"),
                    LabelKind::Numbers => counted(graph.classes, "number"),
                }
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

/// Help of an option that takes the name of a storage format.
pub fn storage_help() -> String {
    let mut names: Vec<&str> = Storage::ALL.iter().map(|s| s.name()).collect();
    let last = names.pop().unwrap_or_default();
    format!(
        "How tensors are stored: {} or {last}. Sums always use 32 bits",
        names.join(", ")
    )
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

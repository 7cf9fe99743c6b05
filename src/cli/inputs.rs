//! The model that most commands are about.

use super::output::{Failure, Output};
use super::text::{facts, grouped};
use clap::Args;
use gnnc::ir::plan::Placement;
use gnnc::planner::placement::LOWERED;
use gnnc::{LoadOptions, Loaded, Source};
use std::path::PathBuf;

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

impl ModelArgs {
    /// Reads the model and its graph; warnings, and what of the graph is not used, go to
    /// standard error.
    ///
    /// # Errors
    /// Those of [`Source::read`] and [`Loaded::new`].
    pub fn load(&self, out: &Output) -> Result<Loaded, Failure> {
        let source = Source::read(&self.file)?;
        let loaded = Loaded::new(&source, &self.changes.options())?;
        out.diagnostics(&loaded.diagnostics, &source.name(), &source.text);
        out.not_used(&loaded.workload.name, &loaded.not_used);
        Ok(loaded)
    }
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
    let value = value.trim().replace('_', "");
    let number = match value.as_str() {
        "true" => 1.0,
        "false" => 0.0,
        number => number
            .parse()
            .ok()
            .filter(|n: &f64| n.is_finite())
            .ok_or_else(|| format!("found `{number}`, expected a number, true or false"))?,
    };
    Ok((name.trim().to_owned(), number))
}

/// A placement by its name.
pub fn placement(name: &str) -> Result<Placement, String> {
    let found = LOWERED.iter().find(|p| p.name() == name);
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = LOWERED.iter().map(|p| p.name()).collect();
        format!("expected one of {}", names.join(", "))
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
        for wrong in ["hidden", "hidden=", "hidden=x", "hidden=nan", "hidden=inf"] {
            assert!(setting(wrong).is_err(), "{wrong}");
        }
    }
}

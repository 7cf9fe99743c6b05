//! `gnnc check`: reports what is wrong with models.

use super::inputs::Changes;
use super::output::{Answer, Failure, Output, error_object};
use clap::Args;
use gnnc::ir::plan::Placement;
use gnnc::lang::diagnostic::to_json;
use gnnc::planner::placement::PlacementSpec;
use gnnc::{Error, Loaded, Source};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Arguments of `check`.
#[derive(Args)]
pub struct Check {
    /// The model files (.gir). Their data graphs are read too, for the numbers of features and classes.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    changes: Changes,
}

impl Check {
    /// Checks every file, even after errors in others.
    pub fn run(&self, out: &Output) -> Answer {
        let mut reports = Vec::new();
        let mut errors: Vec<Value> = Vec::new();
        let mut code = 0;
        for path in &self.files {
            match self.one(path) {
                Ok((source, loaded)) => {
                    let file = source.name();
                    out.diagnostics(&loaded.diagnostics, &file, &source.text);
                    let (model, graph) = (&loaded.model.name, &loaded.workload.name);
                    if !out.is_json() {
                        out.text(&format!(
                            "{file}: model {model} on graph {graph}: no errors\n"
                        ))?;
                    }
                    reports.push(json!({
                        "file": file,
                        "ok": true,
                        "model": model,
                        "graph": graph,
                        "parameters": loaded.model.graph.params.len(),
                        "diagnostics": to_json(&loaded.diagnostics, &file, &source.text),
                    }));
                }
                Err(error) => {
                    code = code.max(error.exit_code());
                    if !out.is_json() {
                        out.error(&error);
                    }
                    let error = error_object(&error);
                    let found = error.get("diagnostics").cloned();
                    reports.push(json!({
                        "file": path.display().to_string(),
                        "ok": false,
                        "error": error,
                        "diagnostics": found.unwrap_or(json!([])),
                    }));
                    errors.push(error);
                }
            }
        }
        if out.is_json() {
            let mut report = json!({ "files": reports });
            if let Some(first) = errors.into_iter().next() {
                report["error"] = first;
            }
            out.json(&report)?;
        }
        if code == 0 {
            Ok(())
        } else {
            Err(Failure::Reported(code))
        }
    }

    fn one(&self, path: &Path) -> Result<(Source, Loaded), Error> {
        let source = Source::read(path)?;
        let loaded = Loaded::new(&source, &self.changes.options())?;
        if loaded.data.is_some() {
            loaded.trainable()?;
        }
        // Also refuses models that no program can express.
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        compiled.programs(&PlacementSpec::new(Placement::Graph, 1))?;
        Ok((source, loaded))
    }
}

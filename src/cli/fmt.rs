//! `gnnc fmt`: formats model files.

use super::files::replace;
use super::output::{Answer, Failure, Output, error_object};
use clap::Args;
use gnnc::lang::diagnostic::has_errors;
use gnnc::lang::syntax::print;
use gnnc::{Error, Source};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Arguments of `fmt`.
#[derive(Args)]
pub struct Fmt {
    /// The model files (.gir).
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Change nothing; exit with 1 if a file is not formatted.
    #[arg(long)]
    check: bool,
    /// Change nothing; print the formatted text.
    #[arg(long, conflicts_with = "check")]
    stdout: bool,
}

impl Fmt {
    /// Formats every file that has no syntax errors.
    pub fn run(&self, out: &Output) -> Answer {
        let mut reports = Vec::new();
        let mut first_error = None;
        let mut code = 0;
        for path in &self.files {
            let file = path.display().to_string();
            let result = formatted(path).and_then(|(old, new)| {
                let changed = old != new;
                if changed && !self.check && !self.stdout {
                    replace(path, new.as_bytes())?;
                }
                Ok((changed, new))
            });
            match result {
                Ok((changed, new)) => {
                    let mut report = json!({ "file": file, "ok": true, "changed": changed });
                    if self.stdout && out.is_json() {
                        report["text"] = json!(new);
                    } else if self.stdout {
                        out.text(&new)?;
                    } else if changed && self.check {
                        code = code.max(1);
                        report["ok"] = json!(false);
                        if !out.is_json() {
                            out.text(&format!("{file}: not formatted; run `gnnc fmt` on it\n"))?;
                        }
                    }
                    reports.push(report);
                }
                Err(error) => {
                    code = code.max(error.exit_code());
                    if !out.is_json() {
                        out.error(&error);
                    }
                    let error = error_object(&error);
                    first_error.get_or_insert_with(|| error.clone());
                    reports.push(json!({ "file": file, "ok": false, "error": error }));
                }
            }
        }
        if out.is_json() {
            let mut report = json!({ "files": reports });
            if let Some(error) = first_error {
                report["error"] = error;
            }
            out.json(&report)?;
        }
        if code == 0 {
            Ok(())
        } else {
            Err(Failure::Reported(code))
        }
    }
}

/// The text of a file, as it is and formatted.
fn formatted(path: &Path) -> Result<(String, String), Error> {
    let source = Source::read(path)?;
    if has_errors(&source.diagnostics) {
        return Err(Error::Model {
            file: source.name(),
            text: source.text,
            diagnostics: source.diagnostics,
        });
    }
    let new = print(&source.module);
    Ok((source.text, new))
}

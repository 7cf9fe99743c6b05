//! Output of reports and errors.

use clap::ValueEnum;
use gnnc::Error;
use gnnc::lang::Diagnostic;
use gnnc::lang::diagnostic::{render, to_json};
use gnnc::runtime::RuntimeError;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// The format of reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs: one object on standard output.
    Json,
}

/// Exit code of a plan or sweep that chooses nothing.
pub const NOTHING_CHOSEN: u8 = 3;

/// Why a command failed.
pub enum Failure {
    /// Not reported yet.
    Error(Error),
    /// Reported already; the exit code.
    Reported(u8),
    /// Standard output was closed, so nobody is reading.
    Closed,
    /// Wrong arguments, with clap's message.
    Usage(String),
    /// A panic, whose message is on standard error already.
    Bug,
}

/// The result of a command.
pub type Answer = Result<(), Failure>;

impl Failure {
    /// The exit code of a command that fails so.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Closed => 0,
            Self::Reported(code) => *code,
            Self::Usage(_) => 1,
            Self::Bug => 2,
            Self::Error(error) => error.exit_code(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Error(error) => error.fmt(f),
            Self::Usage(message) => f.write_str(message.trim_end()),
            Self::Closed => f.write_str("its output was closed"),
            Self::Bug | Self::Reported(_) => f.write_str(BUG),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<gnnc::graph::GraphError> for Failure {
    fn from(error: gnnc::graph::GraphError) -> Self {
        Self::Error(error.into())
    }
}

impl From<io::Error> for Failure {
    /// Converts an error of standard output.
    fn from(source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::BrokenPipe {
            return Self::Closed;
        }
        Self::Error(Error::File {
            action: "write",
            path: PathBuf::from("standard output"),
            source,
        })
    }
}

/// A mistake in the user's input, as a sentence.
pub fn input(message: impl Into<String>) -> Failure {
    Failure::Error(Error::Input(message.into()))
}

/// The streams of the process.
pub struct Output {
    format: Format,
    /// Whether another process reports.
    silent: bool,
}

impl Output {
    /// Reports in a format.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            silent: false,
        }
    }

    /// Leaves reports to another process; errors are still shown.
    pub fn be_silent(&mut self) {
        self.silent = true;
    }

    /// Whether another process reports.
    pub fn is_silent(&self) -> bool {
        self.silent
    }

    /// Whether reports are for programs.
    pub fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Writes text to standard output.
    ///
    /// # Errors
    /// A closed or full standard output.
    pub fn text(&self, text: &str) -> Answer {
        if self.silent {
            return Ok(());
        }
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()?;
        Ok(())
    }

    /// Writes a value as JSON to standard output.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub fn json(&self, value: &impl Serialize) -> Answer {
        let mut text =
            serde_json::to_string_pretty(value).map_err(|e| Failure::from(io::Error::other(e)))?;
        text.push('\n');
        self.text(&text)
    }

    /// Writes a value as one line of JSON to standard output.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub fn line(&self, value: &impl Serialize) -> Answer {
        let text = serde_json::to_string(value).map_err(|e| Failure::from(io::Error::other(e)))?;
        self.text(&format!("{text}\n"))
    }

    /// Writes a report in the requested format.
    ///
    /// # Errors
    /// As [`Output::text`].
    pub fn report(&self, text: impl FnOnce() -> String, value: &impl Serialize) -> Answer {
        if self.is_json() {
            self.json(value)
        } else {
            self.text(&text())
        }
    }

    /// Writes to standard error, in text mode only.
    pub fn note(&self, text: &str) {
        if !self.is_json() && !self.silent {
            self.stderr(text);
        }
    }

    /// Lists the content of a graph file that no model can use.
    pub fn not_used(&self, graph: &str, what: &[String]) {
        if !what.is_empty() {
            self.note(&format!("{graph}: not used: {}\n", what.join(", ")));
        }
    }

    /// Shows diagnostics of a model on standard error, in text mode only.
    pub fn diagnostics(&self, diagnostics: &[Diagnostic], file: &str, text: &str) {
        if !diagnostics.is_empty() {
            self.note(&render(diagnostics, file, text, colour()));
        }
    }

    /// Reports a failure and returns its exit code.
    pub fn fail(&self, failure: &Failure) -> ExitCode {
        let code = failure.exit_code();
        let object = match failure {
            Failure::Closed | Failure::Reported(_) => return ExitCode::from(code),
            Failure::Error(error) => error_object(error),
            Failure::Usage(message) => plain("usage", message.trim_end(), 1),
            Failure::Bug => plain("bug", BUG, 2),
        };
        if self.is_json() && !self.silent {
            // If this fails too, there is nobody to tell.
            let _ = self.json(&json!({ "error": object }));
        } else {
            match failure {
                Failure::Error(error) => self.error(error),
                _ => self.stderr(&format!("error: {BUG}\n")),
            }
        }
        ExitCode::from(code)
    }

    /// Shows an error on standard error.
    pub fn error(&self, error: &Error) {
        self.stderr(&error.report(colour()));
    }

    fn stderr(&self, text: &str) {
        // If this fails, there is nobody to tell.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}

const BUG: &str = "gnnc panicked: this is a bug, please report it with the command and its input";

/// Whether to color standard error.
fn colour() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// An error for programs: `kind`, `message`, `exit_code` and the fields of its kind.
pub fn error_object(error: &Error) -> Value {
    let mut object = plain(kind(error), &error.to_string(), error.exit_code());
    match error {
        Error::Model {
            file,
            text,
            diagnostics,
        } => {
            object["file"] = json!(file);
            object["diagnostics"] = to_json(diagnostics, file, text);
        }
        Error::File { path, .. } => object["file"] = json!(path.display().to_string()),
        Error::Bytes { sent, predicted } => {
            object["sent"] = json!(sent);
            object["predicted"] = json!(predicted);
        }
        _ => {}
    }
    object
}

fn plain(kind: &str, message: &str, exit_code: u8) -> Value {
    json!({ "kind": kind, "message": message, "exit_code": exit_code })
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::File { .. } => "file",
        Error::Model { .. } => "model",
        Error::Input(_) => "input",
        Error::Graph(_) => "graph",
        Error::Cluster(_) => "cluster",
        Error::Form(_) => "form",
        Error::Lower(_) => "lower",
        Error::Plan(_) => "plan",
        Error::Device(_) | Error::Runtime(RuntimeError::Device(_)) => "device",
        Error::Runtime(_) => "runtime",
        Error::Bytes { .. } => "bytes",
        Error::Memory { .. } => "memory",
        Error::Unsettled { .. } => "unsettled",
        _ => "other",
    }
}

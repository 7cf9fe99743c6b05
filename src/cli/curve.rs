//! The curve of a run: a CSV file with a line per evaluated epoch, written as the run goes on.

use super::output::Failure;
use gnnc::{Error, Metric, Progress};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// Writes a curve. The first line creates the file.
pub(super) struct Curve {
    path: PathBuf,
    metric: Metric,
    file: Option<File>,
}

impl Curve {
    /// A curve that overwrites the file at `path`.
    pub(super) fn new(path: PathBuf, metric: Metric) -> Self {
        Self {
            path,
            metric,
            file: None,
        }
    }

    /// Adds an epoch, if it was evaluated. Scores are those of the metric, shares as fractions of 1; where nothing can be
    /// scored, the field is empty.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn add(&mut self, progress: &Progress) -> Result<(), Failure> {
        let Some(scores) = progress.scores else {
            return Ok(());
        };
        let [train, val, test] = scores
            .each()
            .map(|score| score.map(|s| s.to_string()).unwrap_or_default());
        let (epoch, loss) = (progress.epoch.epoch, progress.epoch.loss);
        self.line(&format!("{epoch},{loss},{train},{val},{test}\n"))
    }

    /// Creates the file if no epoch did.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.line("")
    }

    fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.write(text).map_err(|source| {
            Failure::Error(Error::File {
                action: "write",
                path: self.path.clone(),
                source,
            })
        })
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            return file.write_all(text.as_bytes());
        }
        let key = self.metric.key();
        let head = format!("epoch,loss,train_{key},val_{key},test_{key}\n");
        let mut file = File::create(&self.path)?;
        file.write_all(format!("{head}{text}").as_bytes())?;
        self.file = Some(file);
        Ok(())
    }
}

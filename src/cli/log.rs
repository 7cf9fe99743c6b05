//! The log of a run: a file with a JSON object per line, written as the run goes on.

use super::output::Failure;
use gnnc::{Error, Progress, Scores, Summary};
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Writes a log. The first epoch opens the file, so that a run that cannot start leaves an older one as it was.
pub(super) struct Log {
    path: PathBuf,
    /// The facts of the run, for its first line.
    facts: Value,
    /// Whether lines are added to those there.
    resumes: bool,
    file: Option<File>,
}

/// A line of a log.
#[derive(Serialize)]
struct Line<'a, T> {
    event: &'a str,
    #[serde(flatten)]
    of: &'a T,
}

/// An evaluated epoch.
#[derive(Serialize)]
struct Epoch {
    epoch: u64,
    /// Mean loss of the training vertices; `null` if it is not a finite number.
    loss: f64,
    val_loss: Option<f64>,
    learning_rate: f64,
    #[serde(flatten)]
    scores: Scores,
    /// Wall time of the epoch, without its evaluation.
    seconds: f64,
}

impl Log {
    /// A log that overwrites the file at `path`, or adds to it.
    pub(super) fn new(path: PathBuf, facts: Value, resumes: bool) -> Self {
        Self {
            path,
            facts,
            resumes,
            file: None,
        }
    }

    /// Adds an epoch, if it was evaluated.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn epoch(&mut self, progress: &Progress) -> Result<(), Failure> {
        let (Some(metrics), Some(scores)) = (progress.metrics, progress.scores) else {
            return self.written(None);
        };
        let epoch = Epoch {
            epoch: progress.epoch.epoch,
            loss: progress.epoch.loss,
            val_loss: metrics.val_loss,
            learning_rate: progress.learning_rate,
            scores,
            seconds: progress.epoch.seconds,
        };
        self.written(Some(line("epoch", &epoch)))
    }

    /// Ends the log of a run that has a summary.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn finish(mut self, summary: Option<&Summary>) -> Result<(), Failure> {
        match summary {
            Some(summary) => self.written(Some(line("summary", summary))),
            None => Ok(()),
        }
    }

    /// Writes a line, if there is one, behind that of the facts.
    fn written(&mut self, line: Option<io::Result<String>>) -> Result<(), Failure> {
        self.write(line).map_err(|source| {
            Failure::Error(Error::File {
                action: "write",
                path: self.path.clone(),
                source,
            })
        })
    }

    fn write(&mut self, line: Option<io::Result<String>>) -> io::Result<()> {
        let mut text = String::new();
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                text = self::line("run", &self.facts)?;
                none.insert(open(&self.path, self.resumes)?)
            }
        };
        text.push_str(&line.transpose()?.unwrap_or_default());
        // One call, so that readers never see a part of a line.
        file.write_all(text.as_bytes())
    }
}

fn line(event: &str, of: &impl Serialize) -> io::Result<String> {
    let text = serde_json::to_string(&Line { event, of })?;
    Ok(format!("{text}\n"))
}

/// Opens a file for lines. One that goes on may end within a line, if its run was killed.
fn open(path: &Path, resumes: bool) -> io::Result<File> {
    if !resumes {
        return File::create(path);
    }
    let mut options = File::options();
    let mut file = options.read(true).append(true).create(true).open(path)?;
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(0))? > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    if last != [b'\n'] {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

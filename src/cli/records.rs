//! The files that a training run writes as it goes on.

use super::curve::Curve;
use super::files::writable;
use super::log::Log;
use super::output::Failure;
use super::tensorboard::Board;
use clap::Args;
use gnnc::{Metric, Progress, Summary};
use serde_json::Value;
use std::path::PathBuf;

/// Which files a run writes as it goes on.
#[derive(Args)]
pub(super) struct RecordArgs {
    /// Write the loss and the scores of every evaluated epoch to this file, as CSV.
    #[arg(long, value_name = "FILE")]
    curve: Option<PathBuf>,
    /// Write a JSON object per line to this file: the facts of the run, each evaluated epoch as it ends, and the summary.
    /// With --resume, lines are added to those there.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write the loss, the scores and the learning rate of every evaluated epoch for TensorBoard, as a new file in this
    /// folder.
    #[arg(long, value_name = "DIR")]
    tensorboard: Option<PathBuf>,
}

impl RecordArgs {
    /// Checks the files before anything is read.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn fit(&self) -> Result<(), Failure> {
        for (path, what) in [(&self.curve, "curve"), (&self.log, "log")] {
            if let Some(path) = path {
                writable(path, what)?;
            }
        }
        match &self.tensorboard {
            Some(folder) => Board::fits(folder),
            None => Ok(()),
        }
    }

    /// Whether a run that cannot print should go on for their sake.
    pub(super) fn any(&self) -> bool {
        self.curve.is_some() || self.log.is_some() || self.tensorboard.is_some()
    }

    /// No files, as of a process that another one reports for.
    pub(super) fn none() -> Records {
        Records {
            curve: None,
            log: None,
            board: None,
            failure: None,
        }
    }

    /// The files of a run with these facts. `resumes` says whether it goes on from a checkpoint.
    pub(super) fn records(&self, metric: Metric, facts: Value, resumes: bool) -> Records {
        let log = self.log.clone();
        Records {
            curve: self.curve.clone().map(|path| Curve::new(path, metric)),
            log: log.map(|path| Log::new(path, facts, resumes)),
            board: self.tensorboard.clone().map(Board::new),
            failure: None,
        }
    }
}

/// The files of a run. One that cannot be written any more is given up, and the run goes on.
pub(super) struct Records {
    curve: Option<Curve>,
    log: Option<Log>,
    board: Option<Board>,
    failure: Option<Failure>,
}

impl Records {
    /// Writes an epoch.
    pub(super) fn epoch(&mut self, progress: &Progress) {
        let curve = self.curve.as_mut().map(|curve| curve.add(progress));
        if let Some(Err(failure)) = curve {
            self.curve = None;
            self.failure.get_or_insert(failure);
        }
        let log = self.log.as_mut().map(|log| log.epoch(progress));
        if let Some(Err(failure)) = log {
            self.log = None;
            self.failure.get_or_insert(failure);
        }
        let board = self.board.as_mut().map(|board| board.add(progress));
        if let Some(Err(failure)) = board {
            self.board = None;
            self.failure.get_or_insert(failure);
        }
    }

    /// Writes the end of a run that has a summary.
    ///
    /// # Errors
    /// The first file that could not be written, now or earlier.
    pub(super) fn finish(self, summary: Option<&Summary>) -> Result<(), Failure> {
        let curve = self.curve.map_or(Ok(()), Curve::finish);
        let log = self.log.map_or(Ok(()), |log| log.finish(summary));
        self.failure.map_or(curve.and(log), Err)
    }
}

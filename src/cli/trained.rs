//! The arguments of commands that use a trained model.

use super::cache::CacheArgs;
use super::output::{Failure, Output};
use clap::Args;
use gnnc::numbers::{THREADS, WORKERS, within};
use gnnc::{TrainOptions, Weights};
use std::path::PathBuf;

/// A trained model, and what evaluates it.
#[derive(Args)]
pub struct TrainedArgs {
    /// The checkpoint of a training run (`gnnc train --checkpoint`). Of its two files, FILE.best has the
    /// parameters that the report of the run quotes; it is taken if it is there.
    #[arg(long, value_name = "FILE")]
    pub checkpoint: PathBuf,
    /// Take the parameters of the last epoch.
    #[arg(long)]
    pub last: bool,
    /// Number of workers.
    #[arg(long, value_name = "N", default_value = "1", value_parser = within(WORKERS))]
    workers: u32,
    /// Threads per worker.
    #[arg(long, value_name = "N", default_value = "1", value_parser = within(THREADS))]
    threads: usize,
    #[command(flatten)]
    cache: CacheArgs,
}

impl TrainedArgs {
    /// Where the parameters are.
    pub fn weights(&self) -> Weights<'_> {
        Weights::Run {
            checkpoint: &self.checkpoint,
            last: self.last,
        }
    }

    /// How the model is evaluated.
    ///
    /// # Errors
    /// A cache that cannot be opened.
    pub fn options(&self, out: &Output) -> Result<TrainOptions, Failure> {
        Ok(TrainOptions {
            workers: self.workers,
            threads: self.threads,
            cache: self.cache.open(out)?,
            ..TrainOptions::default()
        })
    }
}

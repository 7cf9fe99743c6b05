//! Pilots: runs of each statistical class on one worker, to find out how many epochs it needs to reach a score.
//!
//! Every class is run at several learning rates and with several seeds, as `gnnc train` would run it. All runs get an
//! equal share of the time, in the order of rates, seeds and classes; what runs leave over that end early is shared again
//! among those that have not ended, which go on where they stopped.

mod classes;
mod fits;
mod turns;

pub use classes::{Tried, classes_of};
pub use fits::{pilot_fits, read_pilot};

use crate::{Compiled, Error, Loaded, metrics};
use gnnc_files::Cache;
use gnnc_ir::graph::model::Relaxation;
use gnnc_ir::plan::{Knobs, LeftOut, PILOT_VERSION, Pilot, PilotRun, StatisticalClass};
use gnnc_ir::words::units::Seconds;
use gnnc_runtime::Stop;
use std::time::{Duration, Instant};
use turns::Turns;

/// The model's learning rate is multiplied by these; it comes first.
pub const RATES: [f64; 4] = [1.0, 1.0 / 3.0, 3.0, 9.0];

/// Options of a pilot.
#[derive(Clone, Debug)]
pub struct PilotOptions {
    /// The score of the validation vertices to reach.
    pub target: f64,
    /// The time for all runs.
    pub budget: Duration,
    /// Seeds of the runs.
    pub seeds: Vec<u64>,
    /// Learning rates; none for the model's and its multiples by [`RATES`].
    pub learning_rates: Vec<f64>,
    /// Most epochs of a run, instead of the model's.
    pub epochs: Option<u32>,
    /// Epochs between evaluations.
    pub evaluate_every: u32,
    /// Sizes of batches to try; none for that of the knobs, or else the model's.
    pub batches: Vec<u32>,
    /// What else batches, chunks and storage are like.
    pub knobs: Knobs,
    /// Relaxations permitted in addition to the model's own.
    pub allow: Vec<Relaxation>,
    /// Threads of the worker.
    pub threads: usize,
    /// Cache of compiled kernels.
    pub cache: Option<Cache>,
    /// Asks to stop; what is done then is kept.
    pub stop: Stop,
}

/// A turn of a run that is over.
#[derive(Clone, Copy, Debug)]
pub struct PilotProgress<'a> {
    /// The class.
    pub class: &'a StatisticalClass,
    /// The run so far.
    pub run: &'a PilotRun,
    /// Whether it gets no turn any more.
    pub ended: bool,
    /// How many runs have ended.
    pub done: usize,
    /// How many there are.
    pub all: usize,
}

/// Runs each class that the model permits until it reaches the target or the time is over. `watch` is called after
/// every turn.
///
/// # Errors
/// Options or a graph that nothing can be trained with; a run that fails.
pub fn pilot(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &PilotOptions,
    watch: &mut dyn FnMut(PilotProgress),
) -> Result<Pilot, Error> {
    let data = loaded.trainable()?;
    if options.budget.is_zero() || options.seeds.is_empty() {
        return Err(Error::Input(
            "found no time or no seeds for the runs, expected some of both".to_owned(),
        ));
    }
    if let Some(metric) = loaded.model.train.metric {
        metrics::fits(metric, loaded.model.loss.labels()).map_err(Error::Input)?;
    }
    let Tried { classes, left_out } = classes_of(loaded, compiled, options)?;
    let made_for = fits::made_for(loaded, data);
    let rates = rates(loaded, options);
    let begin = Instant::now();
    let turns = Turns::new(loaded, compiled, options, data, classes, &rates)?;
    let (classes, interrupted) = turns.take(begin + options.budget, watch)?;
    Ok(Pilot {
        version: PILOT_VERSION,
        metric: loaded.metric(),
        target: options.target,
        seeds: options.seeds.clone(),
        learning_rates: rates,
        epochs: options.epochs.unwrap_or(loaded.model.train.epochs),
        evaluate_every: options.evaluate_every.max(1),
        budget_seconds: Seconds(options.budget.as_secs_f64()),
        used_seconds: Seconds(begin.elapsed().as_secs_f64()),
        interrupted,
        made_for,
        classes,
        left_out,
    })
}

/// The learning rates to try, in order.
fn rates(loaded: &Loaded, options: &PilotOptions) -> Vec<f64> {
    let given = &options.learning_rates;
    let own = loaded.model.train.optimizer.learning_rate();
    // Six digits: a third of 0.01 is written 0.00333333.
    let times = |factor: f64| gnnc_ir::words::units::significant(own * factor);
    let mut rates: Vec<f64> = match given.is_empty() {
        true => RATES.map(times).to_vec(),
        false => given.clone(),
    };
    let mut seen = Vec::new();
    rates.retain(|rate| {
        let again = seen.contains(rate);
        seen.push(*rate);
        !again
    });
    rates
}

/// What was permitted and cannot be tried.
fn left_out(what: impl Into<String>, reason: impl Into<String>) -> LeftOut {
    LeftOut {
        what: what.into(),
        reason: reason.into(),
    }
}

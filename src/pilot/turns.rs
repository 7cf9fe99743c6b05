//! The runs of a pilot, and whose turn it is.

use super::{PilotOptions, PilotProgress};
use crate::{Compiled, Error, Loaded, Pause, Progress, TrainOptions, train_traced};
use gnnc_graph::GraphData;
use gnnc_graph::sample::{Batches, seeds};
use gnnc_ir::plan::{Curve, End, Needed, PilotRun, Piloted, StatisticalClass};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::words::units::Seconds;
use gnnc_planner::placement::{PlacementSpec, on_one_worker};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A turn takes at least so many times what a run needs before its first epoch.
const WORTHWHILE: u32 = 4;

/// All runs of a pilot.
pub(super) struct Turns<'a> {
    loaded: &'a Loaded,
    compiled: &'a Compiled,
    options: &'a PilotOptions,
    classes: Vec<Trained>,
    /// In the order of their turns.
    runs: Vec<Run>,
    /// Where runs rest between their turns.
    folder: TempDir,
}

/// A class, and how one worker trains it.
struct Trained {
    class: StatisticalClass,
    place: PlacementSpec,
    /// Optimizer steps of an epoch.
    steps: u64,
}

/// A run, which may have had some turns.
struct Run {
    /// The number of its class.
    class: usize,
    /// Whether it gets no turn any more.
    ended: bool,
    /// What a turn takes before its first epoch; 0 before the first turn.
    overhead: Duration,
    record: PilotRun,
}

impl<'a> Turns<'a> {
    /// The runs of classes at learning rates, by rate, seed and class.
    ///
    /// # Errors
    /// No folder for checkpoints; a class that one worker cannot train.
    pub(super) fn new(
        loaded: &'a Loaded,
        compiled: &'a Compiled,
        options: &'a PilotOptions,
        data: &GraphData,
        classes: Vec<StatisticalClass>,
        rates: &[f64],
    ) -> Result<Self, Error> {
        let folder = tempfile::tempdir().map_err(|source| Error::File {
            action: "write",
            path: std::env::temp_dir(),
            source,
        })?;
        let trained = |class: StatisticalClass| -> Result<Trained, Error> {
            let place = on_one_worker(&class).map_err(|why| Error::Input(why.to_owned()))?;
            let steps = steps_of(&class, data)?;
            Ok(Trained {
                class,
                place,
                steps,
            })
        };
        let classes = classes
            .into_iter()
            .map(trained)
            .collect::<Result<Vec<_>, _>>()?;
        let mut runs = Vec::new();
        for learning_rate in rates {
            for seed in &options.seeds {
                runs.extend((0..classes.len()).map(|class| Run::new(class, *learning_rate, *seed)));
            }
        }
        Ok(Self {
            loaded,
            compiled,
            options,
            classes,
            runs,
            folder,
        })
    }

    /// Gives each run its turns until `end`. Returns what became of them, and whether they were interrupted.
    ///
    /// # Errors
    /// A run that fails.
    pub(super) fn take(
        mut self,
        end: Instant,
        watch: &mut dyn FnMut(PilotProgress),
    ) -> Result<(Vec<Piloted>, bool), Error> {
        let stop = &self.options.stop;
        let over = || stop.is_asked() || Instant::now() >= end;
        loop {
            self.end_slower();
            let waiting: Vec<usize> = (0..self.runs.len())
                .filter(|n| !self.runs[*n].ended)
                .collect();
            if waiting.is_empty() || over() {
                break;
            }
            let left = end.saturating_duration_since(Instant::now());
            let share = left / waiting.len() as u32;
            for n in waiting {
                if over() {
                    break;
                }
                self.end_slower();
                if self.runs[n].ended {
                    continue;
                }
                let least = self.runs[n].overhead * WORTHWHILE;
                self.turn(n, end.min(Instant::now() + share.max(least)))?;
                let run = &self.runs[n];
                watch(PilotProgress {
                    class: &self.classes[run.class].class,
                    run: &run.record,
                    ended: run.ended,
                    done: self.runs.iter().filter(|run| run.ended).count(),
                    all: self.runs.len(),
                });
            }
        }
        let interrupted = stop.is_asked();
        Ok((self.records(interrupted), interrupted))
    }

    /// Trains a run until a time, until it ends, or until a better learning rate has won.
    fn turn(&mut self, n: usize, until: Instant) -> Result<(), Error> {
        let limit = self.limit(&self.runs[n]);
        let run = &mut self.runs[n];
        let place = &self.classes[run.class].place;
        let file = self.folder.path().join(n.to_string());
        let options = TrainOptions {
            epochs: self.options.epochs,
            seed: Some(run.record.seed),
            learning_rate: Some(run.record.learning_rate),
            threads: self.options.threads,
            placement: place.placement,
            knobs: place.knobs.clone(),
            allow: self.options.allow.clone(),
            cache: self.options.cache.clone(),
            checkpoint_every: u32::MAX,
            resume: resumed(&file),
            checkpoint: Some(file),
            evaluate_every: self.options.evaluate_every,
            target: Some(self.options.target),
            pause: Pause {
                at: Some(until),
                after: limit,
            },
            stop: self.options.stop.clone(),
            ..TrainOptions::default()
        };
        let begin = Instant::now();
        let (mut trained, mut diverged) = (0.0, false);
        let record = &mut run.record;
        let result = train_traced(self.loaded, self.compiled, &options, &mut |progress| {
            trained += progress.epoch.seconds + progress.evaluation_seconds;
            diverged |= !progress.epoch.loss.is_finite();
            add(record, progress);
        });
        let overhead = begin.elapsed().as_secs_f64() - trained;
        run.overhead = Duration::from_secs_f64(overhead.max(0.0));
        let summary = match result {
            Err(_) if diverged => None,
            result => Some(result?.0),
        };
        let end = match summary {
            None => Some(End::Diverged),
            Some(summary) => {
                let epochs = self
                    .options
                    .epochs
                    .unwrap_or(self.loaded.model.train.epochs);
                let reached = summary.target.is_some_and(|target| target.reached);
                if reached {
                    Some(End::Reached)
                } else if summary.stopped_early {
                    Some(End::Patience)
                } else if run.record.epochs >= u64::from(epochs) {
                    Some(End::Epochs)
                } else {
                    None
                }
            }
        };
        if let Some(end) = end {
            (run.record.end, run.ended) = (end, true);
        }
        Ok(())
    }

    /// The runs of a class so far.
    fn piloted(&self, class: usize) -> Piloted {
        let own = self.runs.iter().filter(|run| run.class == class);
        let with_epochs = own.filter(|run| run.record.epochs > 0);
        let Trained { class, steps, .. } = &self.classes[class];
        Piloted {
            name: class.to_string(),
            steps_per_epoch: *steps,
            class: class.clone(),
            runs: with_epochs.map(|run| run.record.clone()).collect(),
        }
    }

    /// The epochs after which a run cannot be the best of its class any more: at another learning rate, all seeds
    /// reached the target in as many.
    fn limit(&self, run: &Run) -> Option<u64> {
        let PilotOptions {
            seeds,
            evaluate_every,
            ..
        } = self.options;
        match self.piloted(run.class).needed(seeds, *evaluate_every)? {
            Needed::Measured {
                learning_rate,
                slowest,
                ..
            } if learning_rate != run.record.learning_rate => Some(slowest),
            Needed::Measured { .. } | Needed::MoreThan { .. } => None,
        }
    }

    /// Ends the runs that cannot be the best of their class any more.
    fn end_slower(&mut self) {
        for n in 0..self.runs.len() {
            let run = &self.runs[n];
            let beaten = !run.ended
                && self
                    .limit(run)
                    .is_some_and(|limit| run.record.epochs >= limit);
            if beaten {
                (self.runs[n].record.end, self.runs[n].ended) = (End::Slower, true);
            }
        }
    }

    /// What became of all runs.
    fn records(mut self, interrupted: bool) -> Vec<Piloted> {
        for run in self.runs.iter_mut().filter(|run| !run.ended) {
            run.record.end = match interrupted {
                true => End::Interrupted,
                false => End::Time,
            };
        }
        (0..self.classes.len())
            .map(|class| self.piloted(class))
            .collect()
    }
}

impl Run {
    /// A run that had no turn yet.
    fn new(class: usize, learning_rate: f64, seed: u64) -> Self {
        Self {
            class,
            ended: false,
            overhead: Duration::ZERO,
            record: PilotRun {
                learning_rate,
                seed,
                end: End::Time,
                epochs: 0,
                steps: 0,
                seconds: Seconds(0.0),
                evaluation_seconds: Seconds(0.0),
                curve: Curve::default(),
            },
        }
    }
}

/// Optimizer steps of an epoch of a class.
fn steps_of(class: &StatisticalClass, data: &GraphData) -> Result<u64, Error> {
    let Some(sampled) = class.sampled() else {
        return Ok(1);
    };
    let batches = Batches::new(seeds(data, Phase::Step), sampled.batch, sampled.cut, 0);
    let batches = batches.map_err(|why| Error::Input(format!("{class}: {why}")))?;
    Ok(u64::from(batches.count()).max(1))
}

/// The checkpoint of a run that has one.
fn resumed(file: &std::path::Path) -> Option<PathBuf> {
    file.is_file().then(|| file.to_owned())
}

/// Adds an epoch to a run.
fn add(record: &mut PilotRun, progress: &Progress) {
    record.epochs = progress.epoch.epoch;
    record.steps = progress.steps;
    record.seconds += Seconds(progress.epoch.seconds);
    record.evaluation_seconds += Seconds(progress.evaluation_seconds);
    let score = progress.scores.and_then(|scores| scores.val);
    if let Some(score) = score.filter(|score| score.is_finite()) {
        record.curve.steps.push(progress.steps);
        record.curve.scores.push(score);
    }
}

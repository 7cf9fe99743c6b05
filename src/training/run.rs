//! Training runs, from the first epoch to the summary.

use super::merges::{Search, with_merges};
use super::target::Toward;
use super::{Progress, TrainOptions, Trainer};
use crate::{Compiled, Error, Kept, Loaded, Scores, Summary, Waited};
use gnnc_files::{Claim, Claimed};
use gnnc_ir::program::BatchSizes;
use gnnc_ir::program::trace::{Event, Phase, Trace, median};
use gnnc_ir::words::schedule::Schedule;
use gnnc_runtime::{RuntimeError, Snapshot};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Where a run with this checkpoint keeps the parameters that its report quotes, if vertices have been
/// set aside to choose an epoch.
pub fn best_of(checkpoint: &Path) -> PathBuf {
    let mut name = checkpoint
        .file_name()
        .map(OsString::from)
        .unwrap_or_default();
    name.push(".best");
    checkpoint.with_file_name(name)
}

/// Writes the best parameters beside a checkpoint, if there are better ones than those there.
fn keep(checkpoint: &Path, trainer: &Trainer, best: &mut Option<Snapshot>) -> Result<(), Error> {
    if let Some(best) = best.take().filter(|_| trainer.session.leads()) {
        best.write(&best_of(checkpoint))?;
    }
    Ok(())
}

/// Refuses a seed other than the one of the checkpoint's run.
fn same_seed(asked: Option<u64>, seed: u64, path: &Path) -> Result<(), Error> {
    if let Some(found) = asked.filter(|found| *found != seed) {
        return Err(Error::Input(format!(
            "found seed {found}, but {} continues the random draws of seed {seed}; leave out the seed, \
             or start over without the checkpoint",
            path.display()
        )));
    }
    Ok(())
}

/// Whether a run without an evaluation ends with one. Several processes decide by what all of them know, since each waits
/// for the others to evaluate; only this one knows whether it is to stop at once.
fn ends_scored(whole: bool, interrupted: bool, at_once: bool) -> bool {
    if whole { !at_once } else { !interrupted }
}

/// Trains a model. `watch` is called after every epoch.
///
/// # Errors
/// As [`Trainer::new`] and [`Trainer::epoch`]; checkpoints that cannot be read or written.
pub fn train(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &TrainOptions,
    watch: &mut dyn FnMut(&Progress),
) -> Result<Summary, Error> {
    let (summary, _) = train_traced(loaded, compiled, options, watch)?;
    Ok(summary)
}

/// As [`train`], with the timeline of every rank, if the options ask for it.
///
/// # Errors
/// As [`train`].
pub fn train_traced(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &TrainOptions,
    watch: &mut dyn FnMut(&Progress),
) -> Result<(Summary, Trace), Error> {
    let trainer = Trainer::new(loaded, compiled, options)?;
    run(trainer, loaded, compiled, options, watch)
}

/// As [`train_traced`], for a model that is trained once: its features take no memory besides those that
/// ranks hold.
///
/// # Errors
/// As [`train`].
pub fn train_once(
    mut loaded: Loaded,
    compiled: &Compiled,
    options: &TrainOptions,
    watch: &mut dyn FnMut(&Progress),
) -> Result<(Summary, Trace), Error> {
    let trainer = Trainer::new(&loaded, compiled, options)?;
    // Another trainer may need them.
    if !options.measure_merges {
        loaded.forget_features();
    }
    run(trainer, &loaded, compiled, options, watch)
}

/// Claims the checkpoint of a run, so that no other run writes it. Collective.
///
/// # Errors
/// A checkpoint that another run writes; a process that failed.
fn claim(trainer: &Trainer, options: &TrainOptions) -> Result<Option<Claim>, Error> {
    let Some(path) = &options.checkpoint else {
        return Ok(None);
    };
    let (mut claim, mut taken) = (None, 0);
    if trainer.first_rank == 0 {
        match Claim::of(path) {
            Claimed::Yes(own) => claim = Some(own),
            Claimed::Taken => taken = 1,
            Claimed::Unknown => {}
        }
    }
    match trainer.session.sum(taken)? {
        0 => Ok(claim),
        _ => Err(Error::Input(format!(
            "found the checkpoint {} in use by another run; wait for it to end, or give another --checkpoint",
            path.display()
        ))),
    }
}

/// Trains until the last epoch, or until there is a reason to stop.
fn run(
    mut trainer: Trainer,
    loaded: &Loaded,
    compiled: &Compiled,
    options: &TrainOptions,
    watch: &mut dyn FnMut(&Progress),
) -> Result<(Summary, Trace), Error> {
    let _claim = claim(&trainer, options)?;
    trainer.session.set_parameters(&options.parameters)?;
    let mut copies_anew_at = None;
    let mut merges = Search::new(options)?;
    let (mut events, mut peak) = (Vec::<Event>::new(), 0);
    if let Some(path) = &options.resume {
        let resumed = trainer.session.resume(path)?;
        copies_anew_at = (!resumed.copies).then_some(resumed.epoch);
        same_seed(options.seed, trainer.session.seed(), path)?;
    }
    let settings = &loaded.model.train;
    let epochs = options.epochs.unwrap_or(settings.epochs);
    let every = options.evaluate_every.max(1);
    let (mut losses, mut seconds) = (Vec::new(), Vec::new());
    let (mut bytes_sent, mut bytes_predicted, mut bytes_skipped) = (0, 0, 0);
    let mut bytes_crossed = 0;
    let full = trainer.if_sent(&|_, _, _| true);
    let skips = trainer.program.sampling.is_none();
    // The parameters of the best epoch, since the best file was written.
    let mut best = None;
    let mut best_kept = None;
    let mut stopped_early = false;
    let mut toward = options
        .target
        .map(|target| Toward::new(target, loaded.metric()));
    let schedule = options.schedule(loaded);
    let changes = options.learning_rate.is_some() || !schedule.is_constant();
    options.stop.listen();
    let began = Began::now(options);
    let mut interrupted = false;
    while trainer.session.epochs() < u64::from(epochs) {
        interrupted = trainer.session.stops()?;
        if interrupted {
            break;
        }
        if changes {
            let session = &mut trainer.session;
            let share = schedule.share(session.epochs(), epochs.into());
            let share = share * schedule.reduced(session.plateau().reductions);
            session.set_learning_rate(share * options.rate(loaded));
        }
        let epoch = match trainer.epoch() {
            Err(Error::Runtime(RuntimeError::Stopped)) => {
                interrupted = true;
                break;
            }
            epoch => epoch?,
        };
        losses.push(epoch.loss);
        seconds.push(epoch.seconds);
        bytes_sent += epoch.bytes_sent;
        bytes_crossed += epoch.bytes_crossed;
        let predicted = trainer.predicted()?;
        bytes_predicted += predicted;
        bytes_skipped += if skips { full - predicted } else { 0 };
        let last = epoch.epoch == u64::from(epochs);
        let due = epoch.epoch % u64::from(every) == 0 || last;
        let begin = Instant::now();
        let metrics = due.then(|| trainer.evaluate()).transpose()?;
        let evaluation_seconds = metrics.map_or(0.0, |_| begin.elapsed().as_secs_f64());
        let chosen = trainer.session.best().and_then(|best| best.chosen_epoch());
        if let (Some(_), Schedule::Plateau { factor, patience }) = (metrics, schedule) {
            let is_best = chosen == Some(epoch.epoch);
            let rate = trainer.session.learning_rate();
            let plateau = trainer.session.plateau_mut();
            plateau.count(is_best, patience, rate, factor);
        }
        if options.checkpoint.is_some() && chosen == Some(epoch.epoch) {
            best = Some(trainer.session.snapshot()?);
        }
        if options.keep && chosen == Some(epoch.epoch) {
            best_kept = Some(trainer.session.parameters()?);
        }
        let progress = Progress {
            epoch,
            learning_rate: trainer.session.learning_rate(),
            metrics,
            scores: metrics.map(|m| Scores::new(loaded.counted(), &m, trainer.judged())),
            steps: trainer.session.steps(),
            evaluation_seconds,
            epochs,
        };
        watch(&progress);
        if let Some(most) = options.traced_epochs.filter(|_| options.trace) {
            events.extend(trainer.session.take_trace()?.events);
            let kept =
                |event: &Event| event.phase == Phase::Setup || event.epoch + most > epoch.epoch;
            events.retain(kept);
        }
        if !epoch.loss.is_finite() {
            let n = epoch.epoch;
            return Err(Error::Input(format!(
                "the loss is {} after epoch {n}; try a smaller learning rate",
                epoch.loss
            )));
        }
        if toward.as_mut().is_some_and(|toward| toward.sees(&progress)) {
            break;
        }
        if let Some(path) = &options.checkpoint
            && epoch.epoch % u64::from(options.checkpoint_every.max(1)) == 0
            && !last
        {
            trainer.session.save(path)?;
            keep(path, &trainer, &mut best)?;
        }
        let search = merges.as_mut().filter(|_| !last);
        if let Some(next) = search.and_then(|search| search.sees(epoch.seconds)) {
            events.extend(trainer.session.take_trace()?.events);
            peak = peak.max(trainer.session.peak_memory_bytes()?);
            trainer = with_merges(next, &trainer, loaded, compiled, options)?;
        }
        if let (Some(patience), Some(chosen)) = (settings.patience, chosen)
            && epoch.epoch >= chosen + u64::from(patience)
        {
            stopped_early = true;
            break;
        }
        if options.pause.is_due(epoch.epoch) && !last {
            interrupted = true;
            break;
        }
    }
    let untrained = interrupted && trainer.session.epochs() == 0;
    if let Some(path) = options.checkpoint.as_ref().filter(|_| !untrained) {
        trainer.session.save(path)?;
        keep(path, &trainer, &mut best)?;
    }
    let at_once = options.stop.is_at_once();
    if trainer.session.best().is_none() && ends_scored(trainer.whole, interrupted, at_once) {
        trainer.evaluate()?;
    }
    let best = trainer.session.best();
    let metrics = best.map(|b| b.metrics).unwrap_or_default();
    let judged = best.and_then(|best| best.judged);
    let kept = match options.keep {
        true => Some(Kept {
            last: trainer.session.parameters()?,
            best: best_kept,
        }),
        false => None,
    };
    let summary = Summary {
        model: loaded.model.name.clone(),
        graph: loaded.workload.name.clone(),
        workers: options.workers,
        threads: options.threads,
        seed: trainer.session.seed(),
        epochs: trainer.session.epochs(),
        train_loss: losses.last().copied().unwrap_or(f64::NAN),
        scores: Scores::new(loaded.counted(), &metrics, judged.as_ref()),
        best_epoch: best.and_then(|best| best.chosen_epoch()),
        chosen_by: judged.map(|judged| judged.metric),
        eval_fanouts: match &trainer.program.evaluation {
            Some(evaluation) => evaluation.fanouts.clone(),
            None => Vec::new(),
        },
        epoch_seconds: median(&seconds),
        peak_memory_bytes: peak.max(trainer.session.peak_memory_bytes()?),
        bytes_sent,
        bytes_crossed,
        bytes_predicted,
        host_memory_bytes: trainer.session.most(trainer.session.host_bytes())?,
        epoch_moved_bytes: trainer.session.sum(trainer.moves(Phase::Step)?)?,
        bytes_skippable: trainer.skippable() * seconds.len() as u64,
        bytes_skipped,
        grown: trainer.session.grown()?,
        cache_hits: cache_hits(&trainer)?,
        merges: merges.map(Search::found),
        waited: waited(&trainer, options, began)?,
        target: toward.map(|toward| toward.seen),
        staleness: Some(trainer.session.staleness()?).filter(|s| !s.layers.is_empty()),
        copies_anew_at,
        stopped_early,
        interrupted,
        not_used: loaded.not_used.clone(),
        kept,
        losses,
        seconds,
    };
    let latest = trainer.session.take_trace()?;
    events.extend(latest.events);
    let trace = Trace {
        graph: loaded.workload.name.clone(),
        events,
        ..latest
    };
    Ok((summary, trace))
}

/// When a run began, and how long the ranks of this process had waited for others before.
struct Began {
    at: Instant,
    waited: f64,
}

impl Began {
    fn now(options: &TrainOptions) -> Self {
        Self {
            at: Instant::now(),
            waited: options.world.as_ref().map_or(0.0, |world| world.waited()),
        }
    }
}

/// How long each of several processes waited for others.
fn waited(trainer: &Trainer, options: &TrainOptions, began: Began) -> Result<Vec<Waited>, Error> {
    let Some(world) = &options.world else {
        return Ok(Vec::new());
    };
    let all = began.at.elapsed().as_secs_f64().max(1e-9);
    let share = (world.waited() - began.waited) / all;
    let own = (world.host().to_owned(), share);
    let of_processes = trainer.session.gather(own)?;
    let waited = of_processes
        .into_iter()
        .map(|(host, share)| Waited { host, share });
    Ok(waited.collect())
}

/// Of the rows that the batches of the last epoch read of other ranks, the share that was cached.
fn cache_hits(trainer: &Trainer) -> Result<Option<f64>, Error> {
    let sampling = trainer.program.sampling.as_ref();
    let (Some(_), Some(asks)) = (
        sampling.and_then(|sampling| sampling.cache),
        trainer.program.asks(Phase::Step),
    ) else {
        return Ok(None);
    };
    let level = usize::from(asks.number);
    let drawn = trainer.session.drawn(Phase::Step)?;
    let sum = |of: &dyn Fn(&BatchSizes) -> u64| drawn.iter().flatten().map(of).sum::<u64>() as f64;
    let (hits, misses) = (sum(&|one| one.cached[level]), sum(&|one| one.remote[level]));
    Ok((hits + misses > 0.0).then(|| hits / (hits + misses)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_agree_on_the_last_evaluation() {
        for interrupted in [false, true] {
            let [one, other] =
                [false, true].map(|at_once| ends_scored(false, interrupted, at_once));
            assert_eq!((one, other), (!interrupted, !interrupted));
        }
        assert!(ends_scored(true, true, false) && !ends_scored(true, true, true));
    }
}

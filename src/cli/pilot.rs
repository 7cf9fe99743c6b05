//! `gnnc pilot`: how many epochs each way to train a model needs to reach a score.

use super::cache::{CacheArgs, say_refused};
use super::files::{replace, writable};
use super::inputs::{ModelArgs, headline};
use super::knobs::ClassArgs;
use super::output::{Answer, Failure, Output, input};
use super::signals::Signals;
use super::text::{Table, count, facts};
use super::watch::progress_bar;
use clap::Args;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{End, LeftOut, Needed, Objective, Pilot, PilotRun, Piloted};
use gnnc::ir::words::units::Seconds;
use gnnc::numbers::{EPOCHS, RATES, RUNS, SEEDS, THREADS, VERTICES, budget, within};
use gnnc::{Loaded, Metric, PilotOptions};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The largest seed that the file can hold.
const LARGEST_SEED: u64 = i64::MAX as u64;

/// Arguments of `pilot`.
#[derive(Args)]
pub struct PilotCommand {
    #[command(flatten)]
    model: ModelArgs,
    /// The score of the validation vertices to reach, such as 0.8.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    target: f64,
    /// The time for all runs, such as 90s, 10min or 1.5h. Runs share it equally; those that end early leave their rest to
    /// the others. The last epoch of a run is always completed.
    #[arg(long, value_name = "TIME", value_parser = budget)]
    budget: Duration,
    /// Write the pilot to this file; `gnnc plan MODEL --objective time-to-accuracy --pilot FILE` plans with it.
    #[arg(long, value_name = "FILE", default_value = "pilot.toml")]
    out: PathBuf,
    /// Number of consecutive seeds, each of which has to reach the score.
    #[arg(long, value_name = "N", default_value = "3", value_parser = within(RUNS))]
    seeds: u64,
    /// The first seed, instead of the model's.
    #[arg(long, value_name = "N", value_parser = within(SEEDS))]
    seed: Option<u64>,
    /// Learning rates to try; by default the model's, a third of it, three times and nine times as much.
    #[arg(long, value_name = "X,...", value_delimiter = ',', value_parser = within(RATES))]
    lr: Vec<f64>,
    /// Most epochs of a run, instead of the model's.
    #[arg(long, value_name = "N", value_parser = within(EPOCHS))]
    epochs: Option<u32>,
    /// Epochs between evaluations.
    #[arg(long, value_name = "N", default_value = "1", value_parser = within(EPOCHS))]
    evaluate_every: u32,
    /// What the score is, as in `gnnc train`; by default the model's metric.
    #[arg(long, value_name = "NAME")]
    metric: Option<Metric>,
    /// Relaxations to permit besides those of the model: decouple, stale, sample. What is permitted is tried.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = super::inputs::relaxation)]
    allow: Vec<Relaxation>,
    /// Seeds of a sampled batch; each of several sizes is tried.
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = within(VERTICES))]
    batch: Vec<u32>,
    /// Threads of the worker.
    #[arg(long, value_name = "N", default_value = "1", value_parser = within(THREADS))]
    threads: usize,
    #[command(flatten)]
    knobs: ClassArgs,
    #[command(flatten)]
    cache: CacheArgs,
}

impl PilotCommand {
    /// Runs the classes, writes the file and reports what they needed.
    pub fn run(&self, out: &Output, signals: &Signals) -> Answer {
        writable(&self.out, "pilot")?;
        let mut loaded = self.model.load(out)?;
        let metric = self.metric.or(loaded.model.train.metric);
        loaded.model.train.metric = metric;
        let metric = loaded.metric();
        if let Err(expected) = metric.check_target(self.target) {
            return Err(input(format!("found --target {}, {expected}", self.target)));
        }
        if loaded.data.is_some() && loaded.workload.split[1] == 0 {
            return Err(input(format!(
                "the graph `{}` has no validation vertices, which are to reach the target; set some aside (`gnnc graph \
                 import --split 0.6,0.2,0.2`)",
                loaded.workload.name
            )));
        }
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let cache = self.cache.open(out)?;
        let options = PilotOptions {
            target: self.target,
            budget: self.budget,
            seeds: self.seeds(&loaded)?,
            learning_rates: self.lr.clone(),
            epochs: self.epochs,
            evaluate_every: self.evaluate_every,
            batches: self.batch.clone(),
            knobs: self.knobs.knobs.clone(),
            allow: self.allow.clone(),
            threads: self.threads,
            cache: cache.clone(),
            stop: signals.stop.clone(),
        };
        let bar = progress_bar(out, 1);
        let found = gnnc::pilot(&loaded, &compiled, &options, &mut |progress| {
            bar.set_length(progress.all as u64);
            bar.set_position(progress.done as u64);
            bar.set_message(progress.class.to_string());
        });
        bar.finish_and_clear();
        say_refused(cache.as_ref(), out);
        let pilot = found?;
        let text = pilot.to_toml().map_err(|why| input(why.to_string()))?;
        replace(&self.out, text.as_bytes())?;
        out.report(
            || format!("{}\n{}", headline(&loaded), self.text(&pilot)),
            &json!({ "file": self.out.display().to_string(), "pilot": pilot }),
        )?;
        signals
            .exit_code()
            .map_or(Ok(()), |code| Err(Failure::Reported(code)))
    }

    /// The seeds of the runs.
    fn seeds(&self, loaded: &Loaded) -> Result<Vec<u64>, Failure> {
        let first = self.seed.unwrap_or(loaded.model.train.seed);
        let end = first
            .checked_add(self.seeds)
            .filter(|end| *end <= LARGEST_SEED);
        let end = end.ok_or_else(|| {
            input(format!(
                "{} seeds from {first} on do not fit into the file, whose largest is {LARGEST_SEED}; start lower",
                self.seeds
            ))
        })?;
        Ok((first..end).collect())
    }

    /// What the runs told, class by class.
    fn text(&self, pilot: &Pilot) -> String {
        let used = format!(
            "{} of {}{}",
            Seconds(pilot.used_seconds.0),
            Seconds(pilot.budget_seconds.0),
            match pilot.interrupted {
                true => " (interrupted)",
                false => "",
            }
        );
        let (metric, target) = (pilot.metric, pilot.target);
        let mut text = facts(&[
            (
                "target",
                format!(
                    "{} {} of the validation vertices",
                    metric.name(),
                    metric.written(target)
                ),
            ),
            ("seeds", format!("{:?}", pilot.seeds)),
            ("time", used),
            ("file", self.out.display().to_string()),
        ]);
        for piloted in &pilot.classes {
            text += &format!("\n{}", of_class(pilot, piloted));
        }
        if !pilot.left_out.is_empty() {
            text += "\nnot piloted\n";
        }
        for LeftOut { what, reason } in &pilot.left_out {
            text += &facts(&[("  ", format!("{what}: {reason}"))]);
        }
        text
    }
}

/// Reads the pilot for a plan, if there is one.
///
/// # Errors
/// A file that is no pilot, or an objective that needs none.
pub fn read(path: Option<&Path>, objective: Objective) -> Result<Option<Pilot>, Failure> {
    let Some(path) = path else {
        return Ok(None);
    };
    if objective != Objective::TimeToAccuracy {
        return Err(input(format!(
            "found --pilot with --objective {objective}, which needs none; give --objective {}",
            Objective::TimeToAccuracy
        )));
    }
    Ok(Some(gnnc::read_pilot(path)?))
}

/// Refuses a pilot of another model, graph or program.
///
/// # Errors
/// What differs.
pub fn fits(pilot: &Pilot, path: &Path, loaded: &Loaded) -> Result<(), Failure> {
    let why = gnnc::pilot_fits(pilot, loaded);
    why.map_err(|why| input(format!("{}: {why}", path.display())))
}

/// A class with a line for each learning rate.
fn of_class(pilot: &Pilot, piloted: &Piloted) -> String {
    let steps = count(piloted.steps_per_epoch, "step");
    let needed = match piloted.needed(&pilot.seeds, pilot.evaluate_every) {
        None => "no run got a turn".to_owned(),
        Some(needed @ Needed::MoreThan { .. }) => format!("needs {needed}"),
        Some(needed @ Needed::Measured { learning_rate, .. }) => {
            let end = end_of(learning_rate, &pilot.learning_rates);
            format!("needs {needed} with learning rate {learning_rate}{end}")
        }
    };
    let mut table = Table::new(1, 2);
    table.row([
        "learning rate",
        "reached",
        "epochs",
        "steps",
        "time",
        "best score",
        "ended",
    ]);
    let seeds = pilot.seeds.len();
    for (rate, runs) in piloted.by_rate() {
        let reached = runs.iter().filter(|run| run.end == End::Reached).count();
        let range = |of: &dyn Fn(&PilotRun) -> f64, shown: &dyn Fn(f64) -> String| {
            let all = || runs.iter().map(|run| of(run));
            let low = shown(all().fold(f64::INFINITY, f64::min));
            let high = shown(all().fold(f64::NEG_INFINITY, f64::max));
            match low == high {
                true => low,
                false => format!("{low} to {high}"),
            }
        };
        let whole = |number: f64| number.to_string();
        let time = |run: &PilotRun| run.seconds.0 + run.evaluation_seconds.0;
        let scores = runs.iter().flat_map(|run| run.curve.scores.iter().copied());
        let better = |best: f64, score: f64| match pilot.metric.is_better(score, best) {
            true => score,
            false => best,
        };
        let best = scores.reduce(better);
        table.row([
            rate.to_string(),
            format!("{reached} of {seeds}"),
            range(&|run| run.epochs as f64, &whole),
            range(&|run| run.steps as f64, &whole),
            range(&time, &|seconds| Seconds(seconds).to_string()),
            best.map_or_else(|| "-".to_owned(), |best| pilot.metric.written(best)),
            ends(&runs),
        ]);
    }
    let class = &piloted.class;
    let lines = table.lines();
    format!("{class}\n  {steps} an epoch; {needed}\n{lines}")
}

/// Says so if the best learning rate is an end of those tried, as one beyond it may be better.
fn end_of(best: f64, tried: &[f64]) -> &'static str {
    let smaller = tried.iter().any(|rate| *rate < best);
    let larger = tried.iter().any(|rate| *rate > best);
    if larger && !smaller {
        ", the smallest of --lr"
    } else if smaller && !larger {
        ", the largest of --lr"
    } else {
        ""
    }
}

/// Why runs ended that did not reach the target.
fn ends(runs: &[&PilotRun]) -> String {
    let mut why: Vec<&str> = Vec::new();
    for run in runs {
        let said = match run.end {
            End::Reached => continue,
            End::Time => "time",
            End::Epochs => "epochs",
            End::Patience => "patience",
            End::Diverged => "diverged",
            End::Slower => "slower",
            End::Interrupted => "interrupted",
        };
        if !why.contains(&said) {
            why.push(said);
        }
    }
    why.join(", ")
}

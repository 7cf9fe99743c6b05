//! `gnnc train`: training runs.

use super::best::{best, machines, partitioner};
use super::cache::{kernels, say_refused};
use super::device::{DeviceArgs, MemoryArgs, ProcessArgs};
use super::diff;
use super::files::{replace, writable};
use super::inputs::{FlowArgs, ModelArgs, Way, headline, load_planned};
use super::machine::{cluster, warn};
use super::numbers::{EPOCHS, RUNS, SEEDS, THREADS, WORKERS, within};
use super::output::{Answer, Failure, Output, input};
use super::profile::profile;
use super::signals::Signals;
use super::summary::{loss, summary_text};
use super::text::{count, facts, percent, percent_or_dash};
use super::watch::{Watcher, progress_bar};
use clap::Args;
use gnnc::codegen::cache::Cache;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{Candidate, Placement, Plan};
use gnnc::ir::words::units::Seconds;
use gnnc::planner::layout::Layouts;
use gnnc::planner::placement::{Stages, row};
use gnnc::planner::search::{Pin, PlacementSpec};
use gnnc::runtime::Stop;
use gnnc::{Compiled, Loaded, PlanOptions, Summary, TrainOptions, train_traced};
use serde_json::json;
use std::path::PathBuf;

/// Arguments of `train`.
#[derive(Args)]
pub struct Train {
    #[command(flatten)]
    model: ModelArgs,
    /// Ranks that the graph is divided among; those of the plan, or 1.
    #[arg(long, value_name = "N", value_parser = within(WORKERS))]
    workers: Option<u32>,
    /// How the work is placed on several workers: a placement, or best for what a plan for this number of workers
    /// chooses; as the plan says, or graph.
    #[arg(long, value_name = "NAME", value_parser = super::inputs::way)]
    placement: Option<Way>,
    /// Relaxations that are permitted, beside those that the model permits: decouple, stale, sample (which nothing needs yet).
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = super::inputs::relaxation)]
    allow: Vec<Relaxation>,
    /// The machines that a plan is made for, where the best placement or layouts of a mixed one are to be found; cpu if
    /// not given, or h100x8 on a GPU.
    #[arg(long, value_name = "NAME|FILE")]
    cluster: Option<String>,
    /// Threads of each worker.
    #[arg(long, value_name = "N", default_value = "1", value_parser = within(THREADS))]
    threads: usize,
    /// Epochs in place of the model's.
    #[arg(long, value_name = "N", value_parser = within(EPOCHS))]
    epochs: Option<u32>,
    /// Seed of every random draw, in place of the model's.
    #[arg(long, value_name = "N", value_parser = within(SEEDS))]
    seed: Option<u64>,
    /// Train with this many seeds in a row and report mean and standard deviation.
    #[arg(
        long,
        value_name = "N",
        value_parser = within(RUNS),
        conflicts_with_all = ["checkpoint", "resume", "curve", "trace", "profile"]
    )]
    seeds: Option<u64>,
    /// How vertices are divided: metis, metis-edges, hash or range; as in the plan, or metis.
    #[arg(long, value_name = "NAME")]
    partitioner: Option<String>,
    /// Write the state to this file, every so many epochs and at the end.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Epochs between checkpoints.
    #[arg(long, value_name = "N", default_value = "100", value_parser = within(EPOCHS))]
    checkpoint_every: u32,
    /// Go on from this checkpoint.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Epochs between evaluations.
    #[arg(long, value_name = "N", default_value = "1", value_parser = within(EPOCHS))]
    evaluate_every: u32,
    /// Write the loss and the accuracies (micro-F1 with several labels a vertex) of every evaluated epoch
    /// to this file, as CSV.
    #[arg(long, value_name = "FILE")]
    curve: Option<PathBuf>,
    /// Write what every rank did when to this file, for Chrome's tracing page or Perfetto.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print what the time of an epoch goes to.
    #[arg(long)]
    profile: bool,
    /// Compile every kernel anew and keep none.
    #[arg(long)]
    no_cache: bool,
    #[command(flatten)]
    flow: FlowArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    processes: ProcessArgs,
}

impl Train {
    /// Trains once, or once with each seed.
    pub fn run(&self, out: &Output, signals: &Signals) -> Answer {
        self.check()?;
        let (loaded, plan) = self.load(out)?;
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let choice = self.choice(&loaded, &compiled, plan.as_ref(), out)?;
        let choice = choice.as_ref();
        warn(choice.map_or(self.flow.skip(), |c| c.parameters.skip), out);
        let stages = match choice {
            Some(choice) => PlacementSpec::of(choice).stages,
            None => self.stages(),
        };
        let epochs = self.epochs.unwrap_or(loaded.model.train.epochs);
        for warning in stages.iter().flat_map(|stages| stages.warnings(epochs)) {
            out.note(&format!("warning: {warning}\n"));
        }
        if loaded.data.is_some() && loaded.workload.split[1] == 0 {
            out.note(&unchosen(&loaded));
        }
        let cache = kernels(!self.no_cache, out)?;
        let kept = cache.clone();
        let stop = signals.stop.clone();
        let answer = match self.seeds {
            Some(seeds) => self.several(out, &loaded, &compiled, seeds, choice, kept, stop),
            None => self.once(out, &loaded, &compiled, choice, kept, stop),
        };
        say_refused(cache.as_ref(), out);
        answer?;
        signals
            .exit_code()
            .map_or(Ok(()), |code| Err(Failure::Reported(code)))
    }

    /// What a plan chooses: the one that was given, or one that is made now.
    fn choice(
        &self,
        loaded: &Loaded,
        compiled: &Compiled,
        plan: Option<&Plan>,
        out: &Output,
    ) -> Result<Option<Candidate>, Failure> {
        if let Some(plan) = plan {
            let verified = gnnc::verify(plan, loaded, compiled)?;
            for warning in &verified.warnings {
                out.note(&format!("warning: {warning}\n"));
            }
            return Ok(Some(verified.choice));
        }
        if self.placement != Some(Way::Best) {
            return Ok(None);
        }
        let (device, workers) = self.processes.device(&self.device, self.workers)?;
        let machines = machines(self.cluster.as_deref(), &device, workers.unwrap_or(1))?;
        let options = PlanOptions {
            pin: Pin {
                partitioner: self.partitioner.as_deref().map(partitioner).transpose()?,
                ..self.flow.pin()
            },
            overlap: self.flow.flow().overlap,
            allow: self.allow.clone(),
            ..PlanOptions::new(machines)
        };
        best(loaded, compiled, options).map(Some)
    }

    /// The placement that was named.
    fn named(&self) -> Option<Placement> {
        match self.placement {
            Some(Way::Placement(placement)) => Some(placement),
            _ => None,
        }
    }

    /// The model, or that of the plan that stands in its place.
    fn load(&self, out: &Output) -> Result<(Loaded, Option<Plan>), Failure> {
        let file = &self.model.file;
        if file.extension().is_none_or(|extension| extension != "json") {
            return Ok((self.model.load(out)?, None));
        }
        let plan = diff::read(file)?;
        let said = [&self.partitioner, &self.cluster]
            .iter()
            .any(|o| o.is_some());
        if self.workers.is_some() || self.placement.is_some() || said {
            return Err(input(format!(
                "{} says how many workers, which placement, which partitioner and which machines; \
                 leave out --workers, --placement, --partitioner and --cluster, or plan again with \
                 --pin",
                file.display()
            )));
        }
        if let Some(option) = self.flow.given() {
            return Err(input(format!(
                "{} says how epochs run and how tensors lie in memory; leave out {option}, or plan again with it",
                file.display()
            )));
        }
        let loaded = load_planned(&plan, file, &self.model.changes, out)?;
        Ok((loaded, Some(plan)))
    }

    /// What can be found wrong before anything is read.
    fn check(&self) -> Result<(), Failure> {
        if self.placement == Some(Way::Best) && self.flow.ordered() {
            return Err(input(
                "found --no-shuffle with --placement best, whose plans are for chunks in another order in each \
                 epoch; name a placement"
                    .to_owned(),
            ));
        }
        let files = [
            (&self.checkpoint, "checkpoint"),
            (&self.curve, "curve"),
            (&self.trace, "trace"),
        ];
        for (path, what) in files {
            if let Some(path) = path {
                writable(path, what)?;
            }
        }
        Ok(())
    }

    /// The stages that were asked for, of a placement that has some.
    fn stages(&self) -> Option<Stages> {
        let placement = self.named().filter(|placement| {
            let row = row(*placement);
            row.is_some_and(|row| row.staged())
        });
        let workers = self.workers.unwrap_or(1);
        placement.map(|placement| self.flow.stages(placement, workers))
    }

    fn options(
        &self,
        seed: Option<u64>,
        choice: Option<&Candidate>,
        cache: Option<Cache>,
        stop: Stop,
    ) -> Result<TrainOptions, Failure> {
        let planned = choice.map(|c| &c.parameters);
        let workers = planned.map(|p| p.ranks).or(self.workers);
        let (device, workers) = self.processes.device(&self.device, workers)?;
        let workers = workers.unwrap_or(1);
        let partitioner = planned.and_then(|p| p.partitioner).map(|p| p.to_string());
        Ok(TrainOptions {
            epochs: self.epochs,
            seed,
            workers,
            device,
            placement: choice
                .map(|c| c.placement)
                .or(self.named())
                .unwrap_or(Placement::Graph),
            allow: match choice {
                // Verified: the plan says that it is allowed.
                Some(choice) => choice.relaxations.iter().map(|r| r.permission()).collect(),
                None => self.allow.clone(),
            },
            layouts: choice.map_or_else(Layouts::default, |c| PlacementSpec::of(c).layouts),
            cluster: self.cluster.as_deref().map(cluster).transpose()?,
            threads: self.threads,
            partitioner: partitioner
                .or_else(|| self.partitioner.clone())
                .unwrap_or_else(|| "metis".to_owned()),
            flow: choice.map_or(self.flow.flow(), |c| PlacementSpec::of(c).flow),
            skip: choice.map_or(self.flow.skip(), |c| PlacementSpec::of(c).skip),
            storage: choice.map_or(self.flow.storage(), |c| c.parameters.storage),
            stages: match choice {
                Some(choice) => PlacementSpec::of(choice).stages,
                None => Some(
                    self.flow
                        .stages(self.named().unwrap_or(Placement::Graph), workers),
                ),
            },
            device_memory: {
                // That of the devices that the plan is for.
                let planned = choice
                    .and_then(|choice| choice.host)
                    .map(|host| host.device.0);
                self.memory.device_memory.or(planned)
            },
            cache,
            checkpoint: self.checkpoint.clone(),
            checkpoint_every: self.checkpoint_every,
            resume: self.resume.clone(),
            evaluate_every: self.evaluate_every,
            trace: self.trace.is_some() || self.profile,
            checked: false,
            stop,
        })
    }

    fn once(
        &self,
        out: &Output,
        loaded: &Loaded,
        compiled: &Compiled,
        choice: Option<&Candidate>,
        cache: Option<Cache>,
        stop: Stop,
    ) -> Answer {
        let options = self.options(self.seed, choice, cache, stop)?;
        let mut headline = headline(loaded);
        if let Some(choice) = choice {
            let expected = format!("{}, {} an epoch", choice.name(), choice.epoch_seconds);
            headline.push_str(&facts(&[("plan ", expected)]));
        }
        let goes_on = self.checkpoint.is_some();
        let curve = self.curve.clone();
        let mut watcher = Watcher::new(out, headline, loaded.metric(), curve, goes_on);
        let result = train_traced(loaded, compiled, &options, &mut |p| watcher.see(p));
        let shown = watcher.finish();
        let (summary, trace) = result?;
        shown?;
        if let Some(path) = &self.trace {
            replace(path, trace.chrome_json().as_bytes())?;
        }
        if out.is_json() {
            return out.json(&summary);
        }
        out.text(&format!("\n{}", summary_text(&summary)))?;
        if self.profile {
            out.text(&format!("\n{}", profile(&trace)))?;
        }
        Ok(())
    }

    fn several(
        &self,
        out: &Output,
        loaded: &Loaded,
        compiled: &Compiled,
        seeds: u64,
        choice: Option<&Candidate>,
        cache: Option<Cache>,
        stop: Stop,
    ) -> Answer {
        let first = self.seed.unwrap_or(loaded.model.train.seed);
        let Some(end) = first.checked_add(seeds) else {
            return Err(input(format!(
                "seeds {first} and the {seeds} after it do not fit into 64 bits; start lower"
            )));
        };
        let metric = loaded.metric();
        let bar = progress_bar(out, seeds);
        let mut runs = Vec::new();
        for seed in first..end {
            let options = self.options(Some(seed), choice, cache.clone(), stop.clone())?;
            let (summary, _) = train_traced(loaded, compiled, &options, &mut |_| ())?;
            if summary.interrupted {
                // Only whole runs count.
                break;
            }
            if !out.is_json() {
                if runs.is_empty() {
                    let name = metric.name();
                    let head = format!(
                        "{:>10}  {:>6}  {:>10}  {:>12}  {:>13}  {:>12}",
                        "seed",
                        "epochs",
                        "loss",
                        format!("val {name}"),
                        format!("test {name}"),
                        "epoch time"
                    );
                    bar.suspend(|| out.text(&format!("{}\n{head}\n", headline(loaded))))?;
                }
                let line = format!(
                    "{seed:>10}  {:>6}  {:>10}  {:>12}  {:>13}  {:>12}\n",
                    summary.epochs,
                    loss(summary.train_loss),
                    percent_or_dash(summary.scores.val),
                    percent_or_dash(summary.scores.test),
                    Seconds(summary.epoch_seconds),
                );
                bar.suspend(|| out.text(&line))?;
            }
            bar.inc(1);
            runs.push(summary);
        }
        bar.finish_and_clear();
        if runs.is_empty() {
            // A signal has ended the first run.
            return Ok(());
        }
        let of = |score: fn(&Summary) -> Option<f64>| {
            let values: Option<Vec<f64>> = runs.iter().map(score).collect();
            values.as_deref().map(Spread::of)
        };
        let scores = [
            ("val", of(|run| run.scores.val)),
            ("test", of(|run| run.scores.test)),
        ];
        let seconds: Vec<f64> = runs.iter().map(|run| run.epoch_seconds).collect();
        let seconds = Spread::of(&seconds).mean;
        if !out.is_json() {
            let spread = |spread: &Spread| {
                format!(
                    "{} mean of {}, standard deviation {}",
                    percent(spread.mean),
                    count(runs.len() as u64, "seed"),
                    percent(spread.deviation)
                )
            };
            let names = scores.map(|(set, _)| format!("{set} {}", metric.name()));
            let mut lines: Vec<(&str, String)> = Vec::new();
            for (name, (_, found)) in names.iter().zip(&scores) {
                lines.extend(found.iter().map(|found| (name.as_str(), spread(found))));
            }
            let time = format!("{} (mean of medians)", Seconds(seconds));
            lines.push(("epoch", time));
            return out.text(&format!("\n{}", facts(&lines)));
        }
        let mut report = json!({
            "model": loaded.model.name,
            "graph": loaded.workload.name,
            "seeds": runs.len(),
            "first_seed": first,
            "metric": metric.key(),
            "epoch_seconds": seconds,
            "runs": &runs,
        });
        for (set, found) in &scores {
            let key = format!("{set}_{}", metric.key());
            report[format!("{key}_deviation")] = json!(found.map(|found| found.deviation));
            report[key] = json!(found.map(|found| found.mean));
        }
        out.json(&report)
    }
}

/// Warns that no epoch is chosen, for a graph without validation vertices.
fn unchosen(loaded: &Loaded) -> String {
    let (name, mut text) = (loaded.metric().name(), String::new());
    if loaded.workload.split[2] > 0 {
        text = format!(", so the test {name} is that of the last evaluation");
    }
    if loaded.model.train.patience.is_some() {
        text.push_str("; the model's `patience` has no effect");
    }
    format!("warning: the graph has no validation vertices to choose an epoch by{text}\n")
}

/// What several runs have in common.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    mean: f64,
    /// The standard deviation of a sample; 0 of a single value.
    deviation: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Self {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n.max(1.0);
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let deviation = if values.len() > 1 {
            (squares / (n - 1.0)).sqrt()
        } else {
            0.0
        };
        Self { mean, deviation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_those_of_a_sample() {
        let spread = |mean, deviation| Spread { mean, deviation };
        assert_eq!(Spread::of(&[2.0]), spread(2.0, 0.0));
        assert_eq!(Spread::of(&[1.0, 3.0]), spread(2.0, 2f64.sqrt()));
    }
}

//! `gnnc train`: trains a model or runs a plan.

mod facts;
mod page;
mod seeds;
mod target;

use super::cache::{CacheArgs, say_refused};
use super::device::{DeviceArgs, MemoryArgs, ProcessArgs};
use super::diff;
use super::files::{replace, writable};
use super::html::HtmlArgs;
use super::inputs::{ModelArgs, Way, headline, load_planned};
use super::knobs::KnobArgs;
use super::machine::warn;
use super::output::{Answer, Failure, Output, input};
use super::pilot;
use super::profile::profile;
use super::records::RecordArgs;
use super::signals::Signals;
use super::summary::{summary_text, unchosen};
use super::text;
use super::watch::{Shown, Watcher};
use clap::{Args, ValueEnum};
use gnnc::Cache;
use gnnc::device::Device;
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{Knobs, Objective, Partitioner, Placement, Plan};
use gnnc::ir::words::schedule::Schedule;
use gnnc::numbers::{EPOCHS, RATES, RUNS, SEEDS, THREADS, WORKERS, within};
use gnnc::planner::search::{Pin, PlacementSpec};
use gnnc::runtime::transport::mpi::{Bound, World};
use gnnc::runtime::{Launch, Stop};
use gnnc::{
    Choice, Compiled, Loaded, Metric, Pause, PlanOptions, TrainOptions, choose, cluster, machines,
    train_once, usual_placement,
};
use page::RunPage;
use std::path::PathBuf;
use std::sync::Arc;

/// What a run checks besides itself.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Checks {
    /// The bytes that batches need.
    Bytes,
}

/// Arguments of `train`.
#[derive(Args)]
pub struct Train {
    #[command(flatten)]
    model: ModelArgs,
    /// Number of ranks to partition the graph for; by default 1, or as in the plan.
    #[arg(long, value_name = "N", value_parser = within(WORKERS))]
    workers: Option<u32>,
    /// Placement of the work on several ranks: a name, or `best` to plan and take the choice; by default as in the
    /// plan, minibatch if the model permits sampling and says how its batches are, or else graph.
    #[arg(long, value_name = "NAME", value_parser = super::inputs::way)]
    placement: Option<Way>,
    /// Relaxations to permit besides those of the model: decouple, stale, sample.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = super::inputs::relaxation)]
    allow: Vec<Relaxation>,
    /// The cluster to plan for, to find the best placement or the layouts of a mixed one; by default cpu, or h100x8 on a
    /// GPU.
    #[arg(long, value_name = "NAME|FILE")]
    cluster: Option<String>,
    /// Threads per worker.
    #[arg(long, value_name = "N", default_value = "1", value_parser = within(THREADS))]
    threads: usize,
    /// Number of epochs, instead of the model's.
    #[arg(long, value_name = "N", value_parser = within(EPOCHS))]
    epochs: Option<u32>,
    /// Seed of all random draws, instead of the model's.
    #[arg(long, value_name = "N", value_parser = within(SEEDS))]
    seed: Option<u64>,
    /// Learning rate, instead of the model's.
    #[arg(long, value_name = "X", value_parser = within(RATES))]
    lr: Option<f64>,
    /// How the learning rate changes over epochs, instead of the model's: constant, step:30/0.5 (half of it after every
    /// 30), warmup:10 (rising over 10), cosine, cosine:10 (rising first), or plateau:0.5/10 (half of it when more than 10
    /// evaluations in a row were not better).
    #[arg(long, value_name = "NAME")]
    schedule: Option<Schedule>,
    /// The score to report, and to choose the best epoch by instead of the validation loss: accuracy, micro-f1, macro-f1,
    /// roc-auc, average-precision, of pairs mrr or hits@10 to hits@100, or of numbers mae, rmse or r2; by default the
    /// model's.
    #[arg(long, value_name = "NAME")]
    metric: Option<Metric>,
    /// Train with this many consecutive seeds; report mean and standard deviation. With --checkpoint FILE, the run of
    /// seed K writes FILE.seed-K and FILE.seed-K.best.
    #[arg(
        long,
        value_name = "N",
        value_parser = within(RUNS),
        conflicts_with_all = ["resume", "curve", "log", "tensorboard", "trace", "profile", "html"]
    )]
    seeds: Option<u64>,
    /// The partitioner: metis, metis-edges, metis-splits, blocks, blocks-train, stream, hash, range or morton; by default metis-edges, on a GPU
    /// metis, or as in the plan.
    #[arg(long, value_name = "NAME")]
    partitioner: Option<Partitioner>,
    /// Write the training state to this file periodically and at the end, and that of the best epoch, which the report
    /// quotes, to FILE.best.
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
    /// Epochs between checkpoints.
    #[arg(long, value_name = "N", default_value = "100", value_parser = within(EPOCHS))]
    checkpoint_every: u32,
    /// Resume from this checkpoint.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Epochs between evaluations; by default 1, or as in the pilot of the plan.
    #[arg(long, value_name = "N", value_parser = within(EPOCHS))]
    evaluate_every: Option<u32>,
    /// End the run at the first evaluation at which the validation vertices reach this score, such as 0.93, and report how
    /// long that took. If no evaluation does, the exit code is 4.
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    target: Option<f64>,
    /// With --placement best: choose by the time to the target of this file of `gnnc pilot`, and take its learning rate.
    #[arg(long, value_name = "FILE")]
    pilot: Option<PathBuf>,
    #[command(flatten)]
    records: RecordArgs,
    #[command(flatten)]
    html: HtmlArgs,
    /// Print only the summary.
    #[arg(long)]
    quiet: bool,
    /// Write the timeline of all ranks to this file, for chrome://tracing or Perfetto.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print where the time of an epoch goes.
    #[arg(long)]
    profile: bool,
    /// Check bytes: draw the batches of every epoch a second time, and compare what they need with what was sent.
    #[arg(long, value_name = "WHAT")]
    check: Option<Checks>,
    /// When --samplers begin another batch: fixed, as long as fewer than two for each thread are drawn or wait; or scored,
    /// scored:100, scored:100/8, by ByteGNN's score of idle cores and of what waits, at most 8 at a time. Changes no number.
    #[arg(long, value_name = "WHEN", default_value = "fixed")]
    launch: Launch,
    /// In placement model-migration, find the number of --merges by timing epochs: each of the first ones merges one visit
    /// more than the one before, until that takes longer (HopGNN). Clocks decide, so runs may differ in the last bits.
    #[arg(long, conflicts_with = "resume")]
    measure_merges: bool,
    #[command(flatten)]
    cache: CacheArgs,
    #[command(flatten)]
    knobs: KnobArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    processes: ProcessArgs,
    /// The processes that were started together with this one.
    #[arg(skip)]
    pub(super) world: Option<Arc<World>>,
}

impl Train {
    /// Trains once, or once per seed.
    pub fn run(&self, out: &Output, signals: &Signals) -> Answer {
        self.fits()?;
        let (mut loaded, plan) = self.load(out)?;
        let own = loaded.model.train.metric;
        loaded.model.train.metric = self.metric.or(own);
        let compiled = self.html.compile(&loaded)?;
        let cache = self.cache.open(out)?;
        let choice = self.choice(&loaded, &compiled, plan.as_ref(), cache.as_ref(), out)?;
        let choice = choice.as_ref();
        let of_plan = choice.and_then(Choice::goal);
        let of_plan = of_plan.and_then(|goal| goal.name_metric);
        loaded.model.train.metric = self.metric.or(of_plan).or(own);
        let knobs = self.knobs(choice);
        warn(knobs.skip, out);
        let placement = self.placement_of(&loaded, choice);
        let ranks = choice.map(|choice| choice.candidate.parameters.ranks);
        let spec = PlacementSpec {
            placement,
            ranks: ranks.or(self.workers).unwrap_or(1),
            knobs,
        };
        let stages = spec.stages();
        let epochs = self.epochs_of(&loaded, choice);
        for warning in stages.iter().flat_map(|stages| stages.warnings(epochs)) {
            out.note(&format!("warning: {warning}\n"));
        }
        if let Some(said) = self.crowded(spec.ranks) {
            out.note(&format!("warning: {said}\n"));
        }
        if loaded.data.is_some() && loaded.workload.split[1] == 0 {
            out.note(&unchosen(&loaded));
        }
        let kept = cache.clone();
        let stop = signals.stop.clone();
        let answer = match self.seeds {
            Some(seeds) => self.several(out, &loaded, &compiled, seeds, choice, kept, stop),
            None => self.once(out, loaded, &compiled, choice, kept, stop),
        };
        say_refused(cache.as_ref(), out);
        match (answer, signals.exit_code()) {
            (Ok(()) | Err(Failure::Reported(_)), Some(code)) => Err(Failure::Reported(code)),
            (answer, _) => answer,
        }
    }

    /// The choice of the plan on the command line, or of one made now for `--placement best`.
    fn choice(
        &self,
        loaded: &Loaded,
        compiled: &Compiled,
        plan: Option<&Plan>,
        cache: Option<&Cache>,
        out: &Output,
    ) -> Result<Option<Choice>, Failure> {
        if let Some(plan) = plan {
            let verified = gnnc::verify(plan, loaded, compiled, cache)?;
            for warning in &verified.warnings {
                out.note(&format!("warning: {warning}\n"));
            }
            return Ok(Some(Choice {
                candidate: verified.choice,
                plan: plan.clone(),
            }));
        }
        if self.placement != Some(Way::Best) {
            return Ok(None);
        }
        let (device, workers) =
            self.processes
                .device(&self.device, self.workers, self.world.as_deref())?;
        let machines = machines(self.cluster.as_deref(), &device, workers.unwrap_or(1))?;
        let objective = match self.pilot {
            Some(_) => Objective::TimeToAccuracy,
            None => Objective::Time,
        };
        let told = pilot::read(self.pilot.as_deref(), objective)?;
        if let (Some(told), Some(path)) = (&told, &self.pilot) {
            pilot::fits(told, path, loaded)?;
        }
        let options = PlanOptions {
            objective,
            pilot: told,
            evaluate_every: Some(self.evaluate_every.unwrap_or(1)),
            pin: Pin {
                knobs: self.knobs(None),
                ..Pin::default()
            },
            allow: self.allow.clone(),
            cache: cache.cloned(),
            // A page shows the others too.
            top: Some(1).filter(|_| self.html.file().is_none()),
            ..PlanOptions::new(machines)
        };
        Ok(Some(choose(loaded, compiled, options)?))
    }

    /// The placement of a plan's choice, or the one named on the command line. Without either, models that say
    /// how their batches are and permit sampling are trained on these, and others on the whole graph.
    fn placement_of(&self, loaded: &Loaded, choice: Option<&Choice>) -> Placement {
        if let Some(choice) = choice {
            return choice.candidate.placement;
        }
        if let Some(Way::Placement(placement)) = self.placement {
            return placement;
        }
        usual_placement(&loaded.model.train, &self.knobs(None), &self.allow)
    }

    /// Reads the model, or a plan and its model.
    fn load(&self, out: &Output) -> Result<(Loaded, Option<Plan>), Failure> {
        let file = &self.model.file;
        if file.extension().is_none_or(|extension| extension != "json") {
            return Ok((self.model.load(out)?, None));
        }
        let plan = diff::read(file)?;
        let placed = self.workers.is_some() || self.placement.is_some();
        if placed || self.partitioner.is_some() || self.cluster.is_some() {
            return Err(input(format!(
                "{} already fixes the workers, the placement, the partitioner and the cluster; \
                 leave out --workers, --placement, --partitioner and --cluster, or plan again with \
                 --pin",
                file.display()
            )));
        }
        if let Some(option) = &self.knobs.given {
            return Err(input(format!(
                "{} already fixes how epochs run and how tensors are stored; leave out {option}, or plan again with it",
                file.display()
            )));
        }
        let loaded = load_planned(&plan, file, &self.model.changes, out)?;
        Ok((loaded, Some(plan)))
    }

    /// Checks the options before anything is read.
    fn fits(&self) -> Result<(), Failure> {
        if self.placement == Some(Way::Best) && self.knobs.knobs.shuffle == Some(false) {
            return Err(input(
                "found --no-shuffle with --placement best, which plans for chunks in a new order every \
                 epoch; name a placement"
                    .to_owned(),
            ));
        }
        if self.pilot.is_some() && self.placement != Some(Way::Best) {
            return Err(input(
                "found --pilot without --placement best, which it is for; a plan of `gnnc plan --pilot FILE --out PLAN` has it \
                 already"
                    .to_owned(),
            ));
        }
        let files = [(&self.checkpoint, "checkpoint"), (&self.trace, "trace")];
        for (path, what) in files {
            if let Some(path) = path {
                writable(path, what)?;
            }
        }
        self.html.fits()?;
        self.records.fit()
    }

    /// The knobs of a plan's choice, or those on the command line.
    fn knobs(&self, choice: Option<&Choice>) -> Knobs {
        match choice {
            Some(choice) => choice.candidate.parameters.knobs.clone(),
            None => Knobs {
                partitioner: self.partitioner,
                ..self.knobs.knobs.clone()
            },
        }
    }

    /// What is wrong if this process has more threads of workers than cores that its launcher lets it run on.
    fn crowded(&self, ranks: u32) -> Option<String> {
        if matches!(self.device.device(), Device::Cuda(_)) {
            return None;
        }
        // By default, each process is a worker.
        let of_process = match &self.world {
            Some(world) => ranks.div_ceil(world.processes()),
            None => ranks,
        };
        let threads = of_process.saturating_mul(self.threads as u32);
        Bound::here()?.too_few(threads)
    }

    fn options(
        &self,
        loaded: &Loaded,
        seed: Option<u64>,
        choice: Option<&Choice>,
        cache: Option<Cache>,
        stop: Stop,
    ) -> Result<TrainOptions, Failure> {
        let candidate = choice.map(|choice| &choice.candidate);
        let planned = candidate.map(|c| &c.parameters);
        let workers = planned.map(|p| p.ranks).or(self.workers);
        let (device, workers) =
            self.processes
                .device(&self.device, workers, self.world.as_deref())?;
        let workers = workers.unwrap_or(1);
        let goal = choice.and_then(Choice::goal);
        let every = goal.map(|goal| goal.evaluate_every);
        Ok(TrainOptions {
            epochs: Some(self.epochs_of(loaded, choice)),
            seed,
            workers,
            device,
            world: self.world.clone(),
            placement: self.placement_of(loaded, choice),
            allow: match candidate {
                // The plan is verified and allows them.
                Some(choice) => choice.relaxations.iter().map(|r| r.permission()).collect(),
                None => self.allow.clone(),
            },
            cluster: self.cluster.as_deref().map(cluster).transpose()?,
            threads: self.threads,
            knobs: self.knobs(choice),
            planned: choice.is_some(),
            device_memory: {
                // The memory of the devices that the plan is for.
                let planned = candidate
                    .and_then(|choice| choice.host)
                    .map(|host| host.device.0);
                self.memory.device_memory.or(planned)
            },
            cache,
            learning_rate: self.lr.or(choice.and_then(Choice::learning_rate)),
            schedule: self.schedule,
            checkpoint: self.checkpoint.clone(),
            checkpoint_every: self.checkpoint_every,
            resume: self.resume.clone(),
            evaluate_every: self.evaluate_every.or(every).unwrap_or(1),
            target: self.target,
            pause: Pause::default(),
            trace: self.trace.is_some() || self.profile || self.html.file().is_some(),
            traced_epochs: match self.trace.is_some() || self.profile {
                true => None,
                false => Some(page::TRACED),
            },
            checked: false,
            check_bytes: self.check == Some(Checks::Bytes),
            launch: self.launch,
            measure_merges: self.measure_merges,
            parameters: Vec::new(),
            keep: false,
            on_batch: None,
            stop,
        })
    }

    fn once(
        &self,
        out: &Output,
        loaded: Loaded,
        compiled: &Compiled,
        choice: Option<&Choice>,
        cache: Option<Cache>,
        stop: Stop,
    ) -> Answer {
        let mut options = self.options(&loaded, self.seed, choice, cache, stop)?;
        let mut headline = headline(&loaded);
        if let Some(choice) = choice {
            let expected = format!(
                "{}, {} per epoch predicted{}",
                choice.candidate.name(),
                choice.candidate.epoch_seconds,
                target::of_plan(choice)
            );
            headline.push_str(&text::facts(&[("plan ", expected)]));
        }
        let facts = self.facts_of_run(&loaded, &options);
        let html = self.html.file().filter(|_| !out.is_silent());
        let mut page = html.map(|path| {
            let planned = (choice, self.cluster.as_deref());
            let page = RunPage::begin(&loaded, compiled, &options, planned, facts.clone());
            (path, page)
        });
        let shown = Shown {
            quiet: self.quiet,
            goes_on: self.checkpoint.is_some() || self.records.any() || html.is_some(),
        };
        let resumes = self.resume.is_some();
        let records = match out.is_silent() {
            true => RecordArgs::none(),
            false => self.records.records(loaded.metric(), facts, resumes),
        };
        let epochs = self.epochs_of(&loaded, choice).into();
        let mut watcher = Watcher::new(out, headline, loaded.metric(), records, epochs, shown);
        options.on_batch = Some(watcher.on_batch());
        let result = train_once(loaded, compiled, &options, &mut |progress| {
            if let Some((_, page)) = &mut page {
                page.see(progress);
            }
            watcher.see(progress);
        });
        let shown = watcher.finish(result.as_ref().ok().map(|(summary, _)| summary));
        let (summary, trace) = result?;
        shown?;
        if let Some(path) = self.trace.as_ref().filter(|_| !out.is_silent()) {
            replace(path, trace.chrome_json().as_bytes())?;
        }
        let predicted = target::predicted(choice, &[&summary]);
        let value = target::json(&summary, predicted.as_ref());
        let told = self.profile.then(|| profile(&trace));
        if let Some((path, page)) = page {
            page.finish(path, &value, trace)?;
        }
        if out.is_json() {
            out.json(&value)?;
            return target::answer(&[&summary]);
        }
        let gap = if self.quiet { "" } else { "\n" };
        let beside = predicted.map(|predicted| predicted.to_string());
        out.text(&format!("{gap}{}", summary_text(&summary, beside)))?;
        if let Some(told) = told {
            out.text(&format!("\n{told}"))?;
        }
        target::answer(&[&summary])
    }

    /// The epochs of a run: as on the command line, in the pilot of a plan, or in the model.
    fn epochs_of(&self, loaded: &Loaded, choice: Option<&Choice>) -> u32 {
        let goal = choice.and_then(Choice::goal);
        let of_plan = goal.and_then(|goal| goal.name_epochs);
        self.epochs.or(of_plan).unwrap_or(loaded.model.train.epochs)
    }
}

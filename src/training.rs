//! Training runs.

mod agree;
mod batches;
mod bytes;
mod division;
mod host;
mod judge;
mod merges;
mod pause;
mod place;
mod run;
mod target;

pub(crate) use judge::{Judge, no_logits};
pub use pause::Pause;
pub(crate) use place::parted;
pub use place::place;
pub use run::{best_of, train, train_once, train_traced};

use crate::{Compiled, Device, Error, Loaded, Scores};
use agree::facts;
use bytes::{same_moved, same_sent};
use division::Division;
use gnnc_files::Cache;
use gnnc_ir::cluster::Cluster;
use gnnc_ir::graph::model::Relaxation;
use gnnc_ir::plan::{Knobs, Partitioner, Placement};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::traffic::{Reads, Sent, beyond};
use gnnc_ir::program::{Program, RankSizes};
use gnnc_ir::words::sampling::samplers_of_gpus;
use gnnc_ir::words::schedule::Schedule;
use gnnc_runtime::transport::mpi::World;
use gnnc_runtime::{
    EpochReport, Judged, Launch, Metrics, OnBatch, Programs, RunOptions, RuntimeError, Session,
    Stop, Tensor,
};
use host::{budget, resting};
use place::{on_device, permitted};
use std::path::PathBuf;
use std::sync::Arc;

/// Options of a training run.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// Number of epochs, instead of the model's.
    pub epochs: Option<u32>,
    /// Seed, instead of the model's; after a resume it must be the checkpoint's.
    pub seed: Option<u64>,
    /// Learning rate, instead of the model's.
    pub learning_rate: Option<f64>,
    /// How the learning rate changes, instead of the model's.
    pub schedule: Option<Schedule>,
    /// Number of ranks.
    pub workers: u32,
    /// Threads per rank, on the CPU.
    pub threads: usize,
    /// The device that ranks run on.
    pub device: Device,
    /// The processes that the ranks are divided among, if there are several. All of them run the same.
    pub world: Option<Arc<World>>,
    /// Placement of the work on several ranks.
    pub placement: Placement,
    /// Knobs of the placement. Open knobs take their defaults; open layouts, numbers of stages and divisions of layers
    /// are those that are fastest on `cluster`, and an open partitioner is that of [`TrainOptions::partitioner`].
    pub knobs: Knobs,
    /// Whether the knobs are those of a plan. Batches that it does not have are then not those of the model either.
    pub planned: bool,
    /// Relaxations permitted in addition to the model's own.
    pub allow: Vec<Relaxation>,
    /// The machines to choose layouts for; by default the cores of one node.
    pub cluster: Option<Cluster>,
    /// Bytes that a rank may use on its device; tensors beyond that are offloaded to the host. By default all free
    /// memory of a GPU, and no limit on the CPU.
    pub device_memory: Option<u64>,
    /// Cache of compiled kernels and partitions.
    pub cache: Option<Cache>,
    /// File for checkpoints, written every `checkpoint_every` epochs and at the end.
    pub checkpoint: Option<PathBuf>,
    /// Epochs between checkpoints.
    pub checkpoint_every: u32,
    /// Checkpoint to resume from.
    pub resume: Option<PathBuf>,
    /// Epochs between evaluations; the last epoch is always evaluated.
    pub evaluate_every: u32,
    /// The score of the validation vertices at which the run ends: at the first evaluation that is as good.
    pub target: Option<f64>,
    /// When the run ends before its last epoch, as if it was interrupted, to go on later from its checkpoint.
    pub pause: Pause,
    /// Whether to record the timeline of every rank.
    pub trace: bool,
    /// Of how many epochs, the last ones, a timeline keeps the events, besides those before the first epoch. `None` keeps
    /// all, which takes memory for each.
    pub traced_epochs: Option<u64>,
    /// Whether generated kernels check each memory access; see [`RunOptions::checked`].
    pub checked: bool,
    /// Whether to draw the batches of every epoch a second time, and to check the bytes sent against them.
    pub check_bytes: bool,
    /// When threads that draw batches ahead begin another one.
    pub launch: Launch,
    /// Whether the run finds by timing its first epochs how many visits of a model to merge with others, in placement
    /// model-migration.
    pub measure_merges: bool,
    /// Parameters to begin with, by name; the others are drawn from the seed. A resume takes those of its checkpoint.
    pub parameters: Vec<Tensor>,
    /// Whether the summary has the parameters of the last and of the best epoch.
    pub keep: bool,
    /// Called after each batch of an epoch.
    pub on_batch: Option<OnBatch>,
    /// Asks the run to stop. It then writes its checkpoint, if it has one and an epoch is done, and ends with the epochs
    /// done so far. Of several processes, the one with rank 0 decides for all.
    pub stop: Stop,
}

impl TrainOptions {
    /// Threads of each worker that draw batches ahead; they change no result. By default none draw for processors.
    pub fn samplers(&self) -> u32 {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let by_default = || match self.device {
            Device::Cpu => 0,
            Device::Cuda(_) => samplers_of_gpus(cores(), self.workers),
        };
        self.knobs.sampling.samplers.unwrap_or_else(by_default)
    }

    /// The learning rate at its full height.
    fn rate(&self, loaded: &Loaded) -> f64 {
        let of_model = loaded.model.train.optimizer.learning_rate();
        self.learning_rate.unwrap_or(of_model)
    }

    /// How the learning rate changes.
    fn schedule(&self, loaded: &Loaded) -> Schedule {
        self.schedule.unwrap_or(loaded.model.train.schedule)
    }

    /// Refuses a schedule that waits for scores that there are none of.
    fn check_schedule(&self, loaded: &Loaded) -> Result<(), Error> {
        let waits = matches!(self.schedule(loaded), Schedule::Plateau { .. });
        if !waits || loaded.workload.split[1] > 0 {
            return Ok(());
        }
        Err(Error::Input(format!(
            "the schedule `plateau` waits for a better score of the validation vertices, but the graph `{}` has none; set \
             some aside (`gnnc graph import --split 0.6,0.2,0.2`), or choose another schedule",
            loaded.workload.name
        )))
    }

    /// Refuses a target that no evaluation can reach.
    fn check_target(&self, loaded: &Loaded) -> Result<(), Error> {
        let Some(target) = self.target else {
            return Ok(());
        };
        let refuse = |why: String| Err(Error::Input(format!("found the target {target}, {why}")));
        if let Err(expected) = loaded.metric().check_target(target) {
            return refuse(expected);
        }
        if loaded.workload.split[1] == 0 {
            return refuse(format!(
                "which the validation vertices are to reach, but the graph `{}` has none; set some aside (`gnnc graph \
                 import --split 0.6,0.2,0.2`), or train without a target",
                loaded.workload.name
            ));
        }
        Ok(())
    }

    /// The partitioner of the run. Where the knobs leave it open, threads of a processor get METIS with balanced edges:
    /// ranks wait for the one with most edges, and reading more halo rows from the same memory costs less than that
    /// (docs/benchmarks.md, "Partitioners"). Ranks on a GPU get METIS: those of a process share one GPU, so all work of
    /// an epoch takes its time however it is divided, and halo rows come on top. The chunks of a pipeline are not the
    /// partitioner's: METIS always cuts them, as plans assume.
    pub fn partitioner(&self) -> Partitioner {
        let default = match self.device {
            Device::Cpu => Partitioner::MetisEdges,
            Device::Cuda(_) => Partitioner::Metis,
        };
        self.knobs.partitioner.unwrap_or(default)
    }
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            epochs: None,
            seed: None,
            learning_rate: None,
            schedule: None,
            workers: 1,
            threads: 1,
            device: Device::default(),
            world: None,
            placement: Placement::Graph,
            knobs: Knobs::default(),
            planned: false,
            allow: Vec::new(),
            cluster: None,
            device_memory: None,
            cache: None,
            checkpoint: None,
            checkpoint_every: 100,
            resume: None,
            evaluate_every: 1,
            target: None,
            pause: Pause::default(),
            trace: false,
            traced_epochs: None,
            checked: false,
            check_bytes: false,
            launch: Launch::Fixed,
            measure_merges: false,
            parameters: Vec::new(),
            keep: false,
            on_batch: None,
            stop: Stop::default(),
        }
    }
}

/// Progress after an epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The epoch.
    pub epoch: EpochReport,
    /// The learning rate of the epoch.
    pub learning_rate: f64,
    /// Counts of the evaluation after the epoch, if there was one.
    pub metrics: Option<Metrics>,
    /// Scores of that evaluation.
    pub scores: Option<Scores>,
    /// Optimizer steps so far.
    pub steps: u64,
    /// Wall time of the evaluation; 0 if there was none.
    pub evaluation_seconds: f64,
    /// Most epochs of the run.
    pub epochs: u32,
}

/// A session with the predictions of its program.
pub struct Trainer {
    /// The session.
    pub session: Session,
    /// Bytes that a training epoch must send; the mean over many epochs if exchanges may be skipped.
    pub step_bytes: u64,
    /// Those of halo rows between nodes, if rows cross to a node once.
    pub step_crossing: u64,
    /// Bytes that an evaluation must send.
    pub eval_bytes: u64,
    /// The program of rank 0.
    program: Program,
    /// Programs with tensors on the host, those of all ranks; empty if there are none.
    hosted: Vec<Program>,
    /// The first rank of this process.
    first_rank: u32,
    /// How many rows the ranks read from each other.
    reads: Reads,
    /// Whether all ranks are in this process.
    whole: bool,
    /// Checks the bytes of sampled batches, if the options ask for it.
    check: Option<batches::Check>,
    /// Scores evaluations by the model's metric, if it has one.
    judge: Option<Judge>,
    /// What the latest evaluation was judged by.
    judged: Option<Judged>,
}

impl Trainer {
    /// Partitions the graph, lowers the model and starts the ranks.
    ///
    /// # Errors
    /// Missing data, invalid options, or an error of [`Session::new`].
    pub fn new(
        loaded: &Loaded,
        compiled: &Compiled,
        options: &TrainOptions,
    ) -> Result<Self, Error> {
        let data = loaded.trainable_vertices()?;
        if options.workers == 0 || options.threads == 0 {
            return Err(Error::Input(
                "found 0 workers or threads, expected at least 1 of each".to_owned(),
            ));
        }
        permitted(loaded, options)?;
        on_device(options)?;
        options.check_schedule(loaded)?;
        options.check_target(loaded)?;
        let judge = Judge::new(loaded, data)?;
        // First, so that a missing device is reported before the graph is partitioned.
        let mut device = options.device.open(options.cache.clone())?;
        let (rank, world) = (options.device.rank(), options.world.as_ref());
        let place = place(loaded, compiled, options)?;
        let by_part = loaded.by_part.as_ref();
        let division = Division::new(data, by_part, compiled, options, &place)?;
        let partition = Arc::clone(&division.partition);
        let programs = compiled.programs(&place)?;
        division.fits(&place, &programs)?;
        let samplers = options.samplers();
        if let Some(judge) = &judge {
            judge.fits(&programs)?;
        }
        let program = Programs::hash(programs.iter())?;
        if let (Some(live), Device::Cuda(own)) = (&mut device, &options.device) {
            let facts = || facts(loaded, data, options, &partition, program);
            live.connect(own, &own.processes.as_ref().map_or(Vec::new(), |_| facts()))?;
        }
        if let Some(world) = world {
            let facts = facts(loaded, data, options, &partition, program);
            world.agree(&facts).map_err(RuntimeError::World)?;
        }
        let budget = budget(options, &place, device.as_mut())?;
        let programs = match budget {
            Some(bytes) => resting(loaded, compiled, options, &place, &partition, bytes)?,
            None => programs,
        };
        let rows = division.rows(data, &programs)?;
        // Without stages, one program counts for all ranks; with stages, each counts for the ranks of its stage.
        let distinct = match place.stages() {
            Some(_) => &programs[..],
            None => &programs[..programs.len().min(1)],
        };
        let [step, eval] = [Phase::Step, Phase::Eval].map(|phase| rows.sent(distinct, phase));
        let run = RunOptions {
            seed: options.seed.unwrap_or(loaded.model.train.seed),
            learning_rate: options.rate(loaded),
            threads_per_rank: options.threads,
            samplers: samplers as usize,
            launch: options.launch,
            cache: options.cache.clone(),
            trace: options.trace,
            checked: options.checked,
            model: loaded.model.name.clone(),
            program: Some(program),
            stop: options.stop.clone(),
            on_batch: options.on_batch.clone(),
            parts: division.parts,
            ..RunOptions::default()
        };
        let first = programs.first().cloned().unwrap_or_default();
        if options.check_bytes && by_part.is_some() && first.sampling.is_some() {
            return Err(Error::Input(
                "found --check bytes with a folder of parts, from which no process can draw all batches again; leave \
                 it out, or train from the file of the whole graph"
                    .to_owned(),
            ));
        }
        let check = match options.check_bytes {
            true => batches::Check::new(data, &first, &partition, run.seed)?,
            false => None,
        };
        let hosted = match programs.iter().any(|p| !p.hosted.is_empty()) {
            true => programs.clone(),
            false => Vec::new(),
        };
        Ok(Self {
            program: first,
            first_rank: match (rank, world) {
                (Some(rank), _) => rank,
                (None, Some(world)) => world.process() * (place.ranks / world.processes()),
                (None, None) => 0,
            },
            session: match (device, rank) {
                (None, _) => match world {
                    Some(world) => Session::in_world(programs, data, &partition, run, world)?,
                    None => Session::new(programs, data, &partition, run)?,
                },
                (Some(live), None) => {
                    Session::on_device(programs, data, &partition, run, Box::new(live))?
                }
                (Some(live), Some(rank)) => {
                    let here = rank..rank + 1;
                    Session::on_device_of(programs, data, &partition, run, Box::new(live), here)?
                }
            },
            whole: rank.is_none() && world.is_none(),
            check,
            judge,
            judged: None,
            step_bytes: step.total_bytes,
            step_crossing: step.crossing,
            eval_bytes: eval.total_bytes,
            hosted,
            reads: rows.reads,
        })
    }

    /// What the latest evaluation was judged by, if the model names a metric.
    pub fn judged(&self) -> Option<&Judged> {
        self.judged.as_ref()
    }

    /// Bytes that the latest run of a list must have copied to and from the hosts, on the ranks of this
    /// process. Collective.
    ///
    /// # Errors
    /// A process that failed.
    pub fn moves(&self, phase: Phase) -> Result<u64, Error> {
        let Some(first) = self.hosted.first() else {
            return Ok(0);
        };
        let each = (first.ranks as usize / self.hosted.len()).max(1);
        let drawn = self.session.drawn(phase)?;
        let of = |(rank, sizes): (usize, RankSizes)| {
            let program = self.hosted.get(rank / each).unwrap_or(first);
            let drawn = drawn.get(rank).map_or(&[][..], Vec::as_slice);
            batches::moved(program, phase, sizes, drawn)
        };
        let here = (self.first_rank as usize..).zip(self.session.sizes());
        Ok(here.map(of).sum())
    }

    /// Bytes that the latest epoch must have sent. Rules that skip by age are known beforehand; for rules
    /// that skip by values, the decisions of the ranks count, and for sampled batches the rows that they fetched.
    /// Collective.
    ///
    /// # Errors
    /// A process that failed.
    pub fn predicted(&self) -> Result<u64, Error> {
        if self.program.sampling.is_some() {
            return batches::predicted(&self.program, Phase::Step, &self.session);
        }
        let epoch = self.session.epochs().saturating_sub(1);
        let epoch = epoch.saturating_sub(self.session.copies_since());
        let decisions = self.session.decisions()?;
        Ok(self.if_sent(&|skip, iteration, block| {
            let decided = skip.rule.decided(epoch, block);
            decided.unwrap_or_else(|| decisions.sent(&self.program, skip, iteration, block))
        }))
    }

    /// Bytes of an epoch's skippable exchanges, if none are skipped.
    pub fn skippable(&self) -> u64 {
        self.if_sent(&|_, _, _| true) - self.if_sent(&|_, _, _| false)
    }

    fn if_sent(&self, sent: &Sent) -> u64 {
        let beyond = beyond(&self.program.step, &self.program, &self.reads, sent);
        self.step_bytes.saturating_add_signed(beyond)
    }

    /// Trains one epoch and checks the bytes sent and copied.
    ///
    /// # Errors
    /// A rank that failed, or [`Error::Bytes`].
    pub fn epoch(&mut self) -> Result<EpochReport, Error> {
        // Setup is not part of the first epoch.
        self.session.prepare()?;
        let before = self.session.bytes_moved();
        let report = self.session.epoch()?;
        same_sent(report.bytes_sent, self.predicted()?)?;
        same_sent(report.bytes_crossed, self.step_crossing)?;
        same_moved(
            self.session.bytes_moved() - before,
            self.moves(Phase::Step)?,
        )?;
        if let Some(check) = &mut self.check {
            check.epoch(&self.session, &self.program, report.bytes_sent)?;
        }
        Ok(report)
    }

    /// Evaluates the model and checks the bytes sent and copied.
    ///
    /// # Errors
    /// As [`Trainer::epoch`].
    pub fn evaluate(&mut self) -> Result<Metrics, Error> {
        self.session.prepare()?;
        let before = self.session.bytes_moved();
        let metrics = self.session.measure()?;
        let predicted = match &self.program.evaluation {
            None => self.eval_bytes,
            Some(_) => batches::predicted(&self.program, Phase::Eval, &self.session)?,
        };
        same_sent(metrics.bytes_sent, predicted)?;
        same_moved(
            self.session.bytes_moved() - before,
            self.moves(Phase::Eval)?,
        )?;
        if let Some(check) = &mut self.check {
            check.evaluation(&self.session, &self.program, metrics.bytes_sent)?;
        }
        let judged = self
            .judge
            .as_ref()
            .map(|judge| judge.judge(&mut self.session));
        self.judged = judged.transpose()?;
        self.session.choose(metrics, self.judged);
        Ok(metrics)
    }
}

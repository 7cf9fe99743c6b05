//! Training sessions.

mod batches;
mod best;
mod checkpoints;
mod copies;
mod elsewhere;
mod host;
mod trained;

use crate::options::RunOptions;

use crate::checkpoint::Tensor;
use crate::device::gpu::OnDevice;
use crate::device::gpu::driver::Driver;
use crate::programs::Programs;
use crate::rank_set::{RankSet, Workers};
use crate::report::{Best, EpochReport, Metrics, Plateau, Score};
use crate::start;
use crate::step_context::StepContext;
use crate::stop::Stop;
use crate::transport::mpi::{Mpi, World};
use crate::transport::{Transport, threads::Threads};
use crate::{RuntimeError, init, shards};
use gnnc_graph::{GraphData, Partition};
use gnnc_ir::program::trace::{Event, Kind, Phase, Trace};
use gnnc_ir::program::{BufferId, Capacity, Program, RankSizes, Role};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// A program, or one per rank, with its data, ready to train.
pub struct Session {
    programs: Programs,
    rank_set: Box<dyn RankSet>,
    /// A hash of the partition.
    division: u64,
    vertices: usize,
    options: RunOptions,
    epoch: u64,
    step: u64,
    setup_bytes: Option<u64>,
    /// Whether the logits in memory belong to the parameters in memory.
    evaluated: bool,
    best: Option<Best>,
    plateau: Plateau,
}

impl Session {
    /// Compiles the kernels, gives each rank its share of the data, and initializes the parameters.
    /// `programs` is one [`Program`] for all ranks, or a list with one per rank.
    ///
    /// # Errors
    /// Program, graph and partition do not fit each other; the loss cannot use the labels; memory
    /// does not suffice; threads cannot be started.
    pub fn new(
        programs: impl Into<Programs>,
        data: &GraphData,
        partition: &Partition,
        options: RunOptions,
    ) -> Result<Self, RuntimeError> {
        let programs = programs.into();
        let transports =
            Threads::connect_teams(programs.ranks(partition) as u32, options.threads_per_rank);
        let transports = transports
            .into_iter()
            .map(|end| Box::new(end) as Box<dyn Transport>)
            .collect();
        Self::with_transports(programs, data, partition, options, transports)
    }

    /// [`Session::new`] on the caller's connections: one end per rank, in order.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn with_transports(
        programs: impl Into<Programs>,
        data: &GraphData,
        partition: &Partition,
        options: RunOptions,
        transports: Vec<Box<dyn Transport>>,
    ) -> Result<Self, RuntimeError> {
        let programs = programs.into();
        let ranks = start::workers(&programs, data, partition, &options, transports)?;
        let rank_set = Box::new(Workers::new(ranks, None)?);
        Ok(Self::with_crew(
            programs, rank_set, data, partition, options,
        ))
    }

    /// [`Session::new`] for some of the ranks; the other processes have the others. All of them do the same with their
    /// sessions, in the same order: every call that runs, reads or writes ranks is collective.
    ///
    /// # Errors
    /// As [`Session::new`]; a number of ranks that the processes do not divide.
    pub fn in_world(
        programs: impl Into<Programs>,
        data: &GraphData,
        partition: &Partition,
        options: RunOptions,
        world: &Arc<World>,
    ) -> Result<Self, RuntimeError> {
        let programs = programs.into();
        let count = programs.ranks(partition) as u32;
        let ends = Mpi::connect(world, count, options.threads_per_rank)?;
        let ends = ends
            .into_iter()
            .map(|end| Box::new(end) as Box<dyn Transport>);
        // An epoch that one process abandons has no end in the others.
        let whole_epochs = RunOptions {
            stop: Stop::default(),
            ..options.clone()
        };
        let mut ranks = start::workers(&programs, data, partition, &whole_epochs, ends.collect())?;
        // The clocks of a trace begin together.
        world.meet()?;
        let began = Instant::now();
        ranks.iter_mut().for_each(|rank| rank.began = began);
        let rank_set = Box::new(Workers::new(ranks, Some(Arc::clone(world)))?);
        Ok(Self::with_crew(
            programs, rank_set, data, partition, options,
        ))
    }

    /// [`Session::new`] on a GPU; one thread drives all ranks.
    ///
    /// # Errors
    /// As [`Session::new`]; the device lacks memory or fails.
    pub fn on_device(
        programs: impl Into<Programs>,
        data: &GraphData,
        partition: &Partition,
        options: RunOptions,
        driver: Box<dyn Driver>,
    ) -> Result<Self, RuntimeError> {
        let programs = programs.into();
        let here = 0..programs.ranks(partition) as u32;
        Self::on_device_of(programs, data, partition, options, driver, here)
    }

    /// [`Session::on_device`] for a process that has one of the ranks. [`Driver::exchange`] reaches
    /// the others, which run in other processes.
    ///
    /// # Errors
    /// As [`Session::on_device`]; `here` is neither one rank nor all; exchanges that values decide
    /// to leave out.
    pub fn on_device_of(
        programs: impl Into<Programs>,
        data: &GraphData,
        partition: &Partition,
        options: RunOptions,
        driver: Box<dyn Driver>,
        here: Range<u32>,
    ) -> Result<Self, RuntimeError> {
        let programs = programs.into();
        let rank_set = OnDevice::new(&programs, data, partition, &options, driver, here)?;
        Ok(Self::with_crew(
            programs,
            Box::new(rank_set),
            data,
            partition,
            options,
        ))
    }

    fn with_crew(
        programs: Programs,
        rank_set: Box<dyn RankSet>,
        data: &GraphData,
        partition: &Partition,
        options: RunOptions,
    ) -> Self {
        Self {
            programs,
            rank_set,
            division: init::name_hash(&partition.fingerprint()),
            vertices: data.vertices() as usize,
            options,
            epoch: 0,
            step: 0,
            setup_bytes: None,
            evaluated: false,
            best: None,
            plateau: Plateau::default(),
        }
    }

    /// Trains one epoch.
    ///
    /// # Errors
    /// [`RuntimeError::Rank`] if a rank failed, in this call or an earlier one.
    pub fn epoch(&mut self) -> Result<EpochReport, RuntimeError> {
        self.setup()?;
        let (before, crossed) = (self.bytes_sent(), self.bytes_crossed());
        let step_context = StepContext {
            step: self.step + 1,
            ..self.step_context()
        };
        let begin = Instant::now();
        self.evaluated = false;
        self.options.stop.begin(self.epoch + 1);
        let kept = self.before_batches()?;
        let ran = self.rank_set.run(Phase::Step, step_context);
        if self.options.stop.is_given_up() {
            self.put_back(&kept)?;
            return Err(RuntimeError::Stopped);
        }
        ran?;
        // All processes take the same time for it.
        let seconds = self.rank_set.gather(begin.elapsed().as_secs_f64())?;
        let seconds = seconds.into_iter().fold(0.0, f64::max);
        self.epoch += 1;
        self.step += self.steps_of_epoch();
        let loss = self.result(|program| program.loss)?;
        let loss = loss.first().copied();
        let bytes_sent = self.sum(self.bytes_sent() - before)?;
        let first = self.programs.all().first();
        let bytes_crossed = match first.and_then(|program| program.node_ranks) {
            Some(_) => self.sum(self.bytes_crossed() - crossed)?,
            None => 0,
        };
        Ok(EpochReport {
            epoch: self.epoch,
            loss: loss.map_or(0.0, f64::from),
            seconds,
            bytes_sent,
            bytes_crossed,
        })
    }

    /// Counts correct vertices, with dropout off, and keeps the best evaluation.
    ///
    /// # Errors
    /// As [`Session::epoch`].
    pub fn evaluate(&mut self) -> Result<Metrics, RuntimeError> {
        let metrics = self.measure()?;
        self.choose(metrics, None);
        Ok(metrics)
    }

    /// [`Session::evaluate`] without keeping the evaluation; see [`Session::choose`].
    ///
    /// # Errors
    /// As [`Session::epoch`].
    pub fn measure(&mut self) -> Result<Metrics, RuntimeError> {
        self.setup()?;
        let before = self.bytes_sent();
        self.rank_set.run(Phase::Eval, self.step_context())?;
        self.evaluated = true;
        let counts = self.result(|program| program.metrics)?;
        let count = |n: usize| counts.get(n).copied().map_or(0.0, f64::from);
        let score = |set: usize| Score {
            correct: count(2 * set),
            total: count(2 * set + 1),
        };
        let bytes_sent = self.sum(self.bytes_sent() - before)?;
        let metrics = Metrics {
            train: score(0),
            val: score(1),
            test: score(2),
            val_loss: (count(7) != 0.0).then(|| count(6) / count(7)),
            bytes_sent,
        };
        Ok(metrics)
    }

    /// The logits without dropout, one row per vertex in order of ids. Evaluates first if
    /// necessary. Empty if the program has none.
    ///
    /// # Errors
    /// As [`Session::epoch`].
    pub fn logits(&mut self) -> Result<Vec<f32>, RuntimeError> {
        let mut programs = self.programs.all().iter();
        let width = |program: &Program| Some(program.buffer(program.logits?.buffer).columns);
        let Some(columns) = programs.find_map(|program| width(program)) else {
            return Ok(Vec::new());
        };
        if !self.evaluated {
            self.evaluate()?;
        }
        let columns = columns as usize;
        let mut logits = vec![0.0; self.vertices * columns];
        self.rank_set.try_each(|at_rest| {
            let rank = at_rest.rank();
            let Some(at) = rank.program.logits else {
                return Ok(());
            };
            let first = rank.slot(at, 0).start - rank.buffer(at.buffer).start;
            let own = at_rest.read(at.buffer)?;
            let part = &at_rest.rank().part;
            for (row, &v) in part.global[..part.inner].iter().enumerate() {
                logits[v as usize * columns..][..columns]
                    .copy_from_slice(&own[first + row * columns..][..columns]);
            }
            Ok(())
        })?;
        self.rank_set.unite(&mut logits)?;
        Ok(logits)
    }

    /// The parameters, in the order of the program or of its stages' programs.
    ///
    /// # Errors
    /// [`RuntimeError::Rank`] if a device cannot be read.
    pub fn parameters(&self) -> Result<Vec<Tensor>, RuntimeError> {
        Ok(shards::tensors(&self.programs, &*self.rank_set, |role| {
            matches!(role, Role::Param(_))
        })?)
    }

    /// Sets the named parameters and keeps the others.
    ///
    /// # Errors
    /// A name or a shape the model does not have; nothing is set then.
    pub fn set_parameters(&mut self, tensors: &[Tensor]) -> Result<(), RuntimeError> {
        let known = self.parameters()?;
        for tensor in tensors {
            let Some(own) = known.iter().find(|own| own.name == tensor.name) else {
                let names: Vec<&str> = known.iter().map(|t| t.name.as_str()).collect();
                return Err(RuntimeError::Parameters {
                    what: "a list of parameters".to_owned(),
                    found: format!("`{}`", tensor.name),
                    expected: format!("some of {}", names.join(", ")),
                });
            };
            if own.shape != tensor.shape || own.values.len() != tensor.values.len() {
                return Err(RuntimeError::Parameters {
                    what: format!("`{}`", tensor.name),
                    found: format!("{:?} with {} values", tensor.shape, tensor.values.len()),
                    expected: format!("{:?} with {}", own.shape, own.values.len()),
                });
            }
        }
        self.store(tensors)
    }

    /// Changes the learning rate, starting with the next epoch.
    pub fn set_learning_rate(&mut self, learning_rate: f64) {
        self.options.learning_rate = learning_rate;
    }

    /// The learning rate of the next epoch.
    pub fn learning_rate(&self) -> f64 {
        self.options.learning_rate
    }

    /// The sizes of each rank's data.
    pub fn sizes(&self) -> Vec<RankSizes> {
        self.rank_set.map(|rank| rank.rank().part.sizes)
    }

    /// Seed of all random draws; after a resume, the checkpoint's.
    pub fn seed(&self) -> u64 {
        self.options.seed
    }

    /// Finished epochs.
    pub fn epochs(&self) -> u64 {
        self.epoch
    }

    /// Payload bytes all ranks have sent so far.
    pub fn bytes_sent(&self) -> u64 {
        self.rank_set
            .map(|rank| rank.bytes_sent())
            .into_iter()
            .sum()
    }

    /// Payload bytes all ranks sent in `setup`; `None` before the first epoch.
    pub fn setup_bytes(&self) -> Option<u64> {
        self.setup_bytes
    }

    /// The events of all ranks since the last call; empty unless [`RunOptions::trace`] is set. Collective.
    ///
    /// # Errors
    /// A process that failed.
    pub fn take_trace(&mut self) -> Result<Trace, RuntimeError> {
        let taken = self
            .rank_set
            .map(|rank| rank.rank().events.as_mut().map(std::mem::take));
        let here: Vec<Event> = taken.into_iter().flatten().flatten().collect();
        let ranks = self.programs.all().first().map_or(0, |first| first.ranks);
        Ok(Trace {
            kind: Kind::Measured,
            model: self.options.model.clone(),
            graph: String::new(),
            ranks,
            events: self.rank_set.gather(here)?.concat(),
        })
    }

    /// Optimizer steps of an epoch: one for each batch.
    pub fn steps_of_epoch(&self) -> u64 {
        let of_ranks = self.rank_set.map(|rank| rank.rank().batches(Phase::Step));
        of_ranks.into_iter().max().unwrap_or(1).into()
    }

    fn setup(&mut self) -> Result<(), RuntimeError> {
        if self.setup_bytes.is_none() {
            let before = self.bytes_sent();
            self.rank_set.run(Phase::Setup, self.step_context())?;
            self.setup_bytes = Some(self.bytes_sent() - before);
        }
        Ok(())
    }

    fn step_context(&self) -> StepContext {
        let RunOptions {
            seed,
            learning_rate,
            ..
        } = self.options;
        StepContext {
            seed,
            epoch: self.epoch,
            step: self.step,
            draw: self.epoch as u32,
            learning_rate,
        }
    }

    /// A result that all ranks, or all of the last stage, have alike; taken from the first of them.
    fn result(
        &mut self,
        of: impl Fn(&Program) -> Option<BufferId>,
    ) -> Result<Vec<f32>, RuntimeError> {
        let mut found = None;
        self.rank_set.try_each(|rank| {
            if let Some(id) = of(&rank.rank().program).filter(|_| found.is_none()) {
                found = Some(rank.read(id)?);
            }
            Ok(())
        })?;
        let has: Vec<bool> = self.programs.each().map(|p| of(p).is_some()).collect();
        let first = has.iter().position(|has| *has);
        let Some(first) = first.filter(|_| has.contains(&false)) else {
            return Ok(found.unwrap_or_default());
        };
        // Stages before the last may be in other processes.
        let program = self.programs.each().nth(first);
        let length = program.and_then(|p| Some(p.buffer(of(p)?).words(&Capacity::default())));
        let mut floats = found.unwrap_or_else(|| vec![0.0; length.unwrap_or(0) as usize]);
        self.rank_set.tell(first as u32, &mut floats)?;
        Ok(floats)
    }

    /// Copies tensors, whose names and lengths match, to all ranks; each gets its part.
    fn store(&mut self, tensors: &[Tensor]) -> Result<(), RuntimeError> {
        self.evaluated = false;
        Ok(shards::store(&*self.rank_set, tensors)?)
    }

    fn program_hash(&self) -> Result<u64, RuntimeError> {
        let found = || Programs::hash(self.programs.all().iter().map(|program| &**program));
        self.options.program.map_or_else(found, Ok)
    }
}

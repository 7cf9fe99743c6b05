//! GPUs: all ranks on one GPU, driven by one thread.
//!
//! A rank has its buffers in one block of device memory, a compute stream and a message stream. The
//! message stream waits for an event and packs what the rank sends into memory of the message's
//! own; the receiver's compute stream waits for another event and unpacks it. The thread enqueues a
//! rank's instructions until one needs a message that nobody has sent yet; then it turns to another
//! rank. So every event is recorded before anything waits for it, and sums are added in rank order,
//! regardless of speed.

mod asking;
mod batch;
mod code;
mod communicate;
mod compute;
mod device_rank;
pub mod driver;
mod ends;
mod launch;
mod listed;
mod losses;
mod mail;
mod merged;
mod moves;
mod run;
pub mod single;
mod state;
mod step_contexts;
mod tables;
mod touched;

use crate::options::RunOptions;
use crate::programs::Programs;
use crate::rank::Rank;
use crate::rank_set::{AtRest, RankSet};
use crate::start;
use crate::step_context::StepContext;
use crate::{Failure, RuntimeError};
use code::Code;
use device_rank::DeviceRank;
use driver::{Driver, DriverError};
use gnnc_graph::{GraphData, Partition};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Among, BufferId};
use mail::Mail;
use run::Device;
use state::Gpu;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use step_contexts::Moments;

/// The ranks of one device.
pub(crate) struct OnDevice(Mutex<Device>);

/// One rank of a device between runs.
struct Resting<'a> {
    gpu: &'a mut Gpu,
    device_rank: &'a mut DeviceRank,
    failed: &'a mut Option<Failure>,
    /// Its share of the bytes of messages.
    message_bytes: u64,
}

impl OnDevice {
    /// Loads the kernels and gives the ranks `here` memory on the device.
    ///
    /// # Errors
    /// As [`crate::Session::on_device`].
    pub(crate) fn new(
        programs: &Programs,
        data: &GraphData,
        partition: &Partition,
        options: &RunOptions,
        mut driver: Box<dyn Driver>,
        here: Range<u32>,
    ) -> Result<Self, RuntimeError> {
        let count = programs.ranks(partition);
        within(&here, count)?;
        for program in programs.all().iter().filter(|_| here.len() < count) {
            refuse_distances(program)?;
            refuse_rings(program)?;
        }
        for program in programs.all() {
            refuse_batches(program, here.len() < count)?;
            refuse_equal_bits(program)?;
        }
        let places = here.start as usize..here.end as usize;
        let ranks = start::ranks(programs, data, partition, options, (places, count))?;
        let code = Code::load(programs, &mut *driver)?;
        let mut of_all = programs.all().iter();
        let sharers = match of_all.find(|program| program.in_groups()) {
            Some(program) => program.group_ranks(Among::Slices),
            None => u32::MAX,
        };
        let mut gpu = Gpu::new(driver, code, sharers)?;
        let needed = ranks
            .iter()
            .map(|beginning| beginning.rank.layout.total_bytes);
        let needed = needed.fold(0u64, u64::saturating_add);
        let free = match options.memory_limit {
            Some(limit) => limit,
            None => gpu.driver.free_bytes()?,
        };
        if needed > free {
            let bytes = needed;
            return Err(DriverError::Memory { bytes, free }.into());
        }
        let mut step_contexts = Moments::default();
        let mut device_ranks = Vec::with_capacity(ranks.len());
        for mut beginning in ranks {
            beginning.rank.part.list_features_by_column();
            let program = programs.index(beginning.rank.number as usize, count);
            let from = (data, options.seed, options.hub_edges);
            device_ranks.push(DeviceRank::new(
                &mut gpu,
                beginning,
                program,
                from,
                &mut step_contexts,
            )?);
        }
        step_contexts.allocate(&mut *gpu.driver)?;
        for device_rank in &mut device_ranks {
            device_rank.prepare_to_sample(&mut gpu, &step_contexts)?;
        }
        let of_batches = programs.all().iter().any(|program| program.samples());
        let fork = gpu.driver.event(false)?;
        let mut joins = Vec::new();
        for _ in run::streams(&device_ranks) {
            joins.push(gpu.driver.event(false)?);
        }
        gpu.driver.synchronize(gpu.main)?;
        Ok(Self(Mutex::new(Device {
            gpu,
            device_ranks,
            step_contexts,
            mail: Mail::new(here, of_batches),
            fork,
            joins,
            began: Instant::now(),
            timed: Vec::new(),
            lists: Default::default(),
            failed: None,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Device> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Checks that a process has all ranks or one of them.
fn within(here: &Range<u32>, count: usize) -> Result<(), RuntimeError> {
    let all = here.start == 0 && here.end as usize == count;
    if all || here.len() == 1 && here.end as usize <= count {
        return Ok(());
    }
    Err(RuntimeError::Program(format!(
        "this process would run ranks {} to {} of {count}; give it all ranks, or one",
        here.start, here.end
    )))
}

/// Refuses batches with several processes, whose ranks would have to exchange lists, and batches of which no rank has
/// all edges.
fn refuse_batches(program: &gnnc_ir::program::Program, several: bool) -> Result<(), RuntimeError> {
    if program.samples() && several {
        let why = "it trains on sampled batches, which several processes do on processors only; run all ranks in \
                   one process by --workers N, train on the whole graph by --placement graph, or leave out --device";
        return Err(RuntimeError::Program(why.to_owned()));
    }
    if program.draws_apart() {
        let why = "ranks draw from their own edges only (topology own), which is for ranks of several processes \
                   on processors; leave out topology own, or --device";
        return Err(RuntimeError::Program(why.to_owned()));
    }
    if program.renews() {
        let why = "ranks keep copies of embeddings, which they do on processors only; leave out --cache-age, or --device";
        return Err(RuntimeError::Program(why.to_owned()));
    }
    Ok(())
}

/// Refuses programs that compute the same bits on any number of ranks: libraries give other bits for products of other shapes.
fn refuse_equal_bits(program: &gnnc_ir::program::Program) -> Result<(), RuntimeError> {
    match program.equal_bits {
        false => Ok(()),
        true => Err(RuntimeError::Program(
            "it computes equal bits on any number of ranks, which ranks do on processors only"
                .to_owned(),
        )),
    }
}

/// Refuses rules by distance across processes: their ranks cannot tell each other which blocks they
/// send, so they could not expect the right messages.
fn refuse_distances(program: &gnnc_ir::program::Program) -> Result<(), RuntimeError> {
    let mut found = None;
    gnnc_ir::program::traffic::for_each_skip(&program.step, &mut |_, skip, _| {
        found = found.or(skip.rule.limit().map(|_| skip.rule));
    });
    match found {
        None => Ok(()),
        Some(rule) => Err(RuntimeError::Program(format!(
            "the rule {rule} skips exchanges by their values, which is not possible with several \
             processes; use fixed:EPOCHS or adaptive:EPOCHS, or run all ranks in one process"
        ))),
    }
}

/// Refuses rings across processes. A message to another process is sent when that process receives
/// it, on the same stream as its own messages: in a ring, all stages could be waiting in a send.
fn refuse_rings(program: &gnnc_ir::program::Program) -> Result<(), RuntimeError> {
    use gnnc_ir::program::{Instr, Neighbour};
    let Some(pipeline) = program.pipeline.filter(|pipeline| pipeline.stage == 0) else {
        return Ok(());
    };
    let around = |instr: &Instr| matches!(instr, Instr::Receive(message) if message.with == Neighbour::Previous);
    let lists = gnnc_ir::program::trace::Phase::ALL.map(|phase| program.list(phase));
    let ring = (lists.into_iter().flatten())
        .any(|instr| around(instr) || instr.body().unwrap_or_default().iter().any(around));
    match ring {
        false => Ok(()),
        true => Err(RuntimeError::Program(format!(
            "each of {} stages has several virtual stages, which is not possible with several processes; use \
             --virtual-stages 1, or run all ranks in one process",
            pipeline.stages
        ))),
    }
}

impl RankSet for OnDevice {
    fn run(&mut self, phase: Phase, step_context: StepContext) -> Result<(), Failure> {
        self.lock().run(phase, &step_context)
    }

    fn each(&self, visit: &mut dyn FnMut(&mut dyn AtRest)) {
        let mut device = self.lock();
        let Device {
            gpu,
            device_ranks,
            mail,
            failed,
            ..
        } = &mut *device;
        let message_bytes = mail.bytes() / device_ranks.len().max(1) as u64;
        for device_rank in device_ranks {
            visit(&mut Resting {
                gpu: &mut *gpu,
                device_rank,
                failed: &mut *failed,
                message_bytes,
            });
        }
    }

    fn tell(&self, from: u32, floats: &mut [f32]) -> Result<(), Failure> {
        self.lock().tell(from, floats)
    }

    fn leaders(&self) -> Vec<u32> {
        let device = self.lock();
        let ranks = device
            .device_ranks
            .first()
            .map_or(0, |first| first.own.program.ranks);
        match device.device_ranks.len() == ranks as usize {
            true => vec![0],
            false => (0..ranks).collect(),
        }
    }
}

impl Resting<'_> {
    /// Copies a buffer, unless the device has already failed.
    fn copy<T>(
        &mut self,
        what: &str,
        id: BufferId,
        copy: impl FnOnce(&DeviceRank, &mut Gpu) -> Result<T, DriverError>,
    ) -> Result<T, Failure> {
        if let Some(failure) = &*self.failed {
            return Err(failure.clone());
        }
        let copied = copy(self.device_rank, self.gpu);
        copied.map_err(|error| {
            let own = &self.device_rank.own;
            let failure = Failure {
                rank: own.number,
                instruction: format!("{what} `{}`", own.program.buffer(id).name),
                reason: error.to_string(),
            };
            *self.failed = Some(failure.clone());
            failure
        })
    }
}

impl AtRest for Resting<'_> {
    fn rank(&mut self) -> &mut Rank {
        &mut self.device_rank.own
    }

    fn read(&mut self, id: BufferId) -> Result<Vec<f32>, Failure> {
        self.copy("a read of", id, |device_rank, gpu| {
            device_rank.download(gpu, id)
        })
    }

    fn write(&mut self, id: BufferId, floats: &[f32]) -> Result<(), Failure> {
        self.copy("a write of", id, |device_rank, gpu| {
            device_rank.upload(gpu, id, floats)?;
            gpu.driver.synchronize(gpu.main)
        })
    }

    fn bytes_sent(&self) -> u64 {
        self.device_rank.sent
    }

    fn memory_bytes(&self) -> u64 {
        let own = &self.device_rank.own;
        let of_batches = self.gpu.of_batches.bytes(own.number);
        self.device_rank.bytes() + own.walked_bytes() + self.message_bytes + of_batches
    }
}

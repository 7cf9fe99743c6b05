//! One rank on a device: its memory, and the addresses of its data.

use super::batch::Sampling;
use super::driver::{Address, DriverError, Event, HostAddress, Stream};
use super::launch::{Stop, scratch_floats};
use super::losses::{Targets, sums_bytes};
use super::mail::Streams;
use super::merged::Merged;
use super::state::Gpu;
use super::step_contexts::Moments;
use super::tables::{Section, Tables};
use crate::RuntimeError;
use crate::fault::Fault;
use crate::rank::Rank;
use crate::start::Beginning;
use gnnc_codegen::cuda::library::Entry;
use gnnc_graph::GraphData;
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{BufferId, Chunk, Instr, METRICS, Matrix, Product, Ref};
use gnnc_ir::words::storage::Storage;
use std::collections::BTreeMap;
use std::ops::Range;

/// A rank on a device.
pub(super) struct DeviceRank {
    pub(super) own: Rank,
    /// Its program's index.
    pub(super) program: usize,
    pub(super) streams: Streams,
    /// Streams of copies from the host and to it, if there are any.
    pub(super) copies: Option<[Stream; 2]>,
    /// Buffers on the host.
    host: HostAddress,
    pub(super) arena: Address,
    /// Bytes of buffers, and of scratch memory that is part of theirs.
    pub(super) arena_bytes: u64,
    /// Memory for partial results of a single instruction. A rank that samples has it apart from its buffers, as
    /// a batch may need more.
    pub(super) scratch: Address,
    pub(super) scratch_bytes: u64,
    /// A row of zeros.
    pub(super) zeros: Address,
    /// The row sections over which kernels over edges are launched, with their hubs.
    pub(super) tables: Tables,
    pub(super) targets: Targets,
    /// One flag per time that a run keeps a history: whether its values were not finite.
    pub(super) flags: Address,
    /// Bytes of the flags.
    pub(super) flag_bytes: u64,
    /// The failure each flag stands for.
    pub(super) flagged: Vec<crate::Failure>,
    /// Merged launches, by list and index of the first instruction.
    pub(super) merged: BTreeMap<(Phase, usize), Merged>,
    /// What it has to sample, if it does.
    pub(super) sampling: Option<Sampling>,
    /// Recorded where messages may be packed.
    pub(super) computed: Event,
    /// For each tag, the event after its messages are packed.
    packed: BTreeMap<u32, Event>,
    /// Payload bytes sent.
    pub(super) sent: u64,
}

/// Memory that a rank's instructions need besides buffers.
#[derive(Default)]
struct Needs {
    scratch_bytes: u64,
    zero_bytes: u64,
    flags: u64,
}

impl DeviceRank {
    /// Gives a rank memory on the device, and initializes it.
    ///
    /// # Errors
    /// If the device lacks memory or fails.
    pub(super) fn new(
        gpu: &mut Gpu,
        beginning: Beginning,
        program: usize,
        (data, seed, hub_edges): (&GraphData, u64, u64),
        step_contexts: &mut Moments,
    ) -> Result<Self, RuntimeError> {
        let rank = &beginning.rank;
        for list in rank.part.lists() {
            let numbers = rank.part.list(list).ok_or(Fault::Missing("a list"));
            gpu.keep(rank.number, list, numbers.map_err(Stop::from)?)?;
        }
        let targets = Targets::new(gpu, &rank.part)?;
        let streams = Streams {
            compute: gpu.driver.stream(false)?,
            messages: gpu.driver.stream(true)?,
        };
        let mut device_rank = Self {
            program,
            streams,
            copies: None,
            host: HostAddress::default(),
            arena: Address::default(),
            arena_bytes: 0,
            scratch: Address::default(),
            scratch_bytes: 0,
            sampling: None,
            zeros: Address::default(),
            tables: Tables::new(hub_edges),
            targets,
            flags: Address::default(),
            flag_bytes: 0,
            flagged: Vec::new(),
            merged: BTreeMap::new(),
            computed: gpu.driver.event(false)?,
            packed: BTreeMap::new(),
            sent: 0,
            own: beginning.rank,
        };
        let needs = device_rank.needs(gpu, step_contexts)?;
        device_rank.flag_bytes = 4 * needs.flags;
        if needs.flags > 0 {
            device_rank.flags = gpu.driver.allocate(device_rank.flag_bytes)?;
        }
        if needs.zero_bytes > 0 {
            device_rank.zeros = gpu.driver.allocate(needs.zero_bytes)?;
            gpu.driver
                .clear(gpu.main, device_rank.zeros, needs.zero_bytes)?;
        }
        let layout = &device_rank.own.layout;
        let scratch = 4 * layout.scratch;
        let samples = device_rank.samples();
        device_rank.scratch_bytes = needs.scratch_bytes;
        device_rank.arena_bytes = match samples {
            true => layout.total_bytes,
            false => layout.total_bytes.max(scratch + needs.scratch_bytes),
        };
        device_rank.arena = gpu.driver.allocate(device_rank.arena_bytes.max(4))?;
        device_rank.scratch = match samples {
            true => gpu.driver.allocate(needs.scratch_bytes.max(4))?,
            false => device_rank.arena.plus(scratch),
        };
        // Batches may move buffers before anything is written to them.
        let cleared = match samples {
            true => layout.total_bytes,
            false => layout.persistent_bytes,
        };
        device_rank.merge(gpu)?;
        if cleared > 0 {
            gpu.driver.clear(gpu.main, device_rank.arena, cleared)?;
        }
        let host_bytes = device_rank.own.layout.host_bytes;
        if host_bytes > 0 {
            device_rank.host = gpu.driver.host_memory(host_bytes)?;
        }
        if !device_rank.own.program.hosted.is_empty() {
            device_rank.copies = Some([gpu.driver.stream(true)?, gpu.driver.stream(true)?]);
        }
        let degrees = beginning.degrees;
        for id in (0..device_rank.own.program.buffers.len() as u32).map(BufferId) {
            if let Some(floats) = degrees.first(&device_rank.own, id, data, seed) {
                device_rank.upload(gpu, id, &floats)?;
            }
        }
        Ok(device_rank)
    }

    /// Finds the needs of every instruction, and copies the hubs of all sections to the device.
    fn needs(&mut self, gpu: &mut Gpu, step_contexts: &mut Moments) -> Result<Needs, RuntimeError> {
        let program = self.own.program.clone();
        let chunks = program.pipeline.as_ref().map_or(0, |p| p.chunks);
        let mut needs = Needs::default();
        for phase in [Phase::Setup, Phase::Step, Phase::Eval] {
            let (mut flags, order) = (0, (0..chunks).collect());
            for step in crate::steps::Steps::new(program.list(phase), order, 1, 1) {
                self.own.place.chunk = step.chunk;
                if let Some(launch) = step.instr.launch() {
                    step_contexts.add(&launch.scalars, &launch.sites, step.iteration);
                }
                if let Instr::SparseDropout(one) = step.instr {
                    step_contexts.add(&[], &[one.site], step.iteration);
                }
                if let Some(encoded) = step.instr.encoded() {
                    step_contexts.add(&[], &[encoded.site], step.iteration);
                }
                if step.batch.is_some() && !step.instr.whole().communicates() {
                    // Each batch makes room for what it needs.
                    continue;
                }
                let rows = self.own.part.own(step.chunk).len() as u64;
                let instr = if matches!(step.instr, Instr::Finish(_)) {
                    step.instr
                } else {
                    step.instr.whole()
                };
                if let Instr::Redistribute(instr::Redistribute { to, .. }) = instr {
                    // Padded rows are no longer than the result's rows.
                    let columns = self.own.program.buffer(to.buffer).columns;
                    needs.zero_bytes = needs.zero_bytes.max(4 * u64::from(columns));
                }
                if let Instr::HaloReduce(instr::HaloReduce { buffer, skip, .. }) = instr
                    && skip.is_some_and(|skip| skip.left.is_some())
                {
                    let words = self.own.program.buffer(buffer.buffer).row_words();
                    needs.zero_bytes = needs.zero_bytes.max(4 * u64::from(words));
                }
                if let Instr::Remember(_) = instr {
                    flags += self.own.part.halo_of.len() as u64 + 1;
                }
                let scratch = self.scratch_bytes(instr, rows);
                needs.scratch_bytes = needs.scratch_bytes.max(scratch);
                for section in self.sections(gpu, &step)? {
                    let Section { loaded, size, .. } = &section;
                    let floats = scratch_floats(loaded, size, instr.chunk());
                    needs.scratch_bytes = needs.scratch_bytes.max(4 * floats);
                }
            }
            needs.flags = needs.flags.max(flags);
        }
        self.own.place.chunk = None;
        Ok(needs)
    }

    /// Bytes of buffers and scratch memory.
    pub(super) fn bytes(&self) -> u64 {
        let apart = if self.samples() {
            self.scratch_bytes
        } else {
            0
        };
        self.arena_bytes + apart
    }

    /// Address of a word of the rank's buffers.
    pub(super) fn float(&self, place: usize) -> Address {
        self.arena.plus(4 * place as u64)
    }

    /// Address and bytes of a buffer.
    pub(super) fn buffer(&self, id: BufferId) -> (Address, u64) {
        let floats = self.own.buffer(id);
        (self.float(floats.start), 4 * floats.len() as u64)
    }

    /// Host address of a buffer.
    pub(super) fn hosted(&self, id: BufferId) -> HostAddress {
        self.host.plus(4 * self.own.buffer(id).start as u64)
    }

    /// Begins or finishes a copy between the rank and its host, or both. The copy runs after the
    /// work already on the compute stream; work enqueued there afterwards waits for it.
    pub(super) fn host_move(
        &mut self,
        gpu: &mut Gpu,
        (ends, chunk): ([Ref; 2], Option<Chunk>),
        (tag, iteration): (u32, u32),
        [begins, finishes]: [bool; 2],
    ) -> Result<(), Stop> {
        let [source, target] = self.own.copied(ends, chunk, iteration);
        let bytes = 4 * source.len() as u64;
        let streams = self.copies.ok_or(Fault::Missing("memory of the host"))?;
        let compute = self.streams.compute;
        let over = self.packed(gpu, tag)?;
        if begins && bytes > 0 {
            let fetched = self.own.program.is_hosted(ends[0].buffer);
            let on = streams[usize::from(!fetched)];
            gpu.driver.record(self.computed, compute)?;
            gpu.driver.wait(on, self.computed)?;
            let there = |place: usize| self.host.plus(4 * place as u64);
            match fetched {
                true => {
                    let to = self.float(target.start);
                    gpu.driver.fetch(on, there(source.start), to, bytes)?;
                }
                false => {
                    let from = self.float(source.start);
                    gpu.driver.store(on, from, there(target.start), bytes)?;
                }
            }
            gpu.driver.record(over, on)?;
            self.own.moved += bytes;
        }
        if finishes && bytes > 0 {
            gpu.driver.wait(compute, over)?;
        }
        Ok(())
    }

    /// Address of a buffer's slot.
    pub(super) fn slot(&self, at: Ref, iteration: u32) -> Address {
        self.float(self.own.slot(at, iteration).start)
    }

    /// Address of a matrix.
    pub(super) fn matrix(&self, matrix: &Matrix, iteration: u32) -> Address {
        self.slot(matrix.at, iteration)
            .plus(self.storage(matrix.at).bytes() * u64::from(matrix.offset))
    }

    /// Storage of a buffer's elements.
    pub(super) fn storage(&self, at: Ref) -> Storage {
        self.own.program.buffer(at.buffer).storage
    }

    /// The current own rows.
    pub(super) fn rows_at_hand(&self) -> Range<u64> {
        let own = self.own.part.own(self.own.place.chunk);
        own.start as u64..own.end as u64
    }

    /// Copies floats to a buffer on the device.
    pub(super) fn upload(
        &self,
        gpu: &mut Gpu,
        id: BufferId,
        floats: &[f32],
    ) -> Result<(), DriverError> {
        let (at, _) = self.buffer(id);
        let words = self.own.packed(id, floats);
        let bytes = super::state::bytes(&words);
        match floats.is_empty() {
            true => Ok(()),
            false if self.own.program.is_hosted(id) => {
                gpu.driver.write_host(bytes, self.hosted(id))
            }
            false => gpu.driver.upload(gpu.main, bytes, at),
        }
    }

    /// Copies a buffer's floats from the device.
    pub(super) fn download(&self, gpu: &mut Gpu, id: BufferId) -> Result<Vec<f32>, DriverError> {
        let (at, bytes) = self.buffer(id);
        let mut found = vec![0; bytes as usize];
        match bytes {
            0 => {}
            _ if self.own.program.is_hosted(id) => {
                gpu.driver.read_host(self.hosted(id), &mut found)?;
            }
            _ => gpu.driver.download(gpu.main, at, &mut found)?,
        }
        let float = |bytes: &[u8]| {
            let mut four = [0; 4];
            four.copy_from_slice(bytes);
            f32::from_ne_bytes(four)
        };
        let words = found.chunks_exact(4).map(float).collect();
        Ok(self.own.unpacked(id, words))
    }

    /// Bytes that an instruction over so many own rows needs beside its operands; those of generated kernels are added by section.
    fn scratch_bytes(&self, instr: &Instr, rows: u64) -> u64 {
        if let Instr::AllReduce(one) = instr {
            let floats = one.buffers.iter();
            let floats = floats.map(|at| self.own.summed(*at, 0).len() as u64);
            4 * floats.sum::<u64>()
        } else if let Instr::MatMul(one) = instr
            && one.product == Product::Tn
            && one.chunk.is_some()
        {
            4 * u64::from(one.inner) * u64::from(one.columns)
        } else if let Instr::Loss(_) = instr {
            sums_bytes(Entry::Loss, rows, 1)
        } else if let Instr::Metrics(_) = instr {
            sums_bytes(Entry::Metrics, rows, METRICS)
        } else if let Instr::HaloExchange(one) = instr
            && one.skip.is_some_and(|skip| skip.rule.limit().is_some())
        {
            let columns = self.own.program.buffer(one.buffer.buffer).columns;
            16 * u64::from(Entry::Distance.blocks(rows * u64::from(columns)))
        } else {
            0
        }
    }

    /// The stream on which an instruction ends.
    pub(super) fn stream_of(&self, instr: &Instr) -> Stream {
        if !matches!(instr, Instr::Send(_) | Instr::Begin(_)) {
            return self.streams.compute;
        }
        if let (Instr::Move(one), Some([fetches, stores])) = (instr.whole(), self.copies) {
            match self.own.program.is_hosted(one.from.buffer) {
                true => fetches,
                false => stores,
            }
        } else {
            self.streams.messages
        }
    }

    /// The event after the messages of a tag are packed.
    pub(super) fn packed(&mut self, gpu: &mut Gpu, tag: u32) -> Result<Event, DriverError> {
        if let Some(event) = self.packed.get(&tag) {
            return Ok(*event);
        }
        let event = gpu.driver.event(false)?;
        self.packed.insert(tag, event);
        Ok(event)
    }
}

//! Sampled batches on a device. The processor draws them, and what kernels read of them is copied.

use super::device_rank::DeviceRank;
use super::driver::{DriverError, Event};
use super::launch::Stop;
use super::moves::{Listed, Rows};
use super::state::{Gpu, bytes};
use super::step_contexts::Moments;
use crate::communication::moves::Write;
use crate::fault::Fault;
use crate::part::lists::List;
use crate::rank::growth::Growth;
use crate::step_context::StepContext;
use crate::steps::Step;
use gnnc_ir::program::instr::{AddRows, FetchRows, Numbers, PutRows};
use gnnc_ir::program::{BatchSizes, Instr, Ref};
use gnnc_ir::words::types::{Level, Of};
use std::borrow::Cow;
use std::sync::Arc;

/// What only a rank that samples has.
pub(super) struct Sampling {
    /// The numbers that kernels of the batch at hand read, in memory of the rank's own.
    moments: Arc<Moments>,
    /// The optimizer step and the key of random draws that these numbers were written for.
    told: Option<(u64, u32)>,
    /// Recorded on the message stream; the compute stream waits for it before it overwrites lists.
    listed: Event,
}

impl DeviceRank {
    /// Whether the rank samples.
    pub(super) fn samples(&self) -> bool {
        self.own.part.batches.each().next().is_some()
    }

    /// Gives a rank that samples what it needs for that.
    pub(super) fn prepare_to_sample(
        &mut self,
        gpu: &mut Gpu,
        of_all: &Moments,
    ) -> Result<(), DriverError> {
        if self.samples() {
            let mut moments = of_all.clone();
            moments.allocate(&mut *gpu.driver)?;
            self.sampling = Some(Sampling {
                moments: Arc::new(moments),
                told: None,
                listed: gpu.driver.event(false)?,
            });
        }
        Ok(())
    }

    /// The numbers that kernels of the step's batch read, copied to the device; `None` outside of batches.
    pub(super) fn in_batch(
        &mut self,
        gpu: &mut Gpu,
        step: &Step,
        step_context: &StepContext,
    ) -> Result<Option<Arc<Moments>>, Stop> {
        let reads = matches!(step.instr, Instr::SparseDropout(_)) || step.instr.launch().is_some();
        let sampling = self.sampling.as_mut();
        let Some(sampling) = sampling.filter(|_| reads && step.batch.is_some()) else {
            return Ok(None);
        };
        let now = Some((step_context.step, step_context.draw));
        if sampling.told != now {
            let (driver, on) = (&mut *gpu.driver, self.streams.compute);
            sampling.moments.upload(driver, on, step_context)?;
            sampling.told = now;
        }
        Ok(Some(Arc::clone(&sampling.moments)))
    }

    /// Begins a run: the numbers of batches must be written again.
    pub(super) fn begin_batches(&mut self) {
        if let Some(sampling) = &mut self.sampling {
            sampling.told = None;
        }
    }

    /// Makes the compute stream wait for all packing enqueued so far.
    pub(super) fn wait_for_messages(&self, gpu: &mut Gpu) -> Result<(), Stop> {
        let sampling = self.sampling.as_ref();
        let listed = sampling.ok_or(Fault::Missing("batches"))?.listed;
        gpu.driver.record(listed, self.streams.messages)?;
        Ok(gpu.driver.wait(self.streams.compute, listed)?)
    }

    /// Draws the batch at hand.
    pub(super) fn sample(
        &mut self,
        gpu: &mut Gpu,
        step: &Step,
        step_context: &StepContext,
    ) -> Result<(), Stop> {
        let at = self.own.next_batch(step_context)?;
        let batch = self.own.part.batches.at_hand_mut();
        let batch = batch.ok_or(Fault::Missing("batches"))?;
        match batch.draw(at)? {
            Some(sizes) => self.fit(gpu, sizes, step.instr),
            None => Ok(()),
        }
    }

    /// Goes on with a batch of these sizes, and makes room for it if it is larger than those before.
    pub(super) fn fit(
        &mut self,
        gpu: &mut Gpu,
        sizes: BatchSizes,
        instr: &Instr,
    ) -> Result<(), Stop> {
        match self.own.fit(sizes, instr)? {
            Some(growth) => self.grow(gpu, growth),
            None => Ok(()),
        }
    }

    /// Moves what the rank keeps to larger memory.
    fn grow(&mut self, gpu: &mut Gpu, growth: Growth) -> Result<(), Stop> {
        let Growth {
            capacity,
            layout,
            kept,
        } = growth;
        let compute = self.streams.compute;
        let arena = gpu.driver.allocate(layout.total_bytes.max(4))?;
        for copies in self.copies.into_iter().flatten() {
            gpu.driver.synchronize(copies)?;
        }
        self.wait_for_messages(gpu)?;
        gpu.driver.clear(compute, arena, layout.total_bytes)?;
        for one in kept.iter().filter(|one| one.words > 0) {
            let (from, to) = (self.float(one.from), arena.plus(4 * one.to as u64));
            gpu.driver.copy(compute, from, to, 4 * one.words as u64)?;
        }
        gpu.driver.synchronize(compute)?;
        gpu.driver.release(self.arena)?;
        (self.arena, self.arena_bytes) = (arena, layout.total_bytes);
        (self.own.layout, self.own.capacity) = (layout, capacity);
        self.merge(gpu)?;
        // Tables are copied on the main stream.
        Ok(gpu.driver.synchronize(gpu.main)?)
    }

    /// Makes room for so many bytes of partial results.
    pub(super) fn scratch_of(&mut self, gpu: &mut Gpu, bytes: u64) -> Result<(), Stop> {
        if bytes <= self.scratch_bytes {
            return Ok(());
        }
        gpu.driver.synchronize(self.streams.messages)?;
        gpu.driver.synchronize(self.streams.compute)?;
        gpu.driver.release(self.scratch)?;
        self.scratch_bytes = 0;
        let room = bytes + bytes / 4;
        self.scratch = gpu.driver.allocate(room)?;
        self.scratch_bytes = room;
        Ok(())
    }

    /// Copies numbers of the batch at hand to the device.
    pub(super) fn numbers(&self, gpu: &mut Gpu, numbers: &Numbers) -> Result<(), Stop> {
        for output in &numbers.outputs {
            let buffer = self.own.program.buffer(output.at.buffer);
            let rows = self.own.part.sizes.rows(buffer.extent) as usize;
            let batch = self.own.part.batches.at_hand();
            let batch = batch.ok_or(Fault::Missing("batches"))?;
            let floats = match batch.made(output.drawn) {
                Some(made) => Cow::from(made),
                None => {
                    let mut floats = vec![0.0; rows * output.drawn.columns() as usize];
                    batch.write(output.drawn, &mut floats);
                    Cow::from(floats)
                }
            };
            if !floats.is_empty() {
                let to = self.slot(output.at, 0);
                gpu.driver
                    .upload(self.streams.compute, bytes(&floats), to)?;
            }
        }
        Ok(())
    }

    /// Copies the rows of a level's vertices.
    pub(super) fn fetch_rows(
        &mut self,
        gpu: &mut Gpu,
        fetch: &FetchRows,
        iteration: u32,
    ) -> Result<(), Stop> {
        let FetchRows { from, to } = *fetch;
        let program = &self.own.program;
        let from_level = program.buffer(from.buffer).extent.level();
        if !program.is_hosted(from.buffer) {
            let out = self.rows_of(to, iteration);
            let source = Rows {
                list: Some(self.rows_in(gpu, from_level, to)?),
                at: self.slot(from, iteration),
                ..out
            };
            return Ok(gpu.put(self.streams.compute, &source, &out, Write::Replace)?);
        }
        // The rows rest on the host, which puts them beside each other.
        let words = program.buffer(to.buffer).row_words() as usize;
        let rows = self.rows_of(to, iteration).count;
        let of = program.buffer(to.buffer).extent.level();
        let ids = &self
            .own
            .part
            .rows_in(from_level, of.map_or(Of::One, |level| level.of));
        let mut gathered = vec![0; 4 * words * rows];
        for (id, row) in ids.iter().zip(gathered.chunks_exact_mut(4 * words.max(1))) {
            let at = self
                .hosted(from.buffer)
                .plus(4 * u64::from(*id) * words as u64);
            gpu.driver.read_host(at, row)?;
        }
        let at = self.slot(to, iteration);
        self.own.moved += gathered.len() as u64;
        match gathered.is_empty() {
            true => Ok(()),
            false => Ok(gpu.driver.upload(self.streams.compute, &gathered, at)?),
        }
    }

    /// Adds rows of a level to those of its vertices. A level has each vertex once.
    pub(super) fn add_rows(
        &self,
        gpu: &mut Gpu,
        add: &AddRows,
        iteration: u32,
    ) -> Result<(), Stop> {
        let whole = self.own.program.buffer(add.to.buffer);
        let bytes = 4 * self.own.part.sizes.rows(whole.extent) * u64::from(whole.row_words());
        let at = self.slot(add.to, iteration);
        if bytes > 0 {
            gpu.driver.clear(self.streams.compute, at, bytes)?;
        }
        self.put_back(gpu, [add.from, add.to], iteration)
    }

    /// Copies rows of a level to those of its vertices.
    pub(super) fn put_rows(
        &self,
        gpu: &mut Gpu,
        put: &PutRows,
        iteration: u32,
    ) -> Result<(), Stop> {
        self.put_back(gpu, [put.from, put.to], iteration)
    }

    fn put_back(&self, gpu: &mut Gpu, [from, to]: [Ref; 2], iteration: u32) -> Result<(), Stop> {
        if self.own.program.is_hosted(to.buffer) {
            return Err(Fault::Missing("rows on the device").into());
        }
        let source = self.rows_of(from, iteration);
        let out = Rows {
            list: Some(self.rows_in(gpu, None, from)?),
            at: self.slot(to, iteration),
            ..source
        };
        Ok(gpu.put(self.streams.compute, &source, &out, Write::Replace)?)
    }

    /// The rows of a tensor that the batch at hand has.
    fn rows_of(&self, at: Ref, iteration: u32) -> Rows<'_> {
        let buffer = self.own.program.buffer(at.buffer);
        let rows = self.own.part.sizes.rows(buffer.extent) as usize;
        let columns = buffer.row_words() as usize;
        Rows::dense(self.slot(at, iteration), rows, columns, buffer.storage)
    }

    /// For each row of a tensor of a level, the row that its vertex has in one with rows of another level
    /// or of all vertices.
    fn rows_in(&self, gpu: &mut Gpu, other: Option<Level>, of: Ref) -> Result<Listed<'_>, Stop> {
        let level = self.own.program.buffer(of.buffer).extent.level();
        let of = level.map_or(Of::One, |level| level.of);
        let at = self.list(gpu, List::rows_in(other, of))?;
        let rows = self.own.part.rows_in(other, of);
        Ok(Listed { at, rows })
    }
}

//! Runs the instructions of a program on one rank.

mod batch;
mod communicate;
mod launch;
mod pipeline;
mod sums;
#[cfg(test)]
mod tests;

use crate::arena::{Arena, Span};
use crate::communication::CommSteps;
use crate::device::cpu::Call;
use crate::fault::Fault;
use crate::gemm::{Dense, Multiply};
use crate::loss::{self, Rows};
use crate::options::OnBatch;
use crate::part::lists::Over;
use crate::rank::{Rank, Run};
use crate::sparse::{self, SomeRows};
use crate::step_context::StepContext;
use crate::steps::Step;
use crate::stop::Stop;
use crate::team::Team;
use crate::transport::Transport;
use gnnc_codegen::cpu::Compiled;
use gnnc_ir::program::instr;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{
    BufferId, Chunk, Extent, Instr, METRICS, Matrix, Product, Program, Ref, Transfer,
};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

/// One rank on the CPU: its memory, kernels and connections.
pub(crate) struct Worker {
    pub(crate) own: Rank,
    pub(crate) arena: Arena,
    /// The host's buffers: here, another block of the same memory.
    pub(crate) host: Arena,
    pub(crate) kernels: Arc<Vec<Arc<Compiled>>>,
    pub(crate) team: Arc<Team>,
    pub(crate) transport: Box<dyn Transport>,
    pub(crate) began: Instant,
    pub(crate) memory: Memory,
    pub(crate) stop: Stop,
    /// Called after each batch; only of one rank.
    pub(crate) on_batch: Option<OnBatch>,
    /// Index of the first instruction in `step` that changes what checkpoints hold.
    pub(crate) first_change: usize,
}

/// Memory reused between instructions, so that most allocate nothing.
#[derive(Default)]
pub(crate) struct Memory {
    inputs: Vec<*const f32>,
    outputs: Vec<*mut f32>,
    scalars: Vec<f32>,
    keys: Vec<u64>,
    steps: CommSteps,
    /// The chunk of an all-reduce that the rank sums, several times if it adds shares along the tree.
    sum: Vec<f32>,
    ranges: Vec<Range<u64>>,
    bounds: Vec<u64>,
    sums: Vec<AtomicU64>,
}

// SAFETY: the pointers belong to the last call, which is over when `Memory` moves.
unsafe impl Send for Memory {}

impl Worker {
    /// Runs one instruction list.
    pub(crate) fn run(&mut self, phase: Phase, step_context: &StepContext) -> Result<(), Fault> {
        let program = self.own.program.clone();
        let stale = self.own.begin(phase, step_context)?;
        let mut steps = self.own.steps(&program, phase);
        // Only a training epoch can be abandoned, and only before it changes anything.
        let mut committed = phase != Phase::Step;
        while let Some(step) = steps.next() {
            self.own.at(&step, steps.path());
            if !committed {
                committed = steps.path().next() >= Some(self.first_change);
                if !self.stop.goes_on(committed) {
                    return Err(Fault::Stopped);
                }
            }
            let in_batch = step_context.in_batch(step.batch);
            self.step(&program, &step, &in_batch)?;
            if let (Instr::Loss(_), Some(batch), Some(told)) =
                (step.instr, step.batch, &self.on_batch)
            {
                told.tell(batch + 1, self.own.batches(phase));
            }
        }
        self.own.staleness.add(&stale);
        Ok(())
    }

    /// Bytes of memory in use: buffers, this rank's share of the graph and of what all ranks keep
    /// once, and messages.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.own.layout.total_bytes
            + self.own.layout.host_bytes
            + self.own.graph_bytes()
            + 4 * self.memory.sum.capacity() as u64
            + self.transport.memory_bytes()
    }

    /// The words of a buffer, all slots.
    pub(crate) fn buffer(&self, id: BufferId) -> Span {
        let floats = self.own.buffer(id);
        self.block(id).span(floats.start, floats.len())
    }

    /// The words of a buffer's slot.
    pub(crate) fn slot(&self, at: Ref, iteration: u32) -> Span {
        let floats = self.own.slot(at, iteration);
        self.block(at.buffer).span(floats.start, floats.len())
    }

    /// The memory block that holds a buffer.
    fn block(&self, id: BufferId) -> &Arena {
        match self.own.program.is_hosted(id) {
            true => &self.host,
            false => &self.arena,
        }
    }

    /// Copies rows between a rank and its host.
    ///
    /// # Safety
    /// Nothing else uses either end meanwhile.
    unsafe fn host_move(&mut self, ends: [Ref; 2], chunk: Option<Chunk>, iteration: u32) {
        let words = self.own.copied(ends, chunk, iteration);
        let mut spans = ends.iter().zip(&words).map(|(at, words)| {
            let block = self.block(at.buffer);
            block.span(words.start, words.len())
        });
        if let (Some(source), Some(target)) = (spans.next(), spans.next()) {
            // SAFETY: the blocks are distinct; the rest is as the caller promised.
            unsafe { target.write().copy_from_slice(source.read()) };
        }
        self.own.moved += 4 * words[0].len() as u64;
    }

    fn step(
        &mut self,
        program: &Program,
        step: &Step,
        step_context: &StepContext,
    ) -> Result<(), Fault> {
        self.transport.progress()?;
        if self.own.events.is_none() {
            return self.one(program, step.instr, step.iteration, step_context);
        }
        let (begin_us, sent) = (self.microseconds(), self.transport.bytes_sent());
        self.one(program, step.instr, step.iteration, step_context)?;
        let run = Run {
            begin_us,
            end_us: self.microseconds(),
            bytes_sent: self.transport.bytes_sent() - sent,
        };
        let event = self.own.event(step, step_context, run);
        self.own.events.get_or_insert_default().push(event);
        Ok(())
    }

    fn one(
        &mut self,
        program: &Program,
        instr: &Instr,
        iteration: u32,
        step_context: &StepContext,
    ) -> Result<(), Fault> {
        // SAFETY: a session checks every instruction against the sizes of buffers before any runs.
        // Instructions run one after another. One that writes a buffer reads it only at the
        // elements it writes.
        unsafe {
            match instr {
                Instr::Launch(launch) => self.launch(program, launch, iteration, step_context)?,
                Instr::MatMul(instr::MatMul {
                    product,
                    a,
                    b,
                    out,
                    rows,
                    inner,
                    columns,
                    finish,
                    chunk,
                }) => {
                    let multiply = Multiply {
                        product: *product,
                        a: self.dense(a, iteration),
                        b: self.dense(b, iteration),
                        out: self.dense(out, iteration),
                        rows: self.own.part.sizes.rows(*rows),
                        inner: u64::from(*inner),
                        columns: u64::from(*columns),
                        total: self.own.part.sizes.rows(*rows),
                        adds: chunk.is_some_and(|chunk| chunk.index > 0),
                    };
                    let skipped = [a, b, out].map(|m| self.own.skipped(m.at, *chunk));
                    let finish = match finish {
                        None => None,
                        Some(launch) => {
                            let args = self.args(program, launch, iteration, step_context)?;
                            let checks = self.checks(program, launch, iteration)?;
                            Some((launch.kernel, args, checks))
                        }
                    };
                    let mut ranges = std::mem::take(&mut self.memory.ranges);
                    self.own.rows_of(*rows, *chunk, &mut ranges)?;
                    let call = finish.as_ref().map(|(kernel, args, checks)| {
                        Call::new(&self.kernels[kernel.0 as usize], *args, checks.as_ref())
                    });
                    if *product == Product::Tn
                        && let Some(leaves) = self.leaves(program, *rows)
                    {
                        let shares = self.shares(out, iteration);
                        multiply.by_leaf(&self.team, self.scratch(), leaves, &shares);
                        if let Some(call) = call {
                            call.run_once(0, u64::from(*inner));
                        }
                        ranges.clear();
                    }
                    for range in &ranges {
                        let first = range.start;
                        let multiply = multiply.within(range, skipped);
                        let finish = call.map(|call| {
                            move |begin, end| call.run_once(first + begin, first + end)
                        });
                        let finish = finish.as_ref().map(|f| f as &(dyn Fn(u64, u64) + Sync));
                        multiply.run(&self.team, self.scratch(), finish);
                    }
                    let outcome = call.map_or(Ok(()), |call| call.result());
                    self.memory.ranges = ranges;
                    outcome?;
                }
                Instr::SparseMatMul(instr::SparseMatMul {
                    product,
                    values,
                    b,
                    out,
                    columns,
                    ..
                }) => {
                    let features = self.features(program, *values)?;
                    let by_leaf = (*product == Product::Tn).then(|| program.sparse_rows(*values));
                    let leaves = by_leaf.and_then(|rows| self.leaves(program, rows));
                    let out = sparse::Out {
                        shares: match leaves {
                            None => vec![self.dense(out, iteration)],
                            Some(_) => self.shares(out, iteration),
                        },
                        leaves,
                    };
                    let (values, b) = (self.slot(*values, iteration), self.dense(b, iteration));
                    let how = (*product, *columns);
                    sparse::multiply(&self.team, features, how, values, b, &out)?;
                }
                Instr::SparseDropout(instr::SparseDropout {
                    values,
                    out,
                    p,
                    site,
                }) => {
                    let features = self.features(program, *values)?;
                    let key = site.key(step_context.seed, step_context.draw, iteration);
                    let ids = self.own.part.ids(Over::of(program.sparse_rows(*values)));
                    let (values, out) = (self.slot(*values, iteration), self.slot(*out, iteration));
                    sparse::dropout(&self.team, features, ids, values, out, *p, key);
                }
                Instr::Densify(instr::Densify { values, out }) => {
                    let features = self.features(program, *values)?;
                    let (values, out) = (self.slot(*values, iteration), self.slot(*out, iteration));
                    sparse::densify(&self.team, features, values, out);
                }
                Instr::HaloExchange(_)
                | Instr::HaloReduce(_)
                | Instr::AllReduce(_)
                | Instr::Redistribute(_)
                | Instr::ServeRows(_)
                | Instr::PushRows(_)
                | Instr::Shift(_)
                | Instr::Send(_)
                | Instr::Receive(_) => self.communicate(instr, iteration, step_context)?,
                Instr::DrawEdges(_) => self.draw_edges(instr, step_context)?,
                Instr::AskRows(_) => self.ask_rows(instr)?,
                Instr::CacheRows(_) => {
                    if let Some(batch) = self.own.part.batches.at_hand_mut() {
                        batch.ask_for_cache();
                    }
                    self.ask_rows(instr)?;
                    self.communicate(instr, iteration, step_context)?;
                }
                Instr::Begin(Transfer { what, .. }) | Instr::Finish(Transfer { what, .. })
                    if matches!(**what, Instr::AskRows(_)) =>
                {
                    self.ask_rows(instr)?
                }
                Instr::ShareLevels(_) => self.share_levels(instr)?,
                Instr::Begin(Transfer { what, .. }) | Instr::Finish(Transfer { what, .. })
                    if matches!(**what, Instr::ShareLevels(_)) =>
                {
                    self.share_levels(instr)?
                }
                Instr::Begin(_) => self.communicate(instr, iteration, step_context)?,
                Instr::Move(instr::Move { from, to, chunk }) => {
                    self.host_move([*from, *to], *chunk, iteration)
                }
                Instr::Finish(Transfer { what, .. }) if !what.communicates() => {
                    // Copy as late as possible, so that using the rows too early shows.
                    if let Instr::Move(instr::Move { from, to, chunk }) = **what {
                        self.host_move([from, to], chunk, iteration);
                    }
                }
                Instr::Finish(_) => self.communicate(instr, iteration, step_context)?,
                Instr::Loss(instr::Loss {
                    loss,
                    logits,
                    out,
                    grad,
                    classes,
                }) => {
                    let rows = self.tensor(program, *logits, iteration);
                    let grad = grad.map(|grad| self.tensor(program, grad, iteration));
                    let of_batch = program.buffer(logits.buffer).extent.of_batch();
                    let batch = self.own.part.batches.at_hand().filter(|_| of_batch);
                    let leaves =
                        self.leaves(program, program.buffer(logits.buffer).extent.without_halo());
                    let (blocks, by_leaf) = (rows.blocks(leaves), leaves.is_some());
                    let sums = &mut self.memory.sums;
                    let shares = loss::loss(
                        &self.team,
                        loss::Targets::of(&self.own.part, batch),
                        loss,
                        rows,
                        grad,
                        *classes as usize,
                        &blocks,
                        sums,
                    );
                    if let Some(out) = out
                        && by_leaf
                    {
                        self.put_shares(*out, iteration, shares.iter().map(|sum| *sum as f32), 1);
                    } else if let Some(out) = out {
                        let share = shares.iter().sum::<f64>();
                        let out = &mut self.slot(*out, iteration).write()[0];
                        *out = match batch {
                            None => share as f32,
                            // The mean over the seeds of all batches of the epoch.
                            Some(batch) => {
                                let place = &self.own.place;
                                let adds = place.batch > Some(0) || place.set > Some(0);
                                let before = if adds { *out } else { 0.0 };
                                before + (share * batch.share()) as f32
                            }
                        };
                    }
                }
                Instr::Metrics(instr::Metrics {
                    loss,
                    logits,
                    out,
                    classes,
                }) => {
                    let rows = self.tensor(program, *logits, iteration);
                    let of_batch = program.buffer(logits.buffer).extent.of_batch();
                    let batch = self.own.part.batches.at_hand().filter(|_| of_batch);
                    // The counts of all batches are added.
                    let adds = batch.is_some() && self.own.place.batch > Some(0);
                    let leaves =
                        self.leaves(program, program.buffer(logits.buffer).extent.without_halo());
                    let (blocks, by_leaf) = (rows.blocks(leaves), leaves.is_some());
                    let sums = &mut self.memory.sums;
                    let found = loss::metrics(
                        &self.team,
                        loss::Scored::of(&self.own.part, batch),
                        loss,
                        rows,
                        *classes as usize,
                        &blocks,
                        sums,
                    );
                    let found = found.into_iter().flatten().map(|count| count as f32);
                    if by_leaf {
                        self.put_shares(*out, iteration, found, METRICS as usize);
                    } else {
                        let out = self.slot(*out, iteration).write();
                        for (out, value) in out.iter_mut().zip(found) {
                            let before = if adds { *out } else { 0.0 };
                            *out = before + value;
                        }
                    }
                }
                Instr::Remember(instr::Remember { from, history }) => {
                    self.remember(*from, *history, iteration, step_context)?;
                }
                Instr::Sample(_) => self.sample(instr, step_context)?,
                Instr::Numbers(numbers) => self.numbers(program, numbers),
                Instr::FetchRows(fetch) => self.fetch_rows(program, fetch, iteration),
                Instr::AddRows(add) => self.add_rows(program, add, iteration),
                Instr::PutRows(put) => self.put_rows(program, put, iteration),
                Instr::Repeat(_) | Instr::Chunks(_) | Instr::Batches(_) => {}
                Instr::Lag(_) | Instr::Sets(_) => {}
            }
        }
        Ok(())
    }

    /// The positions of the sparse features whose values a buffer holds, and the current rows.
    fn features(&self, program: &Program, values: Ref) -> Result<SomeRows<'_>, Fault> {
        let extent = program.buffer(values.buffer).extent;
        let features = self.own.part.features(extent);
        let rows = if program.sparse_rows(values) == Extent::All {
            0..self.own.part.sizes.vertices
        } else {
            let own = self.own.part.own(self.own.place.chunk);
            own.start as u64..own.end as u64
        };
        Ok(SomeRows {
            features: features.ok_or(Fault::Missing("sparse features"))?,
            rows,
        })
    }

    fn dense(&self, matrix: &Matrix, iteration: u32) -> Dense {
        Dense {
            at: self.slot(matrix.at, iteration),
            first: matrix.offset as usize,
            stride: matrix.stride as usize,
            storage: self.own.program.buffer(matrix.at.buffer).storage,
        }
    }

    /// The current own rows of a tensor.
    fn tensor(&self, program: &Program, at: Ref, iteration: u32) -> Rows {
        let buffer = program.buffer(at.buffer);
        let own = match buffer.extent.of_batch() {
            true => 0..self.own.part.sizes.rows(buffer.extent) as usize,
            false => self.own.part.own(self.own.place.chunk),
        };
        Rows {
            at: self.slot(at, iteration),
            stride: buffer.columns as usize,
            begin: own.start,
            end: own.end,
        }
    }

    fn scratch(&self) -> Span {
        let (begin, end) = (
            self.own.layout.scratch as usize,
            (self.own.layout.total_bytes / 4) as usize,
        );
        self.arena.span(begin, end - begin)
    }

    fn microseconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64() * 1e6
    }
}

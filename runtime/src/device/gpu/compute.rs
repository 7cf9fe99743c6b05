//! Compute instructions.

use super::device_rank::DeviceRank;
use super::driver::{DriverError, Matrix, Product as DenseProduct};
use super::launch::{Operands, Stop};
use super::moves::Rows;
use super::state::{Gpu, read, written};
use super::step_contexts::Moments;
use crate::communication::moves::Write;
use crate::fault::Fault;
use crate::part::lists::{List, Over};
use crate::step_context::StepContext;
use crate::steps::Step;
use gnnc_codegen::cuda::library::{Entry, number};
use gnnc_ir::graph::op::Site;
use gnnc_ir::kernel::drop_threshold;
use gnnc_ir::program::instr;
use gnnc_ir::program::{self, Instr, Product, Ref, Transfer};
use gnnc_ir::words::storage::Storage;
use std::ops::Range;

/// Only messages, lists and copies are begun and finished.
const NO_COPY: Fault = Fault::Missing("two halves of an instruction that has none");
const NO_KERNEL: Fault = Fault::Missing("a kernel for a message or a loop");

/// Part of a product instruction: some of its rows.
struct Part {
    product: DenseProduct,
    /// The matrix it is added to, if it is computed separately.
    added: Option<Matrix>,
}

impl DeviceRank {
    /// Enqueues a compute instruction on the compute stream.
    ///
    /// # Errors
    /// If the device fails.
    pub(super) fn compute(
        &mut self,
        gpu: &mut Gpu,
        step: &Step,
        step_context: &StepContext,
        step_contexts: &Moments,
    ) -> Result<(), Stop> {
        let iteration = step.iteration;
        let step_context = &step_context.in_batch(step.batch);
        let of_batch = self.in_batch(gpu, step, step_context)?;
        let step_contexts = of_batch.as_deref().unwrap_or(step_contexts);
        match step.instr {
            Instr::Launch(launch) => {
                let operands = self.operands(gpu, launch, iteration, step_contexts)?;
                self.launch(gpu, step, &operands)
            }
            Instr::MatMul(instr::MatMul { finish, .. }) => {
                let ended = self.multiply(gpu, step.instr, iteration)?;
                let Some(launch) = finish.as_ref().filter(|_| !ended) else {
                    return Ok(());
                };
                let operands = self.operands(gpu, launch, iteration, step_contexts)?;
                self.launch(gpu, step, &operands)
            }
            Instr::SparseMatMul(instr::SparseMatMul { values, b, out, .. }) => {
                let operands = Operands {
                    inputs: vec![self.slot(*values, iteration), self.matrix(b, iteration)],
                    outputs: vec![self.matrix(out, iteration)],
                    ..Operands::default()
                };
                self.launch(gpu, step, &operands)
            }
            Instr::SparseDropout(instr::SparseDropout {
                values,
                out,
                p,
                site,
            }) => self.sparse_dropout(gpu, (*values, *out), (*p, *site), iteration, step_contexts),
            Instr::Sample(_) => self.sample(gpu, step, step_context),
            Instr::Numbers(numbers) => self.numbers(gpu, numbers),
            Instr::FetchRows(fetch) => self.fetch_rows(gpu, fetch, iteration),
            Instr::AddRows(add) => self.add_rows(gpu, add, iteration),
            Instr::PutRows(put) => self.put_rows(gpu, put, iteration),
            Instr::Densify(instr::Densify { values, out }) => {
                self.densify(gpu, *values, *out, iteration)
            }
            Instr::Loss(loss) => self.loss(gpu, loss, iteration),
            Instr::Metrics(metrics) => self.metrics(gpu, metrics, iteration),
            Instr::Remember(instr::Remember { from, history }) => {
                self.remember(gpu, *from, *history, iteration, step_context)
            }
            Instr::Move(instr::Move { from, to, chunk }) => {
                let whole = (Transfer::WHOLE, iteration);
                self.host_move(gpu, ([*from, *to], *chunk), whole, [true, true])
            }
            Instr::Begin(Transfer { tag, what }) | Instr::Finish(Transfer { tag, what }) => {
                let begins = matches!(step.instr, Instr::Begin(_));
                let Instr::Move(instr::Move { from, to, chunk }) = **what else {
                    return Err(NO_COPY.into());
                };
                let (halves, ends) = ([begins, !begins], [from, to]);
                self.host_move(gpu, (ends, chunk), (*tag, iteration), halves)
            }
            // Messages have steps of their own, `asking.rs` tells lists, loops are run step by step, and `DrawEdges` is
            // refused.
            Instr::HaloExchange(_)
            | Instr::HaloReduce(_)
            | Instr::AllReduce(_)
            | Instr::Redistribute(_)
            | Instr::Send(_)
            | Instr::Receive(_)
            | Instr::Repeat(_)
            | Instr::Chunks(_)
            | Instr::Batches(_)
            | Instr::Lag(_)
            | Instr::Sets(_)
            | Instr::Shift(_)
            | Instr::PushRows(_)
            | Instr::DrawEdges(_)
            | Instr::AskRows(_)
            | Instr::ServeRows(_)
            | Instr::CacheRows(_)
            | Instr::ShareLevels(_) => Err(NO_KERNEL.into()),
        }
    }

    /// Enqueues a product; returns whether its epilogue is included.
    fn multiply(&self, gpu: &mut Gpu, instr: &Instr, iteration: u32) -> Result<bool, Stop> {
        let Instr::MatMul(instr::MatMul {
            product,
            a,
            b,
            out,
            rows,
            inner,
            columns,
            finish,
            chunk,
        }) = instr
        else {
            return Ok(false);
        };
        let end = finish
            .as_ref()
            .filter(|_| *product != Product::Tn && *inner > 0);
        let end = end.and_then(|launch| self.end(launch, out, *columns, iteration));
        let (mut ranges, mut parts) = (Vec::new(), Vec::new());
        self.own.rows_of(*rows, *chunk, &mut ranges)?;
        let (inner, columns) = (u64::from(*inner), u64::from(*columns));
        let matrix = |matrix: &program::Matrix, row: u64| {
            let stride = u64::from(matrix.stride);
            let bytes = self.storage(matrix.at).bytes();
            let row = row - self.own.skipped(matrix.at, *chunk).min(row);
            let at = self.matrix(matrix, iteration).plus(bytes * row * stride);
            Matrix { at, stride }
        };
        for range in ranges {
            let rows = range.end - range.start;
            let transposed = *product == Product::Tn;
            let (results, summed) = match transposed {
                true => (inner, rows),
                false => (rows, inner),
            };
            let first = |by_rows: bool| if by_rows { range.start } else { 0 };
            let adds = transposed && chunk.is_some_and(|chunk| chunk.index > 0);
            if results == 0 || columns == 0 || adds && summed == 0 {
                continue;
            }
            let result = matrix(out, first(!transposed));
            // A product to be added is first computed separately.
            let to = match adds {
                true => Matrix {
                    at: self.scratch,
                    stride: columns,
                },
                false => result,
            };
            let product = DenseProduct {
                a_transposed: transposed,
                b_transposed: *product == Product::Nt,
                a: matrix(a, first(true)),
                b: matrix(b, first(transposed)),
                out: to,
                rows: results,
                inner: summed,
                columns,
                factors: self.storage(a.at),
                result: self.storage(out.at),
                end,
            };
            let added = adds.then_some(result);
            parts.push(Part { product, added });
        }
        // A launch applies the epilogue to all rows or none.
        let on = self.streams.compute;
        let mut ended = end.is_some();
        for part in &parts {
            ended = ended && gpu.driver.ends(on, &part.product)?;
        }
        for Part { mut product, added } in parts {
            product.end = product.end.filter(|_| ended);
            gpu.driver.multiply(on, &product)?;
            if let Some(result) = added {
                self.add(gpu, (product.rows, product.columns), result)?;
            }
        }
        Ok(ended)
    }

    /// Adds rows of floats at the start of scratch memory to a matrix.
    pub(super) fn add(
        &self,
        gpu: &mut Gpu,
        (rows, columns): (u64, u64),
        to: Matrix,
    ) -> Result<(), DriverError> {
        let (rows, columns) = (rows as usize, columns as usize);
        let from = Rows::dense(self.scratch, rows, columns, Storage::F32);
        let target = Rows {
            at: to.at,
            stride: to.stride as usize,
            ..from
        };
        gpu.put(self.streams.compute, &from, &target, Write::Add)
    }

    fn sparse_dropout(
        &self,
        gpu: &mut Gpu,
        (values, out): (Ref, Ref),
        (p, site): (f32, Site),
        iteration: u32,
        step_contexts: &Moments,
    ) -> Result<(), Stop> {
        let rows = self.sparse_rows(values);
        let edges = self.sparse_edges(Product::Nn, values)?;
        let extent = self.own.program.buffer(values.buffer).extent;
        let first = self.own.part.features(extent).map_or(0, |f| f.first);
        let over = Over::of(self.own.program.sparse_rows(values));
        let [first_entries, ends] = self.entries(gpu, &edges)?;
        let scale = (1.0 / (1.0 - f64::from(p))) as f32;
        let [from, to] = [values, out].map(|at| self.slot(at, iteration));
        let arguments = [
            first_entries.0,
            ends.0,
            self.list(gpu, List::Ids(over))?.0,
            step_contexts.keys(&[site], iteration).0,
            rows.start,
            rows.end,
            from.0,
            to.0,
            first.into(),
            drop_threshold(p).into(),
            scale.to_bits().into(),
        ];
        let (skipped, bytes) = non_zeros(edges.indptr, &rows);
        let touched = [
            read(from.plus(skipped), bytes),
            written(to.plus(skipped), bytes),
        ];
        let (entry, items) = (Entry::SparseDropout, rows.end - rows.start);
        Ok(gpu.library(self.streams.compute, entry, items, &arguments, &touched)?)
    }

    fn densify(&self, gpu: &mut Gpu, values: Ref, out: Ref, iteration: u32) -> Result<(), Stop> {
        let rows = self.sparse_rows(values);
        let edges = self.sparse_edges(Product::Nn, values)?;
        let extent = self.own.program.buffer(values.buffer).extent;
        let features = self.own.part.features(extent);
        let columns = features.map_or(0, |f| u64::from(f.columns));
        let [first_entries, ends] = self.entries(gpu, &edges)?;
        let [from, to] = [values, out].map(|at| self.slot(at, iteration));
        let arguments = [
            first_entries.0,
            ends.0,
            rows.start,
            rows.end,
            from.0,
            to.0,
            columns,
        ];
        let target = to.plus(4 * rows.start * columns);
        let (count, on) = (rows.end - rows.start, self.streams.compute);
        let (skipped, bytes) = non_zeros(edges.indptr, &rows);
        let touched = [
            read(from.plus(skipped), bytes),
            written(target, 4 * count * columns),
        ];
        if count * columns > 0 {
            gpu.driver.clear(on, target, 4 * count * columns)?;
        }
        Ok(gpu.library(on, Entry::Scatter, count, &arguments, &touched)?)
    }

    fn remember(
        &mut self,
        gpu: &mut Gpu,
        from: Ref,
        history: Ref,
        iteration: u32,
        step_context: &StepContext,
    ) -> Result<(), Stop> {
        let Some(epoch) = self.own.keeps(step_context) else {
            return Ok(());
        };
        let mut ranges = Vec::new();
        self.own.remembered(from, history, &mut ranges)?;
        let kept = self.own.program.buffer(history.buffer);
        let (columns, storage) = (u64::from(kept.row_words()), kept.storage);
        let on = self.streams.compute;
        for range in ranges {
            let (skipped, rows) = (4 * range.start * columns, range.end - range.start);
            let at = |at: Ref| self.slot(at, iteration).plus(skipped);
            let (source, target) = (at(from), at(history));
            if rows * columns == 0 {
                continue;
            }
            let flag = self.flags.plus(4 * self.flagged.len() as u64);
            let floats = rows * columns;
            let touched = [read(source, 4 * floats), written(flag, 4)];
            let numbers = floats * u64::from(storage.in_word());
            let arguments = [source.0, numbers, flag.0, number(storage)];
            gpu.library(on, Entry::Finite, numbers, &arguments, &touched)?;
            let rows = |at| Rows::dense(at, rows as usize, columns as usize, storage);
            gpu.put(on, &rows(source), &rows(target), Write::Replace)?;
            let fault = self.own.not_finite(history, epoch, self.own.place.chunk);
            self.flagged.push(self.own.failure(fault.to_string()));
        }
        self.own.kept.insert(history.buffer, epoch);
        Ok(())
    }
}

/// Byte offset of the values of a range of sparse rows, and their bytes.
fn non_zeros(indptr: &[u64], rows: &Range<u64>) -> (u64, u64) {
    let first = |row: u64| indptr.get(row as usize).copied().unwrap_or(0);
    let begin = first(rows.start);
    (4 * begin, 4 * (first(rows.end) - begin))
}

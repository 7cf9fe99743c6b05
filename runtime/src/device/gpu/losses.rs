//! Losses and metrics, of a rank's vertices or of the seeds of a batch.

use super::device_rank::DeviceRank;
use super::driver::{Address, DriverError};
use super::launch::Stop;
use super::listed::{Name, made};
use super::moves::Rows;
use super::state::{Gpu, read, written};
use crate::communication::moves::Write;
use crate::part::Part;
use crate::part::batch::Batch;
use gnnc_codegen::cuda::library::Entry;
use gnnc_graph::Labels;
use gnnc_ir::graph::op::Loss;
use gnnc_ir::program::instr;
use gnnc_ir::program::{METRICS, Ref};
use gnnc_ir::words::storage::Storage;
use gnnc_ir::words::types::Of;
use std::ops::Range;

/// The targets that losses and metrics compare rows of logits with; address 0 if absent.
#[derive(Clone, Copy, Default)]
pub(super) struct Targets {
    /// Per row, one bit for each of the training, validation and test set.
    sets: Address,
    /// Per row, its class.
    labels: Address,
    /// Per row, one number per class.
    values: Address,
    /// The weight of each class.
    weights: Address,
}

/// Rows of logits, and what they are compared with.
struct Compared<'a> {
    rows: Range<u64>,
    targets: Targets,
    /// The batch whose seeds they are.
    batch: Option<&'a Batch>,
}

/// Where sums of doubles go.
struct Sums {
    rows: u64,
    columns: u64,
    /// What they are divided by.
    terms: f64,
    out: Address,
    /// Whether they are added to what is there.
    adds: bool,
}

impl Targets {
    /// The addresses, in the order in which kernels take them.
    fn addresses(&self) -> [u64; 4] {
        [self.sets, self.labels, self.values, self.weights].map(|at| at.0)
    }

    /// Copies those of a rank's vertices to the device.
    pub(super) fn new(gpu: &mut Gpu, part: &Part) -> Result<Self, DriverError> {
        let mut targets = Self {
            sets: gpu.put_list(&sets_of(&part.splits, 0..part.inner))?,
            weights: gpu.put_list(&part.weights.each)?,
            ..Self::default()
        };
        match &part.labels {
            Labels::None => {}
            Labels::Single(labels) => targets.labels = gpu.put_list(labels)?,
            Labels::Values { values, .. } => targets.values = gpu.put_list(values)?,
        }
        Ok(targets)
    }
}

/// The bits of the sets that have the vertices.
fn sets_of(splits: &[Vec<bool>; 3], vertices: impl Iterator<Item = usize>) -> Vec<u32> {
    let set = |v: usize| {
        let bits = splits.iter().enumerate();
        bits.map(|(n, set)| u32::from(set.get(v) == Some(&true)) << n)
            .sum()
    };
    vertices.map(set).collect()
}

impl DeviceRank {
    /// What rows of logits are compared with. All seeds of a batch to train on count, and those of one to
    /// evaluate on if they are in a set.
    fn compared(&self, gpu: &mut Gpu, logits: Ref, trains: bool) -> Result<Compared<'_>, Stop> {
        let extent = self.own.program.buffer(logits.buffer).extent;
        let batch = self.own.part.batches.at_hand();
        let Some(batch) = batch.filter(|_| extent.of_batch()) else {
            return Ok(Compared {
                rows: self.rows_at_hand(),
                targets: self.targets,
                batch: None,
            });
        };
        let part = &self.own.part;
        let rows = part.sizes.rows(extent);
        let seeds = &batch.ids(Of::One)[..rows as usize];
        let vertices = || seeds.iter().map(|v| *v as usize);
        let mut targets = Targets {
            weights: self.targets.weights,
            sets: self.copied(gpu, Name::Sets, || match trains {
                true => made(vec![1u32; seeds.len()]),
                false => {
                    let splits = batch.splits().unwrap_or(&part.splits);
                    made(sets_of(splits, vertices()))
                }
            })?,
            ..Targets::default()
        };
        match batch.labels().unwrap_or(&part.labels) {
            Labels::None => {}
            Labels::Single(labels) => {
                let of_seeds = || vertices().map(|v| labels[v]).collect::<Vec<_>>();
                targets.labels = self.copied(gpu, Name::Labels, || made(of_seeds()))?;
            }
            Labels::Values { width, values } => {
                let width = *width as usize;
                let of_seeds = || {
                    let rows = vertices().map(|v| &values[v * width..][..width]);
                    rows.flatten().copied().collect::<Vec<_>>()
                };
                targets.values = self.copied(gpu, Name::Values, || made(of_seeds()))?;
            }
        }
        Ok(Compared {
            rows: 0..rows,
            targets,
            batch: Some(batch),
        })
    }

    /// Enqueues a loss.
    pub(super) fn loss(
        &mut self,
        gpu: &mut Gpu,
        loss: &instr::Loss,
        iteration: u32,
    ) -> Result<(), Stop> {
        let instr::Loss {
            loss: kind,
            logits,
            out,
            grad,
            classes,
        } = loss;
        let bytes = sums_bytes(Entry::Loss, self.rows_of_logits(*logits), 1);
        self.scratch_of(gpu, bytes)?;
        let Compared {
            rows,
            targets,
            batch,
        } = self.compared(gpu, *logits, true)?;
        let tensor = |at: Option<Ref>| match at {
            Some(at) => {
                let stride = self.own.program.buffer(at.buffer).columns;
                (self.slot(at, iteration), u64::from(stride))
            }
            None => Default::default(),
        };
        let (logits, grad) = (tensor(Some(*logits)), tensor(*grad));
        let weight = batch.map_or(self.own.part.weights.trained, Batch::weight);
        let terms = weight * f64::from(kind.per_vertex(*classes));
        let [sets, labels, values, weights] = targets.addresses();
        let arguments = [
            logits.0.0,
            logits.1,
            grad.0.0,
            grad.1,
            sets,
            labels,
            values,
            weights,
            rows.start,
            rows.end,
            (*classes).into(),
            number_of(kind),
            constant_of(kind),
            terms.to_bits(),
            self.scratch.0,
        ];
        let count = rows.end - rows.start;
        let blocks = u64::from(Entry::Loss.blocks(count));
        let part =
            |(at, stride): (Address, u64)| (at.plus(4 * rows.start * stride), 4 * count * stride);
        let (read_from, write_to) = (part(logits), part(grad));
        let mut touched = vec![
            read(read_from.0, read_from.1),
            written(self.scratch, 8 * blocks),
        ];
        touched.extend((grad.1 > 0).then(|| written(write_to.0, write_to.1)));
        let on = self.streams.compute;
        gpu.library(on, Entry::Loss, count, &arguments, &touched)?;
        let Some(out) = out else {
            return Ok(());
        };
        let place = &self.own.place;
        let sums = Sums {
            rows: blocks,
            columns: 1,
            // The mean over the seeds of all batches of the epoch.
            terms: terms / batch.map_or(1.0, Batch::share),
            out: self.slot(*out, iteration),
            adds: batch.is_some() && (place.batch > Some(0) || place.set > Some(0)),
        };
        self.sum(gpu, &sums)
    }

    /// Enqueues metrics.
    pub(super) fn metrics(
        &mut self,
        gpu: &mut Gpu,
        metrics: &instr::Metrics,
        iteration: u32,
    ) -> Result<(), Stop> {
        let rows = self.rows_of_logits(metrics.logits);
        self.scratch_of(gpu, sums_bytes(Entry::Metrics, rows, METRICS))?;
        let Compared {
            rows,
            targets,
            batch,
        } = self.compared(gpu, metrics.logits, false)?;
        let stride = u64::from(self.own.program.buffer(metrics.logits.buffer).columns);
        let at = self.slot(metrics.logits, iteration);
        let [sets, labels, values, weights] = targets.addresses();
        let arguments = [
            at.0,
            stride,
            sets,
            labels,
            values,
            weights,
            rows.start,
            rows.end,
            metrics.classes.into(),
            number_of(&metrics.loss),
            constant_of(&metrics.loss),
            self.scratch.0,
        ];
        let (count, on) = (rows.end - rows.start, self.streams.compute);
        let blocks = u64::from(Entry::Metrics.blocks(count));
        let touched = [
            read(at.plus(4 * rows.start * stride), 4 * count * stride),
            written(self.scratch, 8 * u64::from(METRICS) * blocks),
        ];
        gpu.library(on, Entry::Metrics, count, &arguments, &touched)?;
        let sums = Sums {
            rows: blocks,
            columns: u64::from(METRICS),
            terms: 1.0,
            out: self.slot(metrics.out, iteration),
            // The counts of all batches are added.
            adds: batch.is_some() && self.own.place.batch > Some(0),
        };
        self.sum(gpu, &sums)
    }

    /// How many rows of logits are compared.
    fn rows_of_logits(&self, logits: Ref) -> u64 {
        let extent = self.own.program.buffer(logits.buffer).extent;
        match extent.of_batch() {
            true => self.own.part.sizes.rows(extent),
            false => {
                let rows = self.rows_at_hand();
                rows.end - rows.start
            }
        }
    }

    /// Adds sums of doubles in scratch memory.
    fn sum(&self, gpu: &mut Gpu, sums: &Sums) -> Result<(), Stop> {
        let Sums {
            rows,
            columns,
            terms,
            out,
            adds,
        } = *sums;
        let to = match adds {
            true => self.scratch.plus(8 * rows * columns),
            false => out,
        };
        let arguments = [self.scratch.0, rows, columns, terms.to_bits(), to.0];
        let touched = [
            read(self.scratch, 8 * rows * columns),
            written(to, 4 * columns),
        ];
        let on = self.streams.compute;
        gpu.library(on, Entry::Sum, 1, &arguments, &touched)?;
        if !adds {
            return Ok(());
        }
        let row = |at| Rows::dense(at, 1, columns as usize, Storage::F32);
        Ok(gpu.put(on, &row(to), &row(out), Write::Add)?)
    }
}

/// Bytes of the sums of an entry point's blocks, with a row of floats behind them.
pub(super) fn sums_bytes(entry: Entry, rows: u64, columns: u32) -> u64 {
    let columns = u64::from(columns);
    8 * columns * u64::from(entry.blocks(rows)) + 4 * columns
}

/// How `loss.cu` numbers a loss.
fn number_of(loss: &Loss) -> u64 {
    match loss {
        Loss::CrossEntropy { .. } => 0,
        Loss::BinaryCrossEntropy { .. } => 1,
        Loss::SquaredError => 2,
        Loss::AbsoluteError => 3,
        Loss::Huber { .. } => 4,
    }
}

/// The bits of the number that `loss.cu` needs for a loss.
fn constant_of(loss: &Loss) -> u64 {
    match loss {
        Loss::CrossEntropy { smoothing, .. } => smoothing.0.to_bits(),
        Loss::Huber { delta } => delta.0.to_bits(),
        Loss::BinaryCrossEntropy { .. } | Loss::SquaredError | Loss::AbsoluteError => 0,
    }
}

//! Rows of matrices, and kernels that copy or add them.

use super::driver::{Address, DriverError, Stream, Touched};
use super::state::Gpu;
use crate::exchange::moves::{Columns, Write};
use gnnc_codegen::cuda::library::{Entry, lanes, number};
use gnnc_ir::words::storage::Storage;

/// Rows of a matrix: those of a list, or the first ones. Each has runs of floats, or of words that
/// hold two numbers.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    /// The first float of row 0.
    pub(super) at: Address,
    /// The list on the device, and a host copy for drivers that check accesses.
    pub(super) list: Option<(Address, Vec<u32>)>,
    /// Number of rows.
    pub(super) count: u64,
    /// Floats from one row to the next.
    pub(super) stride: u64,
    /// The floats of a row, relative to `at`.
    pub(super) columns: Columns,
    /// Storage of the elements, which matters when adding.
    pub(super) storage: Storage,
}

impl Rows {
    /// Consecutive rows of `columns` floats without gaps.
    pub(super) fn dense(at: Address, count: u64, columns: u64) -> Self {
        Self {
            at,
            list: None,
            count,
            stride: columns,
            columns: Columns::one(0, columns as usize),
            storage: Storage::F32,
        }
    }

    /// Consecutive floats.
    pub(super) fn floats_at(at: Address, floats: u64) -> Self {
        Self::dense(at, 1, floats)
    }

    /// Floats of all rows.
    pub(super) fn floats(&self) -> u64 {
        self.count * self.columns.floats() as u64
    }

    /// The same rows in a message.
    fn packed(&self, at: Address) -> Self {
        Self::dense(at, self.count, self.columns.floats() as u64)
    }

    /// Whether the floats are contiguous.
    fn contiguous(&self) -> bool {
        let dense = self.columns.floats() as u64 == self.stride || self.count == 1;
        self.list.is_none() && dense && self.columns.runs == 1
    }

    fn touched(&self, written: bool, into: &mut Vec<Touched>) {
        if self.contiguous() {
            into.push(Touched {
                at: self.at,
                bytes: 4 * self.floats(),
                written,
            });
            return;
        }
        let Columns {
            runs, len, step, ..
        } = self.columns;
        for n in 0..self.count {
            let row = match &self.list {
                Some((_, rows)) => rows.get(n as usize).copied().unwrap_or(0).into(),
                None => n,
            };
            into.extend((0..runs).map(|run| Touched {
                at: self.at.plus(4 * (row * self.stride + (run * step) as u64)),
                bytes: 4 * len as u64,
                written,
            }));
        }
    }
}

impl Gpu {
    /// Copies rows into a message, one after another.
    pub(super) fn pack(
        &mut self,
        on: Stream,
        from: &[Rows],
        message: Address,
    ) -> Result<(), DriverError> {
        let mut at = message;
        for rows in from {
            self.put(on, rows, &rows.packed(at), Write::Replace)?;
            at = at.plus(4 * rows.floats());
        }
        Ok(())
    }

    /// Copies or adds a message to rows.
    pub(super) fn unpack(
        &mut self,
        on: Stream,
        message: Address,
        to: &[Rows],
        write: Write,
    ) -> Result<(), DriverError> {
        let mut at = message;
        for rows in to {
            self.put(on, &rows.packed(at), rows, write)?;
            at = at.plus(4 * rows.floats());
        }
        Ok(())
    }

    /// Copies or adds rows to the same number of other rows.
    pub(super) fn put(
        &mut self,
        on: Stream,
        from: &Rows,
        to: &Rows,
        write: Write,
    ) -> Result<(), DriverError> {
        if to.floats() == 0 {
            return Ok(());
        }
        if write == Write::Replace && from.contiguous() && to.contiguous() {
            return self.driver.copy(on, from.at, to.at, 4 * to.floats());
        }
        let runs = from.columns.runs.max(to.columns.runs);
        let (source, target) = (from.columns.cut(runs), to.columns.cut(runs));
        let (len, runs) = (target.len as u64, runs as u64);
        let ends = [to.at.0, from.at.0];
        let floats = [
            len,
            to.stride,
            from.stride,
            target.step as u64,
            source.step as u64,
        ];
        let wide = ends.iter().all(|at| at.is_multiple_of(16))
            && floats.iter().all(|n| n.is_multiple_of(4));
        let (entry, unit) = if wide {
            (Entry::Move4, 4)
        } else {
            (Entry::Move, 1)
        };
        let list = |rows: &Rows| rows.list.as_ref().map_or(0, |(at, _)| at.0);
        let lanes = lanes(len / unit);
        let arguments = [
            to.at.0,
            list(to),
            to.stride / unit,
            target.step as u64 / unit,
            from.at.0,
            list(from),
            from.stride / unit,
            source.step as u64 / unit,
            to.count,
            runs,
            len / unit,
            lanes,
            match write {
                Write::Replace => 0,
                Write::Add => number(to.storage),
            },
        ];
        let mut touched = Vec::new();
        if self.checks {
            from.touched(false, &mut touched);
            to.touched(true, &mut touched);
        }
        let items = to.count * runs * lanes;
        self.library(on, entry, items, &arguments, &touched)
    }
}

//! Kernels that copy or add rows of matrices.

use super::driver::{Address, DriverError, Stream, Touched};
use super::state::{Gpu, read};
use crate::communication;
use crate::communication::moves::{Columns, Write};
use gnnc_codegen::cuda::library::{Entry, lanes, number};

/// Rows in the memory of the device.
pub(super) type Rows<'a> = communication::Rows<Address, Listed<'a>>;

/// A list on the device.
#[derive(Clone, Copy)]
pub(super) struct Listed<'a> {
    pub(super) at: Address,
    /// The same numbers here, for drivers that check accesses.
    pub(super) rows: &'a [u32],
}

/// Adds the bytes of rows to those that a launch touches.
fn touch(rows: &Rows, written: bool, into: &mut Vec<Touched>) {
    if let Some(list) = &rows.list {
        let bytes = 4 * rows.count.min(list.rows.len()) as u64;
        into.extend((bytes > 0).then(|| read(list.at, bytes)));
    }
    if rows.contiguous() {
        into.push(Touched {
            at: rows.at,
            bytes: 4 * rows.floats() as u64,
            written,
        });
        return;
    }
    let Columns {
        runs, len, step, ..
    } = rows.columns;
    for n in 0..rows.count {
        let row = match &rows.list {
            Some(list) => list.rows.get(n).map_or(0, |row| *row as usize),
            None => n,
        };
        into.extend((0..runs).map(|run| Touched {
            at: rows.at.plus(4 * (row * rows.stride + run * step) as u64),
            bytes: 4 * len as u64,
            written,
        }));
    }
}

impl Gpu {
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
            return self.driver.copy(on, from.at, to.at, 4 * to.floats() as u64);
        }
        let runs = from.columns.runs.max(to.columns.runs);
        let (source, target) = (from.columns.cut(runs), to.columns.cut(runs));
        let (count, len, runs) = (to.count as u64, target.len as u64, runs as u64);
        let (to_stride, from_stride) = (to.stride as u64, from.stride as u64);
        let ends = [to.at.0, from.at.0];
        let floats = [
            len,
            to_stride,
            from_stride,
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
        let list = |rows: &Rows| rows.list.map_or(0, |list| list.at.0);
        let lanes = lanes(len / unit);
        let arguments = [
            to.at.0,
            list(to),
            to_stride / unit,
            target.step as u64 / unit,
            from.at.0,
            list(from),
            from_stride / unit,
            source.step as u64 / unit,
            count,
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
            touch(from, false, &mut touched);
            touch(to, true, &mut touched);
        }
        let items = count * runs * lanes;
        self.library(on, entry, items, &arguments, &touched)
    }
}

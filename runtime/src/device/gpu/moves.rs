//! Kernels that copy or add rows of matrices.

use super::driver::{Address, DriverError, Stream, Touched};
use super::state::{Gpu, read};
use crate::communication;
use crate::communication::encoding::Encoding;
use crate::communication::moves::{Columns, Write};
use gnnc_codegen::cuda::library::{Entry, format, lanes, number};

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

/// The key of the draws that round rows.
#[derive(Clone, Copy)]
pub(super) enum Key {
    /// A key.
    Known(u64),
    /// Where one is, which differs from run to run, and what is combined with it.
    At(Address, u64),
}

/// Bytes of a message.
fn message(rows: &Rows, at: Address, is_written: bool) -> Touched {
    Touched {
        at,
        bytes: 4 * rows.message_floats() as u64,
        written: is_written,
    }
}

impl Gpu {
    /// Encodes rows into a message.
    pub(super) fn encode(
        &mut self,
        on: Stream,
        rows: &Rows,
        encoding: &Encoding<Listed>,
        key: Key,
        to: Address,
    ) -> Result<(), DriverError> {
        let mut touched = Vec::new();
        let (key, salt) = match key {
            Key::Known(key) => (Address::default(), key),
            Key::At(at, salt) => (at, salt),
        };
        if self.checks && rows.count > 0 {
            touch(rows, false, &mut touched);
            touched.extend((key != Address::default()).then(|| read(key, 8)));
            let each = |row: usize| rows.list.map_or(row, |list| list.rows[row] as usize);
            if let Some(vertices) = encoding.vertices {
                let vertex = |row| read(vertices.at.plus(4 * each(row) as u64), 4);
                touched.extend((0..rows.count).map(vertex));
            }
            touched.push(message(rows, to, true));
        }
        let arguments = [
            to.0,
            rows.at.0,
            rows.list.map_or(0, |list| list.at.0),
            rows.stride as u64,
            rows.columns.step as u64,
            rows.columns.len as u64,
            encoding.vertices.map_or(0, |list| list.at.0),
            key.0,
            salt,
            rows.count as u64,
            rows.numbers() as u64,
            rows.message_row() as u64,
            format(encoding.wire),
            number(rows.storage),
        ];
        let (entry, items) = (Entry::Encode, rows.count as u64);
        self.library(on, entry, items, &arguments, &touched)
    }

    /// Decodes a message into rows, or adds what it says.
    pub(super) fn decode(
        &mut self,
        on: Stream,
        from: Address,
        rows: &Rows,
        encoding: &Encoding<Listed>,
        write: Write,
    ) -> Result<(), DriverError> {
        let mut touched = Vec::new();
        if self.checks && rows.count > 0 {
            touch(rows, true, &mut touched);
            touched.push(message(rows, from, false));
        }
        let arguments = [
            rows.at.0,
            rows.list.map_or(0, |list| list.at.0),
            rows.stride as u64,
            rows.columns.step as u64,
            rows.columns.len as u64,
            from.0,
            rows.count as u64,
            rows.numbers() as u64,
            rows.message_row() as u64,
            format(encoding.wire),
            number(rows.storage),
            match write {
                Write::Replace => 0,
                Write::Add => number(rows.storage),
            },
        ];
        let (entry, items) = (Entry::Decode, rows.count as u64);
        self.library(on, entry, items, &arguments, &touched)
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

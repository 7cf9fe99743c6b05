//! Products of 16-bit factors: converts a few rows at a time to 32-bit floats, and rounds results
//! stored in 16 bits.

use super::skinny::Rows;
use super::{Dense, Multiply, block_product, panel};
use crate::arena::Span;
use crate::team::Team;
use gnnc_ir::program::Product;
use gnnc_ir::words::storage::Storage;
use std::cell::RefCell;

/// Rows converted at a time: few enough to stay in cache, enough to make packing the other factor
/// each time cheap.
const ROWS: usize = 256;

thread_local! {
    /// Each thread's memory for rows of both factors and of the result, kept between products.
    static ROOM: RefCell<[Vec<f32>; 3]> = RefCell::default();
}

impl Multiply {
    /// `Nn` or `Nt`; see [`Multiply::run`].
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn halves(
        &self,
        team: &Team,
        work: u64,
        finish: Option<&(dyn Fn(u64, u64) + Sync)>,
    ) {
        let (n, k) = (self.columns as usize, self.inner as usize);
        let (rows, columns) = match self.product {
            Product::Nt => (n, k),
            _ => (k, n),
        };
        self.a.need(self.rows as usize, k);
        self.b.need(rows, columns);
        self.out.need(self.rows as usize, n);
        let mut b = Vec::new();
        // SAFETY: nothing writes the factors meanwhile.
        let b = unsafe { self.b.numbers(0, (rows, columns), &mut b) };
        let panel = panel(self.rows, self.columns);
        team.each(self.rows.div_ceil(panel) as usize, work, |i| {
            let begin = i as u64 * panel;
            let end = (begin + panel).min(self.rows);
            let mut room = ROOM.take();
            for first in (begin..end).step_by(ROWS) {
                // SAFETY: nothing writes the factors meanwhile; panels are disjoint rows of the result.
                unsafe { self.some_rows(b, first, (end - first).min(ROWS as u64), &mut room) };
            }
            ROOM.set(room);
            if let Some(finish) = finish {
                finish(begin, end);
            }
        });
    }

    /// Computes some rows of the result.
    unsafe fn some_rows(&self, b: Dense, first: u64, rows: u64, room: &mut [Vec<f32>; 3]) {
        let (m, n, k) = (rows as usize, self.columns as usize, self.inner as usize);
        let [a, results, _] = room;
        let rounds = !self.out.storage.is_f32();
        results.resize(results.len().max(if rounds { m * n } else { 0 }), 0.0);
        // SAFETY: as the caller promised.
        unsafe {
            let one = Self {
                a: self.a.numbers(first, (m, k), a),
                b,
                out: match rounds {
                    false => self.out.after(first),
                    true => dense(&mut results[..m * n], n),
                },
                rows,
                ..*self
            };
            one.panel(0, rows);
            if rounds {
                self.out.store(first, n, &results[..m * n]);
            }
        }
    }

    /// The product of one block of rows of `Tn`, starting at a row: sums over a few rows each,
    /// added in order.
    ///
    /// # Safety
    /// The factors have these rows; nothing writes them or uses the result meanwhile.
    pub(super) unsafe fn half_block(&self, (first, rows): (u64, usize), to: Rows) {
        let (m, n) = (self.inner as usize, self.columns as usize);
        let mut room = ROOM.take();
        let [a, b, sums] = &mut room;
        sums.resize(sums.len().max(m * n), 0.0);
        for begin in (0..rows).step_by(ROWS) {
            let k = (rows - begin).min(ROWS);
            // SAFETY: as the caller promised.
            unsafe {
                let a = self.a.numbers(first + begin as u64, (k, m), a);
                let b = self.b.numbers(first + begin as u64, (k, n), b);
                let (a, b) = (a.rows_from(0), b.rows_from(0));
                if begin == 0 {
                    block_product((m, n, k), to, a, b);
                    continue;
                }
                let partial = Rows {
                    at: sums.as_mut_ptr(),
                    stride: n,
                    len: sums.len(),
                };
                block_product((m, n, k), partial, a, b);
                for row in 0..m {
                    let to = std::slice::from_raw_parts_mut(to.at.add(row * to.stride), n);
                    let more = &sums[row * n..][..n];
                    to.iter_mut().zip(more).for_each(|(sum, x)| *sum += x);
                }
            }
        }
        ROOM.set(room);
    }
}

/// Rows of 32-bit floats without gaps.
fn dense(floats: &mut [f32], columns: usize) -> Dense {
    Dense {
        at: Span {
            ptr: floats.as_mut_ptr(),
            len: floats.len(),
        },
        first: 0,
        stride: columns,
        storage: Storage::F32,
    }
}

impl Dense {
    /// Rows of a 16-bit matrix, as 32-bit floats in memory that grows as needed.
    ///
    /// # Safety
    /// The matrix has the rows, and nothing writes them meanwhile. The result is no longer used
    /// when the memory is used again.
    unsafe fn numbers(
        &self,
        row: u64,
        (rows, columns): (usize, usize),
        room: &mut Vec<f32>,
    ) -> Dense {
        room.resize(room.len().max(rows * columns), 0.0);
        let numbers = &mut room[..rows * columns];
        for (n, to) in numbers.chunks_exact_mut(columns.max(1)).enumerate() {
            let begin = self.first + (row as usize + n) * self.stride;
            // SAFETY: in range, as the caller promised; any two bytes are an element.
            let from = unsafe {
                let first = self.at.ptr.cast::<u16>().add(begin);
                std::slice::from_raw_parts(first, columns)
            };
            self.storage.decode_all(from, to);
        }
        dense(numbers, columns)
    }

    /// Stores gapless rows to a 16-bit matrix, starting at a row.
    ///
    /// # Safety
    /// The matrix has the rows, and nothing else uses them meanwhile.
    unsafe fn store(&self, row: u64, columns: usize, numbers: &[f32]) {
        for (n, from) in numbers.chunks_exact(columns.max(1)).enumerate() {
            let begin = self.first + (row as usize + n) * self.stride;
            // SAFETY: in range, as the caller promised; any two bytes are an element.
            let to = unsafe {
                let first = self.at.ptr.cast::<u16>().add(begin);
                std::slice::from_raw_parts_mut(first, columns)
            };
            self.storage.encode_all(from, to);
        }
    }
}

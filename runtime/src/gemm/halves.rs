//! Products of factors in 16 bits: panels of rows in 32-bit floats, results rounded where they are stored so.

use super::{Dense, Multiply, panel};
use crate::device::cpu::Span;
use crate::team::Team;
use gnnc_ir::program::Product;
use gnnc_ir::storage::Storage;

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
        // SAFETY: nothing writes the factors meanwhile.
        let mut b = unsafe { self.b.numbers(0, rows, columns) };
        let b = dense(&mut b, columns);
        let panel = panel(self.rows, self.columns);
        team.each(self.rows.div_ceil(panel) as usize, work, |i| {
            let begin = i as u64 * panel;
            let end = (begin + panel).min(self.rows);
            let m = (end - begin) as usize;
            // SAFETY: nothing writes the factors meanwhile; panels are disjoint rows of the result.
            unsafe {
                let mut a = self.a.numbers(begin, m, k);
                let mut results = vec![0.0; if self.out.storage.is_f32() { 0 } else { m * n }];
                let one = Self {
                    a: dense(&mut a, k),
                    b,
                    out: match self.out.storage {
                        Storage::F32 => self.out.after(begin),
                        _ => dense(&mut results, n),
                    },
                    rows: m as u64,
                    ..*self
                };
                one.panel(0, m as u64);
                if !results.is_empty() {
                    self.out.store(begin, n, &results);
                }
            }
            if let Some(finish) = finish {
                finish(begin, end);
            }
        });
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
    /// Rows of a matrix in 16 bits, without gaps.
    ///
    /// # Safety
    /// The matrix has them, and nothing writes them meanwhile.
    pub(super) unsafe fn numbers(&self, row: u64, rows: usize, columns: usize) -> Vec<f32> {
        let mut numbers = vec![0.0; rows * columns];
        if columns == 0 {
            return numbers;
        }
        let storage = self.storage;
        for (n, to) in numbers.chunks_exact_mut(columns).enumerate() {
            let begin = self.first + (row as usize + n) * self.stride;
            // SAFETY: in range, as the caller promised; any two bytes are an element.
            let from = unsafe {
                let first = self.at.ptr.cast::<u16>().add(begin);
                std::slice::from_raw_parts(first, columns)
            };
            match storage {
                // Said apart from what branches, so that it is done for many at once.
                Storage::Bf16 => to
                    .iter_mut()
                    .zip(from)
                    .for_each(|(to, from)| *to = f32::from_bits(u32::from(*from) << 16)),
                _ => to
                    .iter_mut()
                    .zip(from)
                    .for_each(|(to, from)| *to = storage.decode(*from)),
            }
        }
        numbers
    }

    /// Stores rows without gaps to a matrix in 16 bits, from a row on.
    ///
    /// # Safety
    /// The matrix has them, and nothing else uses them meanwhile.
    unsafe fn store(&self, row: u64, columns: usize, numbers: &[f32]) {
        for (n, from) in numbers.chunks_exact(columns).enumerate() {
            let begin = self.first + (row as usize + n) * self.stride;
            // SAFETY: in range, as the caller promised; any two bytes are an element.
            let to = unsafe {
                let first = self.at.ptr.cast::<u16>().add(begin);
                std::slice::from_raw_parts_mut(first, columns)
            };
            to.iter_mut()
                .zip(from)
                .for_each(|(to, from)| *to = self.storage.encode(*from));
        }
    }
}

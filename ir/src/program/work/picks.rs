//! Rows that instructions pick one by one, which a cache may have.

use super::{Counts, INDEX, Nest, element, launched, stored};
use crate::kernel::{At, End, Kernel, Operand, Walk};
use crate::program::{Instr, RankSizes};

/// Rows of one tensor that are read at random places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pick {
    /// Reads of a row.
    pub reads: u64,
    /// Bytes of a row.
    pub row: u64,
    /// Bytes of the tensor that they are picked from.
    pub of: u64,
}

impl Pick {
    /// Rows of the tensor.
    pub fn rows(&self) -> u64 {
        self.of / self.row.max(1)
    }

    /// Bytes of all reads.
    pub fn bytes(&self) -> u64 {
        self.reads * self.row
    }
}

/// How many sectors of a memory a row touches that is read at a random place; both in bytes. If sectors do not divide
/// into rows, a row may begin anywhere in a sector.
pub fn sectors(row: u64, sector: u64) -> f64 {
    if row.is_multiple_of(sector) {
        (row / sector) as f64
    } else if sector.is_multiple_of(row) {
        1.0
    } else {
        row.saturating_sub(4) as f64 / sector as f64 + 1.0
    }
}

/// Whether a kernel picks the rows of an operand, rather than reading them in order.
pub(super) fn is_picked(kernel: &Kernel, operand: &Operand) -> bool {
    let walk = Walk::of(&kernel.body);
    match operand.at {
        At::Edge => walk.end() == End::Src || walk == Walk::EdgesByType,
        At::Src => walk.end() == End::Dst,
        At::Dst => walk.end() == End::Src,
        At::List => true,
        At::Row | At::One => false,
    }
}

impl Counts<'_> {
    /// The rows that the instruction picks over `sizes`, out of tensors of a rank that holds `held`. Their bytes
    /// are among those that [`Counts::work`] says are read.
    pub fn picks(&self, sizes: &RankSizes, held: &RankSizes) -> Vec<Pick> {
        if let Instr::SparseMatMul(product) = self.instr {
            let sizes = launched(self.instr, sizes);
            let reads = stored(self.program, product.values, &sizes).nonzeros;
            let row = u64::from(product.columns) * element(self.program, product.b.at);
            let of = self.program.buffer(product.b.at.buffer).slot_bytes(held);
            return vec![Pick { reads, row, of }];
        }
        let (Instr::Launch(launch), Some(counted)) = (self.instr, &self.kernel) else {
            return Vec::new();
        };
        if counted.picked.is_empty() {
            return Vec::new();
        }
        let kernel = counted.kernel;
        let nest = Nest::new(kernel, launch.rows, &launched(self.instr, sizes));
        let mut picks = Vec::with_capacity(counted.picked.len());
        for &n in &counted.picked {
            let (Some(operand), Some(at)) =
                (kernel.inputs.get(n as usize), launch.inputs.get(n as usize))
            else {
                continue;
            };
            let listed = operand.at == At::List;
            let reads = if listed { nest.rows } else { nest.edges };
            if reads == 0 {
                continue;
            }
            // The numbers in a list are read in order.
            let numbers = if listed { reads * INDEX } else { 0 };
            let row = (nest.load_bytes(kernel, n) - numbers) / reads;
            let of = self.program.buffer(at.buffer).slot_bytes(held);
            picks.push(Pick { reads, row, of });
        }
        picks
    }
}

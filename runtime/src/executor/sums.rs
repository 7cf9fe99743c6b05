//! Sums over own vertices, which may be made by leaf.

use super::Worker;
use crate::arena::Span;
use crate::gemm::Dense;
use crate::leaves::Leaves;
use gnnc_ir::program::{Extent, Matrix, Program, Ref};

impl Worker {
    /// The leaves of a sum over rows of an extent, if it is made by leaf.
    pub(super) fn leaves(&self, program: &Program, rows: Extent) -> Option<&Leaves> {
        let leaves = self.own.part.leaves.as_ref();
        leaves.filter(|_| program.sums_leaves(rows))
    }

    /// The shares of a sum by leaf.
    pub(super) fn shares(&self, matrix: &Matrix, iteration: u32) -> Vec<Dense> {
        let count = self.own.part.leaves.as_ref().map_or(1, Leaves::shared);
        let one = |share| Dense {
            at: self.share(matrix.at, iteration, share),
            ..self.dense(matrix, iteration)
        };
        (0..count).map(one).collect()
    }

    /// Adds a row of `width` numbers of each leaf along the tree, into the shares of a slot.
    ///
    /// # Safety
    /// Nothing else uses the slot meanwhile.
    pub(super) unsafe fn put_shares(
        &self,
        at: Ref,
        iteration: u32,
        rows: impl Iterator<Item = f32>,
        width: usize,
    ) {
        let Some(leaves) = &self.own.part.leaves else {
            return;
        };
        let shares = leaves.shares(&Vec::from_iter(rows), width);
        for (share, numbers) in shares.chunks(width).enumerate() {
            // SAFETY: as the caller promised.
            let to = unsafe { self.share(at, iteration, share).write() };
            to[..width].copy_from_slice(numbers);
        }
    }

    /// The words of a slot in which a share of a sum lies.
    pub(super) fn share(&self, at: Ref, iteration: u32, share: usize) -> Span {
        let (slot, words) = (
            self.own.slot(at, iteration),
            self.own.buffer(at.buffer).len(),
        );
        let block = self.block(at.buffer);
        block.span(slot.start + share * words, slot.len())
    }
}

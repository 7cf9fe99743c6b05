//! Sums over a rank's leaves, added along the tree ([`gnnc_ir::program::leaves`]).
//!
//! A sum has a partial sum for each leaf, one after the other in memory. They are added in pairs, up to the largest subtrees
//! that the rank has; the sums of these are the rank's shares, which an all-reduce adds on.

use crate::arena::Span;
use crate::team::Team;
use gnnc_graph::LocalPart;
use gnnc_ir::program::leaves::{MOST_LEAVES, Subtree, leaves, owned, subtrees};
use std::cell::RefCell;
use std::ops::Range;

/// Floats of partial sums that are added at a time, in registers.
const PIECE: usize = 32;

/// Floats of a task for a thread.
const TASK: usize = 128 * PIECE;

/// Numbers of leaves that a subtree may have.
pub(crate) const DEPTH: usize = MOST_LEAVES.ilog2() as usize + 1;

/// The leaves of a rank.
#[derive(Clone, Debug)]
pub(crate) struct Leaves {
    /// First rows of the leaves, and one past the last row.
    bounds: Vec<u64>,
    /// The leaves of each subtree, counted from the rank's first.
    subtrees: Vec<Range<usize>>,
}

/// Blocks of rows, none of which has rows of two leaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Blocks {
    /// The rows of each block. A leaf has at least one, though it may have no rows.
    pub(crate) rows: Vec<Range<u64>>,
    /// The blocks of each leaf.
    pub(crate) of_leaf: Vec<Range<usize>>,
}

impl Blocks {
    /// The rows of a block.
    pub(crate) fn block(&self, number: usize) -> Range<usize> {
        let rows = &self.rows[number];
        rows.start as usize..rows.end as usize
    }
}

impl Leaves {
    /// All rows as one leaf.
    pub(crate) fn one(rows: Range<u64>) -> Self {
        Self {
            bounds: vec![rows.start, rows.end],
            subtrees: std::iter::once(0..1).collect(),
        }
    }

    /// The leaves of a part of a graph with so many vertices, whose chunks are the leaves.
    pub(crate) fn of(part: &LocalPart, vertices: u64) -> Self {
        let own = owned(leaves(vertices), part.parts, part.rank);
        let bounds = &part.chunks.own[own.start as usize..=own.end as usize];
        let place = |leaf: u32| (leaf - own.start) as usize;
        let of = |one: Subtree| place(one.first)..place(one.first + one.leaves);
        Self {
            bounds: bounds.iter().map(|bound| *bound as u64).collect(),
            subtrees: subtrees(own.clone()).into_iter().map(of).collect(),
        }
    }

    /// The rows of each leaf.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Range<u64>> {
        self.bounds.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// First rows of the leaves, and one past the last row.
    pub(crate) fn bounds(&self) -> &[u64] {
        &self.bounds
    }

    /// Number of leaves.
    pub(crate) fn count(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Number of subtrees, each of which gives a share.
    pub(crate) fn shared(&self) -> usize {
        self.subtrees.len()
    }

    /// The leaves of each subtree, counted from the rank's first.
    pub(crate) fn subtrees(&self) -> &[Range<usize>] {
        &self.subtrees
    }

    /// The leaves in blocks of at most so many rows.
    pub(crate) fn blocks(&self, most: u64) -> Blocks {
        let mut blocks = Blocks::default();
        for leaf in self.rows() {
            let first = blocks.rows.len();
            let mut begin = leaf.start;
            loop {
                let end = (begin + most).min(leaf.end);
                blocks.rows.push(begin..end);
                begin = end;
                if begin == leaf.end {
                    break;
                }
            }
            blocks.of_leaf.push(first..blocks.rows.len());
        }
        blocks
    }

    /// Adds the partial sums of leaves, of `floats` each, and calls `share` with the number of each share and pieces of it:
    /// their first float, and the piece.
    ///
    /// # Safety
    /// Nothing writes `partials` meanwhile.
    pub(crate) unsafe fn add(
        &self,
        team: &Team,
        partials: Span,
        floats: usize,
        share: &(dyn Fn(usize, usize, &[f32]) + Sync),
    ) {
        // SAFETY: as the caller promised.
        let rows = unsafe { partials.part(0, self.count() * floats).read() };
        let work = rows.len() as u64;
        team.each(floats.div_ceil(TASK), work, |task| {
            let end = ((task + 1) * TASK).min(floats);
            for first in (task * TASK..end).step_by(PIECE) {
                self.each_share(rows, floats, first..(first + PIECE).min(end), share);
            }
        });
    }

    /// The shares of a few numbers, of which each leaf has a row: those of share 0, then those of share 1, and so on.
    pub(crate) fn shares(&self, rows: &[f32], width: usize) -> Vec<f32> {
        let found = RefCell::new(vec![0.0; self.shared() * width]);
        let keep = |number: usize, first: usize, piece: &[f32]| {
            found.borrow_mut()[number * width + first..][..piece.len()].copy_from_slice(piece);
        };
        for first in (0..width).step_by(PIECE) {
            self.each_share(rows, width, first..(first + PIECE).min(width), &keep);
        }
        found.into_inner()
    }

    /// Some columns of each share of rows of `width` floats, at most [`PIECE`].
    fn each_share(
        &self,
        rows: &[f32],
        width: usize,
        columns: Range<usize>,
        share: &dyn Fn(usize, usize, &[f32]),
    ) {
        for (number, subtree) in self.subtrees.iter().enumerate() {
            // Sums of subtrees of 1, 2, 4, ... leaves that wait for their siblings.
            let mut waiting = [[0.0; PIECE]; DEPTH];
            let mut sum = [0.0; PIECE];
            for (leaf, row) in subtree.clone().enumerate() {
                let row = &rows[row * width..][columns.clone()];
                sum[..row.len()].copy_from_slice(row);
                let siblings = leaf.trailing_ones() as usize;
                for left in &waiting[..siblings] {
                    sum.iter_mut().zip(left).for_each(|(sum, x)| *sum += x);
                }
                waiting[siblings] = sum;
            }
            share(number, columns.start, &sum[..columns.len()]);
        }
    }
}

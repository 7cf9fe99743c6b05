//! Sums over a rank's leaves, added along the tree ([`gnnc_ir::program::leaves`]).
//!
//! A sum has a partial sum for each leaf, one after the other in memory. They are added in pairs, up to the largest subtrees
//! that the rank has; the sums of these are the rank's shares, which an all-reduce adds on.

use crate::arena::Span;
use crate::team::Team;
use gnnc_graph::LocalPart;
use gnnc_ir::program::leaves::{Subtree, leaves, owned, subtrees};
use std::ops::Range;

/// Floats of a partial sum that are added at a time; those of all leaves fit into a cache.
const PIECE: usize = 1024;

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
            subtrees: vec![0..1],
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

    /// Number of leaves.
    pub(crate) fn count(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Number of subtrees, each of which gives a share.
    pub(crate) fn shared(&self) -> usize {
        self.subtrees.len()
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
    /// their first float, and the piece. Pieces have whole rows of `width` floats.
    ///
    /// # Safety
    /// Nothing else uses `partials` meanwhile.
    pub(crate) unsafe fn add(
        &self,
        team: &Team,
        partials: Span,
        (floats, width): (usize, usize),
        share: &(dyn Fn(usize, usize, &[f32]) + Sync),
    ) {
        let piece = (PIECE / width.max(1)).max(1) * width.max(1);
        let work = (self.count() * floats) as u64;
        team.each(floats.div_ceil(piece), work, |n| {
            let first = n * piece;
            let len = piece.min(floats - first);
            let of_leaf = |leaf: usize| partials.part(leaf * floats + first, len);
            for (number, subtree) in self.subtrees.iter().enumerate() {
                let mut step = 1;
                while step < subtree.len() {
                    for left in subtree.clone().step_by(2 * step) {
                        // SAFETY: leaves and pieces are disjoint.
                        let (sum, x) =
                            unsafe { (of_leaf(left).write(), of_leaf(left + step).read()) };
                        sum.iter_mut().zip(x).for_each(|(sum, x)| *sum += x);
                    }
                    step *= 2;
                }
                // SAFETY: nothing writes it any more.
                share(number, first, unsafe { of_leaf(subtree.start).read() });
            }
        });
    }

    /// The shares of a few numbers, of which each leaf has a row: those of share 0, then those of share 1, and so on.
    pub(crate) fn shares(&self, team: &Team, mut rows: Vec<f32>, width: usize) -> Vec<f32> {
        let partials = Span {
            ptr: rows.as_mut_ptr(),
            len: rows.len(),
        };
        let found = std::sync::Mutex::new(vec![0.0; self.subtrees.len() * width]);
        let keep = |number: usize, first: usize, piece: &[f32]| {
            let mut found = found
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            found[number * width + first..][..piece.len()].copy_from_slice(piece);
        };
        // SAFETY: the rows are here only.
        unsafe { self.add(team, partials, (width, width), &keep) };
        found
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

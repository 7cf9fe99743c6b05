//! Moves tensors from one layout over the ranks to another.

use super::moves::{Block, Columns, Geometry, Side};
use super::plan::Plan;
use super::{CommStep, CommSteps, Listed, Rows, Words};
use crate::chunks::Set;
use crate::part::lists::List;
use crate::transport::Group;
use gnnc_ir::program::{Moved, instr};
use gnnc_ir::words::storage::Storage;

/// A redistribution on one rank.
pub(crate) struct Redistribution<'a> {
    pub(crate) geometry: Geometry,
    pub(crate) group: Group,
    /// For each rank, the numbers of its rows among those of all.
    pub(crate) ids: &'a [Vec<u32>],
    /// Which rows are moved.
    pub(crate) moved: Moved,
    /// The operand, from its first word on.
    pub(crate) from: Words,
    /// The result, row after row.
    pub(crate) to: Words,
    /// Storage of both.
    pub(crate) storage: Storage,
}

impl Plan<'_> {
    /// Redistribution: each rank gets its part of the moved rows in the new layout.
    pub(super) fn redistribute(&mut self, one: &instr::Redistribute) {
        let rank = self.own.in_group() as usize;
        let ids = self.own.part.moved(one.moved);
        let storage = self.own.program.buffer(one.to.buffer).storage;
        let from = self.own.words(one.from.at, self.what.iteration);
        let skipped = (one.from.offset as usize / storage.in_word() as usize).min(from.count);
        let moving = Redistribution {
            geometry: Geometry {
                how: one.how,
                stride: one.from.stride as usize,
                heads: one.heads as usize,
                width: one.width as usize,
                rank,
                ranks: ids.len(),
            },
            group: self.own.group,
            ids,
            moved: one.moved,
            from: from.part(skipped, from.count - skipped),
            to: self.own.words(one.to, self.what.iteration),
            storage,
        };
        if self.what.begins {
            moving.begin(self.steps);
        }
        if self.what.finishes {
            moving.finish(self.steps);
        }
    }
}

impl Redistribution<'_> {
    /// Sends each rank its part of the moved rows.
    pub(crate) fn begin(&self, steps: &mut CommSteps) {
        for (other, block) in self.geometry.sends() {
            let to = self.group.rank(other as u32);
            steps.send(to, [self.rows(&block, self.from)]);
        }
        for landing in self.geometry.landings() {
            if landing.own.is_none() {
                let from = self.group.rank(landing.from as u32);
                steps.expect(from, self.rows(&landing.to, self.to).floats());
            }
        }
        steps.round();
    }

    /// Fills the result with the rank's own part and the parts that others send.
    pub(crate) fn finish(&self, steps: &mut CommSteps) {
        steps.add(CommStep::Packed);
        if let Some(stride) = self.geometry.padded() {
            for rank in 0..self.geometry.ranks {
                let whole = Block {
                    rows: Side::Of(rank),
                    stride,
                    columns: Columns::one(0, stride),
                };
                steps.add(CommStep::Clear(self.rows(&whole, self.to)));
            }
        }
        for landing in self.geometry.landings() {
            let to = self.rows(&landing.to, self.to);
            match landing.own {
                Some(own) if to.floats() > 0 => {
                    let own = self.rows(&own, self.from);
                    steps.add(CommStep::Put(own, to, landing.write));
                }
                Some(_) => {}
                None => {
                    let from = self.group.rank(landing.from as u32);
                    steps.receive(from, [to], landing.write);
                }
            }
        }
    }

    /// The rows of a block of a matrix.
    fn rows(&self, block: &Block, at: Words) -> Rows {
        let block = block.words(self.storage);
        let rank = self.geometry.rank;
        let set = Set::of(self.moved);
        let (list, of) = match (block.rows, self.moved) {
            (Side::Own, _) => (set.map(|set| List::Places(set, rank as u32)), rank),
            (Side::Of(other), Moved::Level(level)) => {
                (Some(List::OfLevel(level, other as u32)), other)
            }
            (Side::Of(other), Moved::All | Moved::Rows(_) | Moved::New(..)) => {
                (Some(List::Moved(set, other as u32)), other)
            }
        };
        Rows {
            at,
            list: list.map(|list| Listed { list, first: 0 }),
            count: self.ids[of].len(),
            stride: block.stride,
            columns: block.columns,
            storage: self.storage,
        }
    }
}

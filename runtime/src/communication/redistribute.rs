//! Moves tensors from one layout over the ranks to another.

use super::encoding::Encoding;
use super::moves::{Block, Columns, Geometry, Side};
use super::plan::Plan;
use super::{CommStep, CommSteps, Listed, Rows, Words};
use crate::chunks::Set;
use crate::part::lists::{List, Over};
use gnnc_ir::graph::op::Redistribute;
use gnnc_ir::program::{Group, Moved, instr};
use gnnc_ir::words::storage::Storage;
use gnnc_ir::words::types::{Level, Of};

/// A redistribution on one rank.
pub(crate) struct Redistribution<'a> {
    pub(crate) geometry: Geometry,
    pub(crate) group: Group,
    /// The numbers of the rows of each part among those of all; or, of a level, of each rank of the
    /// group.
    pub(crate) ids: &'a [Vec<u32>],
    /// Which rows are moved.
    pub(crate) moved: Moved,
    /// The operand, from its first word on.
    pub(crate) from: Words,
    /// The result, row after row.
    pub(crate) to: Words,
    /// Storage of both.
    pub(crate) storage: Storage,
    /// How messages carry the rows, if not as they are, and the iteration.
    pub(crate) encoded: Option<(instr::Encoded, u32)>,
    /// Whether rows of all vertices are those of a group.
    pub(crate) in_groups: bool,
}

impl Plan<'_> {
    /// Redistribution: each rank gets its part of the moved rows in the new layout.
    pub(super) fn redistribute(&mut self, one: &instr::Redistribute) {
        let group = self.own.group(one.among(&self.own.program));
        let rank = group.place(self.own.number) as usize;
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
                ranks: group.ranks as usize,
            },
            group,
            ids,
            moved: one.moved,
            from: from.part(skipped, from.count - skipped),
            to: self.own.words(one.to, self.what.iteration),
            storage,
            encoded: one.encoded.map(|encoded| (encoded, self.what.iteration)),
            in_groups: self.own.program.in_groups(),
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
            steps.send(to, [self.rows(&block, self.from, other)]);
        }
        let rank = self.geometry.rank;
        for landing in self.geometry.landings() {
            if landing.own.is_none() {
                let from = self.group.rank(landing.from as u32);
                steps.expect(from, self.rows(&landing.to, self.to, rank).message_floats());
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
                steps.add(CommStep::Clear(self.rows(
                    &whole,
                    self.to,
                    self.geometry.rank,
                )));
            }
        }
        let rank = self.geometry.rank;
        for landing in self.geometry.landings() {
            let to = self.rows(&landing.to, self.to, rank);
            match landing.own {
                Some(own) if to.floats() > 0 => {
                    let own = self.rows(&own, self.from, rank);
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

    /// The rows of a block of a matrix, for a rank of the group.
    fn rows(&self, block: &Block, at: Words, rank: usize) -> Rows {
        let block = block.words(self.storage);
        let place = match block.rows {
            Side::Own => self.geometry.rank,
            Side::Of(other) => other,
        } as u32;
        let set = Set::of(self.moved);
        let part = self.group.part(place);
        let (list, of) = match (block.rows, self.moved) {
            (Side::Own, Moved::Level(_)) => (None, place),
            (Side::Of(_), Moved::Level(level)) => (Some(List::OfLevel(level, place)), place),
            (Side::Own, Moved::All | Moved::Rows(_) | Moved::New(..)) => {
                (set.map(|set| List::Places(set, part)), part)
            }
            (Side::Of(_), Moved::All | Moved::Rows(_) | Moved::New(..)) => {
                (Some(List::Moved(set, part)), part)
            }
        };
        Rows {
            at,
            list: list.map(|list| Listed { list, first: 0 }),
            count: self.ids[of as usize].len(),
            stride: block.stride,
            columns: block.columns,
            storage: self.storage,
            encoding: self.encoding(block.rows, rank),
        }
    }

    /// How messages to a rank carry rows of a matrix of own rows, or of all.
    fn encoding(&self, rows: Side, to: usize) -> Option<Encoding> {
        let (encoded, iteration) = self.encoded.as_ref()?;
        // Ranks get the same row of a vertex, or columns of their own, or they send columns or shares of their own.
        let part = match self.geometry.how {
            Redistribute::Replicate | Redistribute::Own => 0,
            Redistribute::Split(_) => to as u32 + 1,
            Redistribute::Join(_) | Redistribute::Reduce => self.geometry.rank as u32 + 1,
        };
        let level = |number, of| Over::Level(Level { number, of });
        // Rows of all vertices are numbered by vertex.
        let of = match (rows, self.moved) {
            (Side::Own, Moved::Level(number)) => Some(level(number, Of::One)),
            (Side::Of(_), Moved::Level(number)) => Some(level(number, Of::All)),
            (Side::Own, Moved::All | Moved::Rows(_) | Moved::New(..)) => Some(Over::Own),
            (Side::Of(_), Moved::All | Moved::Rows(_) | Moved::New(..)) => {
                self.in_groups.then_some(Over::All)
            }
        };
        let vertices = of.map(|of| Listed {
            list: List::Ids(of),
            first: 0,
        });
        Some(Encoding::of(encoded, *iteration, part, vertices))
    }
}

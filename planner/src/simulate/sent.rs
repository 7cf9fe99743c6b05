//! Messages that are in flight at once.

use crate::parts::Parts;
use gnnc_ir::graph::op::Redistribute;
use gnnc_ir::program::instr::{self, Collective, Encoded};
use gnnc_ir::program::leaves::{Additions, leaves, most_shares};
use gnnc_ir::program::traffic::chunk;
use gnnc_ir::program::{Among, Instr, Moved, Program, RankSizes, Ref};
use gnnc_ir::words::sampling::MAX_HOPS;

/// Messages in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sent {
    /// Words per row that its owner sends to those who read it.
    pub(super) exchanged: u64,
    /// Words per row that those who read it send to its owner.
    pub(super) returned: u64,
    /// Words per row of a group that its ranks exchange with those that have the same slice of others.
    pub(super) of_groups: u64,
    /// Words per row sent by redistributions.
    pub(super) redistributed: u64,
    /// Floats of all-reduce messages to another rank, in the mean.
    pub(super) reduced: u64,
    /// Floats of all-reduces that a rank sums.
    pub(super) summed: u64,
    /// Words per row of a batch that other ranks own.
    pub(super) fetched: u64,
    /// Words of the rows of other ranks that a rank keeps, and that it sends to others to keep.
    pub(super) cached: u64,
    /// Words per row of a level sent by redistributions, by level.
    pub(super) of_levels: [u64; MAX_HOPS + 1],
    /// Levels that other ranks get.
    pub(super) shared: Option<Shared>,
    /// Edges that other ranks draw.
    pub(super) drawn: Option<instr::DrawEdges>,
}

/// Words of a halo row in a message, or in the larger one of several: in two tiers, rows are not encoded inside nodes.
fn halo_words(program: &Program, at: Ref, encoded: &Option<Encoded>) -> u64 {
    let buffer = program.buffer(at.buffer);
    u64::from(match program.node_ranks {
        None => Encoded::row_words(encoded, buffer),
        Some(_) => buffer.row_words(),
    })
}

/// Sums of an all-reduce.
pub(super) struct Tree {
    /// Most that a rank gives.
    pub(super) shares: u64,
    /// Those that a rank keeps at once, of the chunk that it sums.
    pub(super) slots: u64,
}

impl Tree {
    /// One each, or those of subtrees of leaves.
    pub(super) fn of(equal_bits: bool, parts: &Parts) -> Self {
        let vertices = parts.sizes.first().map_or(0, |sizes| sizes.vertices);
        let (leaves, ranks) = (leaves(vertices), parts.sizes.len() as u32);
        match equal_bits && leaves >= ranks {
            false => Self {
                shares: 1,
                slots: 1,
            },
            true => Self {
                shares: u64::from(most_shares(leaves, ranks)),
                slots: Additions::new(leaves, ranks).slots as u64,
            },
        }
    }
}

/// Levels that a rank gives to so many others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shared {
    share: instr::ShareLevels,
    others: u64,
}

impl Sent {
    pub(super) fn of(instr: &Instr, program: &Program) -> Self {
        let mut sent = Self::default();
        match instr.collective() {
            Some(Collective::HaloExchange(instr::HaloExchange {
                buffer, encoded, ..
            })) => {
                let words = halo_words(program, *buffer, encoded);
                match program.buffer(buffer.buffer).extent.of_whole_graph() {
                    true => sent.of_groups = words,
                    false => sent.exchanged = words,
                }
            }
            Some(Collective::HaloReduce(instr::HaloReduce {
                buffer, encoded, ..
            })) => {
                let words = halo_words(program, *buffer, encoded);
                match program.buffer(buffer.buffer).extent.of_whole_graph() {
                    true => sent.of_groups = words,
                    false => sent.returned = words,
                }
            }
            Some(Collective::AllReduce(sum)) => {
                let ranks = program.group_ranks(sum.among);
                sent.summed = chunk(sum.floats(program), ranks, 0).end;
                let others = u64::from(program.stage_ranks().saturating_sub(1).max(1));
                let all = sent.summed.saturating_mul(u64::from(ranks - 1));
                sent.reduced = all.div_ceil(others);
            }
            Some(Collective::Redistribute(one)) => {
                let instr::Redistribute {
                    how,
                    to,
                    heads,
                    width,
                    moved,
                    encoded,
                    ..
                } = one;
                let others = u64::from(program.group_ranks(one.among(program)) - 1);
                let (whole, storage) = (heads * width, program.buffer(to.buffer).storage);
                let words = |numbers| u64::from(Encoded::words(encoded, numbers, storage));
                // Every other rank gets the whole row, or each rank gets a slice of it.
                let columns = match (how, encoded) {
                    (Redistribute::Replicate | Redistribute::Reduce, _) => others * words(whole),
                    (_, None) => words(whole),
                    (_, Some(_)) => others * words(whole.div_ceil(others as u32 + 1)),
                };
                if let Moved::Level(level) = moved {
                    sent.of_levels[usize::from(*level)] = columns;
                    return sent;
                }
                // As many words as this many columns of all own rows.
                let chunks = moved.chunk().map_or(1, |chunk| u64::from(chunk.of.max(1)));
                sent.redistributed = columns.div_ceil(chunks);
            }
            Some(Collective::Shift(shift)) => {
                let others = u64::from(program.stage_ranks().saturating_sub(1).max(1));
                sent.reduced = shift.floats(program).div_ceil(others);
            }
            Some(Collective::DrawEdges(draw)) => sent.drawn = Some(*draw),
            Some(Collective::AskRows(_)) => sent.fetched = 1,
            Some(Collective::ShareLevels(share)) => {
                sent.shared = Some(Shared {
                    share: *share,
                    others: u64::from(program.group_ranks(Among::Slices) - 1),
                });
            }
            Some(Collective::CacheRows(instr::CacheRows { to, .. })) => {
                let cache = program.buffer(to.buffer);
                let rows =
                    cache.slot_elements(&RankSizes::default()) / u64::from(cache.columns.max(1));
                sent.cached = rows * u64::from(cache.row_words());
            }
            Some(Collective::ServeRows(instr::ServeRows { to, encoded, .. })) => {
                sent.fetched = u64::from(Encoded::row_words(encoded, program.buffer(to.buffer)));
            }
            Some(Collective::PushRows(instr::PushRows { from, encoded, .. })) => {
                sent.fetched = u64::from(Encoded::row_words(encoded, program.buffer(from.buffer)));
            }
            None => {}
        }
        sent
    }

    pub(super) fn and(self, other: &Self) -> Self {
        Self {
            exchanged: self.exchanged.saturating_add(other.exchanged),
            returned: self.returned.saturating_add(other.returned),
            of_groups: self.of_groups.saturating_add(other.of_groups),
            redistributed: self.redistributed.saturating_add(other.redistributed),
            reduced: self.reduced.saturating_add(other.reduced),
            summed: self.summed.saturating_add(other.summed),
            fetched: self.fetched.saturating_add(other.fetched),
            cached: self.cached.saturating_add(other.cached),
            of_levels: std::array::from_fn(|n| self.of_levels[n] + other.of_levels[n]),
            shared: self.shared.or(other.shared),
            drawn: self.drawn.or(other.drawn),
        }
    }

    /// Words of rows and lists of levels that a rank sends.
    pub(super) fn words_of_levels(&self, sizes: &RankSizes) -> u64 {
        let rows = self.of_levels.iter().zip(&sizes.batch.levels);
        let rows: u64 = rows.map(|(words, rows)| words * rows).sum();
        // As much is asked of a rank as it asks of others.
        let drawn = self.drawn.map_or(0, |draw| draw.numbers(sizes));
        let rows = rows + drawn;
        let Some(Shared { share, others }) = self.shared else {
            return rows;
        };
        rows + others * share.numbers(sizes)
    }
}

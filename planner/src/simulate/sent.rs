//! Messages that are in flight at once.

use gnnc_ir::graph::op::Redistribute;
use gnnc_ir::program::instr::{self, Collective};
use gnnc_ir::program::{Instr, Moved, Program, RankSizes};
use gnnc_ir::words::sampling::MAX_HOPS;

/// Messages in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sent {
    /// Words per row that its owner sends to those who read it.
    pub(super) exchanged: u64,
    /// Words per row that those who read it send to its owner.
    pub(super) returned: u64,
    /// Words per row sent by redistributions.
    pub(super) redistributed: u64,
    /// Floats of all-reduce messages.
    pub(super) reduced: u64,
    /// Words per row of a batch that other ranks own.
    pub(super) fetched: u64,
    /// Words per row of a level sent by redistributions, by level.
    pub(super) of_levels: [u64; MAX_HOPS + 1],
    /// Levels that other ranks get.
    pub(super) shared: Option<instr::ShareLevels>,
}

impl Sent {
    pub(super) fn of(instr: &Instr, program: &Program) -> Self {
        let mut sent = Self::default();
        match instr.collective() {
            Some(Collective::HaloExchange(instr::HaloExchange { buffer, .. })) => {
                sent.exchanged = u64::from(program.buffer(buffer.buffer).row_words());
            }
            Some(Collective::HaloReduce(instr::HaloReduce { buffer, .. })) => {
                sent.returned = u64::from(program.buffer(buffer.buffer).row_words());
            }
            Some(Collective::AllReduce(sum)) => sent.reduced = sum.floats(program),
            Some(Collective::Redistribute(instr::Redistribute {
                how,
                to,
                heads,
                width,
                moved,
                ..
            })) => {
                let others = u64::from(program.ranks.saturating_sub(1));
                // Each rank gets a slice of each row, or every other rank gets the whole row.
                let times = match how {
                    Redistribute::Replicate | Redistribute::Reduce => others,
                    _ => 1,
                };
                let columns = times * u64::from(*heads) * u64::from(*width);
                let in_word = program.buffer(to.buffer).storage.in_word();
                let columns = columns / u64::from(in_word);
                if let Moved::Level(level) = moved {
                    sent.of_levels[usize::from(*level)] = columns;
                    return sent;
                }
                // As many words as this many columns of all own rows.
                let chunks = moved.chunk().map_or(1, |chunk| u64::from(chunk.of.max(1)));
                sent.redistributed = columns.div_ceil(chunks);
            }
            Some(Collective::AskRows(_)) => sent.fetched = 1,
            Some(Collective::ShareLevels(share)) => sent.shared = Some(*share),
            Some(Collective::ServeRows(instr::ServeRows { to, .. })) => {
                sent.fetched = u64::from(program.buffer(to.buffer).row_words());
            }
            None => {}
        }
        sent
    }

    pub(super) fn and(self, other: &Self) -> Self {
        Self {
            exchanged: self.exchanged.saturating_add(other.exchanged),
            returned: self.returned.saturating_add(other.returned),
            redistributed: self.redistributed.saturating_add(other.redistributed),
            reduced: self.reduced.saturating_add(other.reduced),
            fetched: self.fetched.saturating_add(other.fetched),
            of_levels: std::array::from_fn(|n| self.of_levels[n] + other.of_levels[n]),
            shared: self.shared.or(other.shared),
        }
    }

    /// Words of rows and lists of levels that a rank sends to so many others.
    pub(super) fn words_of_levels(&self, sizes: &RankSizes, others: u64) -> u64 {
        let rows = self.of_levels.iter().zip(&sizes.batch.levels);
        let rows: u64 = rows.map(|(words, rows)| words * rows).sum();
        rows + others * self.shared.map_or(0, |share| share.numbers(sizes))
    }
}

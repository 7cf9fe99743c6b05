//! Bytes that a program sends, derived from its instructions.

mod host;

pub use host::{move_words, moved};

use crate::graph::op::{Redistribute, Slice};
use crate::kernel::End;
use crate::program::instr;
use crate::program::{Instr, Program, RankSizes, Ref, Returned, Skip};
use crate::words::types::share;
use std::ops::Range;

/// Payload bytes sent by all ranks together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes of halo exchanges.
    pub halo_exchange: u64,
    /// Bytes of halo reductions.
    pub halo_reduce: u64,
    /// Bytes of all-reduces.
    pub all_reduce: u64,
    /// Bytes of splits, joins, replications and reductions of rows.
    pub redistribute: u64,
    /// Bytes between the stages of a pipeline.
    pub stage_message: u64,
    /// Bytes of the rows of sampled batches, of their ids, and of levels that ranks share.
    pub fetch: u64,
    /// Bytes that move with models from rank to rank.
    pub shift: u64,
    /// Bytes of halo exchanges and reductions that cross between nodes, as far as [`Reads`] says.
    pub crossing: u64,
    /// Bytes of all instructions.
    pub total_bytes: u64,
}

/// How many rows ranks read from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// For each rank, its own rows that others read, counted once per reader.
    pub rows: Vec<u64>,
    /// Pairs of an owner and a rank that reads some of its rows.
    pub pairs: u64,
    /// Rows that cross between nodes; 0 if nodes are not known.
    pub crossing: u64,
    /// Targets of others in the halos of ranks: rows of an exchange of targets, and partial sums of a reduction of them.
    pub sums: u64,
    /// Those of them that cross between nodes.
    pub crossing_sums: u64,
    /// Rows that groups of ranks read of each other, if groups divide the vertices: each rank of a group sends its slice.
    pub of_groups: u64,
    /// Those of them that cross between nodes.
    pub crossing_groups: u64,
}

impl Reads {
    /// Counts reads, given for each owner the number of rows that each rank reads.
    pub fn by_owner<'a>(readers: impl Iterator<Item = &'a [u64]>) -> Self {
        let mut all = Self::default();
        for rows in readers {
            all.rows.push(rows.iter().sum());
            all.pairs += rows.iter().filter(|rows| **rows > 0).count() as u64;
        }
        all
    }

    /// Rows of an exchange of the sources of edges, or of the targets.
    pub fn of(&self, end: End) -> u64 {
        match end {
            End::Src => self.total(),
            End::Dst => self.sums,
        }
    }

    /// Rows of such an exchange that cross between nodes.
    pub fn crossing_of(&self, end: End) -> u64 {
        match end {
            End::Src => self.crossing,
            End::Dst => self.crossing_sums,
        }
    }

    /// Rows that ranks read without owning them, all ranks together.
    pub fn total(&self) -> u64 {
        self.rows.iter().sum()
    }
}

/// The bytes that instructions send. For a pipeline, `reads` and `sizes` cover the ranks of one
/// stage, and so does the result. `sizes` has one entry per rank (it may be empty if nothing is
/// redistributed). A skippable exchange counts its mean per epoch, or, if values decide, its
/// full bytes.
pub fn traffic(instrs: &[Instr], program: &Program, reads: &Reads, sizes: &[RankSizes]) -> Traffic {
    let mut sum = Traffic::default();
    for instr in instrs {
        instr.traffic(program, reads, sizes, &mut sum);
    }
    let rows = sum.halo_exchange + sum.halo_reduce + sum.redistribute;
    let rows = rows + sum.stage_message + sum.fetch + sum.shift;
    sum.total_bytes = rows.saturating_add(sum.all_reduce);
    sum
}

/// Whether a block is sent: given the exchange with these copies, the iteration of the
/// enclosing loop, and the block's rank.
pub type Sent<'a> = dyn Fn(&Skip, u32, u32) -> bool + 'a;

/// Bytes that instructions send in one epoch beyond what [`traffic`] says (may be negative),
/// given which blocks are `sent`.
pub fn beyond(instrs: &[Instr], program: &Program, reads: &Reads, sent: &Sent) -> i64 {
    let mut more = 0;
    let mut add = |buffer, skip: &Skip, count| {
        let row = row_bytes(program, buffer);
        let mean = exchanged(reads.total() * row, Some(skip));
        for iteration in 0..count {
            let blocks = reads.rows.iter().zip(0..);
            let blocks = blocks.filter(|(_, rank)| sent(skip, iteration, *rank));
            let bytes: u64 = blocks.map(|(rows, _)| rows * row).sum();
            more += bytes as i64 - mean as i64;
        }
    };
    for_each_skip(instrs, &mut add);
    for_each_returned(instrs, &mut |buffer, skip, count| {
        add(buffer, &skip.of, count)
    });
    more
}

/// Visits the skippable exchanges, with the number of iterations that each runs.
pub fn for_each_skip(instrs: &[Instr], visit: &mut dyn FnMut(Ref, &Skip, u32)) {
    for_each_whole(instrs, 1, &mut |instr, times| {
        if let Instr::HaloExchange(instr::HaloExchange { buffer, skip, .. }) = instr {
            skip.iter().for_each(|skip| visit(*buffer, skip, times));
        }
    });
}

/// Visits the ways back of skippable exchanges, with the number of iterations that each runs.
pub fn for_each_returned(instrs: &[Instr], visit: &mut dyn FnMut(Ref, &Returned, u32)) {
    for_each_whole(instrs, 1, &mut |instr, times| {
        if let Instr::HaloReduce(instr::HaloReduce { buffer, skip, .. }) = instr {
            skip.iter().for_each(|skip| visit(*buffer, skip, times));
        }
    });
}

/// Visits instructions; split ones once.
fn for_each_whole(instrs: &[Instr], times: u32, visit: &mut dyn FnMut(&Instr, u32)) {
    for instr in instrs {
        if let Instr::Repeat(instr::Repeat { count, body, .. }) = instr {
            for_each_whole(body, times * count, visit);
        } else if !matches!(instr, Instr::Finish(_)) {
            visit(instr.whole(), times);
        }
    }
}

/// Mean bytes of an exchange per epoch.
pub(in crate::program) fn exchanged(bytes: u64, skip: Option<&Skip>) -> u64 {
    bytes.div_ceil(skip.map_or(1, |skip| skip.rule.period()))
}

/// Floats worth a message of their own in an all-reduce: sending and waking cost more than this
/// many additions.
const CHUNK: u64 = 4096;

/// The floats of an all-reduced message of `floats` that a rank sums for all. Of a short
/// message, the first ranks sum at most `CHUNK` floats each and the others none, so that a
/// thousand ranks do not exchange a million messages of a few floats. Chunks are consecutive,
/// and the non-empty ones differ by at most one float.
pub fn chunk(floats: u64, ranks: u32, rank: u32) -> Range<u64> {
    let owners = floats.div_ceil(CHUNK).clamp(1, u64::from(ranks.max(1)));
    let rank = u64::from(rank).min(owners);
    let (size, longer) = (floats / owners, floats % owners);
    let begin = |rank: u64| rank * size + rank.min(longer);
    begin(rank)..begin((rank + 1).min(owners))
}

/// Floats that rank `from` sends to rank `to` in a redistribution, given the `heads x width`
/// columns that the tensor has by rows, and each rank's rows.
pub fn redistribute_floats(
    how: Redistribute,
    (heads, width): (u32, u32),
    ranks: u32,
    rows: &[u64],
    (from, to): (u32, u32),
) -> u64 {
    let rows = |rank: u32| rows.get(rank as usize).copied().unwrap_or(0);
    let all = u64::from(heads) * u64::from(width);
    let slice = |slice: Slice, rank: u32| {
        share(slice.of, ranks, rank).len() as u64 * (all / u64::from(slice.of.max(1)))
    };
    match how {
        _ if from == to => 0,
        Redistribute::Own => 0,
        Redistribute::Split(s) => rows(from) * slice(s, to),
        Redistribute::Join(s) => rows(to) * slice(s, from),
        Redistribute::Replicate => rows(from) * all,
        Redistribute::Reduce => rows(to) * all,
    }
}

/// What all ranks together send in a redistribution, given each rank's rows, and `row`, which says what a row of so many
/// floats takes.
pub fn redistribute_total(
    how: Redistribute,
    (heads, width): (u32, u32),
    ranks: u32,
    rows: &[u64],
    row: &dyn Fn(u32) -> u64,
) -> u64 {
    let vertices: u64 = rows.iter().sum();
    let all = heads * width;
    match how {
        Redistribute::Split(slice) | Redistribute::Join(slice) => {
            let each = all / slice.of.max(1);
            let of_rank = |rank: u32| row(share(slice.of, ranks, rank).len() as u32 * each);
            let ranks = (0..ranks).zip(rows);
            ranks
                .map(|(rank, own)| of_rank(rank) * (vertices - own))
                .sum()
        }
        Redistribute::Replicate | Redistribute::Reduce => {
            u64::from(ranks.saturating_sub(1)) * vertices * row(all)
        }
        Redistribute::Own => 0,
    }
}

/// Bytes per row of a buffer.
pub(in crate::program) fn row_bytes(program: &Program, at: Ref) -> u64 {
    let buffer = program.buffer(at.buffer);
    u64::from(buffer.columns) * buffer.storage.bytes()
}

impl Traffic {
    /// Adds the bytes of `other`.
    pub fn include(&mut self, other: Self) {
        self.add(other, 1);
    }

    /// Adds the bytes of `other`, `times` times.
    pub(in crate::program) fn add(&mut self, other: Self, times: u64) {
        self.halo_exchange += times * other.halo_exchange;
        self.halo_reduce += times * other.halo_reduce;
        self.redistribute += times * other.redistribute;
        self.stage_message += times * other.stage_message;
        self.fetch += times * other.fetch;
        self.shift += times * other.shift;
        self.crossing += times * other.crossing;
        self.all_reduce = other
            .all_reduce
            .saturating_mul(times)
            .saturating_add(self.all_reduce);
        self.total_bytes = other
            .total_bytes
            .saturating_mul(times)
            .saturating_add(self.total_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Buffer, BufferId, Extent, Ref, Role};

    #[test]
    fn chunks_cover_a_message_evenly() {
        let lengths = (0..20)
            .chain(CHUNK - 2..CHUNK + 2)
            .chain(7 * CHUNK..7 * CHUNK + 9);
        for floats in lengths {
            for ranks in 1..7 {
                let chunks: Vec<_> = (0..ranks).map(|r| chunk(floats, ranks, r)).collect();
                assert_eq!(
                    (chunks[0].start, chunks[ranks as usize - 1].end),
                    (0, floats)
                );
                assert!(chunks.windows(2).all(|w| w[0].end == w[1].start));
                let sizes = chunks.iter().map(|c| c.end - c.start);
                let filled = sizes.clone().filter(|&size| size > 0);
                let least = filled.clone().min().unwrap_or(0);
                assert!(filled.clone().all(|size| size <= least + 1));
                let owners = floats.div_ceil(CHUNK).min(u64::from(ranks));
                assert_eq!(filled.count() as u64, owners);
                assert!(sizes.clone().take(owners as usize).all(|size| size > 0));
            }
        }
    }

    #[test]
    fn totals_are_sums_over_pairs() {
        use crate::kernel::Axis;
        let rows = [5, 0, 7, 4];
        for (axis, of) in [(Axis::Heads, 3), (Axis::Width, 10)] {
            let slice = Slice::new(axis, of, 4, 0);
            for how in [
                Redistribute::Split(slice),
                Redistribute::Join(slice),
                Redistribute::Replicate,
                Redistribute::Reduce,
                Redistribute::Own,
            ] {
                let pairs = (0..4).flat_map(|i| (0..4).map(move |j| (i, j)));
                let floats = |pair| redistribute_floats(how, (3, 10), 4, &rows, pair);
                let total = redistribute_total(how, (3, 10), 4, &rows, &u64::from);
                assert_eq!(pairs.map(floats).sum::<u64>(), total, "{how:?}");
            }
        }
        // With 16 rows, each rank keeps its own share: the closed form if everything divides
        // evenly.
        let even = [4; 4];
        let split = Redistribute::Split(Slice::new(Axis::Width, 8, 4, 1));
        assert_eq!(
            redistribute_total(split, (1, 8), 4, &even, &u64::from),
            3 * 16 * 8 / 4
        );
    }

    #[test]
    fn loops_multiply() {
        let buffer = |extent, columns, slots| Buffer {
            name: String::new(),
            extent,
            columns,
            slots,
            role: Role::Temp,
            storage: Default::default(),
        };
        let program = Program {
            ranks: 2,
            buffers: vec![buffer(Extent::Local, 5, 1), buffer(Extent::Fixed(3), 4, 2)],
            ..Program::default()
        };
        let local = Ref::first(BufferId(0));
        let body = vec![
            Instr::HaloExchange(instr::HaloExchange::of(local)),
            Instr::HaloReduce(instr::HaloReduce::of(local)),
        ];
        let instrs = [
            Instr::HaloExchange(instr::HaloExchange::of(local)),
            Instr::Repeat(instr::Repeat {
                count: 7,
                reverse: true,
                body,
            }),
            Instr::AllReduce(instr::AllReduce::whole(vec![BufferId(1)])),
        ];
        let reads = Reads::by_owner([&[0, 3][..]].into_iter());
        let traffic = traffic(&instrs, &program, &reads, &[]);
        assert_eq!(traffic.halo_exchange, 8 * 3 * 5 * 4);
        assert_eq!(traffic.halo_reduce, 7 * 3 * 5 * 4);
        assert_eq!(traffic.all_reduce, 2 * 24 * 4);
        assert_eq!(traffic.total_bytes, (15 * 15 + 48) * 4);
    }

    /// Ranks with 3 rows and 1 row, and an exchange in a loop of 5: rank 0's 3 rows are sent in
    /// even epochs.
    #[test]
    fn what_is_left_out_is_known_epoch_by_epoch() {
        use crate::program::Skip;
        let buffer = |extent, slots, role| Buffer {
            name: String::new(),
            extent,
            columns: 2,
            slots,
            role,
            storage: Default::default(),
        };
        let program = Program {
            ranks: 2,
            buffers: vec![
                buffer(Extent::Local, 1, Role::Temp),
                buffer(Extent::Halo, 5, Role::History(0)),
            ],
            ..Program::default()
        };
        let reads = Reads::by_owner([&[0, 3][..], &[1, 0][..]].into_iter());
        assert_eq!((reads.total(), reads.pairs), (4, 2));
        let bytes = |text: &str, epoch: u64, back: bool| {
            let skip = Skip {
                rule: text.parse().unwrap(),
                copies: Ref::first(BufferId(1)),
            };
            let mut body = vec![Instr::HaloExchange(instr::HaloExchange {
                skip: Some(skip),
                ..instr::HaloExchange::of(Ref::first(BufferId(0)))
            })];
            if back {
                let of = skip;
                body.push(Instr::HaloReduce(instr::HaloReduce {
                    skip: Some(Returned { of, left: None }),
                    ..instr::HaloReduce::of(Ref::first(BufferId(0)))
                }));
            }
            let step = [Instr::Repeat(instr::Repeat {
                count: 5,
                reverse: false,
                body,
            })];
            let mean = traffic(&step, &program, &reads, &[]).total_bytes;
            let sent = |skip: &Skip, _, rank| skip.rule.decided(epoch, rank) != Some(false);
            (mean, mean as i64 + beyond(&step, &program, &reads, &sent))
        };
        assert_eq!(
            [0, 1, 2].map(|e| bytes("fixed:1", e, false)),
            [(80, 160), (80, 0), (80, 160)]
        );
        assert_eq!(
            [0, 1, 2].map(|e| bytes("adaptive:1", e, false)),
            [(80, 160), (80, 40), (80, 120)]
        );
        // Rows return as they came, without flags.
        assert_eq!(bytes("adaptive:1", 1, true), (160, 80));
        assert_eq!(bytes("gap:0.1", 1, true), (360, 360));
        assert_eq!(bytes("fixed:0", 7, false), (160, 160));
        // One float each way per iteration.
        assert_eq!(
            [0, 1].map(|e| bytes("gap:0.1", e, false)),
            [(200, 200), (200, 200)]
        );
    }
}

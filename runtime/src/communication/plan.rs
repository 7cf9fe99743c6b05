//! Which steps a communication instruction is.

use super::encoding::Encoding;
use super::moves::Write;
use super::{CommStep, CommSteps, Listed, Memory, Rows, Words};
use crate::clocks::Squares;
use crate::fault::Fault;
use crate::part::batch::Batch;
use crate::part::lists::{List, Over};
use crate::rank::Rank;
use gnnc_ir::kernel::End;
use gnnc_ir::program::instr::{AllReduce, Encoded, MOST_LAG, Shift};
use gnnc_ir::program::traffic::chunk;
use gnnc_ir::program::{Group, Instr, Ref, StageMessage, Transfer};
use std::ops::Range;

/// Tags of programs are below this bit.
const BATCH_BITS: u32 = 20;

/// What a plan depends on besides the rank and the instruction.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    pub(crate) iteration: u32,
    pub(crate) epoch: u64,
    /// What was measured of [`Rank::compared`] rows.
    pub(crate) squares: Option<Squares>,
}

/// A communication, or half of it.
pub(crate) struct Half<'a> {
    /// The communication.
    pub(crate) whole: &'a Instr,
    /// The tag of its messages.
    pub(crate) tag: u32,
    /// Whether it packs and sends.
    pub(crate) begins: bool,
    /// Whether it receives and unpacks.
    pub(crate) finishes: bool,
}

/// A communication being planned.
pub(super) struct Plan<'a> {
    pub(super) own: &'a Rank,
    pub(super) steps: &'a mut CommSteps,
    pub(super) what: What,
}

/// What is planned of a communication.
#[derive(Clone, Copy)]
pub(super) struct What {
    pub(super) iteration: u32,
    /// Whether it packs and sends.
    pub(super) begins: bool,
    /// Whether it receives and unpacks.
    pub(super) finishes: bool,
}

impl Rank {
    /// Replaces `steps` by those of a communication instruction, or of the half that it is. Returns
    /// whether it communicates. The plan decides which blocks are left out, and updates their clocks.
    ///
    /// # Errors
    /// If the instruction does not fit the rank, or reads rows its rule forbids.
    pub(crate) fn plan(
        &mut self,
        instr: &Instr,
        now: Now,
        steps: &mut CommSteps,
    ) -> Result<bool, Fault> {
        steps.clear();
        let (iteration, epoch) = (now.iteration, now.epoch);
        let Half {
            whole,
            tag,
            begins,
            finishes,
        } = self.half(instr);
        steps.tag = tag;
        let what = What {
            iteration,
            begins,
            finishes,
        };
        if let Instr::HaloExchange(one) = whole
            && let Some(skip) = &one.skip
        {
            let exchange = self.skippable(one.buffer, skip, iteration, epoch)?;
            if begins {
                self.decide(&exchange, now.squares)?;
                let own = &*self;
                Plan { own, steps, what }.leave_out(one.buffer, skip, &exchange)?;
            }
            // The first half reads the clocks as they were before.
            if finishes {
                self.learn(&exchange)?;
                let own = &*self;
                Plan { own, steps, what }.fill_in(one.buffer, skip, &exchange)?;
            }
            return Ok(true);
        }
        let own = &*self;
        let mut plan = Plan { own, steps, what };
        if let Instr::HaloExchange(one) = whole {
            let matrix = plan.matrix(one.buffer);
            let of = plan.exchanged(one.buffer, one.end).of;
            let sent = plan.encoded_of(matrix, &one.encoded, false, of);
            match (own.part.routes(one.end), one.end) {
                (Some(routes), end) => plan.exchange_in_tiers([matrix, sent], end, routes),
                (None, _) => plan.exchange(sent, plan.exchanged(one.buffer, one.end)),
            }
        } else if let Instr::HaloReduce(one) = whole {
            match &one.skip {
                Some(skip) => {
                    let exchange = own.skippable(one.buffer, &skip.of, iteration, epoch)?;
                    plan.returning(one.buffer, skip, &exchange)?;
                }
                None => {
                    let matrix = plan.matrix(one.buffer);
                    let of = plan.exchanged(one.buffer, one.end).of;
                    let sent = plan.encoded_of(matrix, &one.encoded, true, of);
                    match (own.part.routes(one.end), one.end) {
                        (Some(routes), end) => plan.reduce_in_tiers([matrix, sent], end, routes),
                        (None, end) => {
                            let exchanged = plan.exchanged(one.buffer, end);
                            plan.reduce(sent, exchanged, |_| true, true);
                        }
                    }
                }
            }
        } else if let Instr::AllReduce(one) = whole {
            plan.all_reduce(one);
        } else if let Instr::Redistribute(one) = whole {
            plan.redistribute(one);
        } else if let Instr::ServeRows(one) = whole {
            plan.serve(
                [one.from, one.to],
                one.cache,
                &one.encoded,
                one.fills_first(),
            );
        } else if let Instr::PushRows(one) = whole {
            plan.push(one);
        } else if let Instr::CacheRows(one) = whole {
            plan.serve([one.from, one.to], None, &None, false);
        } else if let Instr::Shift(one) = whole {
            plan.shift(one);
        } else if let Instr::Send(stage_message) = whole {
            plan.send(stage_message)?;
        } else if let Instr::Receive(stage_message) = whole {
            plan.receive(stage_message)?;
        } else {
            return Ok(false);
        }
        let halo = matches!(whole, Instr::HaloExchange(_) | Instr::HaloReduce(_));
        if let Some(routes) = self.part.routes(End::Src).filter(|_| halo) {
            self.crossed += steps.crossing_bytes(routes, self.number);
        }
        Ok(true)
    }

    /// Which half of a communication an instruction is.
    pub(crate) fn half<'a>(&self, instr: &'a Instr) -> Half<'a> {
        let mut half = Half {
            whole: instr,
            tag: Transfer::WHOLE,
            begins: true,
            finishes: true,
        };
        if let Instr::Begin(transfer) = instr {
            (half.whole, half.tag) = (&transfer.what, self.tag(transfer));
            half.finishes = false;
        } else if let Instr::Finish(transfer) = instr {
            (half.whole, half.tag) = (&transfer.what, self.tag(transfer));
            half.begins = false;
        }
        half
    }

    /// The tag of the messages of a transfer. Batches under way have tags of their own, since the second
    /// round of one may be sent after the first round of the next.
    fn tag(&self, transfer: &Transfer) -> u32 {
        let batch = self.place.batch.unwrap_or(0) % (MOST_LAG + 1);
        transfer.tag | batch << BATCH_BITS
    }

    /// The messages of a stage message: one for the current chunk; one per chunk if all rows are
    /// passed, so that none is longer than a chunk's; or a single one without chunks.
    pub(crate) fn pieces(
        &self,
        stage_message: &StageMessage,
    ) -> impl Iterator<Item = Option<u32>> + use<> {
        let program = &self.program;
        let chunks = program
            .pipeline
            .as_ref()
            .map_or(0, |pipeline| pipeline.chunks);
        let (_, fixed) = stage_message.words(program);
        let (first, count) = match self.place.chunk {
            Some(chunk) => (Some(chunk), 1),
            None if fixed > 0 || chunks == 0 => (None, 1),
            None => (Some(0), chunks),
        };
        (0..count).map(move |n| first.map(|first| first + n))
    }

    /// Index of this rank within its stage, which is also that of its part.
    pub(super) fn in_stage(&self) -> u32 {
        self.stage().place(self.number)
    }

    /// The words of a buffer's slot.
    pub(super) fn words(&self, at: Ref, iteration: u32) -> Words {
        Words::of(self.slot(at, iteration))
    }

    /// All rows of a buffer's slot.
    fn matrix(&self, at: Ref, iteration: u32) -> Rows {
        let words = self.words(at, iteration);
        let buffer = self.program.buffer(at.buffer);
        let columns = buffer.row_words() as usize;
        let count = words.count / columns.max(1);
        Rows::dense(words, count, columns, buffer.storage)
    }
}

impl Plan<'_> {
    /// All rows of a buffer's slot.
    pub(super) fn matrix(&self, at: Ref) -> Rows {
        self.own.matrix(at, self.what.iteration)
    }

    /// Own and halo rows as an instruction sends them. Of a vertex, all ranks send the same row, or each rank its `share`.
    pub(super) fn encoded(&self, matrix: Rows, encoded: &Option<Encoded>, share: bool) -> Rows {
        self.encoded_of(matrix, encoded, share, Over::Own)
    }

    /// The same for rows of other vertices.
    pub(super) fn encoded_of(
        &self,
        matrix: Rows,
        encoded: &Option<Encoded>,
        share: bool,
        of: Over,
    ) -> Rows {
        let vertices = Listed {
            list: List::Ids(of),
            first: 0,
        };
        let part = if share { self.own.in_stage() + 1 } else { 0 };
        let iteration = self.what.iteration;
        let encoding = |one| Encoding::of(one, iteration, part, Some(vertices));
        Rows {
            encoding: encoded.as_ref().map(encoding),
            ..matrix
        }
    }

    /// All-reduce of buffers as one message: each rank sums one chunk for all, in rank order, and
    /// receives the other chunks from the others.
    fn all_reduce(&mut self, one: &AllReduce) {
        let Self { own, steps, what } = self;
        let (buffers, group) = (&one.buffers, own.group(one.among));
        let rank = group.place(own.number);
        if group.ranks == 1 {
            return;
        }
        if let Some(leaves) = own.leaves() {
            return self.sum_subtrees(one, leaves);
        }
        let spans = || buffers.iter().map(|at| own.summed(*at, what.iteration));
        let total = spans().map(|span| span.len()).sum::<usize>() as u64;
        let mine = own_chunk(total, group.ranks, rank);
        let others = || (0..group.ranks).filter(|other| *other != rank);
        let owners = || owners(total, group.ranks).filter(|(other, _)| *other != rank);
        if what.begins {
            for (other, chunk) in owners() {
                steps.send(group.rank(other), pieces(spans(), chunk));
            }
            for other in others() {
                steps.expect(group.rank(other), mine.len());
            }
            steps.round();
        }
        if !what.finishes {
            return;
        }
        steps.add(CommStep::Packed);
        steps.add(CommStep::Await);
        steps.sum = mine.len();
        let sum = Words {
            memory: Memory::Sum,
            first: 0,
            count: mine.len(),
        };
        // The sum starts with the first rank's share, so that it does not depend on which rank sums.
        let mut write = steps.first_share;
        for other in 0..group.ranks {
            if other == rank {
                let mut at = 0;
                for piece in pieces(spans(), mine.clone()) {
                    let target = Rows::words(sum.part(at, piece.floats()));
                    steps.add(CommStep::Put(piece, target, write));
                    at += piece.floats();
                }
            } else {
                steps.receive(group.rank(other), [Rows::words(sum)], write);
            }
            write = Write::Add;
        }
        hand_out(steps, (group, rank), sum, spans);
    }

    /// Buffers go on with the model of the set at hand, as one message, and those of the model that comes
    /// here take their place.
    fn shift(&mut self, one: &Shift) {
        let Self { own, steps, what } = self;
        let batch = own.part.batches.at_hand();
        let Some(distance) = batch.and_then(Batch::distance) else {
            return;
        };
        let (group, rank) = (own.stage(), own.in_stage());
        let to = group.rank((rank + distance) % group.ranks);
        let from = group.rank((rank + group.ranks - distance % group.ranks) % group.ranks);
        let spans = || one.buffers.iter().map(|at| own.summed(*at, what.iteration));
        let rows = || spans().map(|span| Rows::words(Words::of(span)));
        let floats = spans().map(|span| span.len()).sum();
        steps.send(to, rows());
        steps.expect(from, floats);
        steps.round();
        steps.add(CommStep::Packed);
        steps.add(CommStep::Await);
        steps.receive(from, rows(), Write::Replace);
    }
}

/// The second half of an all-reduce: a rank gives the sum of its chunk to the others of its group and takes theirs.
pub(super) fn hand_out<I: Iterator<Item = Range<usize>>>(
    steps: &mut CommSteps,
    (group, rank): (Group, u32),
    sum: Words,
    spans: impl Fn() -> I,
) {
    let total = spans().map(|span| span.len()).sum::<usize>() as u64;
    let owners = || owners(total, group.ranks).filter(|(other, _)| *other != rank);
    for other in (0..group.ranks).filter(|other| *other != rank) {
        steps.send(group.rank(other), [Rows::words(sum)]);
    }
    for (other, chunk) in owners() {
        steps.expect(group.rank(other), chunk.len());
    }
    steps.share();
    let mut at = 0;
    for piece in pieces(spans(), own_chunk(total, group.ranks, rank)) {
        let source = Rows::words(sum.part(at, piece.floats()));
        steps.add(CommStep::Put(source, piece, Write::Replace));
        at += piece.floats();
    }
    if sum.count > 0 {
        steps.add(CommStep::Packed);
    }
    steps.add(CommStep::Await);
    for (other, chunk) in owners() {
        steps.receive(group.rank(other), pieces(spans(), chunk), Write::Replace);
    }
}

/// The chunk of floats a rank sums.
pub(super) fn own_chunk(floats: u64, ranks: u32, rank: u32) -> Range<usize> {
    let chunk = chunk(floats, ranks, rank);
    chunk.start as usize..chunk.end as usize
}

/// For a message of `floats`, each rank that sums a chunk of it, with the chunk.
pub(super) fn owners(floats: u64, ranks: u32) -> impl Iterator<Item = (u32, Range<usize>)> {
    let chunks = (0..ranks).map(move |rank| (rank, own_chunk(floats, ranks, rank)));
    chunks.take_while(|(_, chunk)| !chunk.is_empty())
}

/// The pieces of consecutive buffers that a range of their message covers.
pub(super) fn pieces(
    buffers: impl Iterator<Item = Range<usize>>,
    range: Range<usize>,
) -> impl Iterator<Item = Rows> {
    let mut end = 0;
    buffers.filter_map(move |buffer| {
        let begin = end;
        end += buffer.len();
        let (from, to) = (range.start.max(begin), range.end.min(end));
        (from < to).then(|| Rows::words(Words::of(buffer).part(from - begin, to - from)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_a_message_is_found_in_the_buffers() {
        // First word and number of words.
        let found = |range: Range<usize>| -> Vec<[usize; 2]> {
            let buffers = [6..9, 0..0, 0..5].into_iter();
            let pieces = pieces(buffers, range);
            pieces.map(|rows| [rows.at.first, rows.floats()]).collect()
        };
        assert_eq!(found(0..2), [[6, 2]]);
        assert_eq!(found(2..5), [[8, 1], [0, 2]]);
        assert_eq!(found(7..8), [[4, 1]]);
        assert_eq!(found(3..3), [[0; 2]; 0]);
    }
}

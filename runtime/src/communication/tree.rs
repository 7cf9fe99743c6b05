//! All-reduces along the tree of leaves.

use super::moves::Write;
use super::plan::{Plan, hand_out, own_chunk, owners, pieces};
use super::{CommStep, Memory, Rows, Words};
use gnnc_ir::program::Among;
use gnnc_ir::program::instr::AllReduce;
use gnnc_ir::program::leaves::{Additions, shares};

impl Plan<'_> {
    /// All-reduce of buffers as one message: each rank sums one chunk for all, along the tree of so many leaves, and receives
    /// the other chunks from the others. Ranks send the sums of their subtrees.
    pub(super) fn sum_subtrees(&mut self, one: &AllReduce, leaves: u32) {
        let Self { own, steps, what } = self;
        let (own, what) = (*own, *what);
        let (rank, ranks) = (own.number, own.program.ranks);
        let spans = |share: u32| {
            let buffers = one.buffers.iter();
            buffers.map(move |at| own.summed_share(*at, what.iteration, share as usize))
        };
        let total = spans(0).map(|span| span.len()).sum::<usize>() as u64;
        let mine = own_chunk(total, ranks, rank);
        let others = || (0..ranks).filter(|other| *other != rank);
        let owners = || owners(total, ranks).filter(|(other, _)| *other != rank);
        let count = |rank| shares(leaves, ranks, rank);
        if what.begins {
            for (other, chunk) in owners() {
                let of_share = |share| pieces(spans(share), chunk.clone());
                steps.send(other, (0..count(rank)).flat_map(of_share));
            }
            for other in others() {
                steps.expect(other, count(other) as usize * mine.len());
            }
            steps.round();
        }
        if !what.finishes {
            return;
        }
        steps.add(CommStep::Packed);
        steps.add(CommStep::Await);
        let order = Additions::new(leaves, ranks);
        steps.sum = order.slots * mine.len();
        let sums = Words {
            memory: Memory::Sum,
            first: 0,
            count: steps.sum,
        };
        let slot = |slot: usize| sums.part(slot * mine.len(), mine.len());
        for (other, taken) in (0..ranks).zip(&order.of_ranks) {
            let slots = &taken.slots;
            if other == rank {
                for (share, &place) in (0..).zip(slots) {
                    let mut at = 0;
                    for piece in pieces(spans(share), mine.clone()) {
                        let target = Rows::words(slot(place).part(at, piece.floats()));
                        steps.add(CommStep::Put(piece, target, Write::Replace));
                        at += piece.floats();
                    }
                }
            } else {
                let into = slots.iter().map(|place| Rows::words(slot(*place)));
                steps.receive(other, into, Write::Replace);
            }
            for pair in &taken.added {
                let (to, from) = (Rows::words(slot(pair.to)), Rows::words(slot(pair.from)));
                steps.add(CommStep::Put(from, to, Write::Add));
            }
        }
        let group = own.group(Among::All);
        hand_out(steps, (group, rank), slot(0), || spans(0));
    }
}

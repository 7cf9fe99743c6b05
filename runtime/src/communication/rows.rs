//! Rows of a batch between the ranks that have them in it and those that own them.

use super::moves::Write;
use super::plan::Plan;
use super::{CommStep, Rows};
use crate::part::asked::OfBatch;
use crate::part::lists::{List, Over};
use gnnc_ir::program::Ref;
use gnnc_ir::program::instr::{Encoded, PushRows};
use gnnc_ir::words::types::{Level, Of};

impl Plan<'_> {
    /// Rows go to the ranks that asked for them, and fill those of a level, or of the cache. A rank's own
    /// rows are filled by the first half if it `fills_first`.
    pub(super) fn serve(
        &mut self,
        [from, to]: [Ref; 2],
        cache: Option<Ref>,
        encoded: &Option<Encoded>,
        fills_first: bool,
    ) {
        let Some(batch) = self.own.part.batches.at_hand() else {
            return;
        };
        let cache = cache.map(|cache| self.matrix(cache));
        let (from, to) = (self.matrix(from), self.matrix(to));
        let sent = self.encoded(from, encoded, false);
        let came = self.encoded(to, encoded, false);
        let (rank, group) = (self.own.in_stage(), self.own.stage());
        let listed = |matrix: &Rows, which, of| {
            let count = batch.asked().list(which, of).len();
            matrix.listed(List::Fetched(which, of), 0, count)
        };
        // Of the rows that were asked for, those of which there are no copies.
        let served = |other| {
            let list = List::Fetched(OfBatch::Served, other);
            sent.listed(list, 0, batch.asked().sent(other))
        };
        let read = |other| {
            let list = List::Fetched(OfBatch::Places, other);
            came.listed(list, 0, batch.asked().read(other))
        };
        if self.what.begins {
            for other in group.others(rank) {
                self.steps.send(group.rank(other), [served(other)]);
                let rows = read(other);
                self.steps.expect(group.rank(other), rows.message_floats());
            }
            self.steps.round();
        }
        let fills = match fills_first {
            true => self.what.begins,
            false => self.what.finishes,
        };
        if fills {
            let source = listed(&from, OfBatch::Rows, rank);
            let target = listed(&to, OfBatch::Places, rank);
            let put = CommStep::Put(source, target, Write::Replace);
            self.steps.add(put);
            // Later instructions may change the rows that were sent.
            self.steps.add(CommStep::Packed);
        }
        if self.what.finishes {
            if let Some(cache) = cache {
                let source = listed(&cache, OfBatch::Cached, rank);
                let target = listed(&to, OfBatch::CachedPlaces, rank);
                let put = CommStep::Put(source, target, Write::Replace);
                self.steps.add(put);
            }
            self.steps.add(CommStep::Await);
            for other in group.others(rank) {
                let rows = read(other);
                self.steps
                    .receive(group.rank(other), [rows], Write::Replace);
            }
            if let Some(cache) = cache {
                let source = listed(&to, OfBatch::RenewedPlaces, rank);
                let target = listed(&cache, OfBatch::Renewed, rank);
                let put = CommStep::Put(source, target, Write::Replace);
                self.steps.add(put);
            }
        }
    }

    /// Rows of a level are added to those of their owners, in rank order.
    pub(super) fn push(&mut self, one: &PushRows) {
        let Some(batch) = self.own.part.batches.at_hand() else {
            return;
        };
        let (from, to) = (self.matrix(one.from), self.matrix(one.to));
        let vertices = Over::Level(Level {
            number: 0,
            of: Of::One,
        });
        let sent = self.encoded_of(from, &one.encoded, true, vertices);
        let came = self.encoded_of(to, &one.encoded, true, vertices);
        let (rank, group) = (self.own.in_stage(), self.own.stage());
        let listed = |matrix: &Rows, which, of| {
            let count = batch.asked().list(which, of).len();
            matrix.listed(List::Fetched(which, of), 0, count)
        };
        for other in group.others(rank) {
            let rows = listed(&sent, OfBatch::Places, other);
            self.steps.send(group.rank(other), [rows]);
            let rows = listed(&came, OfBatch::OwnedPlaces, other);
            self.steps.expect(group.rank(other), rows.message_floats());
        }
        self.steps.round();
        self.steps.add(CommStep::Packed);
        self.steps.add(CommStep::Await);
        for other in group.places() {
            if other == rank {
                let target = listed(&to, OfBatch::OwnedPlaces, other);
                let source = listed(&from, OfBatch::Places, rank);
                self.steps.add(CommStep::Put(source, target, Write::Add));
            } else {
                let target = listed(&came, OfBatch::OwnedPlaces, other);
                self.steps.receive(group.rank(other), [target], Write::Add);
            }
        }
    }
}

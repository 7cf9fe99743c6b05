//! Rows of a batch between the ranks that have them in it and those that own them.

use super::moves::Write;
use super::plan::Plan;
use super::{CommStep, Rows};
use crate::part::asked::OfBatch;
use crate::part::lists::List;
use gnnc_ir::program::Ref;
use gnnc_ir::program::instr::PushRows;

impl Plan<'_> {
    /// Rows go to the ranks that asked for them, and fill those of a level, or of the cache. A rank's own
    /// rows are filled by the first half if it `fills_first`.
    pub(super) fn serve(&mut self, from: Ref, to: Ref, cache: Option<Ref>, fills_first: bool) {
        let Some(batch) = self.own.part.batches.at_hand() else {
            return;
        };
        let cache = cache.map(|cache| self.matrix(cache));
        let (from, to) = (self.matrix(from), self.matrix(to));
        let (rank, group) = (self.own.in_stage(), self.own.stage());
        let listed = |matrix: &Rows, which, of| {
            let count = batch.asked().list(which, of).len();
            matrix.listed(List::Fetched(which, of), 0, count)
        };
        if self.what.begins {
            for other in group.others(rank) {
                let rows = listed(&from, OfBatch::Served, other);
                self.steps.send(group.rank(other), [rows]);
                let rows = listed(&to, OfBatch::Places, other);
                self.steps.expect(group.rank(other), rows.floats());
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
                let (from, rows) = (group.rank(other), listed(&to, OfBatch::Places, other));
                self.steps.receive(from, [rows], Write::Replace);
            }
        }
    }

    /// Rows of a level are added to those of their owners, in rank order.
    pub(super) fn push(&mut self, one: &PushRows) {
        let Some(batch) = self.own.part.batches.at_hand() else {
            return;
        };
        let (from, to) = (self.matrix(one.from), self.matrix(one.to));
        let (rank, group) = (self.own.in_stage(), self.own.stage());
        let listed = |matrix: &Rows, which, of| {
            let count = batch.asked().list(which, of).len();
            matrix.listed(List::Fetched(which, of), 0, count)
        };
        for other in group.others(rank) {
            let rows = listed(&from, OfBatch::Places, other);
            self.steps.send(group.rank(other), [rows]);
            let rows = listed(&to, OfBatch::OwnedPlaces, other);
            self.steps.expect(group.rank(other), rows.floats());
        }
        self.steps.round();
        self.steps.add(CommStep::Packed);
        self.steps.add(CommStep::Await);
        for other in group.places() {
            let target = listed(&to, OfBatch::OwnedPlaces, other);
            if other == rank {
                let source = listed(&from, OfBatch::Places, rank);
                self.steps.add(CommStep::Put(source, target, Write::Add));
            } else {
                self.steps.receive(group.rank(other), [target], Write::Add);
            }
        }
    }
}

//! Exchanges of the targets of edges: ranks add up edges into vertices of others, and send the sums.

use super::moves::Write;
use super::plan::Plan;
use super::{CommStep, Rows};
use gnnc_ir::program::Ref;
use std::ops::Range;

impl Plan<'_> {
    /// Own rows go to the ranks that have them as targets, and fill their halo rows.
    pub(super) fn exchange_targets(&mut self, at: Ref) {
        let (matrix, own) = (self.matrix(at), self.own);
        let (open, ghosts) = own.part.targets();
        let open = || {
            open.iter().map(|sent| {
                (
                    sent.to,
                    matrix.listed(sent.list, sent.first, sent.rows.len()),
                )
            })
        };
        if self.what.begins {
            for (to, rows) in open() {
                self.steps.send(own.stage().rank(to), [rows]);
            }
            for (from, rows) in of_owners(matrix, ghosts) {
                self.steps.expect(own.stage().rank(from), rows.floats());
            }
            self.steps.round();
        }
        if self.what.finishes {
            self.steps.add(CommStep::Packed);
            self.steps.add(CommStep::Await);
            for (from, rows) in of_owners(matrix, ghosts) {
                self.steps
                    .receive(own.stage().rank(from), [rows], Write::Replace);
            }
        }
    }

    /// Partial sums in halo rows go to the owners of their vertices, which add them to their own rows in rank order.
    pub(super) fn reduce_targets(&mut self, at: Ref) {
        let (matrix, own) = (self.matrix(at), self.own);
        let (open, ghosts) = own.part.targets();
        let open = || {
            open.iter().map(|sent| {
                (
                    sent.to,
                    matrix.listed(sent.list, sent.first, sent.rows.len()),
                )
            })
        };
        if self.what.begins {
            for (to, rows) in of_owners(matrix, ghosts) {
                self.steps.send(own.stage().rank(to), [rows]);
            }
            for (from, rows) in open() {
                self.steps.expect(own.stage().rank(from), rows.floats());
            }
            self.steps.round();
        }
        if self.what.finishes {
            self.steps.add(CommStep::Packed);
            self.steps.add(CommStep::Await);
            for (from, rows) in open() {
                self.steps
                    .receive(own.stage().rank(from), [rows], Write::Add);
            }
        }
    }
}

/// Halo rows by the rank that owns their vertices.
fn of_owners(matrix: Rows, halo: &[(u32, Range<usize>)]) -> impl Iterator<Item = (u32, Rows)> {
    halo.iter()
        .map(move |(owner, rows)| (*owner, matrix.run(rows.clone())))
}

//! Exchanges and reductions of halo rows, which owners and readers send each other directly.

use super::moves::Write;
use super::plan::Plan;
use super::{CommStep, Rows};
use crate::part::lists::Over;
use crate::part::rows::{Exchanged, Sent};
use gnnc_ir::kernel::End;
use gnnc_ir::program::{Among, Group, Ref};

impl Plan<'_> {
    /// The rows of an exchange of a buffer.
    pub(super) fn exchanged(&self, at: Ref, end: End) -> Exchanged {
        let of = match self.own.program.buffer(at.buffer).extent.of_whole_graph() {
            true => Over::All,
            false => Over::Own,
        };
        Exchanged { of, end }
    }

    /// The ranks among which rows are exchanged.
    fn among(&self, exchanged: Exchanged) -> Group {
        match exchanged.of {
            Over::All => self.own.group(Among::Copies),
            Over::Own | Over::Level(_) => self.own.stage(),
        }
    }

    /// Halo exchange: own rows go to their readers.
    pub(super) fn exchange(&mut self, matrix: Rows, exchanged: Exchanged) {
        let (chunk, group) = (self.own.place.chunk, self.among(exchanged));
        let order = group.place(self.own.number);
        if self.what.begins {
            self.send_own(matrix, exchanged);
            self.expect_halo(matrix, exchanged, |_| true);
            self.steps.round();
        }
        if self.what.finishes {
            self.steps.add(CommStep::Packed);
            self.steps.add(CommStep::Await);
            for (other, rows) in self.own.part.halo(exchanged, chunk, order) {
                let (from, halo) = (group.rank(other), matrix.run(rows));
                self.steps.receive(from, [halo], Write::Replace);
            }
        }
    }

    /// Halo reduce: halo rows go to those of their owners that are `wanted`. If `adds`, received rows
    /// are added in rank order.
    pub(super) fn reduce(
        &mut self,
        matrix: Rows,
        exchanged: Exchanged,
        wanted: impl Fn(u32) -> bool,
        adds: bool,
    ) {
        let (chunk, group) = (self.own.place.chunk, self.among(exchanged));
        let order = group.place(self.own.number);
        let sent = || {
            self.own
                .part
                .sent(exchanged, chunk, 0)
                .filter(move |_| adds)
        };
        if self.what.begins {
            let halo = self.own.part.halo(exchanged, chunk, order);
            for (other, rows) in halo.filter(|(other, _)| wanted(*other)) {
                self.steps.send(group.rank(other), [matrix.run(rows)]);
            }
            for Sent { to, rows, .. } in sent() {
                let from = group.rank(to);
                self.steps.expect(from, rows.len() * matrix.message_row());
            }
            self.steps.round();
        }
        if self.what.finishes {
            self.steps.add(CommStep::Packed);
            self.steps.add(CommStep::Await);
            for Sent {
                to,
                rows,
                list,
                first,
            } in sent()
            {
                let own = matrix.listed(list, first, rows.len());
                self.steps.receive(group.rank(to), [own], Write::Add);
            }
        }
    }

    /// Sends each rank the own rows that it has in its halo in the next round.
    pub(super) fn send_own(&mut self, matrix: Rows, exchanged: Exchanged) {
        let (chunk, group) = (self.own.place.chunk, self.among(exchanged));
        let order = group.place(self.own.number);
        for Sent {
            to,
            rows,
            list,
            first,
        } in self.own.part.sent(exchanged, chunk, order)
        {
            let own = matrix.listed(list, first, rows.len());
            self.steps.send(group.rank(to), [own]);
        }
    }

    /// Expects halo rows from those of their owners that are `due` in the next round.
    pub(super) fn expect_halo(
        &mut self,
        matrix: Rows,
        exchanged: Exchanged,
        due: impl Fn(u32) -> bool,
    ) {
        let (chunk, group) = (self.own.place.chunk, self.among(exchanged));
        let order = group.place(self.own.number);
        for (other, rows) in self.own.part.halo(exchanged, chunk, order) {
            if due(other) {
                let from = group.rank(other);
                self.steps.expect(from, rows.len() * matrix.message_row());
            }
        }
    }
}

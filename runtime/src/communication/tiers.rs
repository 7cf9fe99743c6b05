//! Exchanges in two tiers: a row crosses to a node once and is passed on inside, and gradients of a row are added inside
//! their node before one crosses.

use super::moves::Write;
use super::plan::Plan;
use super::{CommStep, CommSteps, Rows};
use crate::part::lists::{Legs, List};
use crate::part::rows::Sent;
use gnnc_graph::routes::{Leg, Routes};
use gnnc_ir::kernel::End;
use std::collections::BTreeMap;

/// Rows of a rank, and the rank that they go to or come from.
type WithPeer = (u32, Rows);

impl Plan<'_> {
    /// Halo exchange: own rows go to the readers of the own node, and to one reader of each other node, which passes them on.
    /// `matrix` has the rows as they travel inside a node, `sent` as they cross.
    pub(super) fn exchange_in_tiers(
        &mut self,
        [matrix, sent]: [Rows; 2],
        end: End,
        routes: &Routes,
    ) {
        if self.what.begins {
            for (to, rows) in self.read_nearby(matrix, end, routes) {
                self.steps.send(to, [rows]);
            }
            self.send_legs(sent, end, Legs::Crossing);
            for (from, rows) in self.nearby_halo(matrix, end, routes) {
                self.steps.expect(from, rows.message_floats());
            }
            self.expect_legs(sent, end, Legs::Arriving);
            self.steps.round();
        }
        if self.what.finishes {
            self.steps.add(CommStep::Packed);
            self.steps.add(CommStep::Await);
            for (from, rows) in self.nearby_halo(matrix, end, routes) {
                self.steps.receive(from, [rows], Write::Replace);
            }
            self.receive_legs(sent, end, Legs::Arriving, Write::Replace);
            self.send_legs(matrix, end, Legs::Passed);
            self.expect_legs(matrix, end, Legs::Forwarded);
            self.steps.round();
            self.steps.add(CommStep::Packed);
            self.steps.add(CommStep::Await);
            self.receive_legs(matrix, end, Legs::Forwarded, Write::Replace);
        }
    }

    /// Halo reduce: halo rows go to their owner if that is in the own node, else to the rank of the node that had them
    /// from their owner. It adds them up, in rank order, and sends the sums to the owners.
    /// `matrix` and `sent` are as for exchanges.
    pub(super) fn reduce_in_tiers(&mut self, [matrix, sent]: [Rows; 2], end: End, routes: &Routes) {
        // What comes from ranks of the node, for own rows and for rows of other nodes.
        let near = self.read_nearby(matrix, end, routes);
        let back = by_peer(near, self.legs(matrix, end, Legs::Passed));
        if self.what.begins {
            let forwarded = self.legs(matrix, end, Legs::Forwarded);
            for (to, rows) in by_peer(self.nearby_halo(matrix, end, routes), forwarded) {
                self.steps.send(to, rows);
            }
            for (from, rows) in &back {
                self.steps
                    .expect(*from, rows.iter().map(Rows::message_floats).sum());
            }
            self.steps.round();
        }
        if self.what.finishes {
            self.steps.add(CommStep::Packed);
            self.steps.add(CommStep::Await);
            for (from, rows) in &back {
                self.steps.receive(*from, rows.iter().copied(), Write::Add);
            }
            self.send_legs(sent, end, Legs::Arriving);
            self.expect_legs(sent, end, Legs::Crossing);
            self.steps.round();
            self.steps.add(CommStep::Packed);
            self.steps.add(CommStep::Await);
            self.receive_legs(sent, end, Legs::Crossing, Write::Add);
        }
    }

    /// Own rows that other ranks of the node have in their halo, ascending by rank.
    fn read_nearby(&self, matrix: Rows, end: End, routes: &Routes) -> Vec<WithPeer> {
        let own = self.own.in_stage();
        let sent = self.own.part.sent(end.into(), None, 0);
        let near = sent.filter(|sent| routes.together(sent.to, own));
        let rows = |sent: Sent| {
            let listed = matrix.listed(sent.list, sent.first, sent.rows.len());
            (self.own.stage().rank(sent.to), listed)
        };
        near.map(rows).collect()
    }

    /// Halo rows that other ranks of the node own, ascending by rank.
    fn nearby_halo(&self, matrix: Rows, end: End, routes: &Routes) -> Vec<WithPeer> {
        let own = self.own.in_stage();
        let halo = self.own.part.halo(end.into(), None, 0);
        let near = halo.filter(|(owner, _)| routes.together(*owner, own));
        near.map(|(owner, rows)| (self.own.stage().rank(owner), matrix.run(rows)))
            .collect()
    }

    fn legs(&self, matrix: Rows, end: End, legs: Legs) -> Vec<WithPeer> {
        let all = (0u32..).zip(self.own.part.legs(end, legs));
        let rows = |(n, leg): (u32, &Leg)| {
            let listed = matrix.listed(List::Leg(end, legs, n), 0, leg.rows.len());
            (self.own.stage().rank(leg.peer), listed)
        };
        all.map(rows).collect()
    }

    fn send_legs(&mut self, matrix: Rows, end: End, legs: Legs) {
        for (to, rows) in self.legs(matrix, end, legs) {
            self.steps.send(to, [rows]);
        }
    }

    fn expect_legs(&mut self, matrix: Rows, end: End, legs: Legs) {
        for (from, rows) in self.legs(matrix, end, legs) {
            self.steps.expect(from, rows.message_floats());
        }
    }

    fn receive_legs(&mut self, matrix: Rows, end: End, legs: Legs, write: Write) {
        for (from, rows) in self.legs(matrix, end, legs) {
            self.steps.receive(from, [rows], write);
        }
    }
}

impl CommSteps {
    /// Bytes that rank `own` sends to other nodes.
    pub(super) fn crossing_bytes(&self, routes: &Routes, own: u32) -> u64 {
        let sent = self.sends.iter();
        let far = sent.filter(|message| !routes.together(message.peer, own));
        far.map(|message| 4 * message.floats as u64).sum()
    }
}

/// All rows of each peer, ascending by peer.
fn by_peer(one: Vec<WithPeer>, other: Vec<WithPeer>) -> BTreeMap<u32, Vec<Rows>> {
    let mut all: BTreeMap<u32, Vec<Rows>> = BTreeMap::new();
    for (peer, rows) in one.into_iter().chain(other) {
        all.entry(peer).or_default().push(rows);
    }
    all
}

//! What all ranks do together.

use super::{CollectiveCost, Compiler, Half, Step, TransferCost};
use crate::simulate::fabric::Node;
use gnnc_ir::cluster::{Link, SharedBy};
use gnnc_ir::graph::op::Redistribute;
use gnnc_ir::program::instr::{self, Collective};
use gnnc_ir::program::traffic::{Reads, redistribute_total, traffic};
use gnnc_ir::program::work::strips;
use gnnc_ir::program::{Chunk, Instr, Moved};
use std::rc::Rc;

impl Compiler<'_> {
    /// The cost of a communication instruction, of which the step is `half`.
    pub(super) fn transfer(&self, instr: &Instr, half: Half, at: Rc<str>, name: usize) -> Step {
        let cost = match instr.collective() {
            Some(Collective::HaloExchange(instr::HaloExchange { buffer, skip })) => {
                self.exchange(*buffer, false, *skip, name)
            }
            Some(Collective::HaloReduce(instr::HaloReduce { buffer, skip })) => {
                self.exchange(*buffer, true, skip.map(|skip| skip.of), name)
            }
            Some(Collective::AllReduce(sum)) => {
                let bytes = sum.floats(self.program).saturating_mul(4);
                TransferCost::Everyone(self.as_measured(self.all_reduce(bytes), instr, name))
            }
            Some(Collective::Redistribute(instr::Redistribute {
                how,
                to,
                heads,
                width,
                moved,
                ..
            })) => {
                let shape = (*heads, *width);
                let elements = {
                    let rows: Vec<u64> = self.sizes.iter().map(|s| moved.own_rows(s)).collect();
                    redistribute_total(*how, shape, self.fabric.ranks, &rows)
                };
                let bytes = elements * self.program.buffer(to.buffer).storage.bytes();
                let adds = *how == Redistribute::Reduce;
                let cost = self.all_to_all(adds, self.moved(bytes, *moved));
                TransferCost::Everyone(self.as_measured(cost, instr, name))
            }
            Some(
                Collective::AskRows(_) | Collective::ServeRows(_) | Collective::ShareLevels(_),
            ) => {
                let none = Reads::default();
                let one = std::slice::from_ref(instr);
                let bytes = traffic(one, self.program, &none, self.sizes).fetch;
                TransferCost::Everyone(self.all_to_all(false, bytes))
            }
            None => TransferCost::Everyone(CollectiveCost::default()),
        };
        Step::Transfer {
            at,
            name,
            half,
            cost,
        }
    }

    /// The same bytes with their measured time, including packing and unpacking.
    fn as_measured(&self, cost: CollectiveCost, instr: &Instr, name: usize) -> CollectiveCost {
        let Some(messages) = self.messages(name) else {
            return cost;
        };
        let bytes = cost.bytes_sent.iter().sum();
        let half = messages.half(bytes, strips(self.program, instr, bytes) as f64);
        CollectiveCost {
            before: half,
            messages: messages.latency(),
            after: half,
            ..cost
        }
    }

    /// The part of `bytes` that goes with the moved rows; the parts of all chunks add up to
    /// `bytes`.
    fn moved(&self, bytes: u64, moved: Moved) -> u64 {
        match moved {
            Moved::All | Moved::Level(_) => bytes,
            Moved::Rows(chunk) => chunk.share(bytes),
            Moved::New(_, Chunk { index, of, .. }) => {
                let of = f64::from(of.max(1));
                let read = |n: u32| {
                    let share = self.degrees.read(f64::from(n) / of);
                    (bytes as f64 * share).round() as u64
                };
                read(index + 1).saturating_sub(read(index))
            }
        }
    }

    /// A reduce-scatter, then an all-gather: in each, every rank sends a chunk of `1 / ranks` of
    /// the bytes to every other rank. Includes the additions.
    fn all_reduce(&self, total: u64) -> CollectiveCost {
        let ranks = u64::from(self.fabric.ranks);
        if ranks < 2 || total == 0 {
            return CollectiveCost::default();
        }
        let bytes = total as f64;
        let chunk = bytes / ranks as f64;
        let messages = self.everyone(chunk);
        let sent = (ranks - 1) * total / ranks;
        CollectiveCost {
            before: 0.0,
            messages,
            after: self.pass(bytes, chunk, bytes / 4.0) + messages,
            bytes_sent: [sent, 2 * (ranks - 1) * total / ranks - sent],
        }
    }

    /// A message from every rank to every other one, `total` bytes in equal shares, packed before
    /// and unpacked (or added up, if `adds`) after.
    fn all_to_all(&self, adds: bool, total: u64) -> CollectiveCost {
        let ranks = u64::from(self.fabric.ranks);
        if ranks < 2 || total == 0 {
            return CollectiveCost::default();
        }
        let own = total as f64 / ranks as f64;
        let flops = if adds { own / 4.0 } else { 0.0 };
        CollectiveCost {
            before: self.pass(own, own, 0.0),
            messages: self.everyone(own / (ranks - 1) as f64),
            after: self.pass(own, own, flops),
            bytes_sent: [total / ranks, 0],
        }
    }

    /// Every rank sends `chunk` bytes to every other one.
    fn everyone(&self, chunk: f64) -> f64 {
        let ranks = f64::from(self.fabric.ranks);
        let sharing = |link: &Link, node_ranks: f64| match link.shared_by {
            SharedBy::Rank => 1.0,
            SharedBy::Node => node_ranks,
        };
        let phase = |node: &Node| {
            let near = f64::from(node.ranks);
            let (inside, between) = (&self.cluster.inside, &self.cluster.between);
            let within = self.seconds((near - 1.0) * chunk * sharing(inside, near), inside);
            let beyond = self.seconds((ranks - near) * chunk * sharing(between, near), between);
            self.latency(self.fabric.ranks - 1, ranks > near) + within.max(beyond)
        };
        self.fabric.nodes.iter().map(phase).fold(0.0, f64::max)
    }
}

//! What all ranks do together.

use super::exchange::Rows;
use super::{CollectiveCost, Compiler, TransferCost};
use crate::simulate::fabric::Node;
use gnnc_ir::graph::op::Redistribute;
use gnnc_ir::program::instr::{self, Collective, Encoded};
use gnnc_ir::program::leaves::all_shares;
use gnnc_ir::program::traffic::{Reads, traffic};
use gnnc_ir::program::work::strips;
use gnnc_ir::program::{Among, Chunk, Instr, Moved};
use std::cell::OnceCell;

/// Ranks of their groups that ranks have in their nodes, once that was counted.
#[derive(Default)]
pub(super) struct Near {
    slices: OnceCell<f64>,
    copies: OnceCell<f64>,
}

impl Compiler<'_> {
    /// The cost of a communication instruction.
    pub(super) fn transfer(&self, instr: &Instr, name: usize) -> TransferCost {
        match instr.collective() {
            Some(Collective::HaloExchange(one)) => {
                let rows = Rows {
                    buffer: one.buffer,
                    end: one.end,
                    encoded: &one.encoded,
                    skip: one.skip,
                };
                self.exchange(rows, false, name)
            }
            Some(Collective::HaloReduce(one)) => {
                let rows = Rows {
                    buffer: one.buffer,
                    end: one.end,
                    encoded: &one.encoded,
                    skip: one.skip.map(|skip| skip.of),
                };
                self.exchange(rows, true, name)
            }
            Some(Collective::AllReduce(sum)) => {
                let bytes = sum.floats(self.program).saturating_mul(4);
                let cost = self.all_reduce(sum.among, bytes, self.shares());
                TransferCost::Everyone(self.as_measured(cost, instr, name))
            }
            Some(Collective::Redistribute(one)) => {
                let moved = one.moved;
                let rows: Vec<u64> = self.parts.sizes.iter().map(|s| moved.own_rows(s)).collect();
                let bytes = one.bytes(self.program, &rows);
                let adds = one.how == Redistribute::Reduce;
                let cost = self.all_to_all(one.among(self.program), adds, self.moved(bytes, moved));
                let cost = self.as_measured(cost, instr, name);
                let plain = instr::Redistribute {
                    encoded: None,
                    ..one.clone()
                };
                let memory = self.moved(plain.bytes(self.program, &rows), moved);
                let bytes = [memory, self.moved(bytes, moved)];
                TransferCost::Everyone(self.coded(cost, one.encoded, bytes))
            }
            Some(Collective::DrawEdges(_)) => {
                let answers = self.all_to_all(Among::All, false, self.fetched(instr));
                let questions = self.everyone(Among::All, 0.0);
                TransferCost::Everyone(CollectiveCost {
                    messages: questions + answers.messages,
                    ..answers
                })
            }
            Some(Collective::AskRows(_) | Collective::CacheRows(_)) => {
                let cost = self.all_to_all(Among::All, false, self.fetched(instr));
                TransferCost::Everyone(self.as_measured(cost, instr, name))
            }
            Some(Collective::ServeRows(serve)) => {
                let cost = self.all_to_all(Among::All, false, self.fetched(instr));
                let cost = self.as_measured(cost, instr, name);
                let plain = Instr::ServeRows(instr::ServeRows {
                    encoded: None,
                    ..serve.clone()
                });
                let bytes = [self.fetched(&plain), self.fetched(instr)];
                TransferCost::Everyone(self.coded(cost, serve.encoded, bytes))
            }
            Some(Collective::PushRows(push)) => {
                let cost = self.all_to_all(Among::All, true, self.fetched(instr));
                let plain = Instr::PushRows(instr::PushRows {
                    encoded: None,
                    ..push.clone()
                });
                let bytes = [self.fetched(&plain), self.fetched(instr)];
                TransferCost::Everyone(self.coded(cost, push.encoded, bytes))
            }
            Some(Collective::ShareLevels(_)) => {
                TransferCost::Everyone(self.all_to_all(Among::Slices, false, self.fetched(instr)))
            }
            Some(Collective::Shift(shift)) => {
                TransferCost::Everyone(self.shift(4 * shift.floats(self.program)))
            }
            None => TransferCost::Everyone(CollectiveCost::default()),
        }
    }

    /// The same with the time to encode and decode rows: all of them have so many bytes in memory, and in messages.
    fn coded(
        &self,
        mut cost: CollectiveCost,
        encoded: Option<Encoded>,
        bytes: [u64; 2],
    ) -> CollectiveCost {
        if let Some(encoded) = encoded {
            let of_rank = |bytes: u64| bytes as f64 / f64::from(self.fabric.ranks);
            let [memory, message] = bytes.map(of_rank);
            let coding = self.coding(encoded.wire, memory, message);
            (cost.before, cost.after) = (cost.before + coding, cost.after + coding);
        }
        cost
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
            handling: 0.0,
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
                    let share = self.parts.degrees.read(f64::from(n) / of);
                    (bytes as f64 * share).round() as u64
                };
                read(index + 1).saturating_sub(read(index))
            }
        }
    }

    /// Bytes of the lists and rows of batches that an instruction sends.
    fn fetched(&self, instr: &Instr) -> u64 {
        let one = std::slice::from_ref(instr);
        traffic(one, self.program, &Reads::default(), &self.parts.sizes).fetch
    }

    /// Every rank sends so many bytes to another one, and hears as many from a third. If there are several
    /// nodes, some of these messages leave theirs.
    fn shift(&self, bytes: u64) -> CollectiveCost {
        let several = self.fabric.nodes.len() > 1;
        let link = match several {
            true => &self.cluster.between,
            false => &self.cluster.inside,
        };
        let pass = self.pass(bytes as f64, bytes as f64, 0.0);
        let crossed = match several {
            true => [0.0, 2.0 * bytes as f64],
            false => [2.0 * bytes as f64, 0.0],
        };
        CollectiveCost {
            before: pass,
            handling: self.handling(crossed),
            messages: self.latency(1, several) + self.seconds(bytes as f64, link),
            after: pass,
            bytes_sent: [bytes, 0],
        }
    }

    /// A reduce-scatter, then an all-gather: in each, every rank sends a chunk of `1 / ranks` of
    /// the bytes, or of each of its `shares`, to every other rank of its group. Includes the additions.
    fn all_reduce(&self, among: Among, total: u64, shares: f64) -> CollectiveCost {
        let ranks = u64::from(self.program.group_ranks(among));
        if ranks < 2 || total == 0 {
            return CollectiveCost::default();
        }
        let bytes = total as f64;
        let chunk = bytes / ranks as f64;
        let back = self.everyone(among, chunk);
        let messages = match shares == 1.0 {
            true => back,
            false => self.everyone(among, chunk * shares),
        };
        let sent = (ranks - 1) * total / ranks;
        let given = bytes * shares;
        CollectiveCost {
            before: 0.0,
            handling: self.handled(among, chunk * shares),
            messages,
            after: self.pass(given, chunk, given / 4.0) + back,
            bytes_sent: [
                (sent as f64 * shares) as u64,
                2 * (ranks - 1) * total / ranks - sent,
            ],
        }
    }

    /// Shares that a rank gives to a sum over ranks, in the mean.
    fn shares(&self) -> f64 {
        let vertices = self.parts.sizes.first().map_or(0, |sizes| sizes.vertices);
        let ranks = self.program.ranks.max(1);
        match self.program.leaves(vertices) {
            Some(leaves) => f64::from(all_shares(leaves, ranks)) / f64::from(ranks),
            None => 1.0,
        }
    }

    /// A message from every rank to every other one of its group, `total` bytes in equal shares, packed
    /// before and unpacked (or added up, if `adds`) after.
    fn all_to_all(&self, among: Among, adds: bool, total: u64) -> CollectiveCost {
        let ranks = u64::from(self.fabric.ranks);
        let others = self.program.group_ranks(among).saturating_sub(1);
        if others == 0 || total == 0 {
            return CollectiveCost::default();
        }
        let own = total as f64 / ranks as f64;
        let flops = if adds { own / 4.0 } else { 0.0 };
        CollectiveCost {
            before: self.pass(own, own, 0.0),
            handling: self.handled(among, own / f64::from(others)),
            messages: self.everyone(among, own / f64::from(others)),
            after: self.pass(own, own, flops),
            bytes_sent: [total / ranks, 0],
        }
    }

    /// Every rank sends `chunk` bytes to every other one of its group.
    fn everyone(&self, among: Among, chunk: f64) -> f64 {
        let phase = |node: &Node| {
            let here = f64::from(node.ranks);
            let [near, far] = self.others(among, node);
            let (inside, between) = (&self.cluster.inside, &self.cluster.between);
            let within = self.seconds(near * chunk * inside.sharers(here), inside);
            let beyond = self.seconds(far * chunk * between.sharers(here), between);
            self.latency((near + far) as u32, far > 0.0) + within.max(beyond)
        };
        self.fabric.nodes.iter().map(phase).fold(0.0, f64::max)
    }

    /// Seconds of a rank's processor for that, if it computes meanwhile.
    fn handled(&self, among: Among, chunk: f64) -> f64 {
        let of_node = |node: &Node| {
            let crossed = self.others(among, node).map(|others| 2.0 * others * chunk);
            self.handling(crossed)
        };
        self.fabric.nodes.iter().map(of_node).fold(0.0, f64::max)
    }

    /// Other ranks of a group, in the node of one of them and in other nodes.
    fn others(&self, among: Among, node: &Node) -> [f64; 2] {
        let all = f64::from(self.program.group_ranks(among).saturating_sub(1));
        let near = match among {
            Among::All => f64::from(node.ranks) - 1.0,
            Among::Slices => *self.near.slices.get_or_init(|| self.near(among)),
            Among::Copies => *self.near.copies.get_or_init(|| self.near(among)),
        };
        [near, all - near]
    }

    /// Other ranks of a group that the first or the last rank has in its node, whichever has fewer.
    fn near(&self, among: Among) -> f64 {
        let last = self.program.ranks.saturating_sub(1);
        let of_rank = |rank: u32| {
            let group = self.program.group(rank, among);
            let node = self.cluster.node_of(rank);
            let others = group
                .others(group.place(rank))
                .map(|place| group.rank(place));
            others
                .filter(|other| self.cluster.node_of(*other) == node)
                .count()
        };
        of_rank(0).min(of_rank(last)) as f64
    }
}

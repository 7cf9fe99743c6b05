//! Costs of exchanging rows between parts.

use super::{Compiler, ExchangeCost, TransferCost};
use crate::simulate::fabric::{Class, Flow};
use gnnc_ir::kernel::End;
use gnnc_ir::program::instr::Encoded;
use gnnc_ir::program::{Ref, Skip};

/// What is exchanged.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a> {
    pub(super) buffer: Ref,
    pub(super) end: End,
    pub(super) encoded: &'a Option<Encoded>,
    pub(super) skip: Option<Skip>,
}

/// The messages of the second tier.
#[derive(Clone, Copy, Default)]
struct Hop {
    /// Bytes that the rank sends.
    sent: f64,
    /// Seconds from the end of the first tier until all have arrived.
    seconds: f64,
}

impl Compiler<'_> {
    /// What happens after the rows of an exchange have crossed: ranks pass them on inside their node. Of a reduction, whose
    /// rows are added inside their node first, it is the crossing itself that comes second; both take as long in either
    /// order. Nothing if owners send each reader its own copy.
    fn second_hop(&self, flow: &Flow, row: f64, reverse: bool) -> Hop {
        let [sent, received] = match reverse {
            false => [flow.passed * row, flow.forwarded * row],
            true => [flow.forwarded * row, flow.passed * row],
        };
        if flow.passed + flow.forwarded == 0.0 {
            return Hop::default();
        }
        let inside = &self.cluster.inside;
        let shared = inside.sharers(f64::from(self.cluster.devices_per_node.max(1)));
        let readers = self
            .parts
            .nodes
            .as_ref()
            .map_or(1, |nodes| nodes.node_ranks);
        let packing = self.pass(sent, sent, 0.0) + self.pass(received, received, 0.0);
        let seconds = self.latency(readers.saturating_sub(1), false)
            + self.seconds(shared * sent.max(received), inside)
            + packing;
        Hop { sent, seconds }
    }

    /// An exchange that may be left out costs its long-run mean over epochs: a share of the blocks
    /// is sent, and all of them are filled in from copies.
    pub(super) fn exchange(&self, rows: Rows, reverse: bool, name: usize) -> TransferCost {
        let Rows {
            buffer,
            end,
            encoded,
            skip,
        } = rows;
        let share = skip.map_or(1.0, |skip| 1.0 / skip.rule.period() as f64);
        let held = self.program.buffer(buffer.buffer);
        let row = f64::from(held.row_words()) * 4.0 * self.share.rows;
        // Bytes of a row between nodes, and inside: in two tiers, rows are encoded only in between.
        let far = f64::from(Encoded::row_words(encoded, held)) * 4.0 * self.share.rows;
        let near = match self.program.node_ranks {
            None => far,
            Some(_) => row,
        };
        let measured = self.messages(name);
        let cost = |class: &Class| {
            let flow = match end {
                _ if held.extent.of_whole_graph() => &class.of_groups,
                End::Src => &class.flow,
                End::Dst => &class.targets,
            };
            let turn = |rows_in: f64, rows_out: f64, row: f64| {
                if reverse {
                    [rows_in * row, rows_out * row]
                } else {
                    [rows_out * row, rows_in * row]
                }
            };
            let inside = turn(flow.inside_in, flow.inside_out, near).map(|bytes| share * bytes);
            let between = turn(flow.between_in, flow.between_out, far).map(|bytes| share * bytes);
            // Halo rows are contiguous; the rows others read are picked one by one.
            let picked = (flow.inside_out + flow.between_out) * row;
            let (before, after) = if reverse {
                (0.0, self.pass(2.0 * picked, picked, picked / 4.0))
            } else {
                let copied = skip.map_or(0.0, |_| (flow.inside_in + flow.between_in) * row);
                (
                    self.pass(share * picked, share * picked, 0.0),
                    self.pass(copied, copied, 0.0),
                )
            };
            let hop = self.second_hop(flow, row, reverse);
            let mut coded = [0.0; 2];
            if let Some(encoded) = encoded {
                // Of a chunk without rows nothing is sent.
                let of = |bytes: [f64; 2], row: f64| {
                    bytes.map(|bytes| bytes / row.max(f64::MIN_POSITIVE))
                };
                let mut rows = of(between, far);
                if self.program.node_ranks.is_none() {
                    let inside = of(inside, near);
                    rows = [rows[0] + inside[0], rows[1] + inside[1]];
                }
                coded = rows.map(|rows| self.coding(encoded.wire, rows * row, rows * far));
            }
            let bytes_sent = (inside[0] + between[0] + hop.sent).round() as u64;
            let active = flow.messages > 0;
            if let Some(messages) = &measured {
                // Blocks left out take no time; blocks sent take the full time in their share of
                // the epochs.
                let rows = flow.inside_out + flow.between_out;
                let all = bytes_sent as f64 / share;
                let half = share * messages.half(all.round() as u64, rows);
                let hop = match hop.sent > 0.0 {
                    true => {
                        messages.latency() + messages.copying(hop.sent as u64, flow.passed, None)
                    }
                    false => hop.seconds,
                };
                return ExchangeCost {
                    before: half + coded[0],
                    handling: 0.0,
                    latency: share * messages.latency(),
                    inside: [0.0; 2],
                    between: [0.0; 2],
                    after: half + coded[1] + hop,
                    active,
                    bytes_sent,
                };
            }
            let latency = self.latency(flow.messages, between[0] + between[1] > 0.0);
            let crossed = [inside, between].map(|[sent, received]| sent + received);
            ExchangeCost {
                before: before + coded[0],
                handling: self.handling(crossed),
                latency: share * latency,
                inside: inside.map(|bytes| self.seconds(bytes, &self.cluster.inside)),
                between: between.map(|bytes| self.seconds(bytes, &self.cluster.between)),
                after: after + coded[1] + hop.seconds,
                active,
                bytes_sent,
            }
        };
        TransferCost::Halo {
            costs: self.fabric.classes.iter().map(cost).collect(),
            shared: [
                self.cluster.inside.shared_by,
                self.cluster.between.shared_by,
            ],
        }
    }
}

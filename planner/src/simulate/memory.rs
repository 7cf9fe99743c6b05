//! The memory of the rank that needs most.

use crate::parts::{Messages, Parts};
use gnnc_ir::cluster::{Cluster, DeviceKind};
use gnnc_ir::kernel::{Body, End};
use gnnc_ir::memory::{self, layout};
use gnnc_ir::op::Loss;
use gnnc_ir::program::{Extent, Instr, Product, Program, RankSizes, Role};
use gnnc_ir::traffic::{all_reduce_floats, chunk};
use gnnc_ir::types::EdgeSet;
use gnnc_ir::units::Bytes;

pub(super) fn peak(program: &Program, cluster: &Cluster, parts: &Parts) -> Bytes {
    let buffers = |sizes: &RankSizes| layout(program, sizes).total_bytes;
    worst(program, cluster, parts, &buffers)
}

/// What [`peak`] cannot be below.
pub(super) fn least(program: &Program, cluster: &Cluster, parts: &Parts) -> Bytes {
    let buffers = |sizes: &RankSizes| memory::least(program, sizes);
    worst(program, cluster, parts, &buffers)
}

/// Memory of the rank that needs most, with what buffers take.
fn worst(
    program: &Program,
    cluster: &Cluster,
    parts: &Parts,
    buffers: &dyn Fn(&RankSizes) -> u64,
) -> Bytes {
    let mut needs = Needs::default();
    for instrs in [&program.setup, &program.step, &program.eval] {
        needs.collect(instrs, program);
    }
    for buffer in &program.buffers {
        if buffer.role == Role::FeatureValues {
            let sliced = buffer.extent == Extent::SliceNonzeros;
            needs.features[usize::from(sliced)].0 = true;
        }
    }
    // Each size once: of a thousand ranks, most are equal.
    let mut seen: Vec<(RankSizes, u64, u64, u64)> = Vec::new();
    let mut peak = 0;
    for (rank, sizes) in parts.sizes.iter().enumerate() {
        let sent = match &parts.messages {
            Messages::Matrix(rows) => rows[rank].iter().sum(),
            Messages::Uniform => sizes.halo,
        };
        let messages = needs.messages(parts, rank);
        let sharers = sharers(cluster, rank as u32, program.ranks);
        if !seen.contains(&(*sizes, sent, messages, sharers)) {
            seen.push((*sizes, sent, messages, sharers));
            let own = needs.bytes(sizes, sent) + needs.whole_bytes(sizes) / sharers;
            let own = messages.saturating_mul(4).saturating_add(own);
            peak = peak.max(buffers(sizes).saturating_add(own));
        }
    }
    Bytes(peak)
}

/// Ranks that keep one copy of what is the same on all of them. Processors of a node share their
/// memory, and their ranks are threads of one process; other devices have memory of their own.
fn sharers(cluster: &Cluster, rank: u32, ranks: u32) -> u64 {
    let of_node = cluster.devices_per_node;
    let before = cluster.node_of(rank).saturating_mul(of_node);
    match cluster.device.kind {
        DeviceKind::Cpu => ranks.saturating_sub(before).clamp(1, of_node.max(1)).into(),
        DeviceKind::Gpu => 1,
    }
}

/// What a rank keeps besides the program's buffers.
#[derive(Default)]
struct Needs {
    /// Of the own arcs and of the whole graph's, by edge set: whether they are walked, and whether by
    /// source too.
    arcs: [[[bool; 2]; 2]; 2],
    /// Of own rows and of own columns: whether the sparse features' places are kept, and the columns
    /// if they are walked by column too.
    features: [(bool, Option<u64>); 2],
    /// Columns of the widest exchange.
    exchanged: u64,
    /// Columns of the widest redistribution.
    redistributed: u64,
    /// Floats of the longest all-reduced message.
    reduced: u64,
    /// Floats of a vertex's labels.
    labels: u64,
}

impl Needs {
    fn collect(&mut self, instrs: &[Instr], program: &Program) {
        for instr in instrs {
            match instr {
                Instr::Launch(launch) => {
                    let whole = launch.rows == Extent::All;
                    self.kernel(&program.kernel(launch.kernel).body, whole);
                }
                Instr::SparseMatMul {
                    product: Product::Tn,
                    values,
                    inner,
                    ..
                } => {
                    let sliced = program.sparse_rows(*values) == Extent::All;
                    self.features[usize::from(sliced)].1 = Some(u64::from(*inner));
                }
                Instr::HaloExchange { buffer } | Instr::HaloReduce { buffer } => {
                    let columns = u64::from(program.buffer(buffer.buffer).columns);
                    self.exchanged = self.exchanged.max(columns);
                }
                Instr::AllReduce { buffers } => {
                    self.reduced = self.reduced.max(all_reduce_floats(buffers, program));
                }
                Instr::Loss { loss, classes, .. } | Instr::Metrics { loss, classes, .. } => {
                    self.labels = self.labels.max(match loss {
                        Loss::CrossEntropy => 1,
                        Loss::BinaryCrossEntropy => u64::from(*classes),
                    });
                }
                Instr::Repeat { body, .. } => self.collect(body, program),
                Instr::MatMul { .. }
                | Instr::SparseMatMul { .. }
                | Instr::SparseDropout { .. }
                | Instr::Densify { .. } => {}
                Instr::Redistribute { heads, width, .. } => {
                    let columns = u64::from(*heads) * u64::from(*width);
                    self.redistributed = self.redistributed.max(columns);
                }
            }
        }
    }

    fn kernel(&mut self, body: &Body, whole: bool) {
        let set = match body.edge_set() {
            Some(EdgeSet::Plain) => 0,
            Some(EdgeSet::Looped) => 1,
            None => return,
        };
        let arcs = &mut self.arcs[usize::from(whole)][set];
        arcs[0] = true;
        arcs[1] |= matches!(body, Body::Gather { to: End::Src, .. });
    }

    /// Floats that a rank keeps for messages from the first epoch on: for each other rank the
    /// longest message to it, and an all-reduced message with the part that the rank adds up.
    fn messages(&self, parts: &Parts, rank: usize) -> u64 {
        let ranks = parts.sizes.len() as u64;
        if ranks < 2 {
            return 0;
        }
        let chunk = chunk(self.reduced, ranks as u32, 0);
        let part = chunk.end - chunk.start;
        let to_others: u64 = match &parts.messages {
            Messages::Matrix(rows) => {
                let others = (0..rows.len()).filter(|&other| other != rank);
                let longest = |other: usize| {
                    let rows = rows[rank][other].max(rows[other][rank]);
                    part.max(rows.saturating_mul(self.exchanged))
                };
                others.map(longest).fold(0, u64::saturating_add)
            }
            Messages::Uniform => {
                let rows = parts.sizes[rank].halo.div_ceil(ranks - 1);
                (ranks - 1).saturating_mul(part.max(rows.saturating_mul(self.exchanged)))
            }
        };
        let moved = parts.sizes[rank].inner.saturating_mul(self.redistributed);
        // The sum of the own chunk, and the message that takes it to all others.
        to_others.max(moved).saturating_add(2 * part)
    }

    /// What is the same on all ranks: the topology of the whole graph where it is walked, global ids
    /// of all rows and the owners' lists of them.
    fn whole_bytes(&self, sizes: &RankSizes) -> u64 {
        let arcs = arc_bytes(&self.arcs[1], sizes, Extent::All, sizes.vertices);
        let ids = match self.redistributed {
            0 => 0,
            _ => 8 * sizes.vertices,
        };
        arcs + ids
    }

    /// Topology, split, labels and sparse features' indices of one rank.
    fn bytes(&self, sizes: &RankSizes, sent: u64) -> u64 {
        let local = sizes.rows(Extent::Local);
        let mut bytes = arc_bytes(&self.arcs[0], sizes, Extent::Inner, local);
        // Global ids, rows to send; labels and the split.
        bytes += 4 * local + 4 * sent;
        bytes += sizes.inner * (4 * self.labels + 3);
        let stored = [
            (sizes.inner, sizes.feature_nonzeros),
            (sizes.vertices, sizes.slice_nonzeros),
        ];
        for ((kept, by_column), (rows, nonzeros)) in self.features.into_iter().zip(stored) {
            if kept {
                bytes += 8 * (rows + 1) + 4 * nonzeros;
            }
            if let Some(columns) = by_column {
                bytes += 8 * (columns + 1) + 8 * nonzeros;
            }
        }
        bytes
    }
}

/// Arcs into rows, from `sources` vertices, by edge set: whether they are walked, and whether by source too.
fn arc_bytes(sets: &[[bool; 2]; 2], sizes: &RankSizes, rows: Extent, sources: u64) -> u64 {
    let of_set = |(set, [walked, by_source]): (EdgeSet, &[bool; 2])| {
        let arcs = sizes.rows(rows.arcs(set));
        let by_destination = 8 * (sizes.rows(rows) + 1) + 4 * arcs;
        // Indices, and the position of each arc by destination.
        let other_way = 8 * (sources + 1) + 8 * arcs;
        u64::from(*walked) * by_destination + u64::from(*by_source) * other_way
    };
    let sets = [EdgeSet::Plain, EdgeSet::Looped].into_iter().zip(sets);
    sets.map(of_set).sum()
}

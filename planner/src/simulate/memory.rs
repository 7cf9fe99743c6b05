//! The memory of the rank that needs most.

use crate::parts::{Messages, Parts};
use gnnc_ir::kernel::{Body, End};
use gnnc_ir::memory::layout;
use gnnc_ir::op::Loss;
use gnnc_ir::program::{Extent, Instr, Moved, Product, Program, RankSizes};
use gnnc_ir::traffic::{all_reduce_floats, chunk};
use gnnc_ir::types::EdgeSet;
use gnnc_ir::units::Bytes;

pub(super) fn peak(program: &Program, parts: &Parts) -> Bytes {
    let mut needs = Needs::default();
    for instrs in [&program.setup, &program.step, &program.eval] {
        needs.collect(instrs, program);
    }
    // Each size once: of a thousand ranks, most are equal.
    let mut seen: Vec<(RankSizes, u64, u64)> = Vec::new();
    let mut peak = 0;
    for (rank, sizes) in parts.sizes.iter().enumerate() {
        let sent = match &parts.messages {
            Messages::Matrix(rows) => rows[rank].iter().sum(),
            Messages::Uniform => sizes.halo,
        };
        let messages = needs.messages(parts, rank);
        if !seen.contains(&(*sizes, sent, messages)) {
            seen.push((*sizes, sent, messages));
            let own = needs.bytes(program, sizes, sent);
            let own = messages.saturating_mul(4).saturating_add(own);
            let buffers = layout(program, sizes).total_bytes;
            peak = peak.max(buffers.saturating_add(own));
        }
    }
    Bytes(peak)
}

/// What a rank keeps besides the program's buffers.
#[derive(Default)]
struct Needs {
    /// Of the own arcs and of the whole graph's, by edge set: whether they are walked, and whether by
    /// source too.
    arcs: [[[bool; 2]; 2]; 2],
    /// Columns of the sparse features, if they are walked by column too.
    feature_columns: Option<u64>,
    /// Sets of rows that move with chunks: their vertices, and what is new to them by either end.
    sets: [bool; 3],
    /// What is under way now, by tag.
    under_way: Vec<(u32, Sent)>,
    /// What is under way at once, after each instruction that sends.
    sent: Vec<Sent>,
    /// Floats of a vertex's labels.
    labels: u64,
}

/// Messages under way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sent {
    /// Columns of exchanged rows.
    exchanged: u64,
    /// Columns of redistributed rows.
    redistributed: u64,
    /// Floats of all-reduced messages.
    reduced: u64,
}

impl Sent {
    fn of(instr: &Instr, program: &Program) -> Self {
        let mut sent = Self::default();
        match instr {
            Instr::HaloExchange { buffer } | Instr::HaloReduce { buffer } => {
                sent.exchanged = u64::from(program.buffer(buffer.buffer).columns);
            }
            Instr::AllReduce { buffers } => sent.reduced = all_reduce_floats(buffers, program),
            Instr::Redistribute {
                heads,
                width,
                moved,
                ..
            } => {
                let columns = u64::from(*heads) * u64::from(*width);
                // As many floats as so many columns of all own rows.
                let chunks = moved.chunk().map_or(1, |chunk| u64::from(chunk.of.max(1)));
                sent.redistributed = columns.div_ceil(chunks);
            }
            _ => {}
        }
        sent
    }

    fn and(self, other: &Self) -> Self {
        Self {
            exchanged: self.exchanged.saturating_add(other.exchanged),
            redistributed: self.redistributed.saturating_add(other.redistributed),
            reduced: self.reduced.saturating_add(other.reduced),
        }
    }
}

impl Needs {
    fn send(&mut self, sent: Sent) {
        let all = self
            .under_way
            .iter()
            .fold(sent, |all, (_, one)| all.and(one));
        if !self.sent.contains(&all) {
            self.sent.push(all);
        }
    }

    fn rows(&mut self, instr: &Instr) {
        let Instr::Redistribute { moved, .. } = instr else {
            return;
        };
        match moved {
            Moved::All => {}
            Moved::Rows(_) => self.sets[0] = true,
            Moved::New(End::Dst, _) => self.sets[1] = true,
            Moved::New(End::Src, _) => self.sets[2] = true,
        }
    }

    fn collect(&mut self, instrs: &[Instr], program: &Program) {
        for instr in instrs {
            match instr {
                Instr::Launch(launch) => {
                    let whole = launch.rows == Extent::All;
                    self.kernel(&program.kernel(launch.kernel).body, whole);
                }
                Instr::SparseMatMul {
                    product: Product::Tn,
                    inner,
                    ..
                } => self.feature_columns = Some(u64::from(*inner)),
                Instr::HaloExchange { .. }
                | Instr::HaloReduce { .. }
                | Instr::AllReduce { .. }
                | Instr::Redistribute { .. } => {
                    self.rows(instr);
                    self.send(Sent::of(instr, program));
                }
                Instr::Begin(transfer) => {
                    self.rows(&transfer.what);
                    let sent = Sent::of(&transfer.what, program);
                    self.send(sent);
                    self.under_way.push((transfer.tag, sent));
                }
                Instr::Finish(transfer) => self.under_way.retain(|(tag, _)| *tag != transfer.tag),
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

    /// Floats that a rank needs for messages: for each other rank the longest message to it, or all
    /// that are under way at once, and an all-reduced message with the part that the rank adds up.
    fn messages(&self, parts: &Parts, rank: usize) -> u64 {
        let ranks = parts.sizes.len() as u64;
        if ranks < 2 {
            return 0;
        }
        let part = |reduced: u64| {
            let chunk = chunk(reduced, ranks as u32, 0);
            chunk.end - chunk.start
        };
        // What is kept for a rank that owns or reads so many of the rows.
        let most = |rows: u64| -> u64 {
            let one = |s: &Sent| part(s.reduced).saturating_add(rows.saturating_mul(s.exchanged));
            self.sent.iter().map(one).max().unwrap_or(0)
        };
        let to_others: u64 = match &parts.messages {
            Messages::Matrix(rows) => {
                let others = (0..rows.len()).filter(|&other| other != rank);
                others
                    .map(|other| most(rows[rank][other].max(rows[other][rank])))
                    .fold(0, u64::saturating_add)
            }
            Messages::Uniform => {
                let rows = parts.sizes[rank].halo.div_ceil(ranks - 1);
                (ranks - 1).saturating_mul(most(rows))
            }
        };
        let columns = self.sent.iter().map(|sent| sent.redistributed).max();
        let moved = parts.sizes[rank].inner.saturating_mul(columns.unwrap_or(0));
        // The sum of the own chunk, and the message that takes it to all others.
        let sums = self.sent.iter().map(|sent| 2 * part(sent.reduced)).max();
        to_others.max(moved).saturating_add(sums.unwrap_or(0))
    }

    /// Topology, split, labels and sparse features' indices of one rank.
    fn bytes(&self, program: &Program, sizes: &RankSizes, sent: u64) -> u64 {
        let local = sizes.rows(Extent::Local);
        let mut bytes = 0;
        for (whole, sets) in self.arcs.into_iter().enumerate() {
            let (to, from) = match whole {
                0 => (sizes.inner, local),
                _ => (sizes.vertices, sizes.vertices),
            };
            for (set, [walked, by_source]) in
                [EdgeSet::Plain, EdgeSet::Looped].into_iter().zip(sets)
            {
                let extent = if whole == 0 {
                    Extent::Inner
                } else {
                    Extent::All
                };
                let arcs = sizes.rows(extent.arcs(set));
                if walked {
                    bytes += 8 * (to + 1) + 4 * arcs;
                }
                if by_source {
                    // Indices, and the position of each arc by destination.
                    bytes += 8 * (from + 1) + 8 * arcs;
                }
            }
        }
        if self.sent.iter().any(|sent| sent.redistributed > 0) {
            // Global ids of all rows and the owners' lists of them.
            bytes += 8 * sizes.vertices;
        }
        // Ids and places of the rows that move with chunks.
        let sets = self.sets.iter().filter(|set| **set).count() as u64;
        bytes += 8 * sizes.vertices * sets;
        // Global ids, rows to send; labels and the split.
        bytes += 4 * local + 4 * sent;
        bytes += sizes.inner * (4 * self.labels + 3);
        if program.sparse_features {
            bytes += 8 * (sizes.inner + 1) + 4 * sizes.feature_nonzeros;
            if let Some(columns) = self.feature_columns {
                bytes += 8 * (columns + 1) + 8 * sizes.feature_nonzeros;
            }
        }
        bytes
    }
}

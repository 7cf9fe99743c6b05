//! The memory of the rank that needs the most.

use super::Room;
use super::batch::{self, BatchNeeds};

use super::sent::{Sent, Tree};
use crate::lower::offload::MemoryBudget;
use crate::parts::{Messages, Parts};
use gnnc_ir::cluster::{Cluster, DeviceKind};
use gnnc_ir::kernel::{Body, End, Walk};
use gnnc_ir::program::instr;
use gnnc_ir::program::memory::Lives;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{
    BatchSizes, Extent, Instr, Moved, Neighbour, Product, Program, RankSizes, Role,
};
use gnnc_ir::words::types::{BySet, EdgeSet, Level};
use gnnc_ir::words::units::Bytes;

pub(super) fn peak(program: &Program, cluster: &Cluster, parts: &Parts) -> Bytes {
    let lives = Lives::of(program);
    let mut ranks = Vec::new();
    let sharers = |rank| sharers(cluster, rank, program.ranks);
    let kind = cluster.device.kind;
    each(program, parts, kind, &sharers, &mut |sizes, own| {
        ranks.push((
            lives.least(&parts.capacity(sizes)).saturating_add(own),
            *sizes,
            own,
        ));
    });
    // The rank that needs the most is probably first; the others only have to be shown to need no
    // more.
    ranks.sort_by_key(|(least, ..)| std::cmp::Reverse(*least));
    let mut peak = 0u64;
    for (_, sizes, own) in ranks {
        let capacity = parts.capacity(&sizes);
        let buffers = match lives.fits(&capacity, peak.saturating_sub(own)) {
            true => 0,
            false => lives.layout(&capacity).total_bytes,
        };
        peak = peak.max(buffers.saturating_add(own));
    }
    Bytes(peak)
}

/// A lower bound of [`peak`].
pub(super) fn least(program: &Program, cluster: &Cluster, parts: &Parts) -> Bytes {
    let lives = Lives::of(program);
    let mut least = 0u64;
    let sharers = |rank| sharers(cluster, rank, program.ranks);
    let kind = cluster.device.kind;
    each(program, parts, kind, &sharers, &mut |sizes, own| {
        least = least.max(lives.least(&parts.capacity(sizes)).saturating_add(own));
    });
    Bytes(least)
}

/// The memory each rank of a program has for buffers on a device, after everything else.
pub(super) fn budgets(program: &Program, parts: &Parts, device: Room) -> Vec<MemoryBudget> {
    let mut budgets = Vec::new();
    let has = device.bytes.0;
    let alone = |_| 1;
    each(program, parts, device.kind, &alone, &mut |sizes, own| {
        budgets.push(MemoryBudget {
            capacity: parts.capacity(sizes),
            bytes: has.saturating_sub(own),
            lacking: own.saturating_sub(has),
            lists: true,
        });
    });
    budgets
}

/// Visits the distinct ranks, with the bytes each keeps besides buffers, including its part of
/// shared data.
fn each(
    program: &Program,
    parts: &Parts,
    kind: DeviceKind,
    sharers: &dyn Fn(u32) -> u64,
    visit: &mut dyn FnMut(&RankSizes, u64),
) {
    let mut needs = Needs {
        by_column: kind == DeviceKind::Gpu || program.equal_bits,
        equal_bits: program.equal_bits,
        has_targets: program.halo.has_targets(),
        ..Needs::default()
    };
    for phase in Phase::ALL {
        needs.collect(program.list(phase), program);
        if program.batches_of(phase).is_some() {
            needs.batches.push((phase, BatchNeeds::of(program, phase)));
        }
    }
    for buffer in &program.buffers {
        if buffer.role == Role::FeatureValues {
            let sliced = buffer.extent == Extent::SliceNonzeros;
            needs.features[usize::from(sliced)].0 = true;
        }
    }
    // A stage may be ahead of the next one by all chunks.
    let passed = Phase::ALL.map(|phase| passed(program.list(phase), program));
    let row = passed.iter().map(|(row, _)| *row).max().unwrap_or(0);
    let fixed = passed.iter().map(|(_, fixed)| *fixed).max().unwrap_or(0);
    // Visit each size once: among a thousand ranks, most are equal.
    let mut seen: Vec<Seen> = Vec::new();
    let evaluated = parts.in_phase(Phase::Eval);
    let both = parts.with_larger_batches();
    for (rank, sizes) in parts.sizes.iter().enumerate() {
        let sent = match &parts.messages {
            Messages::Matrix(rows) => rows[rank].iter().sum(),
            Messages::Uniform => sizes.halo,
        };
        // Lists of rows that cross and that are passed on, at both ends.
        let tiers = parts.tiers(Some(rank), sizes.halo as f64);
        let lists = tiers.map_or(0.0, |tiers| {
            tiers.crossing + tiers.arriving + tiers.passed + tiers.forwarded
        });
        let sent = sent + lists.ceil() as u64;
        let sharers = sharers(rank as u32);
        let mut one = Seen {
            sizes: *sizes,
            evaluated: evaluated.sizes[rank].batch,
            sent,
            sharers,
            messages: 0,
        };
        // Ranks of equal sizes have equal messages, unless those of each pair are known.
        let uniform = parts.messages == Messages::Uniform;
        let known = (seen.iter()).find(|known| uniform && known.has_sizes_of(&one));
        one.messages = known.map_or_else(|| needs.messages(&both, rank), |known| known.messages);
        if !seen.contains(&one) {
            let messages = one.messages;
            seen.push(one);
            let shared =
                needs.whole_bytes(sizes) + batch::shared_bytes(program, sizes, needs.labels, kind);
            let edges = batch::edge_bytes(program, sizes, kind);
            // Ranks share what their group has.
            let sharers = (parts.groups.as_ref())
                .map_or(sharers, |groups| sharers.min(u64::from(groups.ranks)));
            let own = needs.bytes(sizes, sent) + shared / sharers + edges;
            let samplers = parts.batch.as_ref().map_or(0, |batch| batch.samplers);
            let batches = needs.batches.iter().map(|(phase, needs)| {
                let sizes = match phase {
                    Phase::Setup | Phase::Step => sizes,
                    Phase::Eval => &evaluated.sizes[rank],
                };
                needs.bytes(sizes, samplers, kind)
            });
            let own = own + batches.sum::<u64>();
            let messages = messages.saturating_add(sizes.inner.saturating_mul(row));
            let own = messages
                .saturating_add(fixed)
                .saturating_mul(4)
                .saturating_add(own);
            visit(sizes, own);
        }
    }
}

/// A rank that was visited.
#[derive(PartialEq)]
struct Seen {
    sizes: RankSizes,
    /// Rows of the batches of its evaluations.
    evaluated: BatchSizes,
    /// Rows that it sends to others.
    sent: u64,
    /// Ranks that share data with it.
    sharers: u64,
    /// Words of its messages.
    messages: u64,
}

impl Seen {
    /// Whether it has as many rows as another one.
    fn has_sizes_of(&self, other: &Self) -> bool {
        let of = |one: &Self| (one.sizes, one.evaluated, one.sent);
        of(self) == of(other)
    }
}

/// Words per row that a list sends to other stages before they are received, and words of rows that
/// belong to no vertex. The messages of a run of layers come around only after they were received,
/// so for each adjacent stage those of one run may be waiting.
fn passed(instrs: &[Instr], program: &Program) -> (u64, u64) {
    let mut waiting = [(0, 0); 2];
    for instr in instrs {
        let sent = if let Instr::Chunks(instr::Chunks { body, .. }) = instr {
            body
        } else {
            std::slice::from_ref(instr)
        };
        for (with, most) in [Neighbour::Next, Neighbour::Previous]
            .iter()
            .zip(&mut waiting)
        {
            let there = |instr: &Instr| {
                let Instr::Send(stage_message) = instr else {
                    return None;
                };
                (stage_message.with == *with).then(|| stage_message.words(program))
            };
            let all = sent.iter().filter_map(there);
            let (row, fixed) = all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            *most = (most.0.max(row), most.1.max(fixed));
        }
    }
    let [next, previous] = waiting;
    (next.0 + previous.0, next.1 + previous.1)
}

/// Number of ranks that share one copy of data common to all. CPUs of a node share memory, and
/// their ranks are threads of one process; other devices have their own memory.
fn sharers(cluster: &Cluster, rank: u32, ranks: u32) -> u64 {
    let of_node = cluster.devices_per_node;
    let before = cluster.node_of(rank).saturating_mul(of_node);
    match cluster.device.kind {
        DeviceKind::Cpu => ranks.saturating_sub(before).clamp(1, of_node.max(1)).into(),
        DeviceKind::Gpu => 1,
    }
}

/// Data a rank keeps besides the program's buffers.
#[derive(Default)]
struct Needs {
    /// By own edges and edges of the whole graph, then by edge set: how they are walked.
    edges: [BySet<Edges>; 2],
    /// The same for types: the number of types edges are sorted into; 0 if they are not.
    types: [u32; 2],
    /// For own rows and own columns: whether positions of sparse features are kept, and the number
    /// of columns if their transpose is multiplied.
    features: [(bool, Option<u64>); 2],
    /// Whether that is done by column.
    by_column: bool,
    /// Sets of rows that move with chunks: the chunks' vertices, and those new to them by either
    /// end.
    sets: [bool; 3],
    /// Messages in flight now, by tag.
    under_way: Vec<(u32, Sent)>,
    /// Messages in flight at once, after each sending instruction.
    sent: Vec<Sent>,
    /// Whether sums over ranks are made along the tree of leaves.
    equal_bits: bool,
    /// Whether halos have targets of edges.
    has_targets: bool,
    /// Floats of labels per vertex.
    labels: u64,
    /// Lists of the batches at hand, by the list that runs over them.
    batches: Vec<(Phase, BatchNeeds)>,
}

/// Edges of one kind.
#[derive(Clone, Copy, Default)]
struct Edges {
    /// Whether they are walked, and whether also by source.
    walked: [bool; 2],
    /// Whether lists of their ends are kept, by destination and by source.
    kept: [bool; 2],
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
        let Instr::Redistribute(instr::Redistribute { moved, .. }) = instr else {
            return;
        };
        match moved {
            Moved::All | Moved::Level(_) => {}
            Moved::Rows(_) => self.sets[0] = true,
            Moved::New(End::Dst, _) => self.sets[1] = true,
            Moved::New(End::Src, _) => self.sets[2] = true,
        }
    }

    fn collect(&mut self, instrs: &[Instr], program: &Program) {
        for instr in instrs {
            let finishes = matches!(instr, Instr::Finish(_));
            let sends = matches!(instr, Instr::Send(_) | Instr::Redistribute(_));
            if sends || !finishes && instr.whole().communicates() {
                self.rows(instr.whole());
                let sent = Sent::of(instr.whole(), program);
                self.send(sent);
                if let Instr::Begin(transfer) = instr {
                    self.under_way.push((transfer.tag, sent));
                }
            }
            if let Instr::Finish(transfer) = instr {
                self.under_way.retain(|(tag, _)| *tag != transfer.tag);
            }
            let launched = instr.launch().filter(|launch| !launch.rows.of_batch());
            if let Some(launch) = launched.filter(|_| matches!(instr, Instr::Launch(_))) {
                let whole = launch.rows == Extent::All;
                let fetched = !launch.lists.is_empty();
                self.kernel(&program.kernel(launch.kernel).body, whole, fetched);
            }
            if let Instr::SparseMatMul(one) = instr
                && one.product == Product::Tn
            {
                let sliced = program.sparse_rows(one.values) == Extent::All;
                self.features[usize::from(sliced)].1 = Some(u64::from(one.inner));
            }
            if let Some(labels) = instr.labels() {
                let own = labels.loss.per_vertex(labels.classes);
                self.labels = self.labels.max(own.into());
            }
            self.collect(instr.body().unwrap_or_default(), program);
        }
    }

    /// Records the edges a kernel walks; their ends are `fetched` if they are not kept on the
    /// device.
    fn kernel(&mut self, body: &Body, whole: bool, fetched: bool) {
        let Some(set) = body.edge_set() else {
            return;
        };
        let by_source = Walk::of(body) == Walk::EdgesBySource;
        let edges = self.edges[usize::from(whole)].of_mut(set);
        edges.walked[0] = true;
        edges.walked[1] |= by_source;
        if let Body::TypeSum { types, .. } = body {
            self.types[usize::from(whole)] = *types;
            return;
        }
        edges.kept[usize::from(by_source)] |= !fetched;
    }

    /// Words a rank needs for messages: for each other rank the longest message to it, or all those
    /// in flight at once; and an all-reduce message with the chunk the rank sums.
    fn messages(&self, parts: &Parts, rank: usize) -> u64 {
        let ranks = parts.sizes.len() as u64;
        if ranks < 2 {
            return 0;
        }
        let tree = Tree::of(self.equal_bits, parts);
        // Message memory for a rank that reads `read` of the rows, and has `owned` that this one reads.
        let most = |read: u64, owned: u64| -> u64 {
            let one = |s: &Sent| {
                let rows = read.saturating_mul(s.exchanged);
                let back = owned.saturating_mul(s.returned);
                let rows = rows.saturating_add(back);
                let reduced = s.reduced.saturating_mul(tree.shares);
                reduced.saturating_add(rows)
            };
            self.sent.iter().map(one).max().unwrap_or(0)
        };
        // Rows that are passed on go in messages of their own, beside those that cross.
        let tiers = parts.tiers(Some(rank), parts.sizes[rank].halo as f64);
        let passed = tiers.map_or(0, |tiers| most(tiers.passed as u64, tiers.forwarded as u64));
        let to_others: u64 = match &parts.messages {
            Messages::Matrix(rows) => {
                let others = (0..rows.len()).filter(|&other| other != rank);
                let targets = parts.targets.as_ref();
                let targets = targets.and_then(|targets| targets.rows.as_ref());
                let both = |from: usize, to: usize| {
                    rows[from][to] + targets.map_or(0, |targets| targets[from][to])
                };
                others
                    .map(|other| most(both(rank, other), both(other, rank)))
                    .fold(0, u64::saturating_add)
            }
            Messages::Uniform => {
                let rows = parts.sizes[rank].halo.div_ceil(ranks - 1);
                (ranks - 1).saturating_mul(most(rows, rows))
            }
        };
        let columns = self.sent.iter().map(|sent| sent.redistributed).max();
        let moved = parts.sizes[rank].inner.saturating_mul(columns.unwrap_or(0));
        // Others ask for about as many rows as they are asked for.
        let words = self.sent.iter().map(|sent| sent.fetched).max();
        let fetched = self.batches.iter().map(|(_, batch)| {
            let sizes = &parts.sizes[rank].batch;
            let of_level = |level: Level| sizes.asked_for(level.number, batch.renews);
            let asked = batch.asks.map_or(0, of_level);
            // As many batches of rows are in flight as periods pass until they are taken.
            let flights = u64::from(batch.under_way.saturating_sub(1).max(1));
            flights.saturating_mul(asked.saturating_mul(words.unwrap_or(0)))
        });
        let moved = moved.max(fetched.max().unwrap_or(0));
        // Memory for the messages that fill a cache is kept.
        let cached = self.sent.iter().map(|sent| sent.cached).max();
        let moved = moved.max(cached.unwrap_or(0));
        let of_levels = self.sent.iter();
        let of_levels = of_levels.map(|sent| sent.words_of_levels(&parts.sizes[rank]));
        let moved = moved.max(of_levels.max().unwrap_or(0));
        // The sums of the own chunk, and the message that sends one to all others.
        let sums = self
            .sent
            .iter()
            .map(|sent| sent.summed.saturating_mul(tree.slots + 1))
            .max();
        // About as many rows of the group go to others as come from them.
        let of_groups = self.sent.iter().map(|sent| sent.of_groups).max();
        let of_groups = of_groups
            .unwrap_or(0)
            .saturating_mul(parts.sizes[rank].all_halo);
        let words = to_others.max(moved).max(of_groups).saturating_add(passed);
        words.saturating_add(sums.unwrap_or(0))
    }

    /// Data shared by all ranks: the topology of the whole graph if it is walked, the global ids of
    /// all rows, and the owners' lists of them.
    fn whole_bytes(&self, sizes: &RankSizes) -> u64 {
        let sources = sizes.rows(Extent::AllLocal);
        let edges = edge_bytes(&self.edges[1], sizes, Extent::All, sources)
            + type_bytes(self.types[1], sizes, Extent::All);
        let ids = self.sent.iter().any(|sent| sent.redistributed > 0);
        // Other groups read about as many rows as this one reads of them.
        let ids = if ids { 8 * sources } else { 0 };
        // Ids and positions of the rows that move with chunks.
        let sets = self.sets.iter().filter(|set| **set).count() as u64;
        edges + ids + 8 * sizes.vertices * sets
    }

    /// Topology, splits, labels and indices of sparse features of one rank.
    fn bytes(&self, sizes: &RankSizes, sent: u64) -> u64 {
        let local = sizes.rows(Extent::Local);
        // With targets, halo rows may have edges into them too.
        let rows = if self.has_targets {
            Extent::Local
        } else {
            Extent::Inner
        };
        let mut bytes = edge_bytes(&self.edges[0], sizes, rows, local)
            + type_bytes(self.types[0], sizes, Extent::Inner);
        // Global ids, rows to send; labels and splits.
        bytes += 4 * local + 4 * sent;
        bytes += sizes.inner * (4 * self.labels + 3);
        let stored = [
            (sizes.inner, sizes.feature_nonzeros),
            (sizes.vertices, sizes.slice_nonzeros),
        ];
        for ((kept, transposed), (rows, nonzeros)) in self.features.into_iter().zip(stored) {
            if kept {
                bytes += 8 * (rows + 1) + 4 * nonzeros;
            }
            if let Some(columns) = transposed {
                // Nonzeros of each column.
                bytes += 4 * columns;
                if self.by_column {
                    bytes += 8 * (columns + 1) + 8 * nonzeros;
                }
            }
        }
        bytes
    }
}

/// The positions of in-edges of rows, by type.
fn type_bytes(types: u32, sizes: &RankSizes, rows: Extent) -> u64 {
    match types {
        0 => 0,
        types => 8 * (u64::from(types) + 1) + 4 * sizes.rows(rows.edges(EdgeSet::Plain)),
    }
}

/// Bytes of the in-edges of rows, from `sources` vertices, for each edge set.
fn edge_bytes(sets: &BySet<Edges>, sizes: &RankSizes, rows: Extent, sources: u64) -> u64 {
    let of_set = |(set, of): (EdgeSet, &Edges)| {
        if !of.walked.contains(&true) {
            return 0;
        }
        let edges = sizes.rows(rows.edges(set));
        let [kept, other_kept] = of.kept.map(u64::from);
        let by_destination = 8 * (sizes.rows(rows) + 1) + 4 * edges * kept;
        // Indices, and each edge's position by destination.
        let other_way = 8 * (sources + 1) + 8 * edges * other_kept;
        let [walked, by_source] = of.walked.map(u64::from);
        walked * by_destination + by_source * other_way
    };
    sets.each().map(of_set).sum()
}

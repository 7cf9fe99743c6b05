//! Memory of the lists of a sampled batch, besides buffers.

use gnnc_ir::cluster::DeviceKind;
use gnnc_ir::kernel::Walk;
use gnnc_ir::program::instr::ShareLevels;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Among, BatchSizes, Buffer, Extent, Instr, Program, RankSizes};
use gnnc_ir::words::types::{EdgeSet, Level, Of};

/// What a rank that samples keeps.
#[derive(Default)]
pub(super) struct BatchNeeds {
    /// Edges that kernels walk, and whether by source.
    walked: Vec<(Extent, bool)>,
    /// Edges whose sources are also named as vertices.
    vertices: Vec<Extent>,
    /// The level of which rows are fetched from other ranks.
    pub(super) asks: Option<Level>,
    /// Whether ranks name rows that they have cached as well.
    pub(super) renews: bool,
    /// Rows of other ranks that a rank keeps copies of.
    copied: u64,
    /// The levels that ranks have of each other.
    shares: Option<ShareLevels>,
    /// How many ranks share them.
    sharers: u32,
    /// Whether no other rank owns vertices.
    alone: bool,
    /// Batches under way.
    pub(super) under_way: u32,
    /// Numbers of a batch, which threads that draw ahead make too.
    numbers: Vec<Buffer>,
}

impl BatchNeeds {
    /// The needs of a program's list.
    pub(super) fn of(program: &Program, phase: Phase) -> Self {
        let mut needs = Self {
            asks: program.asks(phase),
            renews: program.renews(),
            copied: program.copied(),
            shares: program.shares(phase),
            sharers: program.group_ranks(Among::Slices),
            alone: program.ranks <= 1,
            under_way: program.lag(phase) + 1,
            ..Self::default()
        };
        for instr in program.batch_of(phase) {
            needs.collect(instr, program);
        }
        needs
    }

    /// Records the edges that an instruction walks, and the numbers that it writes.
    fn collect(&mut self, instr: &Instr, program: &Program) {
        if let Instr::Numbers(numbers) = instr {
            let of_rank = numbers
                .outputs
                .iter()
                .filter(|one| one.drawn.level().of == Of::One);
            let buffers = of_rank.map(|one| program.buffer(one.at.buffer).clone());
            self.numbers.extend(buffers);
        }
        let Some(launch) = instr.launch().filter(|launch| launch.rows.of_batch()) else {
            return;
        };
        let body = &program.kernel(launch.kernel).body;
        let Some(edges) = launch.rows.walked(body) else {
            return;
        };
        let by_source = Walk::of(body) == Walk::EdgesBySource;
        if launch.reads_vertices(program) && !self.vertices.contains(&edges) {
            self.vertices.push(edges);
        }
        for one in [(edges, false), (edges, by_source)] {
            if !self.walked.contains(&one) {
                self.walked.push(one);
            }
        }
    }

    /// Bytes of a rank's draws, of the edges as kernels walk them, and of the rows of each owner. So many
    /// `samplers` draw two batches each ahead. GPUs have the lists alone; the rest stays with their hosts.
    pub(super) fn bytes(&self, sizes: &RankSizes, samplers: u32, kind: DeviceKind) -> u64 {
        if sizes.batch == BatchSizes::NONE {
            return 0;
        }
        let lists = self.lists(sizes).bytes;
        let under_way = u64::from(self.under_way);
        if kind == DeviceKind::Gpu {
            return lists * under_way;
        }
        let edges: u64 = sizes.batch.edges.iter().sum();
        let batch = 12 * edges + 4 * sizes.batch.levels[0] + lists;
        let samplers = u64::from(samplers);
        // A thread holds the edges of a hop until they are numbered.
        let hop = 12 * sizes.batch.edges.iter().max().copied().unwrap_or(0);
        let numbers = match samplers {
            0 => 0,
            _ => self.numbers.iter().map(|one| one.slot_bytes(sizes)).sum(),
        };
        // Of its copies, and of other ranks' copies of its rows, it knows how old they are.
        let ages = match self.copied {
            0 => 0,
            rows => 4 * (rows + sizes.vertices),
        };
        let tables = 4 * sizes.vertices * (1 + samplers) + samplers * hop;
        ages + tables + (batch + numbers) * (under_way + 2 * samplers)
    }

    /// The lists of a batch that kernels and messages read.
    pub(super) fn lists(&self, sizes: &RankSizes) -> Lists {
        let walked = self.walked.iter().map(|(edges, by_source)| {
            let Extent::LevelEdges(layer, _) = *edges else {
                return Lists::default();
            };
            let below = layer.below().unwrap_or(layer);
            let count = sizes.rows(*edges);
            match by_source {
                false => Lists::new(2, 8 * (sizes.batch.rows(layer) + 1) + 4 * count),
                true => Lists::new(3, 8 * (sizes.batch.rows(below) + 1) + 8 * count),
            }
        });
        let vertices = self.vertices.iter();
        let vertices = vertices.map(|edges| Lists::new(1, 4 * sizes.rows(*edges)));
        // Rows and places by owner, and about as many rows that others ask for.
        let asked = match (self.alone, self.asks) {
            (true, _) | (_, None) => Lists::default(),
            (false, Some(level)) => {
                let own = 8 * sizes.rows(Extent::Level(level));
                Lists::new(
                    3,
                    own + 4 * sizes.batch.asked_for(level.number, self.renews),
                )
            }
        };
        let all = self.shares.map_or_else(Lists::default, |share| {
            Lists::new(3, all_bytes(share, sizes, self.sharers))
        });
        walked
            .chain(vertices)
            .chain([asked, all])
            .fold(Lists::default(), |sum, one| {
                Lists::new(sum.count + one.count, sum.bytes + one.bytes)
            })
    }
}

/// Lists of a batch.
#[derive(Clone, Copy, Default)]
pub(super) struct Lists {
    pub(super) count: u64,
    pub(super) bytes: u64,
}

impl Lists {
    fn new(count: u64, bytes: u64) -> Self {
        Self { count, bytes }
    }
}

/// Bytes of what the ranks of a process share to sample: the graph, and with several ranks the owners,
/// rows and labels of all vertices, and for evaluations on batches their splits. The hosts of GPUs have them.
pub(super) fn shared_bytes(
    program: &Program,
    sizes: &RankSizes,
    labels: u64,
    kind: DeviceKind,
) -> u64 {
    if program.hops() == 0 || kind == DeviceKind::Gpu {
        return 0;
    }
    let splits = 3 * u64::from(program.evaluation.is_some());
    let row = match program.ranks {
        1 => 0,
        _ => 4 + 4 * labels + splits,
    };
    // For each rank the vertices whose rows it keeps, and the row of each vertex among them.
    let cache = program
        .sampling
        .as_ref()
        .and_then(|sampling| sampling.cache);
    let kept = cache.map_or(0, |cache| 4 * (u64::from(cache.rows) + sizes.vertices));
    let kept = kept * u64::from(program.ranks);
    let edges = match program.draws_apart() {
        true => 0,
        false => sizes.all_edges,
    };
    (12 + row) * sizes.vertices + 4 * edges + kept
}

/// Bytes of the edges into a rank's own vertices, if it draws from these only.
pub(super) fn edge_bytes(program: &Program, sizes: &RankSizes, kind: DeviceKind) -> u64 {
    match program.draws_apart() && kind == DeviceKind::Cpu {
        true => 4 * sizes.edges,
        false => 0,
    }
}

/// Bytes of the levels of all ranks: as messages, as lists of the rows of each rank, and as one batch.
fn all_bytes(share: ShareLevels, sizes: &RankSizes, ranks: u32) -> u64 {
    let rows = |level| sizes.batch.rows(Level::all(level));
    let layer = |layer| {
        let (rows, edges) = (
            rows(layer),
            sizes.batch.edges(Level::all(layer), EdgeSet::Plain),
        );
        let message = rows + u64::from(ranks) + edges;
        let positions = if share.places { 2 * edges } else { 0 };
        message + rows + 2 * (2 * rows + 1) + edges + positions
    };
    4 * (3 * rows(0) + (1..=share.level).map(layer).sum::<u64>())
}

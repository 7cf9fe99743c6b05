//! Which views of the data a program reads.

use super::sliced;
use super::walks::LevelWays;
use crate::chunks::ChunkNeeds;
use gnnc_ir::kernel::{End, Kernel, Walk};
use gnnc_ir::program::instr::{DrawnBuffer, ShareLevels};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Extent, Instr, Launch, Product, Program, Role};
use gnnc_ir::words::sampling::{Drawn, Sampling};
use gnnc_ir::words::types::{BySet, Level, Of};

/// The ways edges are walked.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ways {
    /// Whether they are walked at all, by destination.
    pub(crate) walked: bool,
    /// Also by source.
    pub(crate) by_source: bool,
    /// Also by type.
    pub(crate) by_type: bool,
    /// Whether kernels read edges in place, by destination and by source.
    pub(crate) kept: [bool; 2],
    /// Whether edges of a batch also name the vertices at their sources.
    pub(crate) vertices: bool,
}

impl Ways {
    /// How a launch walks its edges.
    fn of(program: &Program, launch: &Launch, kernel: &Kernel) -> Self {
        let walk = Walk::of(&kernel.body);
        let by_source = walk == Walk::EdgesBySource;
        let by_type = walk == Walk::EdgesByType;
        let mut kept = [false; 2];
        // Sums by type read only the positions by type.
        kept[usize::from(by_source)] = launch.lists.is_empty() && !by_type;
        Self {
            walked: true,
            by_source,
            by_type,
            kept,
            vertices: launch.reads_vertices(program),
        }
    }

    /// The union of both.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            walked: self.walked | other.walked,
            by_source: self.by_source | other.by_source,
            by_type: self.by_type | other.by_type,
            vertices: self.vertices | other.vertices,
            kept: [0, 1].map(|n| self.kept[n] | other.kept[n]),
        }
    }
}

/// What the program reads of the batches of a list.
#[derive(Default)]
pub(crate) struct BatchNeeds {
    /// How the edges of a batch are walked.
    pub(crate) layers: LevelWays,
    /// The levels of a batch that ranks have of each other.
    pub(crate) shares: Option<ShareLevels>,
    /// The level of a batch whose rows are fetched from other ranks.
    pub(crate) asks: Option<Level>,
    /// Whether rows are pushed to the ranks that own them.
    pub(crate) pushes: bool,
    /// Periods between the first and the last instruction of a batch.
    pub(crate) lag: u32,
    /// Numbers of the rank's own part of a batch.
    pub(crate) numbers: Vec<Drawn>,
}

impl BatchNeeds {
    fn of(program: &Program, phase: Phase) -> Self {
        let hops = program.batches_of(phase).map_or(0, Sampling::hops);
        let shares = program.shares(phase);
        let above = shares.map_or(0, |share| share.level);
        let none = |count: u8| vec![Default::default(); usize::from(count)];
        let mut needs = Self {
            layers: LevelWays {
                own: none(hops),
                all: none(above),
            },
            shares,
            asks: program.asks(phase),
            pushes: phase == Phase::Step && program.pushes().is_some(),
            lag: program.lag(phase),
            numbers: Vec::new(),
        };
        for instr in program.batch_of(phase) {
            if let Instr::Numbers(numbers) = instr {
                let drawn = numbers.outputs.iter().map(|output| output.drawn);
                needs
                    .numbers
                    .extend(drawn.filter(|one| one.level().of == Of::One));
            }
        }
        for launch in program.batch_of(phase).filter_map(Instr::launch) {
            needs.launch(program, launch);
        }
        needs
    }

    fn launch(&mut self, program: &Program, launch: &Launch) {
        let Some(kernel) = program.kernels.get(launch.kernel.0 as usize) else {
            return;
        };
        let Some(Extent::LevelEdges(layer, set)) = launch.rows.walked(&kernel.body) else {
            return;
        };
        if let Some(edges) = self.layers.of(layer) {
            let ways = edges.of_mut(set);
            *ways = ways.or(Ways::of(program, launch, kernel));
        }
    }
}

/// Which views of the data a program reads.
#[derive(Default)]
pub(crate) struct Needs {
    /// By edge set: how edges into own vertices are walked.
    pub(super) edges: BySet<Ways>,
    /// The same for the edges of the whole graph.
    pub(crate) all_edges: BySet<Ways>,
    /// What the program reads of its batches, to train and to evaluate on.
    pub(crate) batches: [BatchNeeds; 2],
    /// Whether a batch gives the numbers of edges by type.
    pub(crate) type_degrees: bool,
    /// By edge set: whether batches read the features of edges.
    pub(crate) edge_features: BySet<bool>,
    /// By edge set: whether a batch gives the numbers of edges into vertices.
    pub(crate) in_degrees: BySet<bool>,
    /// By edge set: whether a batch gives the numbers of edges out of vertices.
    pub(crate) out_degrees: BySet<bool>,
    /// Whether kernels run over all vertices.
    pub(crate) ids: bool,
    /// Whether labels and splits are read.
    pub(super) labels: bool,
    /// Whether rows are moved to and from all vertices.
    pub(crate) owned: bool,
    /// Whether nonzeros of features are read, of own rows and of own columns; then whether by
    /// column too.
    pub(super) features: [bool; 2],
    pub(super) feature_columns: [bool; 2],
    /// The sets of rows that are moved, and the number of chunks kernels run over.
    pub(crate) chunks: ChunkNeeds,
}

impl Needs {
    /// The needs of a program.
    pub(crate) fn of(program: &Program) -> Self {
        let mut needs = Self {
            batches: [Phase::Step, Phase::Eval].map(|phase| BatchNeeds::of(program, phase)),
            ..Self::default()
        };
        for instrs in [&program.setup, &program.step, &program.eval] {
            needs.collect(instrs, program);
        }
        for buffer in &program.buffers {
            if buffer.role == Role::FeatureValues {
                needs.features[sliced(buffer.extent)] = program.sparse_features;
            }
        }
        needs
    }

    fn collect(&mut self, instrs: &[Instr], program: &Program) {
        for instr in instrs {
            if let Some(launch) = instr.launch() {
                self.launch(program, launch);
            }
            self.labels |= instr.labels().is_some();
            if let Instr::Numbers(numbers) = instr {
                let of_types = |one: &DrawnBuffer| matches!(one.drawn, Drawn::RelationDegree(..));
                self.type_degrees |= numbers.outputs.iter().any(of_types);
                for one in &numbers.outputs {
                    match one.drawn {
                        Drawn::Degree(_, set, End::Src) => *self.out_degrees.of_mut(set) = true,
                        Drawn::Degree(_, set, End::Dst) => *self.in_degrees.of_mut(set) = true,
                        Drawn::EdgeFeatures(_, set, _) => *self.edge_features.of_mut(set) = true,
                        Drawn::Kept(..) | Drawn::Scale(..) | Drawn::Relation(..) => {}
                        Drawn::RelationDegree(..) => {}
                    }
                }
            }
            if let Instr::SparseMatMul(one) = instr
                && one.product == Product::Tn
            {
                let buffer = program.buffers.get(one.values.buffer.0 as usize);
                let kind = buffer.map_or(0, |b| sliced(b.extent));
                self.feature_columns[kind] = true;
            }
            if let Instr::SparseDropout(one) = instr {
                let buffer = program.buffers.get(one.values.buffer.0 as usize);
                self.ids |= buffer.is_some_and(|b| sliced(b.extent) == 1);
            }
            if let Instr::Redistribute(one) = instr.whole() {
                self.owned = true;
                self.chunks.moved(one.moved);
            }
            self.collect(instr.body().unwrap_or_default(), program);
        }
    }

    fn launch(&mut self, program: &Program, launch: &Launch) {
        let Some(kernel) = program.kernels.get(launch.kernel.0 as usize) else {
            return;
        };
        let all = launch.rows.of_whole_graph();
        self.ids |= all;
        let of_edges = launch.chunk.filter(|chunk| chunk.even.is_none());
        self.chunks.count = self.chunks.count.max(of_edges.map(|chunk| chunk.of));
        let of_batch = launch.rows.of_batch();
        if let Some(set) = kernel.body.edge_set().filter(|_| !of_batch) {
            let edges = match all {
                true => &mut self.all_edges,
                false => &mut self.edges,
            };
            let ways = edges.of_mut(set);
            *ways = ways.or(Ways::of(program, launch, kernel));
        }
    }
}

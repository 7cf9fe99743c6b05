//! Programs: what every rank runs. The simulator and the executor both read them.
//!
//! All ranks share one instruction list; [`RankSizes`] determine how large a buffer is on each.
//! Loops over layers stay loops.
//!
//! These instructions communicate: [`Instr::HaloExchange`], [`Instr::HaloReduce`],
//! [`Instr::AllReduce`] and [`Instr::Redistribute`], as one instruction or as a
//! [`Instr::Begin`] and a [`Instr::Finish`] with others in between; and [`Instr::Send`] and
//! [`Instr::Receive`] between the stages of a pipeline, each of which has its own program.
//! [`Instr::Batches`] runs over the sampled batches of an epoch, whose rows are those of levels.
//! [`Instr::Move`] copies between the memories of a rank and its host, and can be split in
//! halves too.
//!
//! With a column layout, ranks may hold slices of different widths. Each rank then has its own
//! list; the lists differ only in columns, strides and widths.

use crate::graph::ParamSpec;
use crate::kernel::{Body, End, Kernel, Walk};
use crate::words::mesh::Mesh;
use crate::words::sampling::Sampling;
use crate::words::storage::Storage;
use crate::words::types::{EdgeSet, Level, Of};
use serde::{Deserialize, Serialize};

pub mod access;
mod buffer;
mod chunk;
mod group;
pub mod instr;
pub mod leaves;
mod lists;
pub mod memory;
mod pipeline;
mod sizes;
mod skip;
mod skipping;
pub mod text;
mod together;
pub mod trace;
pub mod traffic;
pub mod verify;
pub mod work;

pub use crate::workload::Reach;
pub use chunk::{Chunk, Even, Grain, Grouped, Moved, Vertices};
pub use group::{Among, Group};
pub use instr::{Instr, Launch, Product, ScalarRef, StageMessage, Transfer};
pub use pipeline::{Neighbour, Pipeline};
pub use sizes::{BatchSizes, Capacity, RankSizes};
pub use skip::{Length, Returned, Rule, Skip, relative_distance};
pub use skipping::{RULES, Skipping};
pub use together::{Once, Together, together};

/// Floats that [`Instr::Metrics`] writes.
pub const METRICS: u32 = 8;

/// Index of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BufferId(pub u32);

/// Index of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KernelId(pub u32);

/// Number of rows of a buffer or kernel on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// The same number on every rank.
    Fixed(u32),
    /// The rank's own vertices.
    Inner,
    /// Own vertices, then halo vertices.
    Local,
    /// Halo vertices.
    Halo,
    /// Edges into the rank's own vertices.
    Edges(EdgeSet),
    /// The vertices whose columns the rank and others divide: all of the graph, by global id, or those of its group
    /// (see [`Program::in_groups`]).
    All,
    /// These vertices, then the halo of the group.
    AllLocal,
    /// All edges into these vertices.
    AllEdges(EdgeSet),
    /// Stored non-zeros of the features of the rank's own vertices.
    FeatureNonzeros,
    /// Stored non-zeros of the rank's feature columns, over all vertices.
    SliceNonzeros,
    /// The rows of one chunk at a time, out of this many chunks.
    Run(Even, u32),
    /// The edges of the rows of one chunk at a time, out of this many chunks.
    EdgeRun(Even, u32),
    /// Vertices of a level of the batch at hand. Those of a level are the first ones of the level
    /// below.
    Level(Level),
    /// Edges kept into the vertices of this level, from the level below.
    LevelEdges(Level, EdgeSet),
}

/// Purpose of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Dense input features, filled before `setup`. The extent says which: all columns of own
    /// vertices, or the rank's slice of the columns of all vertices.
    Features,
    /// Values of the sparse input features, filled before `setup`. The extent says which, as
    /// for `Features`.
    FeatureValues,
    /// In- or out-degree over the whole graph, filled before `setup`.
    Degree(EdgeSet, End),
    /// For each edge, the local row of its other end, as an integer, filled before `setup`. The
    /// extent says which: edges by destination into own rows, or edges of the whole graph.
    EdgeEnds(Grouped),
    /// For each edge, in order by source, its position in the order by destination; filled
    /// before `setup`.
    EdgePlaces(EdgeSet),
    /// The type of each edge of a graph with this many types, filled before `setup`.
    Relation(u32),
    /// For each edge of a graph with this many types, the number of edges of its type into its
    /// destination; filled before `setup`.
    RelationDegree(u32),
    /// The features of each edge of a graph whose edges have so many; filled before `setup`.
    EdgeFeatures(u32),
    /// A table with one number per slot.
    Table(u32),
    /// Parameter `n`; each slot is an iteration of a repeated layer.
    Param(u32),
    /// Optimizer state `k` of parameter `n`; starts at 0.
    State(u32, u32),
    /// Written by `setup`, read in every epoch.
    Static,
    /// History number `n`: rows of an earlier epoch. Written by `setup`, then by
    /// [`Instr::Remember`] or by exchanges that may be skipped. Part of checkpoints.
    History(u32),
    /// Results of an epoch for the caller: loss, or counts of correct vertices.
    Result,
    /// Live within one run of `step` or `eval`.
    Temp,
}

impl Role {
    /// Whether a session fills the buffer before `setup`. Other buffers begin with zeros; a
    /// temporary one that no instruction uses has no memory at all.
    pub fn is_filled(self) -> bool {
        match self {
            Self::Features | Self::FeatureValues | Self::Degree(..) | Self::EdgeEnds(_) => true,
            Self::EdgePlaces(_) | Self::Relation(_) | Self::RelationDegree(_) => true,
            Self::EdgeFeatures(_) | Self::Table(_) | Self::Param(_) => true,
            Self::State(..) | Self::Static | Self::History(_) | Self::Result | Self::Temp => false,
        }
    }
}

/// A block of floats on every rank. Slots start at multiples of four bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffer {
    /// Name of the tensor, for traces.
    pub name: String,
    /// Rows.
    pub extent: Extent,
    /// Elements per row.
    pub columns: u32,
    /// Number of equal tensors stored one after the other.
    pub slots: u32,
    /// Purpose.
    pub role: Role,
    /// Storage format of its elements.
    #[serde(default, skip_serializing_if = "Storage::is_f32")]
    pub storage: Storage,
}

/// A slot of a buffer: `(base + (iteration if in_loop)) mod slots`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ref {
    /// The buffer.
    pub buffer: BufferId,
    /// First slot.
    pub base: u32,
    /// Whether to add the index of the enclosing loop.
    pub in_loop: bool,
}

/// A matrix within a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matrix {
    /// The buffer.
    pub at: Ref,
    /// Position of the first element.
    pub offset: u32,
    /// Elements from one row to the next.
    pub stride: u32,
}

/// Which rows of other ranks a rank holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Halo {
    /// The sources of edges into the rank's own vertices.
    #[default]
    Boundary,
    /// All other vertices, so that blocks of rows are sent whole.
    Everything,
    /// The sources of the edges that the rank computes, and behind them the targets of others for which it adds up what its
    /// own vertices give: the fewest of both that serve all edges between two parts.
    Cover,
    /// The sources of edges into the rank's own vertices, and behind them the targets of edges out of these: a rank adds up
    /// whatever belongs to its vertices, along the edges into them and along those out of them, and nobody's sum is sent.
    BothEnds,
}

impl Halo {
    /// Whether targets of edges are behind the sources.
    pub fn has_targets(self) -> bool {
        match self {
            Self::Boundary | Self::Everything => false,
            Self::Cover | Self::BothEnds => true,
        }
    }
}

/// The program of a rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Number of ranks; with 1 there is no communication.
    pub ranks: u32,
    /// The rank that runs this program; relevant only with a column layout.
    #[serde(default)]
    pub rank: u32,
    /// How the slices of a column layout are spread over the ranks; by default every rank has one of
    /// its own. On the whole graph, see [`Program::in_groups`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mesh: Option<Mesh>,
    /// Which rows of other ranks each rank holds.
    #[serde(default)]
    pub halo: Halo,
    /// Ranks of a node, if a halo row crosses to a node once and is passed on inside, and if gradients of halo rows are
    /// added inside their node before one crosses. `None`: owners and readers exchange rows directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ranks: Option<u32>,
    /// Whether sums over vertices are made in an order that does not depend on the number of ranks ([`leaves`]).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub equal_bits: bool,
    /// Trainable tensors.
    pub params: Vec<ParamSpec>,
    /// Buffers.
    pub buffers: Vec<Buffer>,
    /// Buffers in the memory of the rank's host, ascending. Only [`Instr::Move`] uses them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosted: Vec<BufferId>,
    /// Kernels, without duplicates.
    pub kernels: Vec<Kernel>,
    /// Tables that buffers refer to.
    pub tables: Vec<Vec<f32>>,
    /// Run once, before the first epoch.
    pub setup: Vec<Instr>,
    /// Run once per training epoch.
    pub step: Vec<Instr>,
    /// Run once per evaluation: a forward pass without dropout that ends in the metrics.
    pub eval: Vec<Instr>,
    /// The loss after `step`.
    pub loss: Option<BufferId>,
    /// The counts after `eval`.
    pub metrics: Option<BufferId>,
    /// The logits after `eval`.
    pub logits: Option<Ref>,
    /// Whether input features are stored as non-zeros.
    pub sparse_features: bool,
    /// The batches that `step` runs over, if it samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Sampling>,
    /// The batches that `eval` runs over, if it samples too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation: Option<Sampling>,
    /// The stage that runs this, if layers are divided into stages or vertices into chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Pipeline>,
}

impl Extent {
    /// Whether these are rows of the whole graph, held by every rank, or of the whole group.
    pub fn of_whole_graph(self) -> bool {
        match self {
            Self::All | Self::AllLocal | Self::AllEdges(_) => true,
            Self::Fixed(_) | Self::Inner | Self::Local | Self::Halo | Self::Edges(_) => false,
            Self::FeatureNonzeros | Self::SliceNonzeros | Self::Run(..) | Self::EdgeRun(..) => {
                false
            }
            Self::Level(_) | Self::LevelEdges(..) => false,
        }
    }

    /// The set, if rows are edges.
    pub fn edge_set(self) -> Option<EdgeSet> {
        match self {
            Self::Edges(set) | Self::AllEdges(set) | Self::LevelEdges(_, set) => Some(set),
            Self::Fixed(_) | Self::Inner | Self::Local | Self::Halo => None,
            Self::All | Self::AllLocal => None,
            Self::FeatureNonzeros | Self::SliceNonzeros | Self::Run(..) | Self::EdgeRun(..) => None,
            Self::Level(_) => None,
        }
    }

    /// Whether a row is an edge, of all that the rank or the graph has.
    pub fn of_edges(self) -> bool {
        match self {
            Self::Edges(_) | Self::AllEdges(_) | Self::LevelEdges(..) => true,
            Self::Fixed(_) | Self::Inner | Self::Local | Self::Halo => false,
            Self::All | Self::AllLocal => false,
            Self::FeatureNonzeros | Self::SliceNonzeros | Self::Run(..) | Self::EdgeRun(..) => {
                false
            }
            Self::Level(_) => false,
        }
    }

    /// Whether rows of the input features with this extent hold only the rank's slice of the columns.
    pub fn slices_features(self) -> bool {
        match self {
            Self::All | Self::AllLocal | Self::SliceNonzeros => true,
            Self::Fixed(_) | Self::Inner | Self::Local | Self::Halo | Self::Run(..) => false,
            Self::Edges(_) | Self::AllEdges(_) | Self::FeatureNonzeros | Self::EdgeRun(..) => false,
            Self::Level(_) | Self::LevelEdges(..) => false,
        }
    }

    /// The edges of a set into these rows, which are no levels of a batch.
    pub fn edges(self, set: EdgeSet) -> Self {
        if self.of_whole_graph() {
            Self::AllEdges(set)
        } else {
            Self::Edges(set)
        }
    }

    /// The edges that a kernel over these rows walks; `None` if it walks none.
    pub fn walked(self, body: &Body) -> Option<Self> {
        let set = body.edge_set()?;
        let Some(level) = self.level() else {
            return Some(self.edges(set));
        };
        let by_source = Walk::of(body) == Walk::EdgesBySource;
        let into = if by_source { level.above() } else { level };
        Some(Self::LevelEdges(into, set))
    }

    /// The level whose vertices these rows are, if they are.
    pub fn level(self) -> Option<Level> {
        if let Self::Level(level) = self {
            Some(level)
        } else {
            None
        }
    }

    /// The level, or the layer, if its rows are those of all ranks.
    pub fn of_all_ranks(self) -> Option<Level> {
        match self {
            Self::Level(level) | Self::LevelEdges(level, _) => {
                (level.of == Of::All).then_some(level)
            }
            Self::Fixed(_) | Self::Inner | Self::Local | Self::Halo => None,
            Self::All | Self::AllLocal | Self::Edges(_) | Self::AllEdges(_) => None,
            Self::FeatureNonzeros | Self::SliceNonzeros | Self::Run(..) | Self::EdgeRun(..) => None,
        }
    }

    /// Whether rows are vertices, or edges, of a rank's own part of a batch, or of the set at hand.
    pub fn of_one_set(self) -> bool {
        match self {
            Self::Level(level) | Self::LevelEdges(level, _) => level.of == Of::One,
            Self::Fixed(_) | Self::Inner | Self::Local | Self::Halo => false,
            Self::All | Self::AllLocal | Self::Edges(_) | Self::AllEdges(_) => false,
            Self::FeatureNonzeros | Self::SliceNonzeros | Self::Run(..) | Self::EdgeRun(..) => {
                false
            }
        }
    }

    /// Whether rows are vertices, or edges, of a sampled batch.
    pub fn of_batch(self) -> bool {
        match self {
            Self::Level(_) | Self::LevelEdges(..) => true,
            Self::Fixed(_) | Self::Inner | Self::Local | Self::Halo => false,
            Self::All | Self::AllLocal | Self::Edges(_) | Self::AllEdges(_) => false,
            Self::FeatureNonzeros | Self::SliceNonzeros | Self::Run(..) | Self::EdgeRun(..) => {
                false
            }
        }
    }

    /// These rows, without those of the halo behind the rank's own.
    pub fn without_halo(self) -> Self {
        if self == Self::Local {
            Self::Inner
        } else if self == Self::AllLocal {
            Self::All
        } else {
            self
        }
    }

    /// These rows with those of the halo behind them, if they have one.
    pub fn with_halo(self) -> Self {
        if self == Self::Inner {
            Self::Local
        } else if self == Self::All {
            Self::AllLocal
        } else {
            self
        }
    }

    /// Whether rows of a halo lie behind the others.
    pub fn has_halo(self) -> bool {
        self != self.without_halo()
    }

    /// The first of the chunks whose rows are held one chunk at a time; `None` if all rows are held.
    pub fn chunk(self) -> Option<Chunk> {
        match self {
            Self::Run(even, of) | Self::EdgeRun(even, of) => Some(even.chunk(0, of)),
            Self::Fixed(_) | Self::Inner | Self::Local | Self::Halo => None,
            Self::All | Self::AllLocal | Self::Edges(_) | Self::AllEdges(_) => None,
            Self::FeatureNonzeros | Self::SliceNonzeros => None,
            Self::Level(_) | Self::LevelEdges(..) => None,
        }
    }
}

impl Ref {
    /// Slot 0 of a buffer.
    pub fn first(buffer: BufferId) -> Self {
        Self {
            buffer,
            base: 0,
            in_loop: false,
        }
    }

    /// The slot in an iteration of the enclosing loop.
    pub fn slot(&self, iteration: u32, slots: u32) -> u32 {
        let index = self.base + if self.in_loop { iteration } else { 0 };
        index % slots.max(1)
    }
}

impl Program {
    /// Rows of the sparse features whose values are in a buffer.
    pub fn sparse_rows(&self, values: Ref) -> Extent {
        if self.buffer(values.buffer).extent == Extent::SliceNonzeros {
            Extent::All
        } else {
            Extent::Inner
        }
    }

    /// The buffer with an id.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    /// Number of the history that holds an exchange's copies.
    pub fn history(&self, skip: &Skip) -> Option<usize> {
        match self.buffers.get(skip.copies.buffer.0 as usize)?.role {
            Role::History(number) => Some(number as usize),
            _ => None,
        }
    }

    /// Whether a buffer is in the memory of the rank's host.
    pub fn is_hosted(&self, id: BufferId) -> bool {
        self.hosted.binary_search(&id).is_ok()
    }

    /// The kernel with an id.
    pub fn kernel(&self, id: KernelId) -> &Kernel {
        &self.kernels[id.0 as usize]
    }
}

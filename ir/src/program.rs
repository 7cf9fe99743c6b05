//! A program: what every rank does, read by the simulator and by the executor.
//!
//! One instruction list serves all ranks; how large a buffer is on one of them follows
//! from its [`RankSizes`]. Loops over layers stay loops. Only [`Instr::HaloExchange`],
//! [`Instr::HaloReduce`], [`Instr::AllReduce`] and [`Instr::Redistribute`] communicate: as one
//! instruction, or as a [`Instr::Begin`] and a [`Instr::Finish`] with others in between; and
//! [`Instr::Send`] and [`Instr::Receive`], between the stages of a pipeline, each of which has a program
//! of its own. [`Instr::Move`] copies between a rank's memory and its host's, and has halves too.
//!
//! Where columns are cut, ranks have slices of different widths: then every rank has a list of
//! its own, equal to the others' but for columns, strides and widths.

use crate::graph::ParamSpec;
use crate::kernel::{End, Kernel};
use crate::words::storage::Storage;
use crate::words::types::EdgeSet;
use serde::{Deserialize, Serialize};

pub mod access;
mod buffer;
mod chunk;
pub mod instr;
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
pub use instr::{Instr, Launch, Product, ScalarRef, StageMessage, Transfer};
pub use pipeline::{Neighbour, Pipeline};
pub use sizes::RankSizes;
pub use skip::{Distance, Length, Norm, Returned, Rule, Skip};
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

/// How many rows a buffer or a kernel has on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// The same on every rank.
    Fixed(u32),
    /// The rank's own vertices.
    Inner,
    /// Own vertices, then halo vertices.
    Local,
    /// Halo vertices.
    Halo,
    /// Edges into the rank's own vertices.
    Edges(EdgeSet),
    /// All vertices of the graph, by global id.
    All,
    /// All edges of the graph.
    AllEdges(EdgeSet),
    /// Stored non-zeros of the rank's own feature rows.
    FeatureNonzeros,
    /// Stored non-zeros of the rank's feature columns, of all vertices.
    SliceNonzeros,
    /// The rows of one of so many chunks, now of this one and now of that.
    Run(Even, u32),
    /// The edges of the rows of one of so many chunks; likewise.
    EdgeRun(Even, u32),
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Dense input features, filled before `setup`: all columns of own vertices, or the rank's
    /// slice of the columns of all vertices, as the extent says.
    Features,
    /// Values of the sparse input features, filled before `setup`; likewise.
    FeatureValues,
    /// In- or out-degree over the whole graph, filled before `setup`.
    Degree(EdgeSet, End),
    /// For every edge the local row of its other end, as integers, filled before `setup`: by destination and
    /// own rows, or rows of the whole graph, as the extent says.
    EdgeEnds(Grouped),
    /// For every edge, grouped by source, its place among those by destination; likewise.
    EdgePlaces(EdgeSet),
    /// The type of each edge of a graph with so many types, filled before `setup`.
    Relation(u32),
    /// The number of edges of its type into its vertex, for each edge of such a graph, filled before `setup`.
    RelationDegree(u32),
    /// A table of numbers, one a slot.
    Table(u32),
    /// Parameter `n`; slots are the iterations of a repeated layer.
    Param(u32),
    /// Optimizer state `k` of parameter `n`, 0 at the start.
    State(u32, u32),
    /// Written by `setup`, read in every epoch.
    Static,
    /// History number `n`: rows of an earlier epoch, written by `setup`, then by [`Instr::Remember`], or
    /// by exchanges that may be left out. Belongs to checkpoints.
    History(u32),
    /// Results of an epoch that the caller reads: loss, or counts of correct vertices.
    Result,
    /// Lives within one run of `step` or `eval`.
    Temp,
}

/// A block of floats on every rank. A slot begins at a multiple of four bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Buffer {
    /// Name of the tensor, for traces.
    pub name: String,
    /// Rows.
    pub extent: Extent,
    /// Elements of a row.
    pub columns: u32,
    /// Tensors of this size that lie one after the other.
    pub slots: u32,
    /// What it is for.
    pub role: Role,
    /// How its elements lie in memory.
    #[serde(default, skip_serializing_if = "Storage::is_f32")]
    pub storage: Storage,
}

/// A buffer's slot: `(base + (iteration if in_loop)) mod slots`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ref {
    /// The buffer.
    pub buffer: BufferId,
    /// First slot.
    pub base: u32,
    /// Whether the index of the enclosing loop is added.
    pub in_loop: bool,
}

/// A matrix within a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matrix {
    /// The buffer.
    pub at: Ref,
    /// First element.
    pub offset: u32,
    /// Elements from one row to the next.
    pub stride: u32,
}

/// Which vertices of other ranks have rows on a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Halo {
    /// The sources of edges into the rank's own vertices.
    #[default]
    Boundary,
    /// All of them, so that blocks of rows travel whole.
    Everything,
}

/// What every rank runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Number of ranks; 1 has no communication.
    pub ranks: u32,
    /// The rank that runs this; it matters only where columns are cut.
    #[serde(default)]
    pub rank: u32,
    /// Which rows of other ranks a rank has.
    #[serde(default)]
    pub halo: Halo,
    /// Trainable tensors.
    pub params: Vec<ParamSpec>,
    /// Buffers.
    pub buffers: Vec<Buffer>,
    /// Those of them that lie in the memory of the rank's host, ascending: only [`Instr::Move`] uses them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosted: Vec<BufferId>,
    /// Kernels, each once.
    pub kernels: Vec<Kernel>,
    /// Tables that buffers refer to.
    pub tables: Vec<Vec<f32>>,
    /// Run once, before the first epoch.
    pub setup: Vec<Instr>,
    /// One training epoch.
    pub step: Vec<Instr>,
    /// A forward pass without dropout that ends in the metrics.
    pub eval: Vec<Instr>,
    /// The loss after `step`.
    pub loss: Option<BufferId>,
    /// The counts after `eval`.
    pub metrics: Option<BufferId>,
    /// The logits after `eval`.
    pub logits: Option<Ref>,
    /// Whether input features are read as non-zeros.
    pub sparse_features: bool,
    /// The stage that runs this, where layers are divided into stages or vertices into chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Pipeline>,
}

impl Extent {
    /// Whether these are rows of the whole graph, on every rank.
    pub fn of_whole_graph(self) -> bool {
        matches!(self, Self::All | Self::AllEdges(_))
    }

    /// The edges that a kernel with these rows walks.
    pub fn edges(self, set: EdgeSet) -> Self {
        match self {
            Self::All | Self::AllEdges(_) => Self::AllEdges(set),
            _ => Self::Edges(set),
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

    /// The slot at an iteration of the enclosing loop.
    pub fn slot(&self, iteration: u32, slots: u32) -> u32 {
        let index = self.base + if self.in_loop { iteration } else { 0 };
        index % slots.max(1)
    }
}

impl Program {
    /// The kind of rows of the sparse features whose values a buffer holds.
    pub fn sparse_rows(&self, values: Ref) -> Extent {
        match self.buffer(values.buffer).extent {
            Extent::SliceNonzeros => Extent::All,
            _ => Extent::Inner,
        }
    }

    /// A buffer.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }

    /// The number of the history that the copies of an exchange lie in.
    pub fn history(&self, skip: &Skip) -> Option<usize> {
        match self.buffers.get(skip.copies.buffer.0 as usize)?.role {
            Role::History(number) => Some(number as usize),
            _ => None,
        }
    }

    /// Whether a buffer lies in the memory of the rank's host.
    pub fn is_hosted(&self, id: BufferId) -> bool {
        self.hosted.binary_search(&id).is_ok()
    }

    /// A kernel.
    pub fn kernel(&self, id: KernelId) -> &Kernel {
        &self.kernels[id.0 as usize]
    }
}

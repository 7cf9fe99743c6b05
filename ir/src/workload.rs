//! What the planner knows about a data graph.

mod check;
mod reuse;

pub use check::{
    MAX_EDGES, MAX_NEGATIVES, MAX_RELATIONS, MAX_VERTEX_TYPES, MAX_VERTICES, MAX_WIDTH,
    WorkloadError, most_edges,
};

pub use reuse::{Reuse, hit_rate};

use crate::words::spelling::spelling;
use crate::words::types::{NamedEdges, share};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most column runs that [`Workload::column_nonzeros`] counts.
pub const COLUMN_RUNS: u32 = 256;

/// How the numbers of a [`Workload`] were obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Counted on real data.
    Measured,
    /// Declared by the user; missing numbers are estimated.
    Declared,
}

/// The load of one part of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartLoad {
    /// Vertices owned by the part.
    pub inner: u64,
    /// Vertices outside the part with an edge into it (the halo).
    pub halo: u64,
    /// Stored edges into the part's inner vertices, without self loops.
    pub edges: u64,
    /// Training vertices owned by the part.
    pub train: u64,
    /// Validation vertices owned by the part.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub val: u64,
    /// Test vertices owned by the part.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub test: u64,
    /// Edges of the named sets into the part's inner vertices.
    #[serde(default, skip_serializing_if = "NamedEdges::is_none")]
    pub named_edges: NamedEdges,
    /// Non-zero input features owned by the part (all features if dense).
    pub feature_nonzeros: u64,
    /// The load that needs nothing from other parts; estimated if it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<Reach>,
}

impl PartLoad {
    /// Adds what another part owns; not its halo, and not what needs nothing from other parts.
    pub fn include(&mut self, other: &Self) {
        self.inner += other.inner;
        self.edges += other.edges;
        self.train += other.train;
        self.val += other.val;
        self.test += other.test;
        self.named_edges = self.named_edges.zip(other.named_edges, |a, b| a + b);
        self.feature_nonzeros += other.feature_nonzeros;
    }
}

fn is_zero<N: Default + PartialEq>(number: &N) -> bool {
    *number == N::default()
}

/// A partition, as far as the planner needs it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionSummary {
    /// The name of the [`Partitioner`].
    pub partitioner: String,
    /// Replication factor: the sum of the halos over the number of vertices.
    pub alpha: f64,
    /// One load per part, in rank order.
    pub parts: Vec<PartLoad>,
    /// `messages[i][j]`: rows that part `i` owns and part `j` reads. Empty if declared.
    pub messages: Vec<Vec<u64>>,
    /// What the parts send if a row crosses to a node once, for several sizes of nodes; empty if it was not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<NodeLoads>,
    /// What the parts send if they send the fewest rows and partial sums; `None` if it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cover: Option<TargetLoads>,
    /// What the parts send if each has the edges into its vertices and those out of them; `None` if it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub both_ends: Option<TargetLoads>,
    /// Groups of consecutive parts, taken as parts, for several sizes of groups; empty if they were not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<PartitionSummary>,
}

/// What the parts of a partition send if some edges into vertices of others are there too: those that serve the edges between
/// parts by the fewest rows and partial sums, or all edges out of a part's vertices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetLoads {
    /// `messages[i][j]`: rows that part `i` owns and part `j` reads.
    pub messages: Vec<Vec<u64>>,
    /// `targets[i][j]`: rows that part `i` owns, into which part `j` has edges from its own vertices.
    pub targets: Vec<Vec<u64>>,
    /// Stored edges that each part has, without self loops.
    pub edges: Vec<u64>,
    /// Those of them that come from other parts' vertices.
    pub halo_edges: Vec<u64>,
}

impl TargetLoads {
    /// Nothing, for so many parts.
    pub fn none(parts: usize) -> Self {
        Self {
            messages: vec![vec![0; parts]; parts],
            targets: vec![vec![0; parts]; parts],
            edges: vec![0; parts],
            halo_edges: vec![0; parts],
        }
    }
}

/// What the parts of a partition send if consecutive ranks share a node, and a row crosses to a node once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLoads {
    /// Ranks of a node.
    pub node_ranks: u32,
    /// One load per part, in rank order.
    pub ranks: Vec<TierLoad>,
}

/// Rows that cross between nodes and what becomes of them, of one rank in one exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierLoad {
    /// Own rows sent to other nodes, once for each.
    pub crossing: u64,
    /// Rows that come from other nodes.
    pub arriving: u64,
    /// Rows passed on to ranks of the own node, once for each of them.
    pub passed: u64,
    /// Rows of other nodes that come from ranks of the own node.
    pub forwarded: u64,
}

/// A partitioner of vertices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Partitioner {
    /// METIS, balanced by vertices.
    Metis,
    /// METIS, balanced by vertices and by edges.
    MetisEdges,
    /// METIS, balanced by vertices, splits, edges and types of vertices.
    MetisSplits,
    /// By neighborhoods of labeled vertices (ByteGNN).
    Blocks,
    /// By neighborhoods of training vertices.
    BlocksTrain,
    /// By streaming, balanced by edges.
    Stream,
    /// By a hash of the vertex.
    Hash,
    /// Contiguous vertices.
    Range,
    /// Runs of a Morton curve through the coordinates of the vertices.
    Morton,
}

spelling!(Partitioner {
    Metis => "metis",
    MetisEdges => "metis-edges",
    MetisSplits => "metis-splits",
    Blocks => "blocks",
    BlocksTrain => "blocks-train",
    Stream => "stream",
    Hash => "hash",
    Range => "range",
    Morton => "morton",
});

impl Partitioner {
    /// Whether parts depend on how many hops the batches of a model have.
    pub fn reads_hops(self) -> bool {
        match self {
            Self::Blocks | Self::BlocksTrain => true,
            Self::Metis | Self::MetisEdges | Self::MetisSplits => false,
            Self::Stream | Self::Hash | Self::Range | Self::Morton => false,
        }
    }
}

/// How many of a rank's rows and edges depend on no other rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// Own vertices with no edge from another rank's vertex; they are the first rows.
    pub interior: u64,
    /// Stored edges into interior vertices.
    pub interior_edges: u64,
    /// Stored edges from other ranks' vertices.
    pub halo_edges: u64,
}

/// What a model needs to know about its data graph.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphFacts {
    /// Input features per vertex.
    pub features: u32,
    /// Classes, or labels per vertex.
    pub classes: u32,
    /// Types of vertices, whose columns are the last features; 0 if vertices have none.
    pub vertex_types: u32,
    /// Edge types; 0 if edges have none.
    pub relations: u32,
    /// Features per edge; 0 if edges have none.
    pub edge_features: u32,
    /// Names of the named edge sets, from number 1; `None` if any name will do.
    pub edge_sets: Option<Vec<String>>,
}

impl GraphFacts {
    /// Stand-in for checking a model without its data.
    pub const PLACEHOLDER: Self = Self {
        features: 16,
        classes: 4,
        vertex_types: 2,
        relations: 3,
        edge_features: 2,
        edge_sets: None,
    };
}

/// A named set of edges, which layers run over that name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedSet {
    /// Its name.
    pub name: String,
    /// Its edges.
    pub edges: u64,
    /// Most of them into, or out of, a single vertex.
    pub max_degree: u64,
}

/// A summary of a data graph: enough to plan, not enough to train.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Name of the graph.
    pub name: String,
    /// How the numbers were obtained.
    pub origin: Origin,
    /// Number of vertices.
    pub vertices: u64,
    /// Number of stored edges, without self loops.
    pub edges: u64,
    /// Input features per vertex.
    pub features: u32,
    /// Non-zero input features over all vertices; `vertices * features` if dense.
    pub feature_nonzeros: u64,
    /// Whether each vertex has a feature of its own, the column of its number, and no other.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub identity_features: bool,
    /// Non-zeros per run of consecutive feature columns; [`share`] divides the columns evenly
    /// into at most [`COLUMN_RUNS`] runs. Empty if all columns are assumed equally full.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub column_nonzeros: Vec<u64>,
    /// Classes (or labels per vertex, if a vertex can have several).
    pub classes: u32,
    /// Types of vertices, whose columns are the last features; 0 if vertices have none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub vertex_types: u32,
    /// Edge types; 0 if edges have none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub relations: u32,
    /// Features per edge; 0 if edges have none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub edge_features: u32,
    /// Named sets of edges, from number 1; at most [`MAX_SETS`](crate::words::types::MAX_SETS).
    /// Other numbers of edges and degrees are those of the plain edges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub edge_sets: Vec<NamedSet>,
    /// Training, validation and test vertices.
    pub split: [u64; 3],
    /// Largest in-degree.
    pub max_degree: u64,
    /// Largest out-degree, if it exceeds `max_degree`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub max_out_degree: u64,
    /// `degree_histogram[k]`: vertices with an in-degree in `[2^(k-1), 2^k)`; entry 0 counts
    /// degree 0.
    pub degree_histogram: Vec<u64>,
    /// `reuse[n]`: share of the edges whose source is among the last `2^n` sources used, if edges are walked by destination.
    /// Empty if it was not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reuse: Vec<f64>,
    /// Known replication factors of METIS partitions, by number of parts.
    pub replication: BTreeMap<u32, f64>,
    /// Measured partitions by number of parts, one per partitioner.
    pub partitions: BTreeMap<u32, Vec<PartitionSummary>>,
}

impl Workload {
    /// What a model needs to know about the graph.
    pub fn facts(&self) -> GraphFacts {
        GraphFacts {
            features: self.features,
            classes: self.classes,
            vertex_types: self.vertex_types,
            relations: self.relations,
            edge_features: self.edge_features,
            edge_sets: Some(self.edge_sets.iter().map(|set| set.name.clone()).collect()),
        }
    }

    /// Edges of the named sets.
    pub fn named_edges(&self) -> NamedEdges {
        let mut edges = NamedEdges::NONE;
        for (number, set) in (1..).zip(&self.edge_sets) {
            edges.add(number, set.edges);
        }
        edges
    }

    /// The measured partition into `parts` parts by `partitioner`.
    pub fn partition(&self, parts: u32, partitioner: &str) -> Option<&PartitionSummary> {
        let known = self.partitions.get(&parts)?;
        known.iter().find(|p| p.partitioner == partitioner)
    }

    /// Adds a measured partition and replaces an earlier one by the same partitioner. The
    /// factor of METIS balanced by vertices is also stored in [`Workload::replication`].
    pub fn add_partition(&mut self, parts: u32, summary: PartitionSummary) {
        if summary.partitioner == Partitioner::Metis.name() {
            self.replication.insert(parts, summary.alpha);
        }
        let known = self.partitions.entry(parts).or_default();
        known.retain(|p| p.partitioner != summary.partitioner);
        known.push(summary);
    }

    /// Non-zero input features in a rank's slice of the columns, over all vertices.
    pub fn slice_nonzeros(&self, ranks: u32, rank: u32) -> u64 {
        let slice = share(self.features, ranks, rank);
        let runs = self.column_nonzeros.len() as u32;
        if runs == 0 {
            let columns = u64::from(slice.end - slice.start);
            let all = u128::from(self.feature_nonzeros) * u128::from(columns);
            return (all / u128::from(self.features.max(1))) as u64;
        }
        let within = |(run, nonzeros): (u32, &u64)| {
            let columns = share(self.features, runs, run);
            let both = columns
                .end
                .min(slice.end)
                .saturating_sub(columns.start.max(slice.start));
            let part = f64::from(both) / f64::from((columns.end - columns.start).max(1));
            part * *nonzeros as f64
        };
        (0..)
            .zip(&self.column_nonzeros)
            .map(within)
            .sum::<f64>()
            .ceil() as u64
    }

    /// Whether input features are stored as non-zeros: at most a quarter are non-zero.
    pub fn sparse_features(&self) -> bool {
        self.feature_nonzeros * 4 <= self.vertices * u64::from(self.features)
    }
}

//! What a plan chooses among, each with its name in files and on the command line.

use crate::graph::model;
use crate::words::spelling::spelling;
use serde::{Deserialize, Serialize};

/// A way to place a model on ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Vertices by part, boundary rows exchanged; on one rank, no communication.
    Graph,
    /// Layers by stage, chunks of vertices passing through.
    Pipeline,
    /// Stages of groups that split the graph.
    Hybrid,
    /// Columns by slice.
    Tensor,
    /// Columns by slice, all transforms before all aggregations.
    TensorDecoupled,
    /// First layer by slice of the features, the others by part.
    PushPull,
    /// Blocks of rows broadcast in turn.
    Broadcast,
    /// The same, left out while stale copies are fresh enough.
    SkipBroadcast,
    /// Different placements of different layers.
    Mixed,
    /// Sampled neighbourhoods, each by the owner of its seeds.
    Minibatch,
    /// The model visits the features.
    ModelMigration,
}

/// A change of the model or its gradients that a plan makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relaxation {
    /// All transforms before all aggregations.
    Decouple,
    /// Embeddings of an earlier epoch.
    StaleEmbeddings,
    /// Weights of an earlier step.
    StaleWeights,
    /// Sampled neighbours.
    Sample,
}

/// How what sums over edges, or the input features, lie over the ranks.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Every rank computes its own rows, for which it reads rows of other ranks.
    #[default]
    Rows,
    /// Every rank computes all rows of its slice of the columns (or heads).
    Columns,
}

/// How a replication factor was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlphaBasis {
    /// Counted on a partition of the graph, or exact (one part).
    Measured,
    /// Written down for this number of parts.
    Declared,
    /// Between or beyond numbers of parts for which it is known.
    Interpolated,
    /// From degrees and a formula.
    Estimated,
}

/// What a plan is best at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The shortest epoch.
    #[default]
    Time,
    /// The smallest peak memory of the worst rank.
    Memory,
    /// The fewest bytes sent.
    Bytes,
}

impl Relaxation {
    /// The permission that it needs.
    pub fn permission(self) -> model::Relaxation {
        match self {
            Self::Decouple => model::Relaxation::Decouple,
            Self::StaleEmbeddings | Self::StaleWeights => model::Relaxation::Stale,
            Self::Sample => model::Relaxation::Sample,
        }
    }
}

spelling!(Placement {
    Graph => "graph",
    Pipeline => "pipeline",
    Hybrid => "hybrid",
    Tensor => "tensor",
    TensorDecoupled => "tensor-decoupled",
    PushPull => "push-pull",
    Broadcast => "broadcast",
    SkipBroadcast => "skip-broadcast",
    Mixed => "mixed",
    Minibatch => "minibatch",
    ModelMigration => "model-migration",
});
spelling!(Relaxation {
    Decouple => "decouple",
    StaleEmbeddings => "stale-embeddings",
    StaleWeights => "stale-weights",
    Sample => "sample",
});
spelling!(Layout {
    Rows => "rows",
    Columns => "columns",
});
spelling!(AlphaBasis {
    Measured => "measured",
    Declared => "declared",
    Interpolated => "interpolated",
    Estimated => "estimated",
});
spelling!(Objective {
    Time => "time",
    Memory => "memory",
    Bytes => "bytes",
});

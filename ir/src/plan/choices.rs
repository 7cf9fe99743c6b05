//! The choices in a plan, each with its name in files and on the command line.

use crate::graph::model;
use crate::words::spelling::spelling;
use serde::{Deserialize, Serialize};

/// A way to place a model on ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Vertices by part, with exchanged boundary rows; on one rank, no communication.
    Graph,
    /// Layers by stage; chunks of vertices pass through.
    Pipeline,
    /// A pipeline whose stages are groups of ranks that divide the graph.
    Hybrid,
    /// Columns by slice.
    Tensor,
    /// Columns by slice, with all transforms before all aggregations.
    TensorDecoupled,
    /// First layer by slice of the features, other layers by part.
    PushPull,
    /// Blocks of rows broadcast in turn.
    Broadcast,
    /// Broadcast that skips blocks while stale copies are fresh enough.
    SkipBroadcast,
    /// Different placements for different layers.
    Mixed,
    /// Sampled neighborhoods; the owner of the seeds computes each.
    Minibatch,
    /// The model moves to the features.
    ModelMigration,
}

/// A change to the model or its gradients that a plan makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relaxation {
    /// All transforms before all aggregations.
    Decouple,
    /// Embeddings of an earlier epoch.
    StaleEmbeddings,
    /// Weights of an earlier step.
    StaleWeights,
    /// Sampled neighbors.
    Sample,
    /// Rows that travel in fewer bits.
    Quantise,
}

/// Layout over the ranks of sums over edges, or of the input features.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Every rank computes its own rows and reads rows of other ranks.
    #[default]
    Rows,
    /// Every rank computes all rows of its slice of the columns (or heads).
    Columns,
}

/// What parts send each other for the edges between them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cover {
    /// The rows of their sources.
    #[default]
    Rows,
    /// The fewest rows and partial sums.
    Joint,
}

/// How a replication factor was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlphaBasis {
    /// Counted on a partition of the graph, or exact (one part).
    Measured,
    /// Declared for this number of parts.
    Declared,
    /// Interpolated or extrapolated from known numbers of parts.
    Interpolated,
    /// From a formula over the degrees.
    Estimated,
}

/// What a plan optimizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The shortest epoch.
    #[default]
    Time,
    /// The smallest peak memory on the rank that needs most.
    Memory,
    /// The fewest bytes sent.
    Bytes,
    /// The shortest time until the validation vertices reach a score, by a pilot.
    TimeToAccuracy,
}

impl Layout {
    /// Whether it is by rows.
    pub fn is_rows(&self) -> bool {
        *self == Self::Rows
    }
}

impl Relaxation {
    /// The permission that the relaxation needs.
    pub fn permission(self) -> model::Relaxation {
        match self {
            Self::Decouple => model::Relaxation::Decouple,
            Self::StaleEmbeddings | Self::StaleWeights => model::Relaxation::Stale,
            Self::Sample => model::Relaxation::Sample,
            Self::Quantise => model::Relaxation::Quantise,
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
    Quantise => "quantise",
});
spelling!(Layout {
    Rows => "rows",
    Columns => "columns",
});
spelling!(Cover {
    Rows => "rows",
    Joint => "joint",
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
    TimeToAccuracy => "time-to-accuracy",
});

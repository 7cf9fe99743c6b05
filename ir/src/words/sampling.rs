//! How mini-batches of sampled neighborhoods are drawn.

mod fanout;
mod settings;

pub use fanout::Fanout;
pub use settings::SamplingSettings;

use super::spelling::spelling;
use super::types::{EdgeSet, End, Level, Rows, Type};
use serde::{Deserialize, Serialize};

/// The fanout that keeps every edge.
pub const ALL: u32 = u32::MAX;

/// Most hops of a batch.
pub const MAX_HOPS: usize = 16;

/// Most threads of a worker that draw batches ahead if nothing says how many.
const MOST_SAMPLERS: u32 = 16;

/// Threads that draw batches ahead for each of so many workers on GPUs, if nothing says how many. A GPU waits for
/// batches longer than it computes, so all cores but one draw for it.
pub fn samplers_of_gpus(cores: u32, workers: u32) -> u32 {
    (cores.saturating_sub(1) / workers.max(1)).min(MOST_SAMPLERS)
}

/// How the edges into a vertex are drawn, where there are more than the fanout.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Uniformly without replacement, for each vertex on its own.
    #[default]
    Neighbor,
    /// The edges whose sources have the smallest random numbers. A source has one number in a hop,
    /// so vertices with common neighbors keep the same ones (after LABOR: Balin and Catalyurek,
    /// NeurIPS 2023).
    Labor,
    /// All edges.
    Full,
}

/// How an epoch is cut into batches.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Cut {
    /// Batches whose sizes differ by at most one.
    #[default]
    Even,
    /// Full batches, and a last one of what is left.
    Short,
    /// Full batches; what is left is not used in this epoch.
    Drop,
}

/// Which rank works on a seed of a batch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Roots {
    /// The rank that owns it.
    #[default]
    Home,
    /// Any; seeds are dealt out in runs of equal length. As with `Home`, batches are the same as on
    /// a single rank.
    Dealt,
    /// Every rank draws batches from a share of the seeds, most of which it owns (Zheng et al.,
    /// DistDGL, IA3 2020). So the seeds of a step depend on the partition.
    Own,
}

/// Which edges the hops of a batch of pairs leave out.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Exclude {
    /// Those between the two ends of each link among the seeds of the batch, in both directions. A model
    /// would learn to read the answer off them.
    #[default]
    Seeds,
    /// None.
    Nothing,
}

/// Which pairs without a link stand beside the links that a model is trained on, in batches of pairs.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Negatives {
    /// Those of the graph, in every epoch.
    #[default]
    Given,
    /// As many, with both ends drawn anew in every step.
    Fresh,
    /// As many, each with its first end and another second one in every step.
    Targets,
}

impl Negatives {
    /// How ends are drawn, if they are.
    pub fn drawn(self) -> Option<Self> {
        match self {
            Self::Given => None,
            Self::Fresh | Self::Targets => Some(self),
        }
    }
}

spelling!(Exclude {
    Seeds => "seeds",
    Nothing => "nothing",
});
spelling!(Negatives {
    Given => "given",
    Fresh => "fresh",
    Targets => "targets",
});
spelling!(Kind {
    Neighbor => "neighbor",
    Labor => "labor",
    Full => "full",
});
spelling!(Cut {
    Even => "even",
    Short => "short",
    Drop => "drop",
});

spelling!(Roots {
    Home => "home",
    Dealt => "dealt",
    Own => "own",
});

/// Which edges a rank holds to draw from.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// Those of the graph.
    #[default]
    All,
    /// Those into its own vertices. It asks other ranks for edges into theirs, hop by hop (Zheng et al.,
    /// DistDGL, IA3 2020).
    Own,
}

spelling!(Topology {
    All => "all",
    Own => "own",
});

/// By what the rows of other ranks are ranked, of which the first ones are cached.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum CacheBy {
    /// Edges out of a vertex (Lin et al., PaGraph, SoCC 2020).
    Degree,
    /// The probability that a batch of the rank reads the vertex (Kaler et al., SALIENT++, MLSys 2023).
    #[default]
    Probability,
    /// How often some batches read it (Yang et al., GNNLab, EuroSys 2022).
    Counts,
}

spelling!(CacheBy {
    Degree => "degree",
    Probability => "probability",
    Counts => "counts",
});

/// Rows of other ranks that each rank keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cache {
    /// How many; fewer if other ranks own fewer.
    pub rows: u32,
    /// Which.
    #[serde(default)]
    pub by: CacheBy,
    /// Steps that copies of rows may lack, if training changes the rows. `None` if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<u32>,
}

/// What moves with a model to the rank of its next set of seeds (Chen et al., HopGNN).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Migrate {
    /// Its weights and the sum of its gradients, as published.
    #[default]
    Full,
    /// The sum of its gradients: weights are the same on all ranks.
    Gradient,
    /// Nothing: each rank sums the gradients of its sets, and all ranks' sums are added afterwards.
    Off,
}

spelling!(Migrate {
    Full => "full",
    Gradient => "gradient",
    Off => "off",
});

/// The batches that a program trains on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sampling {
    /// Seeds of a batch.
    pub batch: u32,
    /// One fanout a hop, the hop next to the seeds first.
    pub fanouts: Vec<Fanout>,
    /// The edges that each hop runs over, in the order of the fanouts. Hops that are not listed run over
    /// the plain edges.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over: Vec<EdgeSet>,
    /// How edges are drawn.
    #[serde(default)]
    pub kind: Kind,
    /// How an epoch is cut.
    #[serde(default)]
    pub cut: Cut,
    /// Which rank works on a seed.
    #[serde(default)]
    pub roots: Roots,
    /// If each rank's seeds are in sets, one for each model that visits it, how many visits of a model are
    /// merged with others; see `gnnc_graph::sample::SetSeeds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merges: Option<u32>,
    /// Which edges hops leave out.
    #[serde(default)]
    pub exclude: Exclude,
    /// Which pairs without a link are trained on.
    #[serde(default)]
    pub negatives: Negatives,
    /// Rows of other ranks that each rank keeps, if it keeps any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// Which edges a rank holds.
    #[serde(default, skip_serializing_if = "Topology::is_all")]
    pub topology: Topology,
}

impl Topology {
    /// Whether ranks hold all edges.
    pub fn is_all(&self) -> bool {
        *self == Self::All
    }
}

impl Sampling {
    /// Number of hops, which is also the level of the seeds.
    pub fn hops(&self) -> u8 {
        self.fanouts.len() as u8
    }

    /// Whether a rank holds only the edges into its own vertices.
    pub fn draws_apart(&self) -> bool {
        self.topology == Topology::Own
    }

    /// The levels into which edges are drawn by asking other ranks, from the seeds outwards. If each rank works
    /// on seeds of its own, it has the edges into these.
    pub fn asks_into(&self) -> impl Iterator<Item = u8> + use<> {
        let alone = match (self.topology, self.roots) {
            (Topology::All, _) => self.hops(),
            (Topology::Own, Roots::Home) => 1,
            (Topology::Own, Roots::Dealt | Roots::Own) => 0,
        };
        (1..=self.hops() - alone).rev()
    }

    /// The edges into a level, counted from 1.
    pub fn set_into(&self, level: usize) -> EdgeSet {
        let hop = self.fanouts.len().checked_sub(level);
        let set = hop.and_then(|hop| self.over.get(hop));
        set.copied().unwrap_or(EdgeSet::Plain)
    }
}

/// Numbers that the draw of a batch gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drawn {
    /// Edges kept of those into each row of a level, and the self loop if there is one:
    /// `[level x 1]`.
    Kept(Level, EdgeSet),
    /// Edges at an end of each vertex of a level in the whole graph (into it for
    /// [`Dst`](End::Dst)), and the self loop if there is one: `[level x 1]`.
    Degree(Level, EdgeSet, End),
    /// For each edge of a layer, the edges of its type into its destination in the whole graph over
    /// those kept; 1 for self loops: `[edges of the layer x 1]`.
    Scale(Level, EdgeSet),
    /// For each edge of a layer, its type: `[edges of the layer x 1]`. Self loops have none, so
    /// these are plain edges.
    Relation(Level, u32),
    /// For each edge of a layer, the edges of its type into its destination in the whole graph.
    RelationDegree(Level, u32),
    /// For each edge of a layer, its features: `[edges of the layer x columns]`. Self loops have none.
    EdgeFeatures(Level, EdgeSet, u32),
}

impl Drawn {
    /// The same numbers for the level or layer of all ranks.
    pub fn of_all(self) -> Self {
        let all = |level: Level| Level::all(level.number);
        match self {
            Self::Kept(level, set) => Self::Kept(all(level), set),
            Self::Degree(level, set, end) => Self::Degree(all(level), set, end),
            Self::Scale(layer, set) => Self::Scale(all(layer), set),
            Self::Relation(layer, types) => Self::Relation(all(layer), types),
            Self::RelationDegree(layer, types) => Self::RelationDegree(all(layer), types),
            Self::EdgeFeatures(layer, set, columns) => Self::EdgeFeatures(all(layer), set, columns),
        }
    }

    /// The level, or the layer, that it has numbers for.
    pub fn level(self) -> Level {
        match self {
            Self::Kept(level, _) | Self::Degree(level, ..) | Self::Scale(level, _) => level,
            Self::Relation(level, _) | Self::RelationDegree(level, _) => level,
            Self::EdgeFeatures(level, ..) => level,
        }
    }

    /// Number of the types of edges that it is about.
    pub fn types(self) -> Option<u32> {
        match self {
            Self::Relation(_, types) | Self::RelationDegree(_, types) => Some(types),
            Self::Kept(..) | Self::Degree(..) | Self::Scale(..) | Self::EdgeFeatures(..) => None,
        }
    }

    /// Numbers of a row.
    pub fn columns(self) -> u32 {
        match self {
            Self::EdgeFeatures(.., columns) => columns,
            Self::Kept(..) | Self::Degree(..) | Self::Scale(..) => 1,
            Self::Relation(..) | Self::RelationDegree(..) => 1,
        }
    }

    /// The type of a tensor with these numbers.
    pub fn ty(self) -> Type {
        let rows = match self {
            Self::Kept(level, _) | Self::Degree(level, ..) => Rows::Level(level),
            Self::Scale(layer, set) | Self::EdgeFeatures(layer, set, _) => {
                Rows::LevelEdges(layer, set)
            }
            Self::Relation(layer, _) | Self::RelationDegree(layer, _) => {
                Rows::LevelEdges(layer, EdgeSet::Plain)
            }
        };
        Type::new(rows, 1, self.columns())
    }
}

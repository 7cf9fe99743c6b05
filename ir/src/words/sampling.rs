//! How mini-batches of sampled neighborhoods are drawn.

mod fanout;

pub use fanout::Fanout;

use super::mesh::Mesh;
use super::spelling::spelling;
use super::types::{EdgeSet, End, Level, Rows, Type};
use serde::{Deserialize, Serialize};

/// The fanout that keeps every edge.
pub const ALL: u32 = u32::MAX;

/// Most hops of a batch.
pub const MAX_HOPS: usize = 16;

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
}

impl Sampling {
    /// Number of hops, which is also the level of the seeds.
    pub fn hops(&self) -> u8 {
        self.fanouts.len() as u8
    }

    /// The edges into a level, counted from 1.
    pub fn set_into(&self, level: usize) -> EdgeSet {
        let hop = self.fanouts.len().checked_sub(level);
        let set = hop.and_then(|hop| self.over.get(hop));
        set.copied().unwrap_or(EdgeSet::Plain)
    }
}

/// What a model or the options of a command say about batches; open where they say nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingSettings {
    /// Seeds of a batch, of all ranks together; training needs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u32>,
    /// One fanout a hop of the model, the hop next to the seeds first; training needs them. None if
    /// they are open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fanouts: Vec<Fanout>,
    /// How edges are drawn. Default: neighbor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampler: Option<Kind>,
    /// How an epoch is cut. Default: even.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<Cut>,
    /// One fanout a hop of evaluations, which then run over batches of all vertices of a split. None if
    /// evaluations run over the whole graph.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eval_fanouts: Vec<Fanout>,
    /// Which rank works on a seed. Default: home.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub roots: Option<Roots>,
    /// Which edges hops leave out in training. Default: seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude: Option<Exclude>,
    /// Which pairs without a link are trained on. Default: given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negatives: Option<Negatives>,
    /// Periods between the draw of a batch and its training, while its rows are fetched from other
    /// ranks. Changes no number. Default: 2, or 0 if nothing may overlap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefetch: Option<u32>,
    /// Threads of each rank that draw batches while it trains. Changes no number. Default: 0, ranks draw
    /// themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samplers: Option<u32>,
    /// Batches between the one that reads weights and the last one whose gradient they have, so that
    /// ranks work on other batches while they wait: 0, 2 or 3. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<u32>,
    /// How slices of the features are spread over the ranks, if they hold several copies. Default: one
    /// slice a rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slices: Option<Mesh>,
    /// What moves with a model in placement model-migration. Default: full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrate: Option<Migrate>,
    /// How many visits of a model are merged with others in placement model-migration. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merges: Option<u32>,
    /// Rows of other ranks that each rank keeps, to fetch fewer. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<u32>,
    /// Which rows these are. Default: probability, or degree where hops run over named sets of edges.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_by: Option<CacheBy>,
    /// Whether aggregations that depend on the data alone are made beforehand, once and over all
    /// neighbors; batches then have a hop less. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beforehand: Option<bool>,
    /// Whether optimizers step only the rows of embeddings that a batch has, each with a count of its own
    /// steps. Default: false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lazy: Option<bool>,
}

impl SamplingSettings {
    /// Whether it says nothing.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// The batches to train on; `None` if their size or the fanouts are open.
    pub fn sampling(&self) -> Option<Sampling> {
        if self.fanouts.is_empty() {
            return None;
        }
        Some(Sampling {
            batch: self.batch?,
            fanouts: self.fanouts.clone(),
            over: Vec::new(),
            kind: self.sampler.unwrap_or_default(),
            cut: self.cut.unwrap_or_default(),
            roots: self.roots.unwrap_or_default(),
            merges: None,
            exclude: self.exclude.unwrap_or_default(),
            negatives: self.negatives.unwrap_or_default(),
            cache: self.cached(),
        })
    }

    /// Rows of other ranks to keep, if there are to be any.
    pub fn cached(&self) -> Option<Cache> {
        let rows = self.cache.filter(|rows| *rows > 0)?;
        let by = self.cache_by.unwrap_or_default();
        Some(Cache { rows, by })
    }

    /// The batches to evaluate on; `None` for the whole graph. They are as large as those to train on,
    /// and cover every seed. Shares of the training vertices say nothing about other vertices, so seeds
    /// of [`Roots::Own`] go to their owners. Pairs are those of the graph, and no edge is left out, as the
    /// graph lacks those that are asked for. [`Kind::Full`] is kind neighbor with fanouts that keep all.
    pub fn evaluation(&self) -> Option<Sampling> {
        if self.eval_fanouts.is_empty() {
            return None;
        }
        let training = self.sampling()?;
        Some(Sampling {
            fanouts: self.eval_fanouts.clone(),
            cut: Cut::Even,
            kind: match training.kind {
                Kind::Neighbor | Kind::Full => Kind::Neighbor,
                Kind::Labor => Kind::Labor,
            },
            roots: match training.roots {
                Roots::Dealt => Roots::Dealt,
                Roots::Home | Roots::Own => Roots::Home,
            },
            exclude: Exclude::Nothing,
            negatives: Negatives::Given,
            ..training
        })
    }

    /// Whether both ask for the same batches. How soon and by whom they are drawn, how late their weights are, where the features
    /// and models lie, and what is cached may differ.
    pub fn same_batches(&self, other: &Self) -> bool {
        let batches = |settings: &Self| Self {
            prefetch: None,
            samplers: None,
            delay: None,
            slices: None,
            migrate: None,
            merges: None,
            cache: None,
            cache_by: None,
            ..settings.clone()
        };
        batches(self) == batches(other)
    }

    /// The same, with those of `other` where these are open.
    pub fn or(self, other: &Self) -> Self {
        let given = |own: Vec<Fanout>, other: &[Fanout]| match own.is_empty() {
            true => other.to_vec(),
            false => own,
        };
        Self {
            batch: self.batch.or(other.batch),
            fanouts: given(self.fanouts, &other.fanouts),
            eval_fanouts: given(self.eval_fanouts, &other.eval_fanouts),
            sampler: self.sampler.or(other.sampler),
            cut: self.cut.or(other.cut),
            roots: self.roots.or(other.roots),
            exclude: self.exclude.or(other.exclude),
            negatives: self.negatives.or(other.negatives),
            prefetch: self.prefetch.or(other.prefetch),
            samplers: self.samplers.or(other.samplers),
            delay: self.delay.or(other.delay),
            slices: self.slices.or(other.slices),
            migrate: self.migrate.or(other.migrate),
            merges: self.merges.or(other.merges),
            cache: self.cache.or(other.cache),
            cache_by: self.cache_by.or(other.cache_by),
            beforehand: self.beforehand.or(other.beforehand),
            lazy: self.lazy.or(other.lazy),
        }
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

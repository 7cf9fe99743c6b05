//! What a model or a command says about batches.

use super::{
    Cache, CacheBy, Cut, Exclude, Fanout, Kind, Migrate, Negatives, Roots, Sampling, Topology,
};
use serde::{Deserialize, Serialize};

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
    /// Steps that copies of rows may lack, if training changes the rows. Without it, a cache of such rows is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_age: Option<u32>,
    /// Which edges a rank holds to draw from. Changes no number. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology: Option<Topology>,
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
            topology: self.topology.unwrap_or_default(),
        })
    }

    /// Rows of other ranks to keep, if there are to be any.
    pub fn cached(&self) -> Option<Cache> {
        let rows = self.cache.filter(|rows| *rows > 0)?;
        Some(Cache {
            rows,
            by: self.cache_by.unwrap_or_default(),
            age: self.cache_age.filter(|_| self.lazy == Some(true)),
        })
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
            // No step changes a row meanwhile.
            cache: training.cache.map(|cache| Cache {
                age: cache.age.map(|_| u32::MAX),
                ..cache
            }),
            ..training
        })
    }

    /// Whether both ask for the same batches. How soon, by whom and from whose edges they are drawn, how late
    /// their weights are, where the features and models lie, and what is cached may differ.
    pub fn same_batches(&self, other: &Self) -> bool {
        let batches = |settings: &Self| Self {
            prefetch: None,
            samplers: None,
            delay: None,
            migrate: None,
            merges: None,
            cache: None,
            cache_by: None,
            cache_age: None,
            topology: None,
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
            migrate: self.migrate.or(other.migrate),
            merges: self.merges.or(other.merges),
            cache: self.cache.or(other.cache),
            cache_by: self.cache_by.or(other.cache_by),
            cache_age: self.cache_age.or(other.cache_age),
            topology: self.topology.or(other.topology),
            beforehand: self.beforehand.or(other.beforehand),
            lazy: self.lazy.or(other.lazy),
        }
    }
}

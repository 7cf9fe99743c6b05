//! Number of rows of each kind on a rank: those that it has, and those that it has room for.

use super::Extent;
use crate::words::sampling::MAX_HOPS;
use crate::words::types::{EdgeSet, Level, NamedEdges, Of};
use crate::workload::Reach;
use serde::{Deserialize, Serialize};

/// Rows of the sampled batch at hand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchSizes {
    /// Vertices of each level, from level 0.
    pub levels: [u64; MAX_HOPS + 1],
    /// Edges kept into each level, without self loops.
    pub edges: [u64; MAX_HOPS + 1],
    /// Vertices of each level that other ranks own and this one has not cached, of all sets together.
    #[serde(default = "no_rows", skip_serializing_if = "are_none")]
    pub remote: [u64; MAX_HOPS + 1],
    /// Edges kept into the vertices of each level that other ranks own, if ranks ask each other for edges.
    #[serde(default = "no_rows", skip_serializing_if = "are_none")]
    pub remote_edges: [u64; MAX_HOPS + 1],
    /// Vertices of each level that other ranks own and this one has cached.
    #[serde(default = "no_rows", skip_serializing_if = "are_none")]
    pub cached: [u64; MAX_HOPS + 1],
    /// Vertices of each level on all ranks together, each counted on every rank that has it; 0 where
    /// nothing is known of other ranks.
    #[serde(default = "no_rows", skip_serializing_if = "are_none")]
    pub all_levels: [u64; MAX_HOPS + 1],
    /// Edges kept into each level on all ranks together.
    #[serde(default = "no_rows", skip_serializing_if = "are_none")]
    pub all_edges: [u64; MAX_HOPS + 1],
    /// Vertices that any set of a batch has in each level, if its seeds are in sets; `levels` and `edges`
    /// are then those of one set.
    #[serde(default = "no_rows", skip_serializing_if = "are_none")]
    pub of_sets: [u64; MAX_HOPS + 1],
    /// Own vertices that any rank has in the level of which ranks ask for rows; 0 where nothing is known of
    /// other ranks.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub owned: u64,
    /// Sets of a batch; 0 if its seeds are not in sets.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sets: u64,
    /// Batches of an epoch.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub count: u64,
}

impl BatchSizes {
    /// No batch.
    pub const NONE: Self = Self {
        levels: [0; MAX_HOPS + 1],
        edges: [0; MAX_HOPS + 1],
        remote: [0; MAX_HOPS + 1],
        remote_edges: [0; MAX_HOPS + 1],
        cached: [0; MAX_HOPS + 1],
        all_levels: [0; MAX_HOPS + 1],
        all_edges: [0; MAX_HOPS + 1],
        of_sets: [0; MAX_HOPS + 1],
        owned: 0,
        sets: 0,
        count: 0,
    };

    /// The larger one of each number.
    pub fn max(mut self, other: &Self) -> Self {
        self.combine(other, u64::max);
        self
    }

    /// Replaces each number of rows by a function of it and the same one of another batch. Batches and
    /// sets are the larger ones of both.
    pub fn combine(&mut self, other: &Self, f: impl Fn(u64, u64) -> u64) {
        let pairs = [
            (&mut self.levels, &other.levels),
            (&mut self.edges, &other.edges),
            (&mut self.remote, &other.remote),
            (&mut self.remote_edges, &other.remote_edges),
            (&mut self.cached, &other.cached),
            (&mut self.all_levels, &other.all_levels),
            (&mut self.all_edges, &other.all_edges),
            (&mut self.of_sets, &other.of_sets),
        ];
        for (numbers, others) in pairs {
            for (number, other) in numbers.iter_mut().zip(others) {
                *number = f(*number, *other);
            }
        }
        self.owned = f(self.owned, other.owned);
        self.sets = self.sets.max(other.sets);
        self.count = self.count.max(other.count);
    }

    /// Whether no level and no layer has more rows than in `other`.
    pub fn within(&self, other: &Self) -> bool {
        let most = self.max(other);
        let own = (most.levels, most.edges) == (other.levels, other.edges);
        let all = (most.all_levels, most.all_edges) == (other.all_levels, other.all_edges);
        own && all && (most.of_sets, most.owned) == (other.of_sets, other.owned)
    }

    /// The sum of each number over some batches.
    pub fn sum(batches: &[Self]) -> Self {
        let mut sum = Self::NONE;
        for batch in batches {
            sum.combine(batch, |sum, one| sum + one);
        }
        sum
    }

    /// Vertices of a level that other ranks own and this one has cached.
    pub fn cached(&self, level: u8) -> u64 {
        self.cached.get(usize::from(level)).copied().unwrap_or(0)
    }

    /// Vertices of a level that other ranks own and this one has not cached.
    pub fn remote(&self, level: u8) -> u64 {
        self.remote.get(usize::from(level)).copied().unwrap_or(0)
    }

    /// Vertices of a level that a rank names to their owners. It names those that it has cached as well if their rows
    /// change (`renews`), since their gradients go to the owners.
    pub fn asked_for(&self, level: u8, renews: bool) -> u64 {
        let cached = if renews { self.cached(level) } else { 0 };
        self.remote(level) + cached
    }

    /// Vertices of a level.
    pub fn rows(&self, level: Level) -> u64 {
        let levels = match level.of {
            Of::One => &self.levels,
            Of::All => &self.all_levels,
            Of::Sets => &self.of_sets,
            Of::Owned => return self.owned,
        };
        levels.get(usize::from(level.number)).copied().unwrap_or(0)
    }

    /// Edges of a set kept into a level.
    pub fn edges(&self, level: Level, set: EdgeSet) -> u64 {
        let edges = match level.of {
            Of::One => self.edges,
            Of::All => self.all_edges,
            // Sets are walked one by one, and rows for their owners not at all.
            Of::Sets | Of::Owned => [0; MAX_HOPS + 1],
        };
        let kept = edges.get(usize::from(level.number)).copied().unwrap_or(0);
        match set {
            EdgeSet::Plain => kept,
            EdgeSet::Looped => kept + self.rows(level),
            // Batches are drawn from the stored edges.
            EdgeSet::Named(_) => 0,
        }
    }
}

/// Size of one rank's share of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankSizes {
    /// Own vertices.
    pub inner: u64,
    /// Training vertices among the own vertices.
    #[serde(default)]
    pub train: u64,
    /// Halo vertices.
    pub halo: u64,
    /// Stored edges into own vertices.
    pub edges: u64,
    /// Edges of the named sets into own vertices.
    #[serde(default, skip_serializing_if = "NamedEdges::is_none")]
    pub named_edges: NamedEdges,
    /// Non-zeros of own feature rows.
    pub feature_nonzeros: u64,
    /// Non-zeros of the rank's feature columns, over all vertices.
    #[serde(default)]
    pub slice_nonzeros: u64,
    /// Vertices of the whole graph, or of the rank's group (see
    /// [`Program::in_groups`](super::Program::in_groups)).
    #[serde(default)]
    pub vertices: u64,
    /// Vertices of other groups.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub elsewhere: u64,
    /// Halo vertices of the group.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub all_halo: u64,
    /// Stored edges of the whole graph, or into the group's vertices.
    #[serde(default)]
    pub all_edges: u64,
    /// Edges of the named sets of the whole graph, or into the group's vertices.
    #[serde(default, skip_serializing_if = "NamedEdges::is_none")]
    pub all_named_edges: NamedEdges,
    /// Most stored edges into, or out of, a single vertex of the graph.
    #[serde(default)]
    pub max_degree: u64,
    /// Rows and edges that need no other rank.
    #[serde(default)]
    pub reach: Reach,
    /// Rows of a sampled batch.
    #[serde(default, skip_serializing_if = "is_none")]
    pub batch: BatchSizes,
}

fn no_rows() -> [u64; MAX_HOPS + 1] {
    [0; MAX_HOPS + 1]
}

fn are_none(rows: &[u64; MAX_HOPS + 1]) -> bool {
    *rows == no_rows()
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn is_none(batch: &BatchSizes) -> bool {
    *batch == BatchSizes::NONE
}

/// The most rows of each kind that a rank has room for.
///
/// Memory is laid out and programs are verified for a capacity. Kernels run over the rows there
/// are, [`RankSizes`], and messages carry as many. The two are equal as long as a rank's data
/// stay the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity(RankSizes);

impl Capacity {
    /// Room for so many rows.
    pub fn of(most: RankSizes) -> Self {
        Self(most)
    }

    /// The most rows of an extent.
    pub fn rows(&self, extent: Extent) -> u64 {
        self.0.rows(extent)
    }

    /// The sizes that fill it.
    pub fn most(&self) -> &RankSizes {
        &self.0
    }
}

impl RankSizes {
    /// Vertices of the whole graph.
    pub fn of_graph(&self) -> u64 {
        self.vertices + self.elsewhere
    }

    /// Number of rows of an extent; of rows that are held one chunk at a time, those of the longest
    /// chunk.
    pub fn rows(&self, extent: Extent) -> u64 {
        match extent {
            Extent::Fixed(n) => u64::from(n),
            Extent::Inner => self.inner,
            Extent::Local => self.inner + self.halo,
            Extent::Halo => self.halo,
            Extent::Edges(EdgeSet::Plain) => self.edges,
            Extent::Edges(EdgeSet::Looped) => self.edges + self.inner,
            Extent::Edges(EdgeSet::Named(number)) => self.named_edges.of(number),
            Extent::All => self.vertices,
            Extent::AllLocal => self.vertices + self.all_halo,
            Extent::AllEdges(EdgeSet::Plain) => self.all_edges,
            Extent::AllEdges(EdgeSet::Looped) => self.all_edges + self.vertices,
            Extent::AllEdges(EdgeSet::Named(number)) => self.all_named_edges.of(number),
            Extent::FeatureNonzeros => self.feature_nonzeros,
            Extent::SliceNonzeros => self.slice_nonzeros,
            Extent::Run(even, of) => even.longest(of, self),
            Extent::EdgeRun(even, of) => even.room_for_edges(of, self),
            Extent::Level(level) if level.of == Of::Owned => self.batch.owned.min(self.inner),
            Extent::Level(level) => self.batch.rows(level),
            Extent::LevelEdges(level, set) => self.batch.edges(level, set),
        }
    }
}

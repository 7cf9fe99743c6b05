//! Rows of a batch by the rank that owns them: what a rank asks others for, and what they ask it for.

use gnnc_graph::LocalPart;
use gnnc_graph::partition::Partition;
use gnnc_graph::sample::Cached;
use std::sync::Arc;

/// Where the rows of all vertices are.
pub(crate) struct Owners {
    pub(crate) partition: Arc<Partition>,
    /// For each vertex, its row on the rank that owns it; empty for a single rank.
    row: Vec<u32>,
}

impl Owners {
    /// The ranks that own the parts.
    pub(crate) fn new(partition: &Partition, parts: &[LocalPart]) -> Self {
        let mut row = Vec::new();
        if parts.len() > 1 {
            row.resize(partition.owner().len(), 0);
            for part in parts {
                for (number, vertex) in (0..).zip(&part.global[..part.inner]) {
                    row[*vertex as usize] = number;
                }
            }
        }
        Self {
            partition: Arc::new(partition.clone()),
            row,
        }
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        4 * (self.row.len() + self.partition.owner().len())
    }
}

/// Rows of the batch at hand by their owners. Lists are by rank.
#[derive(Default)]
pub(crate) struct Asked {
    /// Numbers that rows of a level have on the rank that owns them.
    rows: Vec<Vec<u32>>,
    /// The places of these rows in the level.
    places: Vec<Vec<u32>>,
    /// Own rows that each of the other ranks asked for.
    served: Vec<Vec<u32>>,
    /// Rows of the cache that the level has, and their places in it.
    cached: [Vec<u32>; 2],
}

/// Which of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OfBatch {
    Rows,
    Places,
    Served,
    Cached,
    CachedPlaces,
}

impl Asked {
    /// Sorts the vertices of a level by their owners; those that are `kept` are not asked for.
    pub(crate) fn sort(&mut self, level: &[u32], owners: &Owners, kept: Option<&Cached>) {
        let ranks = owners.partition.parts() as usize;
        for lists in [&mut self.rows, &mut self.places, &mut self.served] {
            lists.resize_with(ranks, Vec::new);
            lists.iter_mut().for_each(Vec::clear);
        }
        self.cached.iter_mut().for_each(Vec::clear);
        let owner = owners.partition.owner();
        for (place, vertex) in (0..).zip(level) {
            if let Some(row) = kept.and_then(|kept| kept.row(*vertex)) {
                self.cached[0].push(row);
                self.cached[1].push(place);
                continue;
            }
            let rank = owner[*vertex as usize] as usize;
            self.rows[rank].push(owners.row[*vertex as usize]);
            self.places[rank].push(place);
        }
    }

    /// A list; empty if there is no such rank.
    pub(crate) fn list(&self, which: OfBatch, rank: u32) -> &[u32] {
        let lists = match which {
            OfBatch::Rows => &self.rows,
            OfBatch::Places => &self.places,
            OfBatch::Served => &self.served,
            OfBatch::Cached => return &self.cached[0],
            OfBatch::CachedPlaces => return &self.cached[1],
        };
        lists.get(rank as usize).map_or(&[], |list| list)
    }

    /// Makes room for so many rows that a rank asks for, to write their numbers.
    pub(crate) fn serve(&mut self, rank: u32, rows: usize) -> Option<&mut [u32]> {
        let list = self.served.get_mut(rank as usize)?;
        list.clear();
        list.resize(rows, 0);
        Some(list)
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let all = [&self.rows, &self.places, &self.served];
        let lists = all.into_iter().flatten().chain(&self.cached);
        4 * lists.map(Vec::len).sum::<usize>()
    }
}

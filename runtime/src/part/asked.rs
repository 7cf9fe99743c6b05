//! Rows of a batch by the rank that owns them: what a rank asks others for, and what they ask it for.

use gnnc_graph::LocalPart;
use gnnc_graph::partition::Partition;
use gnnc_graph::sample::Cached;
use std::sync::Arc;

/// Where the rows of all vertices are.
pub(crate) struct Owners {
    pub(crate) partition: Arc<Partition>,
    /// For each vertex of the parts at hand, its row on the rank that owns it; empty for a single rank.
    row: Vec<u32>,
}

impl Owners {
    /// The ranks that own the parts, of which those at hand are here.
    pub(crate) fn new(partition: &Partition, parts: &[LocalPart]) -> Self {
        let mut row = Vec::new();
        if partition.parts() > 1 {
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

    /// The row that a rank has of a vertex, if it owns that vertex.
    pub(crate) fn row_on(&self, rank: u32, vertex: u32) -> Option<u32> {
        let owner = self.partition.owner().get(vertex as usize);
        let row = self.row.get(vertex as usize).copied();
        row.filter(|_| owner == Some(&rank))
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        4 * (self.row.len() + self.partition.owner().len())
    }
}

/// Rows of the batch at hand by their owners. Lists are by rank.
#[derive(Default)]
pub(crate) struct Asked {
    /// The own rows that a level has, and the vertices of other ranks in it.
    rows: Vec<Vec<u32>>,
    /// The places of these rows in the level.
    places: Vec<Vec<u32>>,
    /// Own rows that each of the other ranks asked for.
    served: Vec<Vec<u32>>,
    /// Rows of the cache that the level has, and their places in it.
    cached: [Vec<u32>; 2],
    /// Own rows that any rank has in the level, each once.
    owned: Vec<u32>,
    /// For each rank, the places of the rows that it has among these.
    owned_places: Vec<Vec<u32>>,
}

/// Which of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OfBatch {
    Rows,
    Places,
    Served,
    Cached,
    CachedPlaces,
    Owned,
    OwnedPlaces,
}

impl Asked {
    /// Sorts the vertices of a rank's level by their owners; those that are `kept` are not asked for.
    pub(crate) fn sort(
        &mut self,
        rank: u32,
        level: &[u32],
        owners: &Owners,
        kept: Option<&Cached>,
    ) {
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
            let of = owner[*vertex as usize];
            let own = owners.row_on(rank, *vertex);
            self.rows[of as usize].push(own.unwrap_or(*vertex));
            self.places[of as usize].push(place);
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
            OfBatch::Owned => return &self.owned,
            OfBatch::OwnedPlaces => &self.owned_places,
        };
        lists.get(rank as usize).map_or(&[], |list| list)
    }

    /// Lists the own rows of the vertices that another rank asks for; whether all of these are own ones.
    pub(crate) fn serve(
        &mut self,
        rank: u32,
        other: u32,
        vertices: &[u32],
        owners: &Owners,
    ) -> bool {
        let Some(list) = self.served.get_mut(other as usize) else {
            return false;
        };
        list.clear();
        list.extend(vertices.iter().map_while(|v| owners.row_on(rank, *v)));
        list.len() == vertices.len()
    }

    /// Lists the own rows that any rank has in the level, in the order of the ranks, and returns how many
    /// there are. Ranks have said by then what they ask for. `place_of` has a number for each own row.
    pub(crate) fn gather(&mut self, rank: u32, place_of: &mut [u32]) -> usize {
        let ranks = self.rows.len();
        self.owned.clear();
        self.owned_places.resize_with(ranks, Vec::new);
        for (number, places) in (0..).zip(&mut self.owned_places) {
            let lists = if number == rank {
                &self.rows
            } else {
                &self.served
            };
            places.clear();
            for row in &lists[number as usize] {
                let place = &mut place_of[*row as usize];
                if self.owned.get(*place as usize) != Some(row) {
                    *place = self.owned.len() as u32;
                    self.owned.push(*row);
                }
                places.push(*place);
            }
        }
        self.owned.len()
    }

    /// Size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let all = [&self.rows, &self.places, &self.served, &self.owned_places];
        let lists = all
            .into_iter()
            .flatten()
            .chain(&self.cached)
            .chain([&self.owned]);
        4 * lists.map(Vec::len).sum::<usize>()
    }
}

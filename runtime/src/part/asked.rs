//! Rows of a batch by the rank that owns them: what a rank asks others for, and what they ask it for.

use gnnc_graph::LocalPart;
use gnnc_graph::partition::Partition;
use gnnc_graph::sample::{Cached, Copies};
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
    /// The own rows that a level has, and the vertices of other ranks in it. Those of which copies are read come last.
    rows: Vec<Vec<u32>>,
    /// The places of these rows in the level.
    places: Vec<Vec<u32>>,
    /// How many of them are read from their owners.
    read: Vec<usize>,
    /// Own rows that each of the other ranks asked for. Those of which it reads copies come last.
    served: Vec<Vec<u32>>,
    /// How many of them it reads from this rank.
    sent: Vec<usize>,
    /// Rows of the cache that the level has, and their places in it.
    cached: [Vec<u32>; 2],
    /// Rows of the cache that are fetched again, and their places in the level.
    renewed: [Vec<u32>; 2],
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
    Renewed,
    RenewedPlaces,
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
        self.sent.clear();
        self.sent.resize(ranks, 0);
        let known = self.cached.iter_mut().chain(&mut self.renewed);
        known.for_each(Vec::clear);
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
        self.count_read();
    }

    fn count_read(&mut self) {
        self.read.clear();
        self.read.extend(self.rows.iter().map(Vec::len));
    }

    /// Lists the kept rows by their owners: first those whose copies are too old for a batch, which are fetched, then the
    /// others, of which only gradients are sent. Returns the places of those that are fetched.
    pub(crate) fn renew(
        &mut self,
        level: &[u32],
        owners: &Owners,
        copies: &mut Copies,
        batch: u32,
    ) -> &[u32] {
        let owner = owners.partition.owner();
        let [rows, places] = std::mem::take(&mut self.cached);
        let name = |this: &mut Self, place: u32| {
            let vertex = level[place as usize];
            let of = owner[vertex as usize] as usize;
            this.rows[of].push(vertex);
            this.places[of].push(place);
        };
        for (row, place) in rows.into_iter().zip(places) {
            let lists = if copies.is_old(row, batch) {
                copies.keep(row, batch);
                name(self, place);
                &mut self.renewed
            } else {
                &mut self.cached
            };
            lists[0].push(row);
            lists[1].push(place);
        }
        self.count_read();
        for n in 0..self.cached[1].len() {
            name(self, self.cached[1][n]);
        }
        &self.renewed[1]
    }

    /// How many rows, the first ones of the lists, are read from a rank.
    pub(crate) fn read(&self, from: u32) -> usize {
        self.read.get(from as usize).copied().unwrap_or(0)
    }

    /// How many own rows, the first ones of those that a rank asked for, are sent to it.
    pub(crate) fn sent(&self, to: u32) -> usize {
        self.sent.get(to as usize).copied().unwrap_or(0)
    }

    /// A list; empty if there is no such rank.
    pub(crate) fn list(&self, which: OfBatch, rank: u32) -> &[u32] {
        let lists = match which {
            OfBatch::Rows => &self.rows,
            OfBatch::Places => &self.places,
            OfBatch::Served => &self.served,
            OfBatch::Cached => return &self.cached[0],
            OfBatch::CachedPlaces => return &self.cached[1],
            OfBatch::Renewed => return &self.renewed[0],
            OfBatch::RenewedPlaces => return &self.renewed[1],
            OfBatch::Owned => return &self.owned,
            OfBatch::OwnedPlaces => &self.owned_places,
        };
        lists.get(rank as usize).map_or(&[], |list| list)
    }

    /// Lists the own rows of the vertices that another rank asks for; whether all of these are own ones. If it has
    /// copies of some, the first vertices are those that it reads from this rank.
    pub(crate) fn serve(
        &mut self,
        (rank, other): (u32, u32),
        vertices: &[u32],
        owners: &Owners,
        copies: Option<(&Cached, &mut Copies)>,
        batch: u32,
    ) -> bool {
        let Some(list) = self.served.get_mut(other as usize) else {
            return false;
        };
        list.clear();
        list.extend(vertices.iter().map_while(|v| owners.row_on(rank, *v)));
        let mut sent = vertices.len();
        if let Some((kept, copies)) = copies {
            let rows = || vertices.iter().zip(&*list);
            let is_kept = |v: u32| kept.row(v).is_some();
            let is_read = |(v, row): &(&u32, &u32)| !is_kept(**v) || copies.is_old(**row, batch);
            sent = rows().take_while(is_read).count();
            let fetched = rows().take(sent).filter(|(v, _)| is_kept(**v));
            fetched.for_each(|(_, row)| copies.keep(*row, batch));
        }
        self.sent[other as usize] = sent;
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
            .chain(&self.renewed)
            .chain([&self.owned]);
        4 * lists.map(Vec::len).sum::<usize>()
    }
}

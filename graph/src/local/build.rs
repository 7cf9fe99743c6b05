//! Builds the parts of a partition, one after another.
//!
//! Edges are always walked by ascending destination, so those of a graph that memory does not hold are read from its file
//! in order.

use super::both_ends::BothEnds;
use super::sums::Sums;
use super::{Degrees, Kept, LocalChunks, LocalPart, RowOrder};
use crate::cover::Covers;
use crate::csr::Csr;
use crate::partition::Partition;
use crate::{GraphError, Topology};
use gnnc_ir::program::Halo;
use std::cmp::Reverse;
use std::ops::Range;

/// Number of vertices beyond which a cache cannot hold all rows, whatever their order.
pub(super) const MANY: usize = 1 << 14;

/// Ratio of largest to mean degree from which a few rows get most of the reads.
const SKEW: u64 = 32;

/// What all parts of a graph are built from.
struct Builder<'a> {
    topology: &'a Topology,
    partition: &'a Partition,
    degrees: Vec<Degrees>,
    by_global_id: bool,
    /// Local row of each vertex in its own part.
    inner_row: Vec<u32>,
    /// Local row of each vertex in the halo of the part at hand; only valid for those that are in it.
    halo_row: Vec<u32>,
}

/// The rows of a part.
struct Rows {
    inner: Vec<u32>,
    halo: Vec<u32>,
    /// Rows to send, for each part that reads some.
    send: Vec<(u32, Vec<u32>)>,
    sums: Sums,
}

impl LocalPart {
    /// Builds the parts of a partition in rank order, each when it is asked for. Besides a part it takes some numbers for
    /// each vertex and each row of a halo. Takes time linear in vertices times parts and in edges, plus a sort of each
    /// boundary.
    ///
    /// # Errors
    /// A partition of another graph; a part with 2^32 edges or more, including self loops.
    pub fn each<'a>(
        topology: &'a Topology,
        partition: &'a Partition,
        kept: Kept,
        order: RowOrder,
    ) -> Result<impl Iterator<Item = Self> + 'a, GraphError> {
        partition.check(topology)?;
        let mut builder = Builder::new(topology, partition);
        builder.by_global_id = order == RowOrder::Canonical;
        let rows = builder.rows(kept, order)?;
        let ranked = (0u32..).zip(rows);
        Ok(ranked.map(move |(rank, rows)| builder.part(rank, rows)))
    }
}

impl<'a> Builder<'a> {
    fn new(topology: &'a Topology, partition: &'a Partition) -> Self {
        let vertices = topology.vertices() as usize;
        Self {
            topology,
            partition,
            degrees: Degrees::of_sets(topology),
            by_global_id: false,
            inner_row: vec![0; vertices],
            halo_row: vec![0; vertices],
        }
    }

    /// The vertices of a part, ascending.
    fn own(&self, rank: u32) -> impl Iterator<Item = u32> {
        let owners = (0u32..).zip(self.partition.owner());
        owners.filter_map(move |(v, owner)| (*owner == rank).then_some(v))
    }

    /// The rows of all parts.
    fn rows(&mut self, kept: Kept, order: RowOrder) -> Result<Vec<Rows>, GraphError> {
        let owner = self.partition.owner();
        let mut members = self.partition.members();
        match order {
            RowOrder::ByDegree | RowOrder::Canonical => self.sort_by_degree(&mut members),
            RowOrder::ById => {}
        }
        let node_ranks = kept.node_ranks.unwrap_or(1);
        let covers = match kept.halo {
            Halo::Cover => Some(Covers::of(self.topology, self.partition, node_ranks)),
            Halo::Boundary | Halo::Everything | Halo::BothEnds => None,
        };
        let both = (kept.halo == Halo::BothEnds)
            .then(|| BothEnds::of(self.topology, owner, self.partition.parts()));
        // Whether a vertex has edges from other parts; not needed if there are chunks.
        let mut is_border = vec![false; owner.len()];
        let mut halos = Vec::with_capacity(members.len());
        // The last part that was found to read each vertex.
        let mut read_by = vec![u32::MAX; owner.len()];
        for (rank, members) in (0u32..).zip(&mut members) {
            let mut halo = Vec::new();
            let mut edges = members.len() as u64;
            for v in self.own(rank) {
                let sources = self.topology.in_neighbours(v);
                edges += sources.len() as u64;
                for &u in sources.iter().filter(|u| owner[**u as usize] != rank) {
                    is_border[v as usize] = true;
                    if read_by[u as usize] != rank {
                        read_by[u as usize] = rank;
                        halo.push(u);
                    }
                }
            }
            if edges > u64::from(u32::MAX) {
                return Err(GraphError::Unsupported {
                    at: format!("part {rank}"),
                    found: format!("{edges} edges in one part"),
                    expected: format!("at most {}; make more parts", u32::MAX),
                });
            }
            members.sort_by_cached_key(|&v| match self.partition.chunks() {
                1 => u32::from(is_border[v as usize]),
                _ => self.partition.chunk_of(v),
            });
            if kept.halo == Halo::Everything {
                let all = 0..owner.len() as u32;
                halo = all.filter(|&u| owner[u as usize] != rank).collect();
            }
            if let Some(covers) = &covers {
                halo = covers.sources(rank);
            }
            halo.sort_unstable_by_key(|&u| (owner[u as usize], self.partition.chunk_of(u), u));
            halo.shrink_to_fit();
            halos.push(halo);
        }
        for members in &members {
            for (row, &v) in (0..).zip(members) {
                self.inner_row[v as usize] = row;
            }
        }
        let mut sends: Vec<Vec<(u32, Vec<u32>)>> = vec![Vec::new(); members.len()];
        for (rank, halo) in (0u32..).zip(&halos) {
            for group in halo.chunk_by(|u, v| owner[*u as usize] == owner[*v as usize]) {
                let rows = group.iter().map(|u| self.inner_row[*u as usize]);
                sends[owner[group[0] as usize] as usize].push((rank, rows.collect()));
            }
        }
        let sums = |rank| match (&covers, &both) {
            (Some(covers), _) => Sums::new(covers, rank, &self.inner_row),
            (None, Some(both)) => both.of_part(rank, &self.inner_row),
            (None, None) => Sums::default(),
        };
        let rows = members.into_iter().zip(halos).zip(sends);
        let rows = (0u32..).zip(rows);
        let rows = rows.map(|(rank, ((inner, halo), send))| Rows {
            inner,
            halo,
            send,
            sums: sums(rank),
        });
        Ok(rows.collect())
    }

    /// Sorts the vertices of each part by descending degree, if that pays.
    fn sort_by_degree(&self, members: &mut [Vec<u32>]) {
        let into = self.topology.in_degrees();
        if !skewed(&into) {
            return;
        }
        let out = self.topology.out_degrees();
        for members in members {
            members.sort_by_key(|&v| (Reverse(into[v as usize] + out[v as usize]), v));
        }
    }

    /// A part with its edges.
    fn part(&mut self, rank: u32, rows: Rows) -> LocalPart {
        let Rows {
            inner: mut global,
            halo,
            send,
            sums,
        } = rows;
        let owner = self.partition.owner();
        let inner = global.len();
        for (row, &u) in (inner..).zip(&halo) {
            self.halo_row[u as usize] = row as u32;
        }
        let halo_of = runs(&halo, owner, inner);
        let first = inner + halo.len();
        let ghosts_of = runs(&sums.ghosts, owner, first);
        let (edges, types) = self.edges(rank, &global, halo.len(), &sums);
        global.extend(halo);
        global.extend(sums.ghosts);
        let mut part = LocalPart {
            rank,
            parts: self.partition.parts(),
            inner,
            degrees: self.degrees.iter().map(|all| all.at(&global)).collect(),
            global,
            halo_of,
            send,
            ghosts_of,
            open: sums.open,
            chunks: LocalChunks::default(),
            by_global_id: self.by_global_id,
            edges,
            types,
            sets: self.topology.sets().cloned(),
        };
        part.chunks = LocalChunks::new(&part, self.partition);
        part
    }

    /// The edges into the vertices of a part and into its ghosts, and their types.
    fn edges(&self, rank: u32, inner: &[u32], halo: usize, sums: &Sums) -> (Csr, Vec<u16>) {
        let owner = self.partition.owner();
        let is_typed = !self.topology.types().is_empty();
        let degree = |v: u32| {
            let sources = self.topology.in_neighbours(v).iter();
            match sums.is_open(v) {
                false => sources.len() as u64,
                true => sources
                    .filter(|u| sums.is_here(owner[**u as usize], v))
                    .count() as u64,
            }
        };
        let mut indptr = Vec::with_capacity(inner.len() + 1);
        indptr.push(0);
        let mut count = 0;
        indptr.extend(inner.iter().map(|&v| {
            count += degree(v);
            count
        }));
        let mut indices = vec![0; count as usize];
        let mut types = vec![0; if is_typed { count as usize } else { 0 }];
        for v in self.own(rank) {
            let row = self.inner_row[v as usize] as usize;
            let sources = self.topology.in_neighbours(v);
            let open = sums.is_open(v);
            let mut place = indptr[row] as usize;
            for (n, &u) in sources.iter().enumerate() {
                if open && !sums.is_here(owner[u as usize], v) {
                    continue;
                }
                let is_own = owner[u as usize] == rank;
                let rows = if is_own {
                    &self.inner_row
                } else {
                    &self.halo_row
                };
                indices[place] = rows[u as usize];
                if is_typed {
                    types[place] = self.topology.types_into(v)[n];
                }
                place += 1;
            }
        }
        if !sums.has_targets {
            return (Csr { indptr, indices }, types);
        }
        // Halo rows have no edges into them here.
        indptr.resize(indptr.len() + halo, count);
        for &v in &sums.ghosts {
            for (n, &u) in self.topology.in_neighbours(v).iter().enumerate() {
                if owner[u as usize] == rank {
                    indices.push(self.inner_row[u as usize]);
                    if is_typed {
                        types.push(self.topology.types_into(v)[n]);
                    }
                }
            }
            indptr.push(indices.len() as u64);
        }
        (Csr { indptr, indices }, types)
    }
}

/// The rows of each owner among those of some vertices, which are grouped by owner and begin at `first`.
fn runs(vertices: &[u32], owner: &[u32], first: usize) -> Vec<(u32, Range<usize>)> {
    let mut found: Vec<(u32, Range<usize>)> = Vec::new();
    for (row, &v) in (first..).zip(vertices) {
        let part = owner[v as usize];
        match found.last_mut() {
            Some((last, rows)) if *last == part => rows.end = row + 1,
            _ => found.push((part, row..row + 1)),
        }
    }
    found
}

/// Whether ordering vertices by degree pays: if there are many vertices and large hubs. Graphs
/// without hubs (meshes) keep their order, whose locality is worth more.
pub(super) fn skewed(degrees: &[u32]) -> bool {
    let edges: u64 = degrees.iter().map(|d| u64::from(*d)).sum();
    let top = degrees.iter().copied().max().unwrap_or(0);
    degrees.len() >= MANY && u64::from(top) * degrees.len() as u64 >= SKEW * edges
}

//! One rank's piece of the data graph.

pub(crate) mod both_ends;
mod build;
mod chunks;
pub(crate) mod file;
mod gather;
mod sums;

pub use chunks::LocalChunks;

use crate::csr::Csr;
use crate::partition::Partition;
use crate::topology::relation_degrees;
use crate::{EdgeSets, GraphError, Topology};
use gnnc_ir::EdgeSet;
use gnnc_ir::program::{Halo, Program, Reach};
use std::borrow::Cow;
use std::ops::Range;

/// One part of a partitioned graph, in local ids: the rows its rank keeps, the rows it sends to
/// other ranks, and the edges into its inner vertices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPart {
    /// The rank that owns the part.
    pub rank: u32,
    /// Number of parts.
    pub parts: u32,
    /// Number of inner vertices, which are local rows `0..inner`.
    pub inner: usize,
    /// Global id of each local row: first the inner vertices, then the halo, and last the ghosts, if there are any.
    ///
    /// Inner vertices are sorted by chunk, then ascending. A part with a single chunk starts with
    /// its interior, vertices without edges from other parts. Large skewed graphs may sort by
    /// descending degree instead ([`RowOrder`]). The halo is grouped by owner in rank order, then by chunk, and ascends within a group.
    pub global: Vec<u32>,
    /// For each rank that owns part of the halo, its local rows; ascending by rank.
    pub halo_of: Vec<(u32, Range<usize>)>,
    /// For each rank that reads rows of this part, the inner rows to send; ascending by rank. The
    /// rows are sorted by chunk, then by ascending global id: the order of the reader's halo.
    pub send: Vec<(u32, Vec<u32>)>,
    /// For each rank that owns targets of edges of this part, their local rows, which are the last ones of the halo; ascending by
    /// rank, then by global id. Empty unless the halo has targets ([`Halo::has_targets`]).
    pub ghosts_of: Vec<(u32, Range<usize>)>,
    /// For each rank with targets that this part owns, their inner rows; in the order of its ghosts.
    pub open: Vec<(u32, Vec<u32>)>,
    /// Bounds of the chunks in all these rows.
    pub chunks: LocalChunks,
    /// Degrees of each local row in the whole graph, for the plain edges and each named set.
    degrees: Vec<Degrees>,
    /// Whether the edges out of a row are by ascending global id of their destinations; by ascending local row otherwise.
    by_global_id: bool,
    /// For each inner vertex, its sources as local rows, by ascending global id. Edges of all sets. With targets
    /// ([`Halo::has_targets`]), for each local row.
    edges: Csr,
    /// The type of each of these edges; empty if edges have no types.
    types: Vec<u16>,
    /// The named sets, whose edges have types of their own.
    sets: Option<EdgeSets>,
}

/// Degrees of vertices, without self loops.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Degrees {
    /// Edges into each.
    into: Vec<u32>,
    /// Edges out of each.
    out: Vec<u32>,
}

/// The edges into the inner vertices of a part, indexed from both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalEdges {
    /// Rows: inner vertices, or all local rows if the halo has targets. Entries: sources as local rows, by ascending global id.
    pub in_csr: Csr,
    /// Rows: all local rows as sources. Entries: destinations as local rows, ascending, or by ascending global id
    /// ([`RowOrder::Canonical`]).
    pub out_csr: Csr,
    /// For each entry of `out_csr`, the position of the same edge in `in_csr.indices`.
    pub positions: Vec<u32>,
    /// For each entry of `in_csr`, its destination as a local inner row.
    pub destinations: Vec<u32>,
    /// For each entry of `in_csr`, the type of the edge; empty if edges have no types or include
    /// self loops.
    pub types: Vec<u16>,
}

/// Which rows of other parts a part keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The halo.
    pub halo: Halo,
    /// Parts of a node, if edges between nodes are covered together; only with [`Halo::Cover`].
    pub node_ranks: Option<u32>,
}

impl From<Halo> for Kept {
    fn from(halo: Halo) -> Self {
        Self {
            halo,
            node_ranks: None,
        }
    }
}

impl Kept {
    /// What the ranks of a program keep.
    pub fn by(program: &Program) -> Self {
        Self {
            halo: program.halo,
            node_ranks: program.node_ranks,
        }
    }
}

/// How inner vertices are sorted within their chunk or their share of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowOrder {
    /// By descending degree on large skewed graphs, so that the most-read rows lie together, and by
    /// ascending id on others.
    ByDegree,
    /// By ascending id. So the rows of a single part are the vertices of the graph.
    ById,
    /// As [`ByDegree`](Self::ByDegree), with destinations of edges by ascending global id, so that sums over them do not
    /// depend on the parts.
    Canonical,
}

impl LocalPart {
    /// Builds all parts of a partition, in rank order. Takes time linear in vertices and edges,
    /// plus a sort of each boundary.
    ///
    /// # Errors
    /// A partition of another graph; a part with 2^32 edges or more, including self loops.
    pub fn build_all(topology: &Topology, partition: &Partition) -> Result<Vec<Self>, GraphError> {
        Self::build(topology, partition, Halo::Boundary, RowOrder::ByDegree)
    }

    /// [`LocalPart::build_all`] with the given kind of halo and order of rows.
    ///
    /// # Errors
    /// As [`LocalPart::build_all`].
    pub fn build(
        topology: &Topology,
        partition: &Partition,
        kept: impl Into<Kept>,
        order: RowOrder,
    ) -> Result<Vec<Self>, GraphError> {
        Ok(Self::each(topology, partition, kept.into(), order)?.collect())
    }

    /// Number of local rows: inner and halo.
    pub fn rows(&self) -> usize {
        self.global.len()
    }

    /// Number of halo rows, with ghosts.
    pub fn halo(&self) -> usize {
        self.global.len() - self.inner
    }

    /// The interior's rows and edges, and the number of edges from the halo.
    pub fn reach(&self) -> Reach {
        let edges = &self.edges;
        let remote = |u: &u32| *u as usize >= self.inner;
        let near = (0..self.inner).take_while(|&row| !edges.row(row).iter().any(remote));
        let interior = near.count();
        let plain = of_plain(edges, &self.types, self.sets.as_ref()).edges;
        Reach {
            interior: interior as u64,
            interior_edges: plain.indptr[interior],
            halo_edges: plain.indices.iter().filter(|u| remote(u)).count() as u64,
        }
    }

    /// In-degree of each local row in the whole graph, counting the edges of `set`.
    pub fn in_degrees(&self, set: EdgeSet) -> Vec<u32> {
        with_loops(self.degrees(set).map_or(&[], |degrees| &degrees.into), set)
    }

    /// Out-degree of each local row in the whole graph, counting the edges of `set`.
    pub fn out_degrees(&self, set: EdgeSet) -> Vec<u32> {
        with_loops(self.degrees(set).map_or(&[], |degrees| &degrees.out), set)
    }

    fn degrees(&self, set: EdgeSet) -> Option<&Degrees> {
        match set {
            EdgeSet::Plain | EdgeSet::Looped => self.degrees.first(),
            EdgeSet::Named(number) => self.degrees.get(usize::from(number)),
        }
    }

    /// The type of each plain edge into the inner vertices; empty if edges have no types.
    pub fn types(&self) -> Cow<'_, [u16]> {
        of_plain(&self.edges, &self.types, self.sets.as_ref()).types
    }

    /// For each of these edges, the number of edges of its type into its destination.
    pub fn relation_degrees(&self) -> Vec<u32> {
        let plain = of_plain(&self.edges, &self.types, self.sets.as_ref());
        relation_degrees(&plain.edges.indptr, &plain.types)
    }

    /// Number of edges of a set into the inner vertices, without self loops.
    pub fn edges_of(&self, set: EdgeSet) -> u64 {
        let kinds = Kinds(self.sets.as_ref());
        let edges = kinds.of_set(set, &self.edges, &self.types).edges;
        edges.indices.len() as u64
    }

    /// The edges of `set` into the inner vertices.
    pub fn edges(&self, set: EdgeSet) -> LocalEdges {
        let typed = Kinds(self.sets.as_ref()).of_set(set, &self.edges, &self.types);
        let global = |row: u32| self.global[row as usize];
        let mut edges = typed.listed(set, self.rows(), self.inner, global);
        if self.by_global_id {
            edges.sort_destinations(global);
        }
        edges
    }
}

/// Edges with their types.
struct Typed<'a> {
    edges: Cow<'a, Csr>,
    types: Cow<'a, [u16]>,
}

/// The named sets, if there are any.
struct Kinds<'a>(Option<&'a EdgeSets>);

impl Kinds<'_> {
    /// The edges of a set, without self loops, and their types.
    fn of_set<'a>(&self, set: EdgeSet, edges: &'a Csr, types: &'a [u16]) -> Typed<'a> {
        let Some(sets) = self.0 else {
            return Typed {
                edges: Cow::Borrowed(edges),
                types: Cow::Borrowed(types),
            };
        };
        let mut indptr = vec![0];
        let (mut indices, mut kept) = (Vec::new(), Vec::new());
        for row in edges.indptr.windows(2) {
            for place in row[0] as usize..row[1] as usize {
                if sets.has(set, types[place]) {
                    indices.push(edges.indices[place]);
                    kept.push(types[place]);
                }
            }
            indptr.push(indices.len() as u64);
        }
        // Edges of one type have none to tell them apart.
        if sets.plain() == 1 || set != EdgeSet::Plain {
            kept.clear();
        }
        Typed {
            edges: Cow::Owned(Csr { indptr, indices }),
            types: Cow::Owned(kept),
        }
    }
}

fn of_plain<'a>(edges: &'a Csr, types: &'a [u16], sets: Option<&EdgeSets>) -> Typed<'a> {
    Kinds(sets).of_set(EdgeSet::Plain, edges, types)
}

impl Typed<'_> {
    /// Lists them from both ends, with self loops if the set has them.
    fn listed(
        self,
        set: EdgeSet,
        sources: usize,
        inner: usize,
        global: impl Fn(u32) -> u32,
    ) -> LocalEdges {
        match set {
            EdgeSet::Looped => {
                LocalEdges::new(looped(&self.edges, inner, global), sources, Vec::new())
            }
            EdgeSet::Plain | EdgeSet::Named(_) => {
                LocalEdges::new(self.edges.into_owned(), sources, self.types.into_owned())
            }
        }
    }
}

impl Degrees {
    /// Those of all vertices: in the plain edges, and in each named set.
    fn of_sets(topology: &Topology) -> Vec<Self> {
        let named = (1..=topology.set_names().len() as u8).map(EdgeSet::Named);
        let sets = std::iter::once(EdgeSet::Plain).chain(named);
        let of_set = |set| {
            let edges = topology.only(set);
            Self {
                into: edges.in_degrees(),
                out: edges.out_degrees(),
            }
        };
        sets.map(of_set).collect()
    }

    /// Those of some vertices.
    fn at(&self, vertices: &[u32]) -> Self {
        let pick = |all: &[u32]| vertices.iter().map(|&v| all[v as usize]).collect();
        Self {
            into: pick(&self.into),
            out: pick(&self.out),
        }
    }
}

impl LocalEdges {
    /// The edges of `set` in a whole graph; rows are global ids.
    ///
    /// # Errors
    /// A graph with 2^32 edges or more, including self loops.
    pub fn whole(topology: &Topology, set: EdgeSet) -> Result<Self, GraphError> {
        let vertices = topology.vertices() as usize;
        let count = topology.edges() + vertices as u64;
        if count > u64::from(u32::MAX) {
            return Err(GraphError::Unsupported {
                at: "the whole graph".to_owned(),
                found: format!("{count} edges that every rank walks"),
                expected: format!("at most {}; keep all tensors by rows", u32::MAX),
            });
        }
        let all = Csr {
            indptr: topology.indptr().to_vec(),
            indices: topology.indices().to_vec(),
        };
        let typed = Kinds(topology.sets()).of_set(set, &all, topology.types());
        Ok(typed.listed(set, vertices, vertices, |v| v))
    }

    fn new(in_csr: Csr, sources: usize, types: Vec<u16>) -> Self {
        let mut destinations = Vec::with_capacity(in_csr.indices.len());
        for v in 0..in_csr.rows() {
            destinations.resize(in_csr.indptr[v + 1] as usize, v as u32);
        }
        let (out_csr, positions) = in_csr.transposed(sources);
        Self {
            in_csr,
            out_csr,
            positions,
            destinations,
            types,
        }
    }

    /// Sorts the edges out of each row by the global ids of their destinations.
    fn sort_destinations(&mut self, global: impl Fn(u32) -> u32) {
        let mut row: Vec<(u32, u32, u32)> = Vec::new();
        for bounds in self.out_csr.indptr.windows(2) {
            let (begin, end) = (bounds[0] as usize, bounds[1] as usize);
            let (ends, places) = (
                &mut self.out_csr.indices[begin..end],
                &mut self.positions[begin..end],
            );
            row.clear();
            row.extend(
                ends.iter()
                    .zip(&*places)
                    .map(|(v, place)| (global(*v), *v, *place)),
            );
            // Edges of the same two vertices stay in the order of their places.
            row.sort_by_key(|(id, ..)| *id);
            for ((end, place), (_, v, from)) in ends.iter_mut().zip(places).zip(&row) {
                (*end, *place) = (*v, *from);
            }
        }
    }

    /// For each of `relations` types, the positions of its edges in `in_csr`, ascending.
    pub fn by_type(&self, relations: u32) -> Csr {
        let each = Csr {
            indptr: (0..=self.types.len() as u64).collect(),
            indices: self.types.iter().map(|kind| u32::from(*kind)).collect(),
        };
        each.transposed(relations as usize).0
    }
}

/// The stored edges plus a self loop for each of the first `inner` rows, inserted in order of global id.
fn looped(edges: &Csr, inner: usize, global: impl Fn(u32) -> u32) -> Csr {
    let mut indptr = Vec::with_capacity(edges.rows() + 1);
    let mut indices = Vec::with_capacity(edges.indices.len() + edges.rows());
    indptr.push(0);
    for v in 0..edges.rows() {
        let row = edges.row(v);
        let place = row.partition_point(|&u| global(u) < global(v as u32));
        indices.extend_from_slice(&row[..place]);
        if v < inner {
            indices.push(v as u32);
        }
        indices.extend_from_slice(&row[place..]);
        indptr.push(indices.len() as u64);
    }
    Csr { indptr, indices }
}

fn with_loops(degrees: &[u32], set: EdgeSet) -> Vec<u32> {
    let extra = set.loops() as u32;
    degrees.iter().map(|d| d + extra).collect()
}

#[cfg(test)]
mod tests;

//! The edges of a data graph, as rows of in-neighbors.

use crate::csr::row;
mod checked;
mod curve;
mod edge_sets;

pub use edge_sets::EdgeSets;

use crate::{GraphError, ListedEdge, Values};
use gnnc_ir::workload::MAX_RELATIONS;
use rayon::prelude::*;

/// The edges of a data graph: compressed sparse rows over in-neighbors.
///
/// `indices[indptr[v]..indptr[v + 1]]` are the sources `u` of the edges `u -> v`, strictly
/// ascending. Self loops are not stored; models add them where they need them. If edges have types
/// (relations), there may be one edge of each type from `u` to `v`, by ascending type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    indptr: Values<u64>,
    indices: Values<u32>,
    types: Option<EdgeTypes>,
    /// The place of each vertex on a curve through their coordinates; empty without.
    places: Vec<u32>,
}

/// The types of the edges.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EdgeTypes {
    /// Number of types.
    relations: u32,
    /// The type of each edge, below `relations`.
    of: Values<u16>,
    /// The named sets, whose types are the last ones.
    sets: Option<EdgeSets>,
}

/// What was left out to make a [`Topology`] of a graph file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Edges from a vertex to itself.
    pub self_loops: u64,
    /// Repeated edges.
    pub repeats: u64,
    /// Edges with an explicit weight of zero.
    pub zero_weights: u64,
    /// Content of the file that no model can use: weights, types, other arrays.
    pub not_used: Vec<String>,
}

impl Topology {
    /// A topology from `(source, destination)` pairs in any order. Drops and counts repeats and
    /// self loops.
    ///
    /// # Errors
    /// If an end of an edge is not below `vertices`.
    pub fn from_edges(
        vertices: u32,
        edges: impl IntoIterator<Item = (u32, u32)>,
    ) -> Result<(Self, Dropped), GraphError> {
        let key = |(src, dst): (u32, u32)| u64::from(dst) << 32 | u64::from(src);
        Self::from_keys(vertices, edges.into_iter().map(key).collect())
    }

    /// [`Topology::from_edges`] of `destination << 32 | source` keys, in their memory.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn from_keys(vertices: u32, keys: Vec<u64>) -> Result<(Self, Dropped), GraphError> {
        let (keys, dropped) = Self::sorted_keys(vertices, keys)?;
        Ok((Self::from_sorted_keys(vertices, &keys), dropped))
    }

    /// The keys of [`Topology::from_keys`] in ascending order, in their memory, without repeats and self loops.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn sorted_keys(
        vertices: u32,
        mut keys: Vec<u64>,
    ) -> Result<(Vec<u64>, Dropped), GraphError> {
        let ends = |key: u64| [key as u32, (key >> 32) as u32];
        let largest = |key: &u64| ends(*key).into_iter().max();
        if let Some(position) = keys.iter().position(|key| largest(key) >= Some(vertices)) {
            return Err(GraphError::IndexOutOfRange {
                at: "edges".to_owned(),
                position: position as u64,
                found: largest(&keys[position]).map_or(0, i128::from),
                limit: u64::from(vertices),
            });
        }
        let all = keys.len();
        keys.retain(|key| {
            let [src, dst] = ends(*key);
            src != dst
        });
        let edges = keys.len();
        keys.par_sort_unstable();
        keys.dedup();
        let dropped = Dropped {
            self_loops: (all - edges) as u64,
            repeats: (edges - keys.len()) as u64,
            ..Dropped::default()
        };
        Ok((keys, dropped))
    }

    /// A topology from `destination << 32 | source` keys: ascending, without repeats or loops,
    /// every end below `vertices`.
    pub(crate) fn from_sorted_keys(vertices: u32, keys: &[u64]) -> Self {
        let mut indptr = vec![0u64; vertices as usize + 1];
        for key in keys {
            indptr[(key >> 32) as usize + 1] += 1;
        }
        for v in 0..vertices as usize {
            indptr[v + 1] += indptr[v];
        }
        let indices: Vec<u32> = keys.par_iter().map(|&key| key as u32).collect();
        Self::untyped(indptr, indices)
    }

    pub(crate) fn untyped(indptr: impl Into<Values<u64>>, indices: impl Into<Values<u32>>) -> Self {
        Self {
            indptr: indptr.into(),
            indices: indices.into(),
            types: None,
            places: Vec::new(),
        }
    }

    /// A topology with edge types, from `(source, destination, type)` in any order. Drops and
    /// counts repeats and self loops.
    ///
    /// # Errors
    /// An end of an edge that is not below `vertices`; a type that is not below `relations`; more
    /// than [`MAX_RELATIONS`] relations.
    pub fn typed(
        vertices: u32,
        relations: u32,
        edges: impl IntoIterator<Item = (u32, u32, u16)>,
    ) -> Result<(Self, Dropped), GraphError> {
        if relations > MAX_RELATIONS {
            return Err(GraphError::Unsupported {
                at: "edge types".to_owned(),
                found: format!("{relations} relations"),
                expected: format!("at most {MAX_RELATIONS}; merge similar ones"),
            });
        }
        let mut dropped = Dropped::default();
        let mut kept = Vec::new();
        for (position, (src, dst, kind)) in edges.into_iter().enumerate() {
            let wrong = |at: &str, found: u32, limit: u32| GraphError::IndexOutOfRange {
                at: at.to_owned(),
                position: position as u64,
                found: i128::from(found),
                limit: u64::from(limit),
            };
            if src.max(dst) >= vertices {
                return Err(wrong("edges", src.max(dst), vertices));
            }
            if u32::from(kind) >= relations {
                return Err(wrong("edge types", kind.into(), relations));
            }
            match src == dst {
                true => dropped.self_loops += 1,
                false => kept.push((dst, src, kind)),
            }
        }
        kept.par_sort_unstable();
        let before = kept.len();
        kept.dedup();
        dropped.repeats = (before - kept.len()) as u64;
        Ok((Self::from_sorted_edges(vertices, relations, &kept), dropped))
    }

    /// A topology from `(destination, source, type)`: ascending, without repeats or loops, every
    /// end below `vertices`, every type below `relations`.
    pub(crate) fn from_sorted_edges(
        vertices: u32,
        relations: u32,
        edges: &[(u32, u32, u16)],
    ) -> Self {
        let keys: Vec<u64> = edges
            .iter()
            .map(|(dst, src, _)| u64::from(*dst) << 32 | u64::from(*src))
            .collect();
        let of: Vec<u16> = edges.iter().map(|(_, _, kind)| *kind).collect();
        let mut topology = Self::from_sorted_keys(vertices, &keys);
        topology.types = Some(EdgeTypes {
            relations,
            of: of.into(),
            sets: None,
        });
        topology
    }

    /// The topology with a type for each edge, below `relations`; as it is for 0 relations.
    pub(crate) fn with_types(mut self, relations: u32, of: impl Into<Values<u16>>) -> Self {
        self.types = (relations > 0).then(|| EdgeTypes {
            relations,
            of: of.into(),
            sets: None,
        });
        self
    }

    /// The topology whose last types are named sets of edges; as it is without names.
    ///
    /// # Errors
    /// As [`EdgeSets::new`].
    pub fn with_sets(mut self, names: Vec<String>) -> Result<Self, GraphError> {
        if names.is_empty() {
            return Ok(self);
        }
        let sets = EdgeSets::new(names, self.all_types())?;
        if let Some(types) = &mut self.types {
            types.sets = Some(sets);
        }
        Ok(self)
    }

    /// The named sets of edges, if there are any.
    pub fn sets(&self) -> Option<&EdgeSets> {
        self.types.as_ref()?.sets.as_ref()
    }

    /// The same topology, whose clones share their memory.
    #[must_use]
    pub fn into_shared(self) -> Self {
        Self {
            indptr: self.indptr.into_shared(),
            indices: self.indices.into_shared(),
            types: self.types.map(|types| EdgeTypes {
                of: types.of.into_shared(),
                ..types
            }),
            places: self.places,
        }
    }

    /// The edges as `(source, destination, type)`, in order; empty if edges have no types.
    pub fn typed_edges(&self) -> impl Iterator<Item = (u32, u32, u16)> {
        let edges = (0..self.vertices())
            .flat_map(|dst| self.in_neighbours(dst).iter().map(move |src| (*src, dst)));
        edges
            .zip(self.types())
            .map(|((src, dst), kind)| (src, dst, *kind))
    }

    /// The edges in order.
    pub fn listed(&self) -> Vec<ListedEdge> {
        let edges = (0..self.vertices())
            .flat_map(|target| self.in_neighbours(target).iter().map(move |u| (*u, target)));
        let kinds = self.types().iter().copied().chain(std::iter::repeat(0));
        let listed = edges.zip(kinds).map(|((source, target), kind)| ListedEdge {
            source,
            target,
            kind,
        });
        listed.collect()
    }

    /// The place of an edge in [`Topology::indices`]; `None` if there is none.
    pub fn place(&self, edge: ListedEdge) -> Option<usize> {
        let row = self.in_neighbours(edge.target);
        let first = row.partition_point(|u| *u < edge.source);
        let end = row.partition_point(|u| *u <= edge.source);
        let kinds = self.types_into(edge.target);
        // Edges from one source are in order of their types.
        let found = match kinds.get(first..end) {
            Some(kinds) => kinds.binary_search(&edge.kind).ok()?,
            None if first < end && edge.kind == 0 => 0,
            None => return None,
        };
        Some(self.indptr[edge.target as usize] as usize + first + found)
    }

    /// Number of types of the edges of all sets; 0 if edges have no types.
    pub fn all_types(&self) -> u32 {
        self.types.as_ref().map_or(0, |types| types.relations)
    }

    /// Number of types of plain edges; 0 if they have no types.
    pub fn relations(&self) -> u32 {
        match (&self.types, self.sets()) {
            (None, _) => 0,
            (Some(types), None) => types.relations,
            (Some(_), Some(sets)) if sets.plain() == 1 => 0,
            (Some(_), Some(sets)) => sets.plain(),
        }
    }

    /// The type of each edge, ordered by destination; empty if edges have no types.
    pub fn types(&self) -> &[u16] {
        self.types.as_ref().map_or(&[], |types| &types.of)
    }

    /// Number of vertices.
    pub fn vertices(&self) -> u32 {
        (self.indptr.len() - 1) as u32
    }

    /// Number of stored edges; an undirected edge is two.
    pub fn edges(&self) -> u64 {
        self.indices.len() as u64
    }

    /// `vertices + 1` offsets into [`indices`](Self::indices).
    pub fn indptr(&self) -> &[u64] {
        &self.indptr
    }

    /// Sources of the edges, in order of their destinations.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// Whether the sources of the edges are in a file rather than in memory.
    pub fn is_mapped(&self) -> bool {
        self.indices.is_mapped()
    }

    /// Sources of the edges into `v`, ascending. Panics if there is no such vertex.
    pub fn in_neighbours(&self, v: u32) -> &[u32] {
        row(&self.indptr, &self.indices, v as usize)
    }

    /// Types of the edges into `v`, parallel to [`Topology::in_neighbours`]; empty if edges have no
    /// types.
    pub fn types_into(&self, v: u32) -> &[u16] {
        match &self.types {
            Some(types) => {
                let bounds = [v, v + 1].map(|v| self.indptr[v as usize] as usize);
                &types.of[bounds[0]..bounds[1]]
            }
            None => &[],
        }
    }

    /// The in-degree of each vertex.
    pub fn in_degrees(&self) -> Vec<u32> {
        self.indptr
            .windows(2)
            .map(|w| (w[1] - w[0]) as u32)
            .collect()
    }

    /// The out-degree of each vertex.
    pub fn out_degrees(&self) -> Vec<u32> {
        let mut degrees = vec![0u32; self.vertices() as usize];
        for &u in self.indices() {
            degrees[u as usize] += 1;
        }
        degrees
    }
}

/// For each entry, the number of entries of its type in its row.
pub(crate) fn relation_degrees(indptr: &[u64], types: &[u16]) -> Vec<u32> {
    let mut degrees = vec![0u32; types.len()];
    if types.is_empty() {
        return degrees;
    }
    let mut counts = vec![0u32; 1 + usize::from(u16::MAX)];
    for bounds in indptr.windows(2) {
        let row = bounds[0] as usize..bounds[1] as usize;
        let of_row = &types[row.clone()];
        of_row
            .iter()
            .for_each(|kind| counts[usize::from(*kind)] += 1);
        for (degree, kind) in degrees[row].iter_mut().zip(of_row) {
            *degree = counts[usize::from(*kind)];
        }
        of_row
            .iter()
            .for_each(|kind| counts[usize::from(*kind)] = 0);
    }
    degrees
}

/// The number of vertices as an index type, which must leave room for sentinels.
pub(crate) fn check_vertices(at: &str, found: u128, edges: u64) -> Result<u32, GraphError> {
    let limit = u32::MAX - 1;
    u32::try_from(found)
        .ok()
        .filter(|&n| n <= limit)
        .ok_or_else(|| GraphError::TooManyVertices {
            at: at.to_owned(),
            found,
            edges,
            limit: u64::from(limit),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn bad_arrays_are_refused() {
        let new =
            |indptr: &[u64], indices: &[u32]| Topology::new(indptr.to_vec(), indices.to_vec());
        assert!(matches!(new(&[], &[]), Err(GraphError::Shape { .. })));
        assert!(matches!(
            new(&[0, 2], &[0]),
            Err(GraphError::RowPointer { .. })
        ));
        assert!(matches!(
            new(&[0, 1, 1], &[2]),
            Err(GraphError::IndexOutOfRange {
                found: 2,
                limit: 2,
                ..
            })
        ));
        assert!(matches!(
            new(&[0, 2, 2, 2], &[2, 1]),
            Err(GraphError::Unsorted { vertex: 0, .. })
        ));
        assert!(matches!(
            new(&[0, 2, 2, 2], &[1, 1]),
            Err(GraphError::Unsorted { .. })
        ));
        assert!(matches!(
            new(&[0, 0, 1], &[1]),
            Err(GraphError::SelfLoop { vertex: 1, .. })
        ));
        assert!(new(&[0], &[]).is_ok());
    }

    #[test]
    fn repeats_and_loops_are_counted() {
        let (t, dropped) = Topology::from_edges(3, [(0, 1), (2, 2), (0, 1), (1, 0)]).unwrap();
        assert_eq!((t.edges(), dropped.self_loops, dropped.repeats), (2, 1, 1));
        assert!(Topology::from_edges(3, [(0, 3)]).is_err());
    }

    proptest! {
        #[test]
        fn edges_survive_every_view(edges in prop::collection::vec((0u32..20, 0u32..20), 0..80)) {
            let (t, dropped) = Topology::from_edges(20, edges.iter().copied()).unwrap();
            let want: BTreeSet<_> = edges.iter().copied().filter(|(u, v)| u != v).collect();
            let found = |t: &Topology| -> BTreeSet<(u32, u32)> {
                (0..20).flat_map(|v| t.in_neighbours(v).iter().map(move |&u| (u, v))).collect()
            };
            prop_assert_eq!(&found(&t), &want);
            prop_assert_eq!(t.edges() + dropped.self_loops + dropped.repeats, edges.len() as u64);
            prop_assert_eq!(&Topology::new(t.indptr().to_vec(), t.indices().to_vec()).unwrap(), &t);
            prop_assert_eq!(&t.transposed().transposed(), &t);
            prop_assert_eq!(t.transposed().in_degrees(), t.out_degrees());
            let both = t.symmetrised();
            let want_both: BTreeSet<_> = want.iter().flat_map(|&(u, v)| [(u, v), (v, u)]).collect();
            prop_assert_eq!(&found(&both), &want_both);
            prop_assert!(both.is_symmetric());
            prop_assert_eq!(t.is_symmetric(), want == want_both);
        }
    }
}

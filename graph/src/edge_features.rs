//! Numbers of the edges, as the input of a model.

use crate::{ListedEdge, Topology};
use gnnc_ir::EdgeSet;

/// A row of numbers for each edge, such as its weight, in the order of
/// [`Topology::indices`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EdgeFeatures {
    /// Numbers per edge; 0 if edges have none.
    pub columns: u32,
    /// `edges x columns`, row-major.
    pub values: Vec<f32>,
}

impl EdgeFeatures {
    /// The rows of `values`, one for each edge of a list, in the order of a topology made of it. The
    /// first of repeated edges counts; edges that the topology lacks, such as self loops, are left
    /// out.
    pub fn in_order(
        topology: &Topology,
        list: impl IntoIterator<Item = ListedEdge>,
        columns: u32,
        values: &[f32],
    ) -> Self {
        let width = columns as usize;
        let edges = topology.edges() as usize;
        let mut ordered = vec![0.0; edges * width];
        let mut known = vec![false; edges];
        for (edge, row) in list.into_iter().zip(values.chunks(width.max(1))) {
            let Some(place) = topology.place(edge).filter(|place| !known[*place]) else {
                continue;
            };
            known[place] = true;
            ordered[place * width..][..width].copy_from_slice(row);
        }
        Self {
            columns,
            values: ordered,
        }
    }

    /// The features of a graph to which reverse edges were added: each has the features of its
    /// reverse, unless it was there before. In a typed graph, the reverse of type `r` is `r` plus
    /// the number of types `before`.
    pub fn with_reverses(&self, before: &Topology, after: &Topology) -> Self {
        let types = before.relations() as u16;
        let edges = before.listed();
        let reverses = edges.iter().map(|edge| ListedEdge {
            source: edge.target,
            target: edge.source,
            kind: edge.kind + types,
        });
        let both = edges.iter().copied().chain(reverses);
        let values = [&self.values[..], &self.values].concat();
        Self::in_order(after, both, self.columns, &values)
    }

    /// The row of the edge at a place.
    pub fn row(&self, place: usize) -> &[f32] {
        let width = self.columns as usize;
        &self.values[place * width..][..width]
    }

    /// The rows of the edges of a set alone.
    pub fn of_set(&self, topology: &Topology, set: EdgeSet) -> Self {
        let vertices: Vec<u32> = (0..topology.vertices()).collect();
        Self {
            columns: self.columns,
            values: self.into_vertices(topology, set, &vertices),
        }
    }

    /// The rows of the edges of a set into some vertices, one vertex after the other.
    pub fn into_vertices(&self, topology: &Topology, set: EdgeSet, vertices: &[u32]) -> Vec<f32> {
        let places = vertices.iter().flat_map(|&v| {
            let bounds = [v, v + 1].map(|v| topology.indptr()[v as usize] as usize);
            bounds[0]..bounds[1]
        });
        let inside = places.filter(|place| topology.has(set, *place));
        inside.flat_map(|place| self.row(place)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_their_edges() {
        let pairs = [(2, 0), (1, 0), (0, 1), (1, 1), (2, 0)];
        let list = pairs.map(|(source, target)| ListedEdge {
            source,
            target,
            kind: 0,
        });
        let (topology, _) = Topology::from_edges(3, pairs).unwrap();
        let values = [1.0, 2.0, 3.0, 4.0, 5.0];
        let ordered = EdgeFeatures::in_order(&topology, list, 1, &values);
        // Into 0 from 1 and 2, into 1 from 0; of the repeated edge the first.
        assert_eq!(ordered.values, [2.0, 1.0, 3.0]);
        assert_eq!(
            ordered.into_vertices(&topology, EdgeSet::Plain, &[1, 0]),
            [3.0, 2.0, 1.0]
        );
        let both = topology.symmetrised();
        let reversed = ordered.with_reverses(&topology, &both);
        // Into 0 from 1 and 2, into 1 from 0, into 2 from 0.
        assert_eq!(reversed.values, [2.0, 1.0, 3.0, 1.0]);
    }

    #[test]
    fn types_tell_edges_apart() {
        let edges = [(1, 0, 1), (1, 0, 0)];
        let (topology, _) = Topology::typed(2, 2, edges).unwrap();
        let list = edges.map(|(source, target, kind)| ListedEdge {
            source,
            target,
            kind,
        });
        let ordered = EdgeFeatures::in_order(&topology, list, 2, &[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(ordered.values, [3.0, 4.0, 1.0, 2.0]);
        let both = topology.with_inverse_relations().unwrap();
        let reversed = ordered.with_reverses(&topology, &both);
        assert_eq!(reversed.values, [3.0, 4.0, 1.0, 2.0, 3.0, 4.0, 1.0, 2.0]);
    }
}

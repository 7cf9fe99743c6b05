//! Meshes: graphs whose vertices have their neighbors near them.

use super::attributes::{Attributes, check_attributes, classes_of, with_attributes};
use super::wrong;
use crate::{GraphData, GraphError, Topology};
use rayon::prelude::*;

/// A square grid whose vertices are joined with those nearest to them, as in the meshes of finite elements. Vertices are
/// numbered row by row, so neighbors also have near numbers. All edges have their reverse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mesh {
    /// Number of vertices; the last row may be shorter.
    pub vertices: u32,
    /// Stored edges: twice the undirected edges. Rounded down to an even number.
    pub edges: u64,
    /// Features, labels and split. The labels are independent of the edges.
    pub attributes: Attributes,
    /// Random seed of the attributes.
    pub seed: u64,
}

impl Mesh {
    /// Generates the graph. The nearest pairs are joined first; of pairs that are equally far, those in one direction
    /// first, then the others.
    ///
    /// # Errors
    /// More edges than pairs of vertices; contradictory attributes.
    pub fn generate(&self) -> Result<GraphData, GraphError> {
        let n = check_attributes(self.vertices, &self.attributes)?;
        let pairs = u64::from(n) * (u64::from(n) - 1);
        if self.edges > pairs {
            return Err(wrong(
                "edges",
                self.edges.to_string(),
                format!("at most {pairs} for {n} vertices"),
            ));
        }
        let width = n.isqrt() + u32::from(n.isqrt().pow(2) < n);
        let mut keys: Vec<u64> = Vec::with_capacity(self.edges as usize);
        // How far an edge reaches so that a vertex has enough neighbors; the border has fewer, so more may be needed.
        let mut reach = 1 + (self.edges / u64::from(n)).isqrt() as u32 / 2;
        while (keys.len() as u64) < self.edges / 2 {
            keys.clear();
            for offset in offsets(reach.min(width)) {
                let missing = self.edges / 2 - keys.len() as u64;
                keys.extend(
                    (0..n)
                        .filter_map(|from| offset.key(from, n, width))
                        .take(missing as usize),
                );
            }
            reach *= 2;
        }
        let reversed: Vec<u64> = keys.par_iter().map(|key| key.rotate_left(32)).collect();
        keys.extend(reversed);
        keys.par_sort_unstable();
        let topology = Topology::from_sorted_keys(n, &keys);
        let labels = classes_of(n, &self.attributes, self.seed);
        with_attributes("mesh", topology, labels, &self.attributes, self.seed)
    }
}

/// From a vertex to another: so many rows down and so many columns to the right.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Offset {
    down: i64,
    right: i64,
}

impl Offset {
    /// The edge from this vertex, if it ends in the grid.
    fn key(self, from: u32, n: u32, width: u32) -> Option<u64> {
        let (n, width, from) = (i64::from(n), i64::from(width), i64::from(from));
        let column = from % width + self.right;
        let to = (from / width + self.down) * width + column;
        ((0..width).contains(&column) && to < n).then_some((to as u64) << 32 | from as u64)
    }
}

/// Half of the directions up to so many rows and columns away, the nearest first; their opposites are the other half.
fn offsets(reach: u32) -> Vec<Offset> {
    let reach = i64::from(reach);
    let below =
        (1..=reach).flat_map(|down| (-reach..=reach).map(move |right| Offset { down, right }));
    let beside = (1..=reach).map(|right| Offset { down: 0, right });
    let mut all: Vec<Offset> = beside.chain(below).collect();
    all.sort_by_key(|offset| {
        (
            offset.down.pow(2) + offset.right.pow(2),
            offset.down,
            offset.right,
        )
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(vertices: u32, edges: u64) -> GraphData {
        let attributes = Attributes::default();
        let mesh = Mesh {
            vertices,
            edges,
            attributes,
            seed: 1,
        };
        mesh.generate().unwrap()
    }

    #[test]
    fn a_small_mesh_is_a_grid() {
        // 0 1 2
        // 3 4 5
        // 6 7
        let graph = mesh(8, 2 * 10);
        assert_eq!(graph.topology.edges(), 20);
        let of = |vertex: usize| {
            let ends = graph.topology.indptr();
            graph.topology.indices()[ends[vertex] as usize..ends[vertex + 1] as usize].to_vec()
        };
        assert_eq!(of(4), [1, 3, 5, 7]);
        assert_eq!(of(6), [3, 7]);
        assert!(graph.topology.is_symmetric());
    }

    #[test]
    fn a_mesh_has_the_edges_asked_for_up_to_all() {
        for (vertices, edges) in [(1, 0), (2, 2), (7, 42), (1000, 9000), (1001, 60_000)] {
            let graph = mesh(vertices, edges);
            assert_eq!(graph.topology.edges(), edges);
            let (indptr, indices) = (
                graph.topology.indptr().to_vec(),
                graph.topology.indices().to_vec(),
            );
            Topology::new(indptr, indices).unwrap();
        }
    }

    #[test]
    fn degrees_inside_are_equal_and_neighbors_near() {
        let graph = mesh(10_000, 78_000);
        let degrees = graph.topology.in_degrees();
        assert_eq!(degrees.iter().max(), Some(&8));
        let ends = graph.topology.indptr();
        for vertex in [0, 55, 5050] {
            let sources =
                &graph.topology.indices()[ends[vertex] as usize..ends[vertex + 1] as usize];
            assert!(
                sources
                    .iter()
                    .all(|&source| vertex.abs_diff(source as usize) <= 101),
                "{sources:?}"
            );
        }
    }

    #[test]
    fn more_edges_than_pairs_are_refused() {
        let mesh = Mesh {
            vertices: 3,
            edges: 8,
            attributes: Attributes::default(),
            seed: 1,
        };
        assert!(mesh.generate().is_err());
    }
}

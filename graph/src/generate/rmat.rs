//! RMAT: graphs with skewed degrees.

use super::attributes::{Attributes, check_attributes, classes_of, with_attributes};
use super::{draw_edges, purpose, wrong};
use crate::rng::Stream;
use crate::{GraphData, GraphError};

/// A graph with the skewed degrees of social networks (Chakrabarti, Zhan and Faloutsos, SDM 2004):
/// each edge falls into a quadrant of the adjacency matrix, then into a quadrant of that, and so
/// on. Vertices are then renamed at random, as in Graph 500.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rmat {
    /// Number of vertices; need not be a power of two.
    pub vertices: u32,
    /// Stored edges, without repeats and self loops. Rounded down to an even number if symmetric.
    pub edges: u64,
    /// Probabilities of the four quadrants, `a` (low source, low destination), `b` (low,
    /// high), `c` (high, low) and `d`. They sum to 1.
    pub quadrants: [f64; 4],
    /// Also store the reverse of every edge; both count.
    pub symmetric: bool,
    /// Features, labels and split. The labels are independent of the edges.
    pub attributes: Attributes,
    /// Random seed.
    pub seed: u64,
}

impl Default for Rmat {
    /// Graph 500's quadrants, 1024 vertices with 16 edges each, symmetric.
    fn default() -> Self {
        Self {
            vertices: 1024,
            edges: 16 * 1024,
            quadrants: [0.57, 0.19, 0.19, 0.05],
            symmetric: true,
            attributes: Attributes::default(),
            seed: 1,
        }
    }
}

impl Rmat {
    /// Generates the graph.
    ///
    /// # Errors
    /// Probabilities that are negative or do not sum to 1; more edges than the vertices (or the
    /// skew) allow; contradictory attributes.
    pub fn generate(&self) -> Result<GraphData, GraphError> {
        let [a, b, c, d] = self.quadrants;
        if self.quadrants.iter().any(|p| !(0.0..=1.0).contains(p))
            || (a + b + c + d - 1.0).abs() > 1e-6
        {
            return Err(wrong(
                "quadrants",
                format!("{:?}", self.quadrants),
                "four probabilities with sum 1",
            ));
        }
        let n = check_attributes(self.vertices, &self.attributes)?;
        let levels = u64::from(n.max(2) - 1).ilog2() + 1;
        let scale = (1u64 << 32) as f64;
        let ends = [
            (a * scale) as u64,
            ((a + b) * scale) as u64,
            ((a + b + c) * scale) as u64,
        ];
        let names = Stream::new(self.seed, purpose::NAMES).permutation(n);
        let stream = Stream::new(self.seed, purpose::EDGES);
        let draw = |edge: u64| {
            let (mut u, mut v, mut bits) = (0u64, 0u64, 0u64);
            for level in 0..levels {
                // Each level uses half of 64 random bits.
                bits = if level % 2 == 0 {
                    stream.bits(edge * 16 + u64::from(level / 2))
                } else {
                    bits >> 32
                };
                let x = bits & 0xffff_ffff;
                let quadrant = ends.iter().filter(|&&end| x >= end).count() as u64;
                u = u << 1 | quadrant >> 1;
                v = v << 1 | quadrant & 1;
            }
            // Scale the power of two down to the number of vertices.
            let name = |x: u64| names[((x * u64::from(n)) >> levels) as usize];
            (name(u), name(v))
        };
        let topology = draw_edges(n, self.edges, self.symmetric, draw)?;
        let labels = classes_of(n, &self.attributes, self.seed);
        with_attributes("rmat", topology, labels, &self.attributes, self.seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;

    #[test]
    fn rmat_has_what_was_asked_for() {
        for (vertices, symmetric) in [
            (1000, true),
            (1024, false),
            (777, true),
            (2, true),
            (1, false),
        ] {
            let edges = if vertices < 10 {
                u64::from(vertices - 1) * 2
            } else {
                8000
            };
            let graph = Rmat {
                vertices,
                edges,
                symmetric,
                ..Rmat::default()
            }
            .generate()
            .unwrap();
            assert_eq!(
                (graph.vertices(), graph.topology.edges()),
                (vertices, edges)
            );
            assert!(!symmetric || graph.topology.is_symmetric());
            let (indptr, indices) = (
                graph.topology.indptr().to_vec(),
                graph.topology.indices().to_vec(),
            );
            Topology::new(indptr, indices).unwrap();
        }
    }

    #[test]
    fn rmat_is_skewed_and_not_by_name() {
        let graph = Rmat {
            vertices: 4096,
            edges: 65536,
            ..Rmat::default()
        }
        .generate()
        .unwrap();
        let degrees = graph.topology.in_degrees();
        let max = degrees.iter().max().unwrap();
        assert!(*max > 160, "{max}"); // ten times the mean
        let first_half: u64 = degrees[..2048].iter().map(|&d| u64::from(d)).sum();
        assert!((26000..40000).contains(&first_half), "{first_half}");
    }
}

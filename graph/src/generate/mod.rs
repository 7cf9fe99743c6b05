//! Generated graphs: RMAT, planted partitions and meshes.
//!
//! A graph is a function of its parameters: the same on every machine, with any number of threads.

mod attributes;
mod mesh;
mod planted;
mod rmat;

pub use attributes::Attributes;
pub use mesh::Mesh;
pub use planted::PlantedPartition;
pub use rmat::Rmat;

use crate::reverse::merge;
use crate::{GraphError, Topology};
use rayon::prelude::*;

/// Purposes of the random streams.
mod purpose {
    pub const EDGES: u64 = 1;
    pub const NAMES: u64 = 2;
    pub const LABELS: u64 = 3;
    pub const CENTRES: u64 = 4;
    pub const NOISE: u64 = 5;
    pub const SPLIT: u64 = 6;
    pub const WORDS: u64 = 7;
    pub const TYPES: u64 = 8;
}

/// Draws per requested edge before a generator gives up.
const MAX_DRAWS_PER_EDGE: u64 = 100;

fn wrong(parameter: &'static str, found: String, expected: impl Into<String>) -> GraphError {
    GraphError::Generator {
        parameter,
        found,
        expected: expected.into(),
    }
}

/// Draws edges until there are `edges` different ones. A symmetric graph gets both directions of
/// each. Every round draws as many as are still missing, so there are never too many.
fn draw_edges(
    n: u32,
    edges: u64,
    symmetric: bool,
    draw: impl Fn(u64) -> (u32, u32) + Sync,
) -> Result<Topology, GraphError> {
    let pairs = u64::from(n) * (u64::from(n) - 1);
    let (wanted, possible) = if symmetric {
        (edges / 2, pairs / 2)
    } else {
        (edges, pairs)
    };
    if wanted > possible {
        return Err(wrong(
            "edges",
            edges.to_string(),
            format!("at most {pairs} for {n} vertices"),
        ));
    }
    let mut keys: Vec<u64> = Vec::new();
    let mut drawn = 0u64;
    while (keys.len() as u64) < wanted {
        if drawn
            > wanted
                .saturating_mul(MAX_DRAWS_PER_EDGE)
                .saturating_add(1 << 20)
        {
            let reached = keys.len() as u64 * if symmetric { 2 } else { 1 };
            return Err(wrong(
                "edges",
                edges.to_string(),
                format!("at most about {reached}, before most draws repeat; or less skew"),
            ));
        }
        let missing = wanted - keys.len() as u64;
        let mut fresh: Vec<u64> = (drawn..drawn + missing)
            .into_par_iter()
            .map(&draw)
            .filter(|(u, v)| u != v)
            .map(|(u, v)| if symmetric && u > v { (v, u) } else { (u, v) })
            .map(|(u, v)| u64::from(v) << 32 | u64::from(u))
            .collect();
        drawn += missing;
        fresh.par_sort_unstable();
        fresh.dedup();
        keys = if keys.is_empty() {
            fresh
        } else {
            let mut all = Vec::with_capacity(keys.len() + fresh.len());
            merge(&keys, &fresh, &mut all);
            all
        };
    }
    if symmetric {
        let reversed: Vec<u64> = keys.par_iter().map(|key| key.rotate_left(32)).collect();
        keys.extend(reversed);
        keys.par_sort_unstable();
    }
    Ok(Topology::from_sorted_keys(n, &keys))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_do_not_matter_and_seeds_do() {
        let attributes = Attributes {
            features: 3,
            classes: 2,
            ..Attributes::default()
        };
        let rmat = |seed| Rmat {
            attributes,
            seed,
            ..Rmat::default()
        };
        let alone = rayon::ThreadPoolBuilder::new()
            .num_threads(1)
            .build()
            .unwrap();
        let many = rayon::ThreadPoolBuilder::new()
            .num_threads(5)
            .build()
            .unwrap();
        let one = alone.install(|| rmat(1).generate()).unwrap();
        assert_eq!(one, many.install(|| rmat(1).generate()).unwrap());
        assert_ne!(one.topology, rmat(2).generate().unwrap().topology);
    }

    #[test]
    fn impossible_graphs_are_refused() {
        assert!(
            Rmat {
                vertices: 0,
                ..Rmat::default()
            }
            .generate()
            .is_err()
        );
        assert!(
            Rmat {
                vertices: 3,
                edges: 8,
                symmetric: false,
                ..Rmat::default()
            }
            .generate()
            .is_err()
        );
        assert!(
            Rmat {
                quadrants: [0.5, 0.5, 0.5, -0.5],
                ..Rmat::default()
            }
            .generate()
            .is_err()
        );
        let stuck = Rmat {
            quadrants: [1.0, 0.0, 0.0, 0.0],
            ..Rmat::default()
        }
        .generate();
        assert!(matches!(
            stuck,
            Err(GraphError::Generator {
                parameter: "edges",
                ..
            })
        ));
        assert!(
            PlantedPartition {
                homophily: 1.5,
                ..PlantedPartition::default()
            }
            .generate()
            .is_err()
        );
        let attributes = Attributes {
            classes: 0,
            ..Attributes::default()
        };
        assert!(
            PlantedPartition {
                attributes,
                ..PlantedPartition::default()
            }
            .generate()
            .is_err()
        );
        let attributes = Attributes {
            train: 0.9,
            val: 0.2,
            ..Attributes::default()
        };
        assert!(
            Rmat {
                attributes,
                ..Rmat::default()
            }
            .generate()
            .is_err()
        );
    }
}

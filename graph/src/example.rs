//! G8, the graph of all worked examples: eight vertices, ten undirected edges.

use crate::topology::Topology;
use crate::{Features, GraphData, Labels};

/// The undirected edges of G8.
pub const G8_EDGES: [(u32, u32); 10] = [
    (0, 1),
    (0, 2),
    (1, 2),
    (2, 3),
    (3, 4),
    (3, 5),
    (4, 5),
    (4, 6),
    (5, 7),
    (6, 7),
];

/// G8 with four features (`x[v][j] = (3v + 5j) mod 7 - 3`) and two classes. Vertices 0, 1, 4 and 5
/// are for training, 2 and 6 for validation, 3 and 7 for the test.
pub fn g8() -> GraphData {
    let mut keys: Vec<u64> = G8_EDGES
        .into_iter()
        .flat_map(|(u, v)| [(u, v), (v, u)])
        .map(|(u, v)| u64::from(v) << 32 | u64::from(u))
        .collect();
    keys.sort_unstable();
    let mut data = GraphData::new("G8", Topology::from_sorted_keys(8, &keys));
    let x = (0..8)
        .flat_map(|v| (0..4).map(move |j| ((3 * v + 5 * j) % 7) as f32 - 3.0))
        .collect();
    data.features = Features::dense(8, 4, x);
    data.labels = Labels::Single(vec![0, 0, 0, 0, 1, 1, 1, 1]);
    for v in 0..8 {
        let split = match v % 4 {
            2 => &mut data.val,
            3 => &mut data.test,
            _ => &mut data.train,
        };
        split[v] = true;
    }
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g8_is_as_written_down() {
        let topology = g8().topology;
        assert_eq!(topology.indptr(), [0, 2, 4, 7, 10, 13, 16, 18, 20]);
        assert_eq!(
            topology.indices(),
            [1, 2, 0, 2, 0, 1, 3, 2, 4, 5, 3, 5, 6, 3, 4, 7, 4, 7, 5, 6]
        );
        assert_eq!(topology.in_degrees(), [2, 2, 3, 3, 3, 3, 2, 2]);
        assert!(topology.is_symmetric());
    }
}

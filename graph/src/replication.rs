//! The cost of a partition: boundary vertices, rows to send, cut edges.

use crate::partition::Partition;
use crate::{GraphError, Topology};

/// The boundary of every part of a partition.
#[derive(Clone, Debug, PartialEq)]
pub struct Replication {
    /// For each part, the vertices outside it with an edge into it, ascending.
    pub boundary: Vec<Vec<u32>>,
    /// `messages[i][j]`: number of vertices that part `i` owns and part `j` reads.
    pub messages: Vec<Vec<u64>>,
    /// Edges between different parts.
    pub cut: u64,
    /// Replication factor: the total size of all boundaries divided by the number of vertices.
    pub alpha: f64,
}

/// Finds the boundary of every part. Takes time linear in vertices and edges, plus a sort of each
/// boundary.
///
/// # Errors
/// A partition of another graph.
pub fn replication(topology: &Topology, partition: &Partition) -> Result<Replication, GraphError> {
    partition.check(topology)?;
    let owner = partition.owner();
    let parts = partition.parts() as usize;
    let mut read_by = vec![u32::MAX; owner.len()];
    let mut messages = vec![vec![0u64; parts]; parts];
    let mut boundary = Vec::with_capacity(parts);
    let mut cut = 0;
    for (reader, members) in partition.members().iter().enumerate() {
        let reader = reader as u32;
        let mut found = Vec::new();
        for &v in members {
            for &u in topology.in_neighbours(v) {
                let part = owner[u as usize];
                if part == reader {
                    continue;
                }
                cut += 1;
                if read_by[u as usize] != reader {
                    read_by[u as usize] = reader;
                    messages[part as usize][reader as usize] += 1;
                    found.push(u);
                }
            }
        }
        found.sort_unstable();
        boundary.push(found);
    }
    let copies: usize = boundary.iter().map(Vec::len).sum();
    let alpha = if owner.is_empty() {
        0.0
    } else {
        copies as f64 / owner.len() as f64
    };
    Ok(Replication {
        boundary,
        messages,
        cut,
        alpha,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use crate::partition::{Hash, Partitioner, Range};

    /// The partitions of the worked examples.
    #[test]
    fn g8_has_the_boundaries_written_down() {
        let g8 = example::g8().topology;
        let halves = replication(&g8, &Range.partition((&g8).into(), 2).unwrap()).unwrap();
        assert_eq!(halves.boundary, [vec![4, 5], vec![3]]);
        assert_eq!(halves.alpha, 3.0 / 8.0);
        assert_eq!(halves.messages, [[0, 1], [2, 0]]);
        assert_eq!(halves.cut, 4);

        let quarters = replication(&g8, &Range.partition((&g8).into(), 4).unwrap()).unwrap();
        assert_eq!(
            quarters.boundary,
            [vec![2], vec![0, 1, 4, 5], vec![3, 6, 7], vec![4, 5]]
        );
        assert_eq!(quarters.alpha, 10.0 / 8.0);

        let hash = replication(&g8, &Hash.partition((&g8).into(), 2).unwrap()).unwrap();
        assert_eq!(hash.boundary, [vec![1, 3, 5, 7], vec![0, 2, 4, 6]]);
        assert_eq!(hash.alpha, 1.0);
    }

    #[test]
    fn one_part_has_no_boundary() {
        let g8 = example::g8().topology;
        let one = replication(&g8, &Partition::whole(8)).unwrap();
        assert_eq!((one.alpha, one.cut, one.boundary), (0.0, 0, vec![vec![]]));
        assert!(replication(&g8, &Partition::whole(7)).is_err());
    }
}

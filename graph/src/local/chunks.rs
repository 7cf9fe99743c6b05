//! The bounds of chunks in a part's rows.

use super::LocalPart;
use crate::partition::Partition;

/// Chunk bounds of a part: in each list, chunk `c` lies between bound `c` and bound `c + 1`. A part
/// that is not cut is one chunk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalChunks {
    /// Own rows.
    pub own: Vec<usize>,
    /// Local rows, for each entry of [`LocalPart::halo_of`].
    pub halo: Vec<Vec<usize>>,
    /// Positions in the list of rows, for each entry of [`LocalPart::send`].
    pub send: Vec<Vec<usize>>,
}

impl LocalChunks {
    /// The bounds of a part whose rows are sorted by chunk.
    pub(super) fn new(part: &LocalPart, partition: &Partition) -> Self {
        let chunk = |row: usize| partition.chunk_of(part.global[row]);
        let bounds = |begin: usize, end: usize, chunk: &dyn Fn(usize) -> u32| -> Vec<usize> {
            let mut at = begin;
            let first = (0..partition.chunks()).map(|c| {
                while at < end && chunk(at) < c {
                    at += 1;
                }
                at
            });
            let mut bounds: Vec<usize> = first.collect();
            bounds.push(end);
            bounds
        };
        let halo = part.halo_of.iter();
        let send = part.send.iter();
        Self {
            own: bounds(0, part.inner, &chunk),
            halo: halo
                .map(|(_, rows)| bounds(rows.start, rows.end, &chunk))
                .collect(),
            send: send
                .map(|(_, rows)| bounds(0, rows.len(), &|place| chunk(rows[place] as usize)))
                .collect(),
        }
    }

    /// Number of chunks.
    pub fn count(&self) -> usize {
        self.own.len().saturating_sub(1)
    }
}

impl LocalPart {
    /// Stored edges into the inner vertices, counted by the chunks of their ends: edges from chunk
    /// `s` into chunk `d` are at `d * count + s`.
    pub fn edges_between_chunks(&self) -> Vec<u64> {
        let count = self.chunks.count();
        let mut chunk = vec![0; self.rows()];
        for bounds in std::iter::once(&self.chunks.own).chain(&self.chunks.halo) {
            for (c, pair) in bounds.windows(2).enumerate() {
                chunk[pair[0]..pair[1]].fill(c);
            }
        }
        let mut edges = vec![0; count * count];
        for v in 0..self.inner {
            for &u in self.edges.row(v) {
                edges[chunk[v] * count + chunk[u as usize]] += 1;
            }
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use crate::partition::{Partitioner, Range};
    use crate::{LocalPart, Partition, example};

    #[test]
    fn chunks_of_the_halves_of_g8() {
        let g8 = example::g8().topology;
        let halves = Range.partition((&g8).into(), 2).unwrap();
        let plain = LocalPart::build_all(&g8, &halves).unwrap();
        assert_eq!(plain[0].chunks.own, [0, 4]);
        assert_eq!(
            (&plain[0].chunks.halo[..], plain[0].chunks.count()),
            (&[vec![4, 6]][..], 1)
        );
        // Even and odd vertices.
        let chunk = (0..8).map(|v| v % 2).collect();
        let cut = halves.with_chunks(2, chunk).unwrap();
        let parts = LocalPart::build_all(&g8, &cut).unwrap();
        assert_eq!(parts[0].global, [0, 2, 1, 3, 4, 5]);
        assert_eq!(parts[0].chunks.own, [0, 2, 4]);
        assert_eq!(parts[0].chunks.halo, [vec![4, 5, 6]]);
        assert_eq!(parts[1].send, [(0, vec![0, 2])]);
        assert_eq!(parts[1].chunks.send, [vec![0, 1, 2]]);
        let all: u64 = parts.iter().flat_map(|p| p.edges_between_chunks()).sum();
        assert_eq!(all, g8.edges());
    }

    /// Quarters of two vertices each: 12 edges between them, 6 each way.
    #[test]
    fn edges_between_quarters() {
        let g8 = example::g8().topology;
        let quarters = Partition::whole(8);
        let quarters = quarters
            .with_chunks(4, vec![0, 0, 1, 1, 2, 2, 3, 3])
            .unwrap();
        let parts = LocalPart::build_all(&g8, &quarters).unwrap();
        let edges = parts[0].edges_between_chunks();
        let from = |later: bool| {
            let pairs = (0..4).flat_map(|d| (0..4).map(move |s| (d, s)));
            let of = pairs.filter(|(d, s)| if later { s > d } else { s < d });
            of.map(|(d, s)| edges[d * 4 + s]).sum::<u64>()
        };
        assert_eq!((from(true), from(false)), (6, 6));
    }
}

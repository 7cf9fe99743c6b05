//! Chunks of vertices, processed one after another through a whole graph (NeutronTP, sections 3.4
//! and 3.5).
//!
//! A chunk is a run of consecutive vertices. A row is *new* to a chunk if the chunk's aggregation
//! reads it and no earlier chunk has: only new rows need to arrive before the chunk is computed.

use crate::Topology;
use gnnc_ir::kernel::End;
use std::ops::Range;

/// The chunks of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunks {
    bounds: Vec<u32>,
    /// New vertices, ascending: by the end that groups edges, then by chunk.
    new: [Vec<Vec<u32>>; 2],
}

impl Chunks {
    /// Cuts a graph into `count` chunks (at least one) with about the same number of in-edges plus
    /// vertices each. Some are empty if there are fewer vertices.
    pub fn new(topology: &Topology, count: u32) -> Self {
        let bounds = bounds(topology.indptr(), count.max(1));
        let transposed = topology.transposed();
        Self {
            new: [topology, &transposed].map(|graph| new(graph, &bounds)),
            bounds,
        }
    }

    /// Number of chunks.
    pub fn count(&self) -> u32 {
        self.bounds.len() as u32 - 1
    }

    /// The vertices of a chunk; empty if there is no such chunk.
    pub fn rows(&self, chunk: u32) -> Range<u32> {
        let bound = |n: u32| self.bounds.get(n as usize).copied();
        match (bound(chunk), bound(chunk.saturating_add(1))) {
            (Some(begin), Some(end)) => begin..end,
            _ => 0..0,
        }
    }

    /// The chunk's vertices and those at the other end of their edges, without those of earlier
    /// chunks. `to` selects the edges: [`End::Dst`] for edges into the chunk's vertices,
    /// [`End::Src`] for edges out of them.
    pub fn new_to(&self, to: End, chunk: u32) -> &[u32] {
        self.new[end(to)].get(chunk as usize).map_or(&[], |v| v)
    }
}

fn end(to: End) -> usize {
    match to {
        End::Dst => 0,
        End::Src => 1,
    }
}

/// Bounds of runs with about the same number of edges plus vertices.
fn bounds(indptr: &[u64], count: u32) -> Vec<u32> {
    let vertices = indptr.len().saturating_sub(1);
    let work = |v: usize| indptr[v] + v as u64;
    let total = u128::from(work(vertices));
    let mut bounds = vec![0; count as usize + 1];
    let mut v = 0;
    for (n, bound) in bounds.iter_mut().enumerate() {
        let target = (total * n as u128 / u128::from(count)) as u64;
        while v < vertices && work(v) < target {
            v += 1;
        }
        *bound = v as u32;
    }
    if let Some(last) = bounds.last_mut() {
        *last = vertices as u32;
    }
    bounds
}

/// For each chunk, the vertices that it reads and no earlier chunk does.
fn new(topology: &Topology, bounds: &[u32]) -> Vec<Vec<u32>> {
    let mut seen = vec![false; topology.vertices() as usize];
    let chunk = |pair: &[u32]| {
        let mut found = Vec::new();
        let mut take = |v: u32| {
            if !std::mem::replace(&mut seen[v as usize], true) {
                found.push(v);
            }
        };
        for v in pair[0]..pair[1] {
            take(v);
            topology.in_neighbours(v).iter().for_each(|&u| take(u));
        }
        found.sort_unstable();
        found
    };
    bounds.windows(2).map(chunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::g8;
    use proptest::prelude::*;

    /// Section 7 of the specification.
    #[test]
    fn g8_in_two_chunks() {
        let chunks = Chunks::new(&g8().topology, 2);
        assert_eq!([chunks.rows(0), chunks.rows(1)], [0..4, 4..8]);
        for to in [End::Dst, End::Src] {
            assert_eq!(chunks.new_to(to, 0), [0, 1, 2, 3, 4, 5]);
            assert_eq!(chunks.new_to(to, 1), [6, 7]);
        }
    }

    proptest! {
        #[test]
        fn every_vertex_is_new_once_and_in_time(
            vertices in 1u32..40,
            edges in prop::collection::vec((0u32..40, 0u32..40), 0..120),
            count in 1u32..20,
        ) {
            let edges = edges.into_iter().filter(|(u, v)| *u < vertices && *v < vertices);
            let (topology, _) = Topology::from_edges(vertices, edges).unwrap();
            let transposed = topology.transposed();
            let chunks = Chunks::new(&topology, count);
            prop_assert_eq!(chunks.count(), count);
            let rows: Vec<u32> = (0..count).flat_map(|n| chunks.rows(n)).collect();
            let all: Vec<u32> = (0..vertices).collect();
            prop_assert_eq!(&rows, &all);
            for (to, graph) in [(End::Dst, &topology), (End::Src, &transposed)] {
                let mut new: Vec<u32> = Vec::new();
                for n in 0..count {
                    new.extend(chunks.new_to(to, n));
                    for v in chunks.rows(n) {
                        // Everything the chunk reads has arrived.
                        let mut read = graph.in_neighbours(v).iter().chain([&v]);
                        prop_assert!(read.all(|u| new.contains(u)));
                    }
                }
                new.sort_unstable();
                prop_assert_eq!(&new, &all);
            }
        }
    }
}

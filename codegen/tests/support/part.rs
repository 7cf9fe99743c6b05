//! Random parts of graphs.

use super::Random;
use gnnc_ir::kernel::Walk;
use gnnc_ir::kernel::{At, Kernel};

/// A part of a graph: edges into `inner` vertices from those and from `halo` others.
pub struct Part {
    pub inner: usize,
    pub halo: usize,
    pub in_indptr: Vec<u64>,
    pub in_indices: Vec<u32>,
    pub out_indptr: Vec<u64>,
    pub out_indices: Vec<u32>,
    pub positions: Vec<u32>,
    /// The type of each edge, and the edges of each type.
    pub types: Vec<u32>,
    pub type_indptr: Vec<u64>,
    pub type_indices: Vec<u32>,
    pub ids: Vec<u32>,
    pub list: Vec<u32>,
}

/// Number of edge types; the last has no edges.
pub const TYPES: u32 = 5;

impl Part {
    pub fn random(random: &mut Random, inner: usize, halo: usize, edges: usize) -> Self {
        let local = inner + halo;
        let mut pairs: Vec<(u32, u32)> = (0..edges)
            // Vertex 1 and the last one stay isolated, vertex 0 is a hub.
            .map(|_| (random.below(inner.max(3)), random.below(local)))
            .map(|(d, s)| {
                if d == 1 || d + 1 >= inner {
                    (0, s)
                } else {
                    (d, s)
                }
            })
            .map(|(d, s)| (d as u32, s as u32))
            .collect();
        pairs.sort_unstable();
        let mut in_indptr = vec![0u64; inner + 1];
        pairs
            .iter()
            .for_each(|&(d, _)| in_indptr[d as usize + 1] += 1);
        (0..inner).for_each(|v| in_indptr[v + 1] += in_indptr[v]);
        let mut order: Vec<u32> = (0..edges as u32).collect();
        order.sort_by_key(|&k| (pairs[k as usize].1, k));
        let mut out_indptr = vec![0u64; local + 1];
        pairs
            .iter()
            .for_each(|&(_, s)| out_indptr[s as usize + 1] += 1);
        (0..local).for_each(|v| out_indptr[v + 1] += out_indptr[v]);
        let types: Vec<u32> = (0..edges as u32).map(|k| k * k % 7 % (TYPES - 1)).collect();
        let of_type =
            |kind: u32| (0..edges as u32).filter(move |k| k * k % 7 % (TYPES - 1) == kind);
        let mut type_indptr = vec![0u64];
        let mut type_indices = Vec::new();
        for kind in 0..TYPES {
            type_indices.extend(of_type(kind));
            type_indptr.push(type_indices.len() as u64);
        }
        Self {
            types,
            type_indptr,
            type_indices,
            inner,
            halo,
            in_indptr,
            in_indices: pairs.iter().map(|&(_, s)| s).collect(),
            out_indptr,
            out_indices: order.iter().map(|&k| pairs[k as usize].0).collect(),
            positions: order,
            ids: (0..local).map(|_| random.next() as u32).collect(),
            list: (0..inner).map(|_| random.below(local) as u32).collect(),
        }
    }

    /// Rows that a kernel runs over.
    pub fn rows(&self, kernel: &Kernel) -> usize {
        match Walk::of(&kernel.body) {
            Walk::EdgesBySource => self.inner + self.halo,
            Walk::EdgesByType => TYPES as usize,
            _ => self.inner,
        }
    }

    /// Rows of a buffer.
    pub fn buffer_rows(&self, at: At, walk: Walk) -> usize {
        match (at, walk) {
            (At::One, _) => 1,
            (At::Row, Walk::EdgesByType) => TYPES as usize,
            (At::Edge, _) | (At::Row, Walk::Edges) => self.in_indices.len(),
            _ => self.inner + self.halo,
        }
    }
}

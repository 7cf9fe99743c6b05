//! The levels and layers of a sampled batch.

use super::LeftOut;
use crate::Csr;

/// The levels of a batch and the edges between them, in buffers that the next batch reuses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Blocks {
    /// Ids of level 0. Every level is a prefix.
    pub(super) ids: Vec<u32>,
    /// Rows of the levels, from the seeds outwards: one more than there are layers.
    pub(super) sizes: Vec<usize>,
    /// The layers, from the seeds outwards.
    pub(super) layers: Vec<Layer>,
    /// The edges that no hop drew.
    pub(super) left_out: LeftOut,
}

/// The edges from one level into the next one towards the seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layer {
    /// The kept edges: for each destination row, places of the sources in the lower level. Edges of
    /// a row are in the graph's order.
    pub edges: Csr,
    /// For each kept edge, its position among all edges into its destination.
    pub positions: Vec<u32>,
    /// For each destination row, its in-degree in the whole graph, without edges that are left out.
    pub degrees: Vec<u32>,
    /// In-degree over kept edges, which makes sums over kept edges unbiased; 0 if none is kept. One
    /// number for each destination row. If edges have types, one for each edge, over the edges of
    /// its type.
    pub scales: Vec<f32>,
}

impl Layer {
    /// Takes all rows away.
    pub(super) fn clear(&mut self) {
        self.edges.indptr.clear();
        self.edges.indptr.push(0);
        self.edges.indices.clear();
        self.positions.clear();
        self.degrees.clear();
        self.scales.clear();
    }

    /// Appends the rows of another layer.
    pub(super) fn append(&mut self, rows: &Self) {
        let before = self.edges.indices.len() as u64;
        let ends = rows.edges.indptr[1..].iter().map(|end| before + end);
        self.edges.indptr.extend(ends);
        self.edges.indices.extend_from_slice(&rows.edges.indices);
        self.positions.extend_from_slice(&rows.positions);
        self.degrees.extend_from_slice(&rows.degrees);
        self.scales.extend_from_slice(&rows.scales);
    }
}

impl Blocks {
    /// No levels.
    pub const NONE: Self = Self {
        ids: Vec::new(),
        sizes: Vec::new(),
        layers: Vec::new(),
        left_out: LeftOut::NONE,
    };

    /// Number of layers `L`, which is also the level of the seeds; 0 before the first batch.
    pub fn layers(&self) -> usize {
        self.sizes.len().saturating_sub(1)
    }

    /// Ids of level 0; empty before the first batch.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// Ids of a level, from 0 to [`layers`](Self::layers), the seeds. Panics if there is no such
    /// level.
    pub fn level(&self, level: usize) -> &[u32] {
        &self.ids[..self.sizes[self.layers() - level]]
    }

    /// Layer `layer`, whose edges lead from level `layer - 1` into level `layer`. Panics if there
    /// is no such layer.
    pub fn layer(&self, layer: usize) -> &Layer {
        &self.layers[self.layers() - layer]
    }

    /// The plain edges that no hop drew, as they are between the ends of the batch's pairs.
    pub fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Edges of all layers.
    pub fn edges(&self) -> u64 {
        let layers = self.layers.iter();
        layers.map(|layer| layer.edges.indices.len() as u64).sum()
    }

    /// Makes room for a batch.
    pub(super) fn start(&mut self, hops: usize) {
        self.ids.clear();
        self.sizes.clear();
        self.layers.resize_with(hops, Layer::default);
    }

    /// Makes this a batch without levels.
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.sizes.clear();
        self.layers.clear();
    }
}

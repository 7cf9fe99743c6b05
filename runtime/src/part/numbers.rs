//! Numbers that kernels read of a sampled batch: degrees, kept edges, and what an edge counts.

use super::sampled::Sampled;
use super::walks::{each_edge, scales};
use gnnc_graph::Topology;
use gnnc_graph::sample::{Blocks, Layer, LeftOut};
use gnnc_ir::EdgeSet;
use gnnc_ir::words::sampling::Drawn;

/// A batch of which numbers are read.
pub(super) struct NumbersOf<'a> {
    pub(super) shared: &'a Sampled,
    pub(super) blocks: &'a Blocks,
    /// Edges that the batch lacks.
    pub(super) left_out: &'a LeftOut,
}

impl NumbersOf<'_> {
    /// The floats of some numbers.
    pub(super) fn count(&self, drawn: Drawn) -> usize {
        let number = usize::from(drawn.level().number);
        if number > self.blocks.layers() {
            return 0;
        }
        let rows = self.blocks.level(number).len();
        let edges = |set: EdgeSet| match number {
            0 => 0,
            _ => self.blocks.layer(number).edges.indices.len() + rows * set.loops() as usize,
        };
        match drawn {
            Drawn::Kept(..) | Drawn::Degree(..) => rows,
            Drawn::Scale(_, set) => edges(set),
            Drawn::Relation(..) | Drawn::RelationDegree(..) => edges(EdgeSet::Plain),
            Drawn::EdgeFeatures(_, set, columns) => edges(set) * columns as usize,
        }
    }

    /// Writes numbers, one a row.
    pub(super) fn write(&self, drawn: Drawn, out: &mut [f32]) {
        let number = usize::from(drawn.level().number);
        let blocks = self.blocks;
        if number > blocks.layers() {
            return;
        }
        if let Drawn::Degree(_, set, end) = drawn {
            let lacks = |v: u32| u64::from(self.left_out.degree(v, set, end));
            let degree = |v: &u32| (self.shared.degree(*v, set, end) - lacks(*v)) as f32;
            let degrees = blocks.level(number).iter().map(degree);
            out.iter_mut().zip(degrees).for_each(|(out, d)| *out = d);
            return;
        }
        if number == 0 {
            return;
        }
        let (layer, ids) = (blocks.layer(number), blocks.level(number - 1));
        match drawn {
            Drawn::Degree(..) => {}
            Drawn::Kept(_, set) => {
                let own = set.loops() as f32;
                let rows = layer.edges.indptr.windows(2);
                let kept = rows.map(|row| (row[1] - row[0]) as f32 + own);
                out.iter_mut().zip(kept).for_each(|(out, kept)| *out = kept);
            }
            Drawn::Scale(_, set) => {
                let typed = self.plain().is_some_and(|edges| edges.relations() > 0);
                scales(layer, typed, set, ids, out);
            }
            Drawn::Relation(..) => {
                let types = self.plain().map_or(&[][..], Topology::types);
                self.each_edge(EdgeSet::Plain, layer, ids, |at, edge| {
                    out[at] = f32::from(types[edge]);
                });
            }
            Drawn::RelationDegree(..) => {
                let degrees = &self.shared.type_degrees;
                self.each_edge(EdgeSet::Plain, layer, ids, |at, edge| {
                    let lacks = (self.plain()).map_or(0, |plain| self.left_out.like(plain, edge));
                    out[at] = (degrees[edge] - lacks) as f32;
                });
            }
            Drawn::EdgeFeatures(_, set, columns) => {
                let (features, width) = (self.shared.edge_features.of(set), columns as usize);
                self.each_edge(set, layer, ids, |at, edge| {
                    out[at * width..][..width].copy_from_slice(features.row(edge));
                });
            }
        }
    }

    /// Visits the kept edges of a layer, with their places among all edges of its set.
    fn each_edge(
        &self,
        set: EdgeSet,
        layer: &Layer,
        ids: &[u32],
        mut visit: impl FnMut(usize, usize),
    ) {
        if let Some(edges) = self.shared.edges.of(set) {
            each_edge(edges, layer, ids, &mut visit);
        }
    }

    fn plain(&self) -> Option<&Topology> {
        self.shared.edges.of(EdgeSet::Plain)
    }
}

//! The edges of a sampled batch in the orders in which kernels walk them.

use super::{Edges, Walkable, Ways, pieces_into};
use gnnc_graph::sample::{Blocks, HopEdges, Layer};
use gnnc_graph::{Csr, Topology};
use gnnc_ir::EdgeSet;
use gnnc_ir::words::sampling::Sampling;
use gnnc_ir::words::types::{BySet, Level, Of};
use std::sync::Arc;

/// For each layer, from the one into level 1, how its edges are walked.
pub(crate) type LayerWays = Vec<BySet<Ways>>;

/// How the edges of a batch are walked.
#[derive(Default)]
pub(crate) struct LevelWays {
    /// Those of the rank's own part.
    pub(crate) own: LayerWays,
    /// Those of all ranks' parts.
    pub(crate) all: LayerWays,
}

impl LevelWays {
    /// How the edges into a level are walked, if there is such a level.
    pub(crate) fn of(&mut self, layer: Level) -> Option<&mut BySet<Ways>> {
        let ways = match layer.of {
            Of::One => &mut self.own,
            Of::All => &mut self.all,
            Of::Sets | Of::Owned => return None,
        };
        ways.get_mut(usize::from(layer.number).checked_sub(1)?)
    }
}

/// Edges as kernels walk them, by layer from the one into level 1.
pub(super) type Layers = Vec<BySet<Option<Edges>>>;

/// What batches are drawn from, and how.
pub(super) struct Listed<'a> {
    pub(super) edges: &'a HopEdges<Arc<Topology>>,
    pub(super) sampling: &'a Sampling,
}

impl Listed<'_> {
    /// Lists the edges of all layers as kernels walk them.
    pub(super) fn list(&self, blocks: &Blocks, ways: &LayerWays, layers: &mut Layers) {
        layers.resize_with(ways.len(), Default::default);
        for (number, (ways, edges)) in (1..).zip(ways.iter().zip(layers)) {
            self.list_into(blocks, number, ways, edges);
        }
    }

    /// Lists the edges into a level, if the batch has it.
    pub(super) fn list_into(
        &self,
        blocks: &Blocks,
        number: usize,
        ways: &BySet<Ways>,
        edges: &mut BySet<Option<Edges>>,
    ) {
        let drawn = self.sampling.set_into(number);
        let Some(topology) = self.edges.of(drawn).filter(|_| number <= blocks.layers()) else {
            return;
        };
        let ids = blocks.level(number - 1);
        let types = Types {
            topology,
            ids,
            layer: blocks.layer(number),
        };
        for set in EdgeSet::all() {
            let (ways, edges) = (ways.of(set), edges.of_mut(set));
            let is_drawn = set.stored() == drawn;
            match ways.walked && is_drawn {
                true => fill(edges.get_or_insert_default(), set, *ways, ids.len(), &types),
                false => *edges = None,
            }
        }
    }
}

/// The types of a layer's edges.
struct Types<'a> {
    topology: &'a Topology,
    /// Vertices of the level below.
    ids: &'a [u32],
    layer: &'a Layer,
}

pub(super) fn each_edge(
    topology: &Topology,
    layer: &Layer,
    ids: &[u32],
    visit: &mut dyn FnMut(usize, usize),
) {
    let starts = topology.indptr();
    for (row, ends) in layer.edges.indptr.windows(2).enumerate() {
        let start = starts[ids[row] as usize] as usize;
        for at in ends[0] as usize..ends[1] as usize {
            visit(at, start + layer.positions[at] as usize);
        }
    }
}

/// What each edge counts in an unbiased sum.
pub(super) fn scales(layer: &Layer, typed: bool, set: EdgeSet, ids: &[u32], out: &mut [f32]) {
    let mut next = 0;
    for (row, ends) in layer.edges.indptr.windows(2).enumerate() {
        let mut looped = set == EdgeSet::Plain;
        for at in ends[0] as usize..ends[1] as usize {
            if !looped && ids[layer.edges.indices[at] as usize] > ids[row] {
                (out[next], looped) = (1.0, true);
                next += 1;
            }
            out[next] = if typed {
                layer.scales[at]
            } else {
                layer.scales[row]
            };
            next += 1;
        }
        if !looped {
            out[next] = 1.0;
            next += 1;
        }
    }
}

/// Lists the edges of a layer in the orders in which kernels walk them.
fn fill(edges: &mut Edges, set: EdgeSet, ways: Ways, below: usize, types: &Types) {
    let from = &types.layer.edges;
    let to = &mut edges.by_destination.csr;
    match set {
        EdgeSet::Plain | EdgeSet::Named(_) => to.clone_from(from),
        EdgeSet::Looped => with_loops(from, types.ids, to),
    }
    pieces_into(
        &edges.by_destination.csr.indptr,
        &mut edges.by_destination.pieces,
    );
    edges.kept = [true; 2];
    edges.vertices.clear();
    if ways.vertices {
        let sources = edges.by_destination.csr.indices.iter();
        edges
            .vertices
            .extend(sources.map(|row| types.ids[*row as usize]));
    }
    edges.by_source = ways.by_source.then(|| {
        let (mut walkable, mut positions) = edges.by_source.take().unwrap_or_default();
        by_source(
            &edges.by_destination.csr,
            below,
            &mut walkable.csr,
            &mut positions,
        );
        pieces_into(&walkable.csr.indptr, &mut walkable.pieces);
        (walkable, positions)
    });
    edges.by_type = ways.by_type.then(|| {
        let mut walkable = edges.by_type.take().unwrap_or_default();
        by_type(types, &mut walkable.csr);
        pieces_into(&walkable.csr.indptr, &mut walkable.pieces);
        walkable
    });
}

/// Adds a self loop to each row, before the first source with a larger id.
fn with_loops(from: &Csr, ids: &[u32], to: &mut Csr) {
    to.indptr.clear();
    to.indices.clear();
    to.indptr.push(0);
    for (row, ends) in from.indptr.windows(2).enumerate() {
        let sources = &from.indices[ends[0] as usize..ends[1] as usize];
        let smaller = |source: &&u32| ids[**source as usize] <= ids[row];
        let before = sources.iter().take_while(smaller).count();
        to.indices.extend_from_slice(&sources[..before]);
        to.indices.push(row as u32);
        to.indices.extend_from_slice(&sources[before..]);
        to.indptr.push(to.indices.len() as u64);
    }
}

/// The edges by source, with the position of each by destination.
fn by_source(from: &Csr, sources: usize, to: &mut Csr, positions: &mut Vec<u32>) {
    to.indptr.clear();
    to.indptr.resize(sources + 1, 0);
    // Counts first, one place late, so that each count becomes the cursor of its row.
    for source in &from.indices {
        to.indptr[*source as usize + 1] += 1;
    }
    for row in 0..sources {
        to.indptr[row + 1] += to.indptr[row];
    }
    to.indices.resize(from.indices.len(), 0);
    positions.resize(from.indices.len(), 0);
    for (row, ends) in from.indptr.windows(2).enumerate() {
        for at in ends[0]..ends[1] {
            let next = &mut to.indptr[from.indices[at as usize] as usize];
            to.indices[*next as usize] = row as u32;
            positions[*next as usize] = at as u32;
            *next += 1;
        }
    }
    // Each cursor has moved to the beginning of the next row.
    to.indptr.rotate_right(1);
    to.indptr[0] = 0;
    let last = to.indptr.len() - 1;
    to.indptr[last] = from.indices.len() as u64;
}

/// The positions of the edges of each type.
fn by_type(types: &Types, to: &mut Csr) {
    let count = types.topology.relations() as usize;
    let of = types.topology.types();
    to.indptr.clear();
    to.indptr.resize(count + 1, 0);
    each_edge(types.topology, types.layer, types.ids, &mut |_, edge| {
        to.indptr[usize::from(of[edge]) + 1] += 1;
    });
    for kind in 0..count {
        to.indptr[kind + 1] += to.indptr[kind];
    }
    let mut cursors: Vec<u64> = to.indptr.clone();
    to.indices.clear();
    to.indices.resize(types.layer.edges.indices.len(), 0);
    each_edge(types.topology, types.layer, types.ids, &mut |at, edge| {
        let cursor = &mut cursors[usize::from(of[edge])];
        to.indices[*cursor as usize] = at as u32;
        *cursor += 1;
    });
}

impl Default for Walkable {
    fn default() -> Self {
        Self {
            csr: Csr {
                indptr: vec![0],
                indices: Vec::new(),
            },
            pieces: Vec::new(),
        }
    }
}

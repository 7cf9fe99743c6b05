//! The lower levels of a batch, those of all ranks' parts side by side (P3, section 3.1, step 2).
//!
//! Every rank sends the others its levels from a *top* level outwards, and puts all of them into one
//! batch: the rows of the top level, rank by rank, then what the next level adds, rank by rank, and
//! so on. So a level is a prefix of the one below, as in any batch. A vertex that is in the parts of
//! several ranks has a row for each.
//!
//! A message is one list: for each layer from the top outwards its number of rows, one past the last
//! edge of each row, and the places of the sources; then the ids of level 0. For a top level of 1
//! that is `V_0 + V_1 + 1 + E_1` numbers. If edges have types, their positions follow the places: which
//! edge it is decides about its type.

use super::draw::scale_of;
use super::{Blocks, HopEdges, LeftOut};
use crate::Topology;
use gnnc_ir::EdgeSet;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Range;

/// The lower levels of all ranks' parts of a batch.
#[derive(Clone, Debug, Default)]
pub struct AllBlocks {
    /// By rank.
    parts: Vec<Part>,
    blocks: Blocks,
    /// For each level from 0, by rank: the rows of its part.
    rows: Vec<Vec<Vec<u32>>>,
}

/// What one rank sent.
#[derive(Clone, Debug, Default)]
struct Part {
    words: Vec<u32>,
    /// Rows of the levels, from the top outwards.
    sizes: Vec<usize>,
    /// Where the layers are in `words`, from the top outwards.
    layers: Vec<Lists>,
    /// Where the ids are.
    ids: Range<usize>,
}

/// Where the lists of a layer are.
#[derive(Clone, Debug)]
struct Lists {
    ends: Range<usize>,
    places: Range<usize>,
    /// Empty if nothing asks which edges of the graph these are.
    positions: Range<usize>,
}

/// Numbers of the message for the levels from `top` outwards.
pub fn message_length(blocks: &Blocks, top: u8, places: bool) -> usize {
    let layers = (1..=usize::from(top)).map(|layer| {
        let edges = &blocks.layer(layer).edges;
        edges.indptr.len() + edges.indices.len() * (1 + usize::from(places))
    });
    layers.sum::<usize>() + blocks.level(0).len()
}

/// Writes that message. `out` has its length.
pub fn write_message(blocks: &Blocks, top: u8, places: bool, out: &mut [u32]) {
    let mut rest = out;
    for layer in (1..=usize::from(top)).rev() {
        let positions = &blocks.layer(layer).positions;
        let edges = &blocks.layer(layer).edges;
        let (ends, after) = std::mem::take(&mut rest).split_at_mut(edges.indptr.len());
        let (sources, after) = after.split_at_mut(edges.indices.len());
        ends[0] = edges.indptr.len() as u32 - 1;
        let of_rows = ends[1..].iter_mut().zip(&edges.indptr[1..]);
        of_rows.for_each(|(end, edge)| *end = *edge as u32);
        sources.copy_from_slice(&edges.indices);
        rest = after;
        if places {
            let (own, after) = std::mem::take(&mut rest).split_at_mut(positions.len());
            own.copy_from_slice(positions);
            rest = after;
        }
    }
    rest.copy_from_slice(blocks.level(0));
}

impl AllBlocks {
    /// Makes room for the numbers that a rank, of so many, sent.
    pub fn message(&mut self, rank: u32, ranks: u32, length: usize) -> &mut [u32] {
        self.parts.resize_with(ranks as usize, Part::default);
        let words = &mut self.parts[rank as usize].words;
        words.resize(length, 0);
        words
    }

    /// Puts the messages of all ranks side by side. `set_into` says over which of the `edges` the layer into a
    /// level runs, which lack those `left_out`. False if one of them is no message about the levels from `top` outwards, or if 32 bits
    /// cannot number their rows.
    #[must_use]
    pub fn merge<T: Borrow<Topology>>(
        &mut self,
        top: u8,
        places: bool,
        edges: &HopEdges<T>,
        set_into: &dyn Fn(usize) -> EdgeSet,
        left_out: &LeftOut,
    ) -> bool {
        let none = LeftOut::default();
        let of_layer = |set: EdgeSet| {
            let lacks = match set {
                EdgeSet::Plain | EdgeSet::Looped => left_out,
                EdgeSet::Named(_) => &none,
            };
            edges.of(set).map(|edges| (edges, lacks))
        };
        let sets = (1..=usize::from(top)).rev().map(set_into);
        let of_layers = sets.map(of_layer).collect::<Option<Vec<_>>>();
        let (Some(of_layers), Some(plain)) = (of_layers, edges.of(EdgeSet::Plain)) else {
            return false;
        };
        let read = |part: &mut Part| {
            let found = part.lists(usize::from(top), places);
            found.is_some() && part.fits(&of_layers, plain.vertices())
        };
        if !self.parts.iter_mut().all(read) {
            return false;
        }
        let ids = self.parts.iter().map(|part| part.ids.len() as u64);
        if ids.sum::<u64>() > u64::from(u32::MAX) {
            return false;
        }
        let levels = usize::from(top) + 1;
        self.number(levels);
        self.blocks.start(levels - 1);
        for depth in 0..levels {
            for part in &self.parts {
                let ids = &part.words[part.ids.clone()];
                self.blocks.ids.extend_from_slice(&ids[part.added(depth)]);
            }
            self.blocks.sizes.push(self.blocks.ids.len());
        }
        for (depth, (topology, left_out)) in of_layers.into_iter().enumerate() {
            self.layer(depth, topology, left_out);
        }
        true
    }

    /// The levels and layers, of which the top level is the highest.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// The rows of a level that are each rank's part.
    pub fn rows_by_rank(&self, level: u8) -> &[Vec<u32>] {
        self.rows.get(usize::from(level)).map_or(&[], |rows| rows)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        let words = self.parts.iter().map(|part| part.words.len());
        let rows = self.rows.iter().flatten().map(Vec::len);
        let layers = self.blocks.layers.iter().map(|layer| {
            let rows = 2 * (layer.edges.indptr.len() + layer.degrees.len());
            rows + layer.edges.indices.len()
        });
        let lists = words.sum::<usize>() + rows.sum::<usize>() + layers.sum::<usize>();
        4 * (lists + self.blocks.ids.len())
    }

    /// Numbers the rows of all parts.
    fn number(&mut self, levels: usize) {
        let ranks = self.parts.len();
        self.rows.resize_with(levels, Vec::new);
        for of_level in &mut self.rows {
            of_level.resize_with(ranks, Vec::new);
            of_level.iter_mut().for_each(Vec::clear);
        }
        let mut next = 0;
        for depth in 0..levels {
            for (rank, part) in self.parts.iter().enumerate() {
                let added = part.added(depth).len() as u32;
                // What a level adds belongs to all levels below it too.
                for of_level in &mut self.rows[..levels - depth] {
                    of_level[rank].extend(next..next + added);
                }
                next += added;
            }
        }
    }

    /// Writes the layer whose edges lead into the level `depth` below the top.
    fn layer(&mut self, depth: usize, topology: &Topology, left_out: &LeftOut) {
        let below = &self.rows[self.rows.len() - 2 - depth];
        let layer = &mut self.blocks.layers[depth];
        layer.positions.clear();
        layer.degrees.clear();
        layer.scales.clear();
        layer.edges.indptr.clear();
        layer.edges.indices.clear();
        layer.edges.indptr.push(0);
        for added in 0..=depth {
            for (part, places) in self.parts.iter().zip(below) {
                let lists = &part.layers[depth];
                let ends = &part.words[lists.ends.clone()];
                let sources = &part.words[lists.places.clone()];
                let rows = part.added(added);
                let ends_of = |row: usize| match row {
                    0 => 0,
                    row => ends[row - 1] as usize,
                };
                let (first, last) = (ends_of(rows.start), ends_of(rows.end));
                let before = layer.edges.indices.len() as u64;
                let of_part = sources[first..last].iter();
                let renamed = of_part.map(|place| places[*place as usize]);
                layer.edges.indices.extend(renamed);
                if let Some(positions) = part.words[lists.positions.clone()].get(first..last) {
                    layer.positions.extend_from_slice(positions);
                }
                let ends = ends[rows].iter().map(|end| u64::from(*end));
                let moved = ends.map(|end| end - first as u64 + before);
                layer.edges.indptr.extend(moved);
            }
        }
        let rows = layer.edges.indptr.windows(2).zip(&self.blocks.ids);
        for (ends, vertex) in rows {
            let lacks = left_out.into(*vertex);
            let degree = topology.in_neighbours(*vertex).len() - lacks.len();
            let kept = ends[1] - ends[0];
            layer.degrees.push(degree as u32);
            let placed = layer.positions.len() == layer.edges.indices.len();
            if topology.relations() > 0 && placed {
                let positions = &layer.positions[ends[0] as usize..ends[1] as usize];
                let types = topology.types_into(*vertex);
                scales_by_type(types, lacks, positions, &mut layer.scales);
            } else {
                layer.scales.push(scale_of(degree as u32, kept as u32));
            }
        }
    }
}

/// Appends what each kept edge of a row counts: the edges of its type, without those that the row lacks, over
/// those kept.
fn scales_by_type(types: &[u16], lacks: &[u32], positions: &[u32], scales: &mut Vec<f32>) {
    let mut counts: BTreeMap<u16, (u32, u32)> = BTreeMap::new();
    for kind in types {
        counts.entry(*kind).or_default().0 += 1;
    }
    for position in lacks {
        counts.entry(types[*position as usize]).or_default().0 -= 1;
    }
    let kind = |position: &u32| types[*position as usize];
    for position in positions {
        counts.entry(kind(position)).or_default().1 += 1;
    }
    scales.extend(positions.iter().map(|position| {
        let (degree, kept) = counts.get(&kind(position)).copied().unwrap_or_default();
        scale_of(degree, kept)
    }));
}

impl Part {
    /// The rows that a level so many below the top has beyond those of the level above.
    fn added(&self, depth: usize) -> Range<usize> {
        let known = match depth {
            0 => 0,
            depth => self.sizes[depth - 1],
        };
        known..self.sizes[depth]
    }

    /// Finds the lists of a message; `None` if it is none about levels.
    fn lists(&mut self, top: usize, places: bool) -> Option<()> {
        let Self {
            words,
            sizes,
            layers,
            ids,
        } = self;
        sizes.clear();
        layers.clear();
        let mut at = 0;
        for _ in 0..top {
            let rows = *words.get(at)? as usize;
            let ends = at + 1..at + 1 + rows;
            let edges = match words.get(ends.clone())? {
                [] => 0,
                [.., last] => *last as usize,
            };
            let sources = ends.end..ends.end + edges;
            let positions = sources.end..sources.end + if places { edges } else { 0 };
            words.get(sources.start..positions.end)?;
            at = positions.end;
            sizes.push(rows);
            layers.push(Lists {
                ends,
                places: sources,
                positions,
            });
        }
        *ids = at..words.len();
        sizes.push(ids.len());
        Some(())
    }

    /// Whether these are levels of a graph with so many vertices and these edges of each layer.
    fn fits(&self, edges: &[(&Topology, &LeftOut)], vertices: u32) -> bool {
        let ids = &self.words[self.ids.clone()];
        if !ids.iter().all(|id| *id < vertices) {
            return false;
        }
        let grow = self.sizes.windows(2).all(|pair| pair[0] <= pair[1]);
        let mut layers = self.layers.iter().zip(&self.sizes[1..]).zip(edges);
        let of_layers = layers.all(|((lists, below), (topology, _))| {
            let ends = &self.words[lists.ends.clone()];
            let places = &self.words[lists.places.clone()];
            let positions = &self.words[lists.positions.clone()];
            let mut rows = (0..ends.len()).zip(ids);
            let of_rows = rows.all(|(row, id)| {
                let first = row.checked_sub(1).map_or(0, |before| ends[before] as usize);
                let last = (ends[row] as usize).max(first);
                let degree = topology.in_neighbours(*id).len() as u32;
                let of_row = positions.get(first..last).unwrap_or_default();
                of_row.iter().all(|position| *position < degree)
            });
            let in_level = places.iter().all(|place| (*place as usize) < *below);
            ends.is_sorted() && in_level && of_rows
        });
        grow && of_layers
    }
}

//! The passes over the rows of a hop: count the edges, draw them, look up their sources.

use super::blocks::Layer;
use super::draw::{Hop, Scratch, scale_of};
use super::numbers::{AHEAD, Numbers, prefetch};
use crate::Topology;
use std::ops::Range;

/// Least edges of a tile. What one step prefetches for a tile must stay in the nearest cache until
/// the next step has done another tile.
const TILE: u64 = 128;

/// What is known of consecutive destination rows before their edges are drawn.
pub(super) struct Degrees<'a> {
    /// The vertex of each row.
    pub ids: &'a [u32],
    /// Where each row's edges begin in the topology.
    pub starts: &'a mut [u64],
    /// In-degrees, without edges that are left out.
    pub degrees: &'a mut [u32],
    /// Kept edges of the rows up to and including each.
    pub kept: &'a mut [u64],
    /// In-degrees over kept edges; empty if edges have types.
    pub scales: &'a mut [f32],
}

/// Consecutive rows that can be divided among threads.
pub(super) trait Split: Sized + Send {
    /// The first `rows` rows, and the others.
    fn split_at(self, rows: usize) -> (Self, Self);
}

impl Split for Degrees<'_> {
    fn split_at(self, rows: usize) -> (Self, Self) {
        let ids = self.ids.split_at(rows);
        let starts = self.starts.split_at_mut(rows);
        let degrees = self.degrees.split_at_mut(rows);
        let kept = self.kept.split_at_mut(rows);
        let scales = self.scales.split_at_mut(rows.min(self.scales.len()));
        let first = Degrees {
            ids: ids.0,
            starts: starts.0,
            degrees: degrees.0,
            kept: kept.0,
            scales: scales.0,
        };
        let second = Degrees {
            ids: ids.1,
            starts: starts.1,
            degrees: degrees.1,
            kept: kept.1,
            scales: scales.1,
        };
        (first, second)
    }
}

impl Degrees<'_> {
    /// Fills in everything but the ids; returns how many edges are kept.
    pub fn count(self, topology: &Topology, hop: &Hop, scratch: &mut Scratch) -> u64 {
        let indptr = topology.indptr();
        let mut total = 0;
        for (row, v) in self.ids.iter().copied().enumerate() {
            if let Some(next) = self.ids.get(row + AHEAD) {
                prefetch(indptr, *next as usize);
            }
            let start = indptr[v as usize];
            let degree = (indptr[v as usize + 1] - start) as u32 - hop.left_out(v).len() as u32;
            let kept = hop.kept(v, degree, scratch);
            self.starts[row] = start;
            self.degrees[row] = degree;
            if let Some(scale) = self.scales.get_mut(row) {
                *scale = scale_of(degree, kept);
            }
            total += u64::from(kept);
            self.kept[row] = total;
        }
        total
    }
}

/// Consecutive destination rows and the edges that are kept for them.
pub(super) struct Rows<'a> {
    /// The vertex of each row.
    pub ids: &'a [u32],
    /// Where each row's edges begin in the topology.
    pub starts: &'a [u64],
    /// In-degrees.
    pub degrees: &'a [u32],
    /// Where each row's kept edges begin in the layer, and where the last row's end.
    pub offsets: &'a [u64],
    /// The kept edges' positions in their rows.
    pub positions: &'a mut [u32],
    /// The kept edges' sources.
    pub ends: &'a mut [u32],
    /// The kept edges' scales; empty if edges have no types.
    pub scales: &'a mut [f32],
}

impl Split for Rows<'_> {
    fn split_at(self, rows: usize) -> (Self, Self) {
        let edges = (self.offsets[rows] - self.offsets[0]) as usize;
        let ids = self.ids.split_at(rows);
        let starts = self.starts.split_at(rows);
        let degrees = self.degrees.split_at(rows);
        let positions = self.positions.split_at_mut(edges);
        let ends = self.ends.split_at_mut(edges);
        let scales = self.scales.split_at_mut(edges.min(self.scales.len()));
        let first = Rows {
            ids: ids.0,
            starts: starts.0,
            degrees: degrees.0,
            offsets: &self.offsets[..=rows],
            positions: positions.0,
            ends: ends.0,
            scales: scales.0,
        };
        let second = Rows {
            ids: ids.1,
            starts: starts.1,
            degrees: degrees.1,
            offsets: &self.offsets[rows..],
            positions: positions.1,
            ends: ends.1,
            scales: scales.1,
        };
        (first, second)
    }
}

impl<'a> Rows<'a> {
    /// All rows of a layer of which the kept edges are counted, with room for them.
    pub fn of(ids: &'a [u32], starts: &'a [u64], layer: &'a mut Layer, hop: &Hop) -> Self {
        let edges = layer.edges.indptr[ids.len()] as usize;
        layer.positions.resize(edges, 0);
        layer.edges.indices.resize(edges, 0);
        let mut scales: &mut [f32] = &mut [];
        if hop.is_typed() {
            layer.scales.resize(edges, 0.0);
            scales = &mut layer.scales;
        }
        Rows {
            ids,
            starts,
            degrees: &layer.degrees,
            offsets: &layer.edges.indptr,
            positions: &mut layer.positions,
            ends: &mut layer.edges.indices,
            scales,
        }
    }
}

impl Rows<'_> {
    /// The first edge of these rows in the layer.
    pub fn first_edge(&self) -> u64 {
        self.offsets[0]
    }

    /// Edges of these rows, counted from the first of them.
    fn edges(&self, rows: Range<usize>) -> Range<usize> {
        let [begin, end] = [rows.start, rows.end].map(|row| self.offsets[row] - self.offsets[0]);
        begin as usize..end as usize
    }

    /// Draws the edges and looks up their sources, then calls `number` with the sources of
    /// consecutive edges and the first of these, counted from the first of these rows.
    ///
    /// The three steps work on tiles of rows, each a tile behind the one before it, and each
    /// prefetches what the next one reads at random.
    pub fn fill(
        mut self,
        topology: &Topology,
        hop: &Hop,
        numbers: &Numbers,
        scratch: &mut Scratch,
        mut number: impl FnMut(usize, &mut [u32]),
    ) {
        let (mut drawn, mut looked_up, mut numbered) = (0, 0, 0);
        while numbered < self.ids.len() {
            let next = self.tile_end(drawn);
            for row in drawn..next {
                self.draw(row, topology, hop, scratch);
            }
            for row in looked_up..drawn {
                self.look_up(row, topology, hop, numbers);
            }
            let edges = self.edges(numbered..looked_up);
            number(edges.start, &mut self.ends[edges]);
            (drawn, looked_up, numbered) = (next, drawn, looked_up);
        }
    }

    /// The end of a tile that begins with `row`.
    fn tile_end(&self, row: usize) -> usize {
        let enough = self.offsets[row] + TILE;
        let mut end = row;
        while end < self.ids.len() && self.offsets[end] < enough {
            end += 1;
        }
        end
    }

    fn draw(&mut self, row: usize, topology: &Topology, hop: &Hop, scratch: &mut Scratch) {
        let edges = self.edges(row..row + 1);
        let positions = &mut self.positions[edges.clone()];
        hop.draw(self.ids[row], self.degrees[row], positions, scratch);
        if hop.is_typed() {
            hop.scales(self.ids[row], positions, &mut self.scales[edges], scratch);
        }
        let start = self.starts[row] as usize;
        for position in positions {
            prefetch(topology.indices(), start + *position as usize);
        }
    }

    fn look_up(&mut self, row: usize, topology: &Topology, hop: &Hop, numbers: &Numbers) {
        let edges = self.edges(row..row + 1);
        let start = self.starts[row] as usize;
        let sources = &topology.indices()[start..];
        let positions = &self.positions[edges.clone()];
        for (end, position) in self.ends[edges].iter_mut().zip(positions) {
            *end = hop
                .end_of(self.ids[row])
                .unwrap_or(sources[*position as usize]);
            numbers.prefetch(*end);
        }
    }
}

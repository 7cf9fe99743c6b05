//! The edges that no hop of a batch draws: those between the two ends of its pairs.

use crate::Topology;
use crate::links::Ends;
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::End;

/// Plain edges that the hops of a batch leave out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeftOut {
    /// Ascending by vertex and position.
    into: Vec<Edge>,
    /// The sources of these edges, ascending.
    sources: Vec<u32>,
    /// Positions of the edges into each vertex of `into`, side by side.
    positions: Vec<u32>,
    /// Vertices at an end of some edge, as bits.
    marks: Vec<u64>,
}

/// An edge of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Edge {
    target: u32,
    /// Among the edges into the target.
    position: u32,
    source: u32,
}

impl LeftOut {
    /// No edges.
    pub(super) const NONE: Self = Self {
        into: Vec::new(),
        sources: Vec::new(),
        positions: Vec::new(),
        marks: Vec::new(),
    };

    /// Leaves out nothing.
    pub(super) fn clear(&mut self) {
        for edge in self.into.drain(..) {
            for end in [edge.source, edge.target] {
                self.marks[end as usize / 64] = 0;
            }
        }
        self.sources.clear();
        self.positions.clear();
    }

    /// Leaves out the edges between the ends of some pairs, in both directions and of all types.
    pub(super) fn fill(&mut self, plain: &Topology, pairs: impl Iterator<Item = Ends>) {
        self.clear();
        self.marks.resize(plain.vertices().div_ceil(64) as usize, 0);
        for Ends { source, target } in pairs {
            for (source, target) in [(source, target), (target, source)] {
                let sources = plain.in_neighbours(target);
                let first = sources.partition_point(|u| *u < source);
                let same = sources[first..].iter().take_while(|u| **u == source);
                let positions = (first as u32..).zip(same);
                self.into.extend(positions.map(|(position, _)| Edge {
                    target,
                    position,
                    source,
                }));
            }
        }
        self.into.sort_unstable();
        self.into.dedup();
        for edge in &self.into {
            for end in [edge.source, edge.target] {
                self.marks[end as usize / 64] |= 1 << (end % 64);
            }
        }
        self.positions
            .extend(self.into.iter().map(|edge| edge.position));
        self.sources
            .extend(self.into.iter().map(|edge| edge.source));
        self.sources.sort_unstable();
    }

    /// Whether all edges are there to draw.
    pub fn is_empty(&self) -> bool {
        self.into.is_empty()
    }

    /// Positions of the edges into a vertex that are left out, ascending.
    #[inline]
    pub fn into(&self, v: u32) -> &[u32] {
        match self.marked(v) {
            false => &[],
            true => {
                let begin = self.into.partition_point(|edge| edge.target < v);
                let end = self.into.partition_point(|edge| edge.target <= v);
                &self.positions[begin..end]
            }
        }
    }

    /// How many edges out of a vertex are left out.
    pub fn out_of(&self, v: u32) -> u32 {
        match self.marked(v) {
            false => 0,
            true => {
                let begin = self.sources.partition_point(|u| *u < v);
                let end = self.sources.partition_point(|u| *u <= v);
                (end - begin) as u32
            }
        }
    }

    /// How many edges of a set at an end of a vertex are left out.
    pub fn degree(&self, v: u32, set: EdgeSet, end: End) -> u32 {
        match (set, end) {
            (EdgeSet::Named(_), _) => 0,
            (EdgeSet::Plain | EdgeSet::Looped, End::Dst) => self.into(v).len() as u32,
            (EdgeSet::Plain | EdgeSet::Looped, End::Src) => self.out_of(v),
        }
    }

    /// How many edges of the type of an edge, which is at this place among all plain ones, are left out of those
    /// into its destination.
    pub fn like(&self, plain: &Topology, place: usize) -> u32 {
        if self.is_empty() {
            return 0;
        }
        let rows = plain.indptr();
        let v = rows.partition_point(|first| *first <= place as u64) as u32 - 1;
        let (types, kind) = (plain.types_into(v), plain.types()[place]);
        let of_type = |position: &&u32| types[**position as usize] == kind;
        self.into(v).iter().filter(of_type).count() as u32
    }

    fn marked(&self, v: u32) -> bool {
        let word = self.marks.get(v as usize / 64).copied().unwrap_or(0);
        word >> (v % 64) & 1 == 1
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        8 * self.marks.len() + 20 * self.into.len()
    }
}

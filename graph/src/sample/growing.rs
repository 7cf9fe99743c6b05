//! Batches that are drawn in tasks (Zheng et al., ByteGNN, PVLDB 2022, section 4.1).
//!
//! The edges of a hop are drawn for groups of rows, by any thread and in any order. Then one task puts the groups together
//! and numbers the vertices that are new. So the blocks are those that a [`Sampler`](super::Sampler) draws.

use super::blocks::{Blocks, Layer};
use super::numbers::{MOST, Numbers};
use super::sampler::{State, hop, leave_out};
use super::{HopEdges, Rule, SampleError};
use crate::Topology;
use std::borrow::Borrow;
use std::ops::Range;

/// The levels of a batch so far. With its numbers, it takes 4 bytes for each vertex of the graph.
#[derive(Default)]
pub struct Growing {
    blocks: Blocks,
    numbers: Numbers,
    /// Whether vertices of a batch that was not ended have numbers.
    begun: bool,
}

/// The edges that were drawn into consecutive rows of a level.
#[derive(Default)]
pub struct DrawnRows {
    /// Their sources are vertices.
    layer: Layer,
}

impl DrawnRows {
    /// How many edges there are.
    pub fn edges(&self) -> u64 {
        self.layer.edges.indices.len() as u64
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        let Layer {
            edges,
            positions,
            degrees,
            scales,
        } = &self.layer;
        let words = edges.indices.len() + positions.len() + degrees.len() + scales.len();
        (4 * words + 8 * edges.indptr.len()) as u64
    }
}

/// What a thread needs for its tasks.
pub struct TaskSampler<T> {
    rule: Rule,
    edges: HopEdges<T>,
    state: State,
}

impl Growing {
    /// Rows for which the next hop draws edges, if the batch has another hop.
    pub fn rows(&self) -> Option<usize> {
        let is_drawn = self.blocks.layers() == self.blocks.layers.len();
        (!is_drawn).then_some(self.blocks.ids.len())
    }

    /// The levels.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Exchanges the levels for others, whose memory the next batch uses.
    pub fn swap(&mut self, blocks: &mut Blocks) {
        std::mem::swap(&mut self.blocks, blocks);
    }
}

impl<T: Borrow<Topology>> TaskSampler<T> {
    /// Draws from edges by a rule.
    ///
    /// # Errors
    /// As [`Sampler::over`](super::Sampler::over).
    pub fn new(edges: HopEdges<T>, rule: Rule) -> Result<Self, SampleError> {
        rule.check(&edges)?;
        Ok(Self {
            rule,
            edges,
            state: State::without_numbers(),
        })
    }

    /// Goes on with the draws of another run.
    pub fn reseed(&mut self, seed: u64) {
        self.rule.seed = seed;
    }

    /// Begins a batch with its seeds; `all` are those of the batch on all ranks.
    ///
    /// # Errors
    /// A seed that is no vertex.
    pub fn begin(
        &self,
        seeds: &[u32],
        all: impl Iterator<Item = u32>,
        growing: &mut Growing,
    ) -> Result<(), SampleError> {
        let Growing {
            blocks,
            numbers,
            begun,
        } = growing;
        let vertices = self.edges.of_hop(gnnc_ir::EdgeSet::Plain, 1)?.vertices();
        if numbers.vertices() != vertices as usize {
            *numbers = Numbers::new(vertices);
        } else if *begun {
            numbers.clear();
        }
        *begun = true;
        leave_out(&self.edges, &self.rule, all, &mut blocks.left_out)?;
        blocks.start(self.rule.hops());
        numbers.start(seeds, &mut blocks.ids)?;
        blocks.sizes.push(blocks.ids.len());
        Ok(())
    }

    /// Edges into some rows of the next hop, in the whole graph: about what it costs to draw some of them.
    pub fn degrees(&self, growing: &Growing, rows: Range<usize>) -> u64 {
        let hop = growing.blocks.sizes.len();
        let Ok(topology) = self.edges.of_hop(self.rule.set(hop), hop) else {
            return 0;
        };
        let of = |v: &u32| topology.in_neighbours(*v).len() as u64;
        growing.blocks.ids[rows].iter().map(of).sum()
    }

    /// Draws the edges of the next hop into some of its rows.
    ///
    /// # Errors
    /// More edges than 32-bit numbers count.
    pub fn draw(
        &mut self,
        growing: &Growing,
        step: u32,
        rows: Range<usize>,
        drawn: &mut DrawnRows,
    ) -> Result<(), SampleError> {
        let number = growing.blocks.sizes.len();
        let topology = self.edges.of_hop(self.rule.set(number), number)?;
        let left_out = &growing.blocks.left_out;
        let hop = hop(&self.edges, &self.rule, (number, step), left_out)?;
        let ids = &growing.blocks.ids[rows];
        self.state
            .rows(topology, &hop, number, ids, &mut drawn.layer)
    }

    /// Ends the next hop with the edges into all of its rows, in the order of the rows.
    ///
    /// # Errors
    /// More edges than 32-bit numbers count.
    pub fn end_hop(&self, growing: &mut Growing, groups: &[DrawnRows]) -> Result<(), SampleError> {
        let Growing {
            blocks,
            numbers,
            begun,
        } = growing;
        let hop = blocks.sizes.len();
        let edges = groups.iter().map(|group| group.layer.edges.indices.len());
        let found = edges.sum::<usize>() as u64;
        if found + blocks.ids.len() as u64 > MOST {
            return Err(SampleError::TooManyEdges { hop, found });
        }
        let layer = &mut blocks.layers[hop - 1];
        layer.clear();
        groups.iter().for_each(|group| layer.append(&group.layer));
        numbers.append(&mut layer.edges.indices, &mut blocks.ids);
        blocks.sizes.push(blocks.ids.len());
        if blocks.layers() == blocks.layers.len() {
            numbers.forget(&blocks.ids);
            *begun = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{ALL, Fanout, Kind, Sampler};
    use proptest::prelude::*;

    /// A batch whose hops are drawn in groups of `grain` rows, from the last one to the first.
    fn drawn(
        sampler: &mut TaskSampler<&Topology>,
        seeds: &[u32],
        grain: usize,
        growing: &mut Growing,
    ) -> Result<(), SampleError> {
        sampler.begin(seeds, std::iter::empty(), growing)?;
        while let Some(rows) = growing.rows() {
            let mut groups: Vec<DrawnRows> = Vec::new();
            groups.resize_with(rows.div_ceil(grain), DrawnRows::default);
            for (number, group) in groups.iter_mut().enumerate().rev() {
                let rows = number * grain..((number + 1) * grain).min(rows);
                sampler.draw(growing, 3, rows, group)?;
            }
            sampler.end_hop(growing, &groups)?;
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn batches_in_tasks_are_those_of_one_thread(
            edges in prop::collection::vec((0u32..40, 0u32..40), 0..400),
            seeds in prop::collection::vec(0u32..40, 0..9),
            others in prop::collection::vec(0u32..40, 0..9),
            fanouts in prop::collection::vec(prop_oneof![0u32..5, Just(ALL)], 1..4),
            (labor, typed, grain) in (any::<bool>(), any::<bool>(), 1usize..20),
        ) {
            let mut graph = Topology::from_edges(40, edges).unwrap().0;
            if typed {
                let types: Vec<u16> = (0..graph.edges()).map(|edge| (edge % 3) as u16).collect();
                graph = graph.with_types(3, types);
            }
            let kind = if labor { Kind::Labor } else { Kind::Neighbor };
            let fanouts: Vec<Fanout> = fanouts.into_iter().map(Fanout::Each).collect();
            let rule = Rule::new(kind, fanouts, 7).unwrap();
            let mut whole = Sampler::new(&graph, &rule, 1).unwrap();
            let mut tasks = TaskSampler::new(HopEdges::plain(&graph), rule).unwrap();
            let mut growing = Growing::default();
            // What is left of a batch that failed does not matter.
            prop_assert!(tasks.begin(&[3, 40], std::iter::empty(), &mut growing).is_err());
            for seeds in [&seeds, &others] {
                let mut expected = Blocks::default();
                whole.sample(seeds, 3, &mut expected).unwrap();
                drawn(&mut tasks, seeds, grain, &mut growing).unwrap();
                prop_assert_eq!(growing.blocks(), &expected);
            }
        }
    }
}

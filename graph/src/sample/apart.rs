//! Drawing batches whose edges lie on several ranks, hop by hop (Zheng et al., DistDGL, IA3 2020).
//!
//! A rank holds the edges into its own vertices. It names the other vertices of a level to their owners, which
//! answer with the degree of each and the sources of its edges. Draws are those of one rank that holds all edges.

use super::blocks::{Blocks, Layer};
use super::draw::{Hop, scale_of};
use super::fill::Rows;
use super::numbers::MOST;
use super::sampler::{State, alone};
use super::{SampleError, Sampler};
use crate::{Csr, Topology};
use gnnc_ir::EdgeSet;
use std::borrow::Borrow;

/// What other ranks answered about the vertices of a level: by rank, the degree of each vertex of the question
/// and the sources of the edges that are kept, `min(degree, fanout)` of them.
pub struct Answers<'a> {
    /// The rank that asked.
    pub rank: u32,
    /// The owner of each vertex.
    pub owner: &'a [u32],
    /// The answers; that of the rank itself is not read.
    pub by_rank: &'a [Vec<u32>],
}

/// Memory for the edges into a rank's own vertices.
#[derive(Default)]
pub(super) struct Own {
    vertices: Vec<u32>,
    layer: Layer,
    /// Whether vertices of a batch that was not ended have numbers.
    begun: bool,
}

/// Checks that ranks can draw the edges of a graph for each other.
///
/// # Errors
/// Edges of several `relations`, or `named` sets of them.
pub fn check_apart(relations: u32, named: bool) -> Result<(), SampleError> {
    let mut what = None;
    if relations > 0 {
        what = Some("edges with types");
    } else if named {
        what = Some("named sets of edges");
    }
    match what {
        Some(what) => Err(SampleError::Apart { what }),
        None => Ok(()),
    }
}

impl<T: Borrow<Topology> + Send + Sync> Sampler<T> {
    /// Begins a batch that is drawn hop by hop.
    ///
    /// # Errors
    /// As [`Sampler::sample`], and as [`check_apart`].
    pub fn begin(&mut self, seeds: &[u32], blocks: &mut Blocks) -> Result<(), SampleError> {
        let plain = self.edges.of_hop(EdgeSet::Plain, 1)?;
        let named = !self.rule.over.is_empty() || self.edges.pairs().is_some();
        check_apart(plain.relations(), named)?;
        let State { numbers, own, .. } = &mut self.state;
        if own.begun {
            numbers.clear();
        }
        blocks.left_out.clear();
        blocks.start(self.rule.hops());
        if let Err(refused) = numbers.start(seeds, &mut blocks.ids) {
            blocks.clear();
            return Err(refused);
        }
        blocks.sizes.push(blocks.ids.len());
        own.begun = true;
        Ok(())
    }

    /// Draws the edges into some own vertices, and appends the degree of each and the sources of its edges to an
    /// answer. Hops count from 1, next to the seeds.
    ///
    /// # Errors
    /// More edges than 32-bit numbers count.
    pub fn answer(
        &mut self,
        vertices: &[u32],
        (hop, step): (usize, u32),
        answer: &mut Vec<u32>,
    ) -> Result<(), SampleError> {
        let topology = self.edges.of_hop(EdgeSet::Plain, hop)?;
        let mut drawn = std::mem::take(&mut self.state.own.layer);
        let of_hop = Hop::new(topology, &self.rule, hop, step);
        self.state
            .rows(topology, &of_hop, hop, vertices, &mut drawn)?;
        answer.reserve(vertices.len() + drawn.edges.indices.len());
        for (degree, bounds) in drawn.degrees.iter().zip(drawn.edges.indptr.windows(2)) {
            answer.push(*degree);
            let edges = bounds[0] as usize..bounds[1] as usize;
            answer.extend_from_slice(&drawn.edges.indices[edges]);
        }
        self.state.own.layer = drawn;
        Ok(())
    }

    /// Adds the next hop to a batch: draws the edges into own vertices, and takes the others from answers. The
    /// last hop ends the batch.
    ///
    /// # Errors
    /// Answers that do not fit the question; more edges than 32-bit numbers count.
    pub fn add_hop(
        &mut self,
        step: u32,
        answers: &Answers<'_>,
        blocks: &mut Blocks,
    ) -> Result<(), SampleError> {
        let hop = blocks.sizes.len();
        let topology = self.edges.of_hop(EdgeSet::Plain, hop)?;
        let of_hop = Hop::new(topology, &self.rule, hop, step);
        let mut drawn = std::mem::take(&mut self.state.own.layer);
        let mut vertices = std::mem::take(&mut self.state.own.vertices);
        vertices.clear();
        let own = |v: &&u32| answers.owner[**v as usize] == answers.rank;
        vertices.extend(blocks.ids.iter().filter(own));
        self.state
            .rows(topology, &of_hop, hop, &vertices, &mut drawn)?;
        let layer = &mut blocks.layers[hop - 1];
        assemble(&of_hop, answers, &blocks.ids, &drawn, layer)?;
        (self.state.own.layer, self.state.own.vertices) = (drawn, vertices);
        let (known, edges) = (blocks.ids.len(), layer.edges.indices.len());
        let found = edges as u64;
        if found + known as u64 > MOST {
            return Err(SampleError::TooManyEdges { hop, found });
        }
        let numbers = &self.state.numbers;
        numbers.append(&mut layer.edges.indices, &mut blocks.ids);
        blocks.sizes.push(blocks.ids.len());
        if hop == self.rule.hops() {
            numbers.forget(&blocks.ids);
            self.state.own.begun = false;
        }
        Ok(())
    }
}

impl State {
    /// Draws the edges into some vertices; their sources stay vertices.
    pub(super) fn rows(
        &mut self,
        topology: &Topology,
        hop: &Hop,
        number: usize,
        vertices: &[u32],
        layer: &mut Layer,
    ) -> Result<(), SampleError> {
        let found = self.count(topology, hop, vertices, layer);
        if found > MOST {
            return Err(SampleError::TooManyEdges { hop: number, found });
        }
        let rows = Rows::of(vertices, &self.starts, layer, hop);
        let scratch = alone(&mut self.scratch);
        rows.fill(topology, hop, &self.numbers, scratch, |_, _| {});
        Ok(())
    }
}

/// Puts the edges into the vertices of a level together; their sources stay vertices.
fn assemble(
    hop: &Hop,
    answers: &Answers<'_>,
    level: &[u32],
    drawn: &Layer,
    layer: &mut Layer,
) -> Result<(), SampleError> {
    let Layer {
        edges,
        positions,
        degrees,
        scales,
    } = layer;
    let Csr { indptr, indices } = edges;
    positions.clear();
    indices.clear();
    degrees.clear();
    scales.clear();
    indptr.clear();
    indptr.push(0);
    let mut own = drawn.degrees.iter().zip(drawn.edges.indptr.windows(2));
    let mut unread: Vec<&[u32]> = answers.by_rank.iter().map(Vec::as_slice).collect();
    let vertices = answers.owner.len() as u32;
    for v in level {
        let owner = answers.owner[*v as usize];
        let degree = if owner == answers.rank {
            own.next().map(|(degree, bounds)| {
                let edges = bounds[0] as usize..bounds[1] as usize;
                indices.extend_from_slice(&drawn.edges.indices[edges]);
                *degree
            })
        } else {
            let answer = unread.get_mut(owner as usize);
            answer.and_then(|answer| take(answer, hop, vertices, indices))
        };
        let degree = degree.ok_or(SampleError::Answer { rank: owner })?;
        let kept = indices.len() as u64 - indptr[indptr.len() - 1];
        indptr.push(indices.len() as u64);
        degrees.push(degree);
        scales.push(scale_of(degree, kept as u32));
    }
    let others = (0..).zip(&unread).filter(|(rank, _)| *rank != answers.rank);
    let mut more = others.filter(|(_, answer)| !answer.is_empty());
    match more.next() {
        None => Ok(()),
        Some((rank, _)) => Err(SampleError::Answer { rank }),
    }
}

/// Takes the next vertex of an answer: appends the sources of its edges, and returns its degree.
fn take(answer: &mut &[u32], hop: &Hop, vertices: u32, indices: &mut Vec<u32>) -> Option<u32> {
    let (degree, rest) = answer.split_first()?;
    let (sources, rest) = rest.split_at_checked(hop.kept_of(*degree) as usize)?;
    if sources.iter().any(|source| *source >= vertices) {
        return None;
    }
    indices.extend_from_slice(sources);
    *answer = rest;
    Some(*degree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{ALL, Fanout, Kind, Rule};
    use crate::{LocalPart, Partition, example};
    use proptest::prelude::*;

    /// A rank that draws a batch, and the numbers that its questions and their answers had.
    struct Rank {
        sampler: Sampler<Topology>,
        blocks: Blocks,
        numbers: usize,
    }

    /// The batches of ranks, which hold the edges into their own vertices.
    fn drawn(graph: &Topology, owner: &[u32], seeds: &[Vec<u32>], rule: &Rule) -> Vec<Rank> {
        let partition = Partition::new(seeds.len() as u32, owner.to_vec()).unwrap();
        let parts = LocalPart::build_all(graph, &partition).unwrap();
        let begun = |(rank, seeds): (u32, &Vec<u32>)| {
            let own = LocalPart::edges_into(&[&parts[rank as usize]], graph.vertices()).unwrap();
            let mut sampler = Sampler::new(own, rule, 1).unwrap();
            let mut blocks = Blocks::default();
            sampler.begin(seeds, &mut blocks).unwrap();
            Rank {
                sampler,
                blocks,
                numbers: 0,
            }
        };
        let mut ranks: Vec<Rank> = (0..).zip(seeds).map(begun).collect();
        for hop in 1..=rule.hops() {
            for number in 0..ranks.len() {
                let level = ranks[number].blocks.ids.clone();
                let mut by_rank = vec![Vec::new(); ranks.len()];
                for other in (0..ranks.len()).filter(|other| *other != number) {
                    let asked = level.iter().filter(|v| owner[**v as usize] == other as u32);
                    let asked: Vec<u32> = asked.copied().collect();
                    let sampler = &mut ranks[other].sampler;
                    let answer = &mut by_rank[other];
                    sampler.answer(&asked, (hop, 0), answer).unwrap();
                    ranks[number].numbers += asked.len() + answer.len();
                }
                let answers = Answers {
                    rank: number as u32,
                    owner,
                    by_rank: &by_rank,
                };
                let Rank {
                    sampler, blocks, ..
                } = &mut ranks[number];
                sampler.add_hop(0, &answers, blocks).unwrap();
            }
        }
        ranks
    }

    /// Seed 3 on rank 0 and seed 5 on rank 1, two edges a vertex: rank 0 asks for the edges into 4 and 5.
    #[test]
    fn the_batches_of_g8_are_those_computed_by_hand() {
        let graph = example::g8().topology;
        let rule = Rule::new(Kind::Neighbor, vec![Fanout::Each(2); 2], 0).unwrap();
        let owner = [0, 0, 0, 0, 1, 1, 1, 1];
        let ranks = drawn(&graph, &owner, &[vec![3], vec![5]], &rule);
        assert_eq!(ranks[0].blocks.ids(), [3, 4, 5, 2, 6, 7]);
        assert_eq!(ranks[1].blocks.ids(), [5, 4, 7, 6]);
        // Two vertices, two degrees and four sources; rank 1 asks for nothing.
        assert_eq!([ranks[0].numbers, ranks[1].numbers], [8, 0]);
    }

    #[test]
    fn an_answer_that_does_not_fit_is_refused() {
        let graph = example::g8().topology;
        let rule = Rule::new(Kind::Neighbor, vec![Fanout::Each(2)], 0).unwrap();
        let owner = [0, 0, 0, 0, 1, 1, 1, 1];
        for answer in [vec![], vec![3, 1], vec![3, 1, 99], vec![3, 1, 2, 0]] {
            let mut sampler = Sampler::new(&graph, &rule, 1).unwrap();
            let mut blocks = Blocks::default();
            sampler.begin(&[3, 4], &mut blocks).unwrap();
            let by_rank = [Vec::new(), answer];
            let answers = Answers {
                rank: 0,
                owner: &owner,
                by_rank: &by_rank,
            };
            let refused = sampler.add_hop(0, &answers, &mut blocks);
            assert_eq!(refused, Err(SampleError::Answer { rank: 1 }));
            // The next batch is drawn as if nothing had happened.
            let mut blocks = Blocks::default();
            sampler.begin(&[3], &mut blocks).unwrap();
            let answers = Answers {
                by_rank: &[],
                ..answers
            };
            sampler.add_hop(0, &answers, &mut blocks).unwrap();
            assert_eq!(blocks.ids(), [3, 4, 5]);
        }
    }

    #[test]
    fn edges_with_types_are_refused() {
        let graph = example::g8().topology;
        let types = vec![0; graph.edges() as usize];
        let typed = graph.with_types(1, types);
        let rule = Rule::new(Kind::Neighbor, vec![Fanout::Each(2)], 0).unwrap();
        let mut sampler = Sampler::new(typed, &rule, 1).unwrap();
        let refused = sampler.begin(&[3], &mut Blocks::default());
        assert!(matches!(refused, Err(SampleError::Apart { .. })));
    }

    proptest! {
        /// Whoever holds which edges, a batch is that of a rank that holds all of them.
        #[test]
        fn batches_are_those_drawn_from_all_edges(
            edges in prop::collection::vec((0u32..40, 0u32..40), 0..400),
            owner in prop::collection::vec(0u32..3, 40),
            seeds in prop::collection::vec(prop::collection::vec(0u32..40, 0..6), 3),
            fanouts in prop::collection::vec(prop_oneof![0u32..5, Just(ALL)], 1..4),
            labor in any::<bool>(),
        ) {
            let graph = Topology::from_edges(40, edges).unwrap().0;
            let kind = if labor { Kind::Labor } else { Kind::Neighbor };
            let fanouts: Vec<Fanout> = fanouts.into_iter().map(Fanout::Each).collect();
            let rule = Rule::new(kind, fanouts, 7).unwrap();
            for (rank, seeds) in drawn(&graph, &owner, &seeds, &rule).iter().zip(&seeds) {
                let mut whole = Blocks::default();
                let mut sampler = Sampler::new(&graph, &rule, 1).unwrap();
                sampler.sample(seeds, 0, &mut whole).unwrap();
                prop_assert_eq!(rank.blocks.ids(), whole.ids());
                for number in 1..=whole.layers() {
                    let (apart, whole) = (rank.blocks.layer(number), whole.layer(number));
                    prop_assert_eq!(&apart.edges, &whole.edges);
                    prop_assert_eq!(&apart.degrees, &whole.degrees);
                    prop_assert_eq!(&apart.scales, &whole.scales);
                }
            }
        }
    }
}

//! Sampled neighborhoods: the blocks of a mini-batch.
//!
//! A batch has levels `L..0`. Level `L` is its seeds; level `l - 1` is level `l` followed by the
//! sources of the edges kept for it. [`Blocks`] holds one list of ids for all levels, since each
//! level is a prefix of the next one out, and a [`Layer`] of edges between two levels.
//!
//! Which edges are kept is a function of the graph, a [`Rule`] and the optimizer step. Neither
//! ranks, threads nor the other seeds of the batch enter, so any number of workers draws the same
//! neighbors. `docs/design/sampling.md` explains the draws and the numbering.
//!
//! ```
//! use gnnc_graph::example;
//! use gnnc_graph::sample::{Blocks, Fanout, Kind, Rule, Sampler};
//!
//! # fn main() -> Result<(), gnnc_graph::sample::SampleError> {
//! let graph = example::g8();
//! let rule = Rule::new(Kind::Neighbor, vec![Fanout::Each(2); 2], 0)?;
//! let mut sampler = Sampler::new(&graph.topology, &rule, 1)?;
//! let mut blocks = Blocks::default();
//! sampler.sample(&[3], 0, &mut blocks)?;
//! assert_eq!(blocks.level(2), [3]);
//! assert_eq!(blocks.level(1), [3, 4, 5]);
//! assert_eq!(blocks.level(0), [3, 4, 5, 2, 6, 7]);
//! assert_eq!(blocks.layer(1).edges.indices, [3, 2, 2, 4, 1, 5]);
//! # Ok(()) }
//! ```

mod all;
mod apart;
mod batches;
mod blocks;
mod cache;
mod copies;
mod draw;
mod error;
mod estimate;
mod fill;
mod growing;
mod hop_edges;
mod left_out;
mod numbers;
mod pairs;
mod pilot;
mod remote;
mod replay;
mod roots;
mod sampler;
mod sets;
mod together;

pub use all::{AllBlocks, message_length, write_message};
pub use apart::{Answers, check_apart};
pub use batches::{Batches, Division, Epoch, home, shares};
pub use blocks::{Blocks, Layer};
pub use cache::{BatchSource, Cached};
pub use copies::{Copies, fetch_share, fetched_again, fetched_of};
pub use error::SampleError;
pub use estimate::{DegreeClass, Degrees, Estimate, by_degrees, by_edges};
pub use gnnc_ir::words::sampling::{ALL, Cut, Exclude, Fanout, Kind, MAX_HOPS, Negatives};
pub use growing::{DrawnRows, Growing, TaskSampler};
pub use hop_edges::HopEdges;
pub use left_out::LeftOut;
pub use pairs::{Negative, Pairs};
pub use pilot::{PILOT, Pilot, room};
pub use remote::remote_share;
pub use replay::Replay;
pub use roots::{At, RankBatch, RankSeeds, RankSet, check_roots, seeds};
pub use sampler::Sampler;
pub use sets::{Gathered, SetSeeds};

use crate::Topology;
use gnnc_ir::EdgeSet;
use gnnc_ir::kernel::mask_key;
use gnnc_ir::words::sampling::Sampling;
use std::borrow::Borrow;

/// Sites of dropout masks are below this bit, so their keys differ from those of samples.
const SITE: u32 = 0x8000_0000;

/// What is drawn: everything but the graph, the seeds and the step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    kind: Kind,
    fanouts: Vec<Fanout>,
    /// The edges that each hop runs over; plain ones if it is not listed.
    over: Vec<EdgeSet>,
    exclude: Exclude,
    negatives: Negatives,
    seed: u64,
}

impl Rule {
    /// A rule with one fanout a hop; the first is for the hop next to the seeds.
    ///
    /// # Errors
    /// No hops or more than [`MAX_HOPS`]; kind [`Kind::Full`] with a fanout that is not [`ALL`].
    pub fn new(kind: Kind, fanouts: Vec<Fanout>, seed: u64) -> Result<Self, SampleError> {
        if fanouts.is_empty() || fanouts.len() > MAX_HOPS {
            return Err(SampleError::Hops {
                found: fanouts.len(),
            });
        }
        let limited = fanouts.iter().position(|f| *f != Fanout::Each(ALL));
        match limited {
            Some(hop) if kind == Kind::Full => Err(SampleError::LimitOfFull { hop: hop + 1 }),
            _ => Ok(Self {
                kind,
                fanouts,
                over: Vec::new(),
                exclude: Exclude::default(),
                negatives: Negatives::default(),
                seed,
            }),
        }
    }

    /// What the batches of a program draw. `seed` is that of the run.
    ///
    /// # Errors
    /// As [`Rule::new`].
    pub fn of(sampling: &Sampling, seed: u64) -> Result<Self, SampleError> {
        let rule = Self::new(sampling.kind, sampling.fanouts.clone(), seed)?;
        Ok(Self {
            over: sampling.over.clone(),
            exclude: sampling.exclude,
            negatives: sampling.negatives,
            ..rule
        })
    }

    /// The edges that a hop (from 1, next to the seeds) runs over.
    pub fn set(&self, hop: usize) -> EdgeSet {
        let set = hop.checked_sub(1).and_then(|hop| self.over.get(hop));
        set.copied().unwrap_or(EdgeSet::Plain)
    }

    /// Which edges hops leave out.
    pub fn exclude(&self) -> Exclude {
        self.exclude
    }

    /// How edges are drawn.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The fanouts, from the hop next to the seeds outwards.
    pub fn fanouts(&self) -> &[Fanout] {
        &self.fanouts
    }

    /// Number of hops `L`, which is also the level of the seeds.
    pub fn hops(&self) -> usize {
        self.fanouts.len()
    }

    /// Checks that the fanouts fit the types of a graph's edges.
    ///
    /// # Errors
    /// Fanouts by type that are not one for each type of the graph; a hop over edges that are not there; ends
    /// to draw of pairs that are not there.
    fn check<T: Borrow<Topology>>(&self, edges: &HopEdges<T>) -> Result<(), SampleError> {
        if let (Some(how), None) = (self.negatives.drawn(), edges.pairs()) {
            return Err(SampleError::NoPairs { how });
        }
        for (hop, fanout) in self.fanouts.iter().enumerate() {
            let topology = edges.of_hop(self.set(hop + 1), hop + 1)?;
            match fanout {
                Fanout::Types(fanouts) if fanouts.len() != topology.relations() as usize => {
                    return Err(SampleError::Types {
                        hop: hop + 1,
                        found: fanouts.len(),
                        relations: topology.relations(),
                    });
                }
                Fanout::Types(_) | Fanout::Each(_) => {}
            }
        }
        Ok(())
    }

    /// The key of the draws of a hop (from 1, next to the seeds) for one type of edges (0 if edges
    /// have no types).
    fn key(&self, step: u32, hop: usize, kind: u16) -> u64 {
        let site = SITE | u32::from(kind) << 8 | hop as u32;
        mask_key(self.seed, step, site, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnnc_ir::kernel::vertex_hash;

    #[test]
    fn keys_are_these() {
        let rule = Rule::new(Kind::Neighbor, vec![Fanout::Each(2); 2], 0).unwrap();
        assert_eq!(rule.key(0, 1, 0), 0xf0d9_e411_7bb8_448f);
        assert_eq!(rule.key(0, 2, 0), 0xb108_6fac_b301_4fab);
        assert_eq!(vertex_hash(rule.key(0, 1, 0), 3), 0x73eb_27dd);
        assert_ne!(rule.key(0, 1, 0), rule.key(0, 1, 1));
    }
}

//! Stages, chunks and what is kept from one epoch to a later one (GNNPipe, section 3).
//!
//! A program with a [`Pipeline`] is that of one stage: all ranks of a group run it, each on its part of
//! the vertices, which is cut into chunks. The same chunk is worked on by a whole group at once. A stage may
//! hold several runs of layers, which chunks go through one after the other: so stages are a ring, in which the last
//! one hands its rows to the next run of the first one.

use serde::{Deserialize, Serialize};

/// Where a program stands in a pipeline. Rank `r` of `M` is in stage `r / W`, `W = M / stages`, and has
/// part `r % W` of the vertices: groups are runs of consecutive ranks, which lie inside a node where they
/// can. All communication but [`Instr::Send`](super::Instr::Send) and
/// [`Instr::Receive`](super::Instr::Receive) is among the ranks of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipeline {
    /// Number of stages.
    pub stages: u32,
    /// This program's, from 0.
    pub stage: u32,
    /// Chunks that every part is cut into.
    pub chunks: u32,
    /// Whether the order of the chunks is drawn anew for every epoch, the same on all ranks.
    pub shuffle: bool,
    /// Epochs after which [`Instr::Remember`](super::Instr::Remember) keeps new values: in those that are
    /// a multiple of it, counted from 1. At least 1.
    pub interval: u32,
}

impl Pipeline {
    /// Ranks of a group, of so many in all.
    pub fn width(&self, ranks: u32) -> u32 {
        (ranks / self.stages.max(1)).max(1)
    }
}

/// A stage beside this one in the ring of all stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbour {
    /// The stage after this one; the first one after the last one.
    Next,
    /// The stage before this one; the last one before the first one.
    Previous,
}

impl Neighbour {
    /// That of a stage of so many; none where there is no other one.
    pub fn of(self, stage: u32, stages: u32) -> Option<u32> {
        let step = match self {
            Self::Next => 1,
            Self::Previous => stages.saturating_sub(1),
        };
        (stages > 1).then(|| (stage + step) % stages)
    }

    /// The rank of the same part in that stage; none where there is no other stage.
    pub fn rank(self, pipeline: &Pipeline, ranks: u32, rank: u32) -> Option<u32> {
        let width = pipeline.width(ranks);
        let stage = self.of(pipeline.stage, pipeline.stages)?;
        Some(stage * width + rank % width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_a_ring() {
        let of = |with: Neighbour, stages| -> Vec<Option<u32>> {
            (0..stages).map(|stage| with.of(stage, stages)).collect()
        };
        assert_eq!(of(Neighbour::Next, 1), [None]);
        assert_eq!(of(Neighbour::Previous, 1), [None]);
        assert_eq!(of(Neighbour::Next, 3), [Some(1), Some(2), Some(0)]);
        assert_eq!(of(Neighbour::Previous, 3), [Some(2), Some(0), Some(1)]);
        let pipeline = Pipeline {
            stages: 2,
            stage: 1,
            chunks: 4,
            shuffle: true,
            interval: 1,
        };
        // Three ranks a stage.
        for with in [Neighbour::Next, Neighbour::Previous] {
            assert_eq!(with.rank(&pipeline, 6, 4), Some(1));
        }
    }
}

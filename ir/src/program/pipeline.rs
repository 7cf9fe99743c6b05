//! Stages, chunks and histories (GNNPipe, section 3).
//!
//! A program with a [`Pipeline`] is the program of one stage. All ranks of a group run it, each
//! on its part of the vertices, which is divided into chunks; the group works on one chunk at a
//! time. A stage may hold several runs of layers (virtual stages), so stages form a ring: the
//! last one hands rows to the next run of the first one.

use serde::{Deserialize, Serialize};

/// Position of a program in a pipeline. Rank `r` of `M` is in stage `r / W`, where `W = M /
/// stages`, and has part `r % W` of the vertices. Groups are runs of consecutive ranks and lie
/// inside a node if possible. All communication except [`Instr::Send`](super::Instr::Send) and
/// [`Instr::Receive`](super::Instr::Receive) stays in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pipeline {
    /// Number of stages.
    pub stages: u32,
    /// Stage of this program, from 0.
    pub stage: u32,
    /// Chunks per part.
    pub chunks: u32,
    /// Whether every epoch draws a new order of chunks, the same on all ranks.
    pub shuffle: bool,
    /// Epochs between updates of histories: [`Instr::Remember`](super::Instr::Remember) stores
    /// new rows in epochs that are a multiple of it, counted from 1. At least 1.
    pub interval: u32,
}

impl Pipeline {
    /// Ranks per group.
    pub fn width(&self, ranks: u32) -> u32 {
        (ranks / self.stages.max(1)).max(1)
    }
}

/// A neighbor of this stage in the ring of stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbour {
    /// The next stage; the first one follows the last.
    Next,
    /// The previous stage; the last one precedes the first.
    Previous,
}

impl Neighbour {
    /// The neighbor of `stage`; `None` if there is only one stage.
    pub fn of(self, stage: u32, stages: u32) -> Option<u32> {
        let step = match self {
            Self::Next => 1,
            Self::Previous => stages.saturating_sub(1),
        };
        (stages > 1).then(|| (stage + step) % stages)
    }

    /// The rank with the same part in the neighboring stage; `None` if there is only one stage.
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
        // Three ranks per stage.
        for with in [Neighbour::Next, Neighbour::Previous] {
            assert_eq!(with.rank(&pipeline, 6, 4), Some(1));
        }
    }
}

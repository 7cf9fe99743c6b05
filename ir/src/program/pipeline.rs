//! Stages, chunks and what is kept from one epoch to a later one (GNNPipe, section 3).
//!
//! A program with a [`Pipeline`] is that of one stage: all ranks of a group run it, each on its part of
//! the vertices, which is cut into chunks. The same chunk is worked on by a whole group at once.

use super::{Extent, Program, Ref};
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

/// A stage beside this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Neighbour {
    /// The stage after this one.
    Next,
    /// The stage before this one.
    Previous,
}

impl Neighbour {
    /// The rank of the same part in that stage; none beyond the ends.
    pub fn rank(self, pipeline: &Pipeline, ranks: u32, rank: u32) -> Option<u32> {
        let width = pipeline.width(ranks);
        match self {
            Self::Next => (pipeline.stage + 1 < pipeline.stages).then_some(rank + width),
            Self::Previous => rank.checked_sub(width).filter(|_| pipeline.stage > 0),
        }
    }
}

/// Rows that go to or come from another stage, of several tensors as one message: own rows of the chunk
/// at hand, all own rows outside of [`Instr::Chunks`](super::Instr::Chunks), tensor after tensor. Of a tensor
/// with fixed rows all of them go, which only happens outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Passage {
    /// The other stage.
    pub with: Neighbour,
    /// The tensors, by own rows, or with fixed ones.
    pub tensors: Vec<Ref>,
}

impl Passage {
    /// Floats of a vertex, and floats that are no vertex's, of all tensors together.
    pub fn floats(&self, program: &Program) -> (u64, u64) {
        let (mut row, mut fixed) = (0, 0);
        for at in &self.tensors {
            let buffer = program.buffer(at.buffer);
            match buffer.extent {
                Extent::Fixed(rows) => fixed += u64::from(rows) * u64::from(buffer.columns),
                _ => row += u64::from(buffer.columns),
            }
        }
        (row, fixed)
    }
}

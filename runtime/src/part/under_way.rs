//! A rank's part of a batch: its vertices, and the edges between its levels as kernels walk them.

use super::Edges;
use super::asked::Asked;
use super::walks::Layers;
use gnnc_graph::sample::{AllBlocks, Blocks, RankBatch, RankSet};
use gnnc_ir::program::BatchSizes;
use gnnc_ir::words::sampling::Drawn;
use gnnc_ir::words::types::BySet;
use std::collections::BTreeMap;

static NO_BLOCKS: Blocks = Blocks::NONE;

/// A rank's part of a batch that was drawn.
#[derive(Default)]
pub(super) struct UnderWay {
    /// Its number in the epoch.
    pub(super) number: u32,
    /// Changes with its lists.
    pub(super) version: u64,
    /// Seeds of all batches of its epoch, on all ranks.
    pub(super) of_epoch: u32,
    /// Its seeds on all ranks.
    pub(super) seeds: u32,
    /// Their weight in the mean of their losses.
    pub(super) weight: f64,
    /// Its rows; with several sets, the most that any of them has.
    pub(super) sizes: BatchSizes,
    pub(super) drawn: RankBatch,
    /// The edges of each set.
    pub(super) layers: Vec<Layers>,
    /// The numbers of each set, if a thread makes them that draws ahead.
    pub(super) numbers: Vec<BTreeMap<Drawn, Vec<f32>>>,
    /// Ranks that the model of each set goes on by; `None` after its last set.
    pub(super) distances: Vec<Option<u32>>,
    /// Its rows by owner.
    pub(super) asked: Asked,
    /// The lower levels of all ranks' parts.
    pub(super) all: AllBlocks,
    pub(super) all_layers: Layers,
}

impl UnderWay {
    /// The levels of a set.
    pub(super) fn blocks(&self, set: usize) -> &Blocks {
        self.drawn
            .sets
            .get(set)
            .map_or(&NO_BLOCKS, |set| &set.blocks)
    }

    /// Size in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let layers = self.layers.iter().flatten().chain(&self.all_layers);
        let edges = layers.flat_map(BySet::values).flatten().map(Edges::bytes);
        let of_set = |set: &RankSet| 12 * set.blocks.edges() + 4 * set.sizes.levels[0];
        let blocks: u64 = self.drawn.sets.iter().map(of_set).sum();
        let numbers = self.numbers.iter().flat_map(BTreeMap::values);
        let numbers = 4 * numbers.map(Vec::len).sum::<usize>();
        let lists = edges.sum::<usize>() + numbers + self.asked.bytes() + self.all.bytes();
        (lists + self.drawn.gathered.bytes()) as u64 + blocks
    }
}

//! Pipelines (GNNPipe, section 3): consecutive layers over stages, chunks of vertices through them; and
//! hybrids, whose stages are groups of ranks that split the graph. One stage of all ranks is graph parallelism
//! on chunks, groups of one rank are the pure pipeline.

use super::Place;
use crate::lower::stage::stage;
use crate::lower::{LowerError, Training};
use crate::stale::{form, stages};
use gnnc_ir::program::{Pipeline, Program};

/// How layers and vertices are divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Layers of each stage: runs of consecutive ones, at least one each.
    pub layers: Vec<u32>,
    /// Chunks that every part is cut into, at least 1.
    pub chunks: u32,
    /// Whether chunks come in another order in every epoch.
    pub shuffle: bool,
    /// Epochs for which a history stays as it is, at least 1.
    pub interval: u32,
}

impl Stages {
    /// Histories that stay for ten epochs, and four chunks a stage in an order that changes.
    pub fn new(layers: Vec<u32>) -> Self {
        let chunks = 4 * layers.len().max(1) as u32;
        Self {
            layers,
            chunks,
            shuffle: true,
            interval: 10,
        }
    }
}

/// Lowers the layers of one stage.
pub fn lower(training: &Training, place: &Place, number: u32) -> Result<Program, LowerError> {
    let Some(spec) = &place.stages else {
        return Err(LowerError::Illegal(format!(
            "placement `{}` needs the number of layers of each stage",
            place.placement
        )));
    };
    let count = spec.layers.len() as u32;
    if count == 0 || !place.ranks.is_multiple_of(count) {
        return Err(LowerError::Illegal(format!(
            "{} ranks cannot be divided into {count} stages of equal groups; give a number of stages that divides {}",
            place.ranks, place.ranks
        )));
    }
    for (what, number) in [
        ("chunks", spec.chunks),
        ("epochs between histories", spec.interval),
    ] {
        if number == 0 {
            return Err(LowerError::Illegal(format!(
                "a pipeline needs at least 1 for {what}, found 0"
            )));
        }
    }
    let stages = stages(&form(&training.source)?, &spec.layers)?;
    let Some(own) = stages.get(number as usize) else {
        return Err(LowerError::Internal(format!("stage {number} of {count}")));
    };
    let pipeline = Pipeline {
        stages: count,
        stage: number,
        chunks: spec.chunks,
        shuffle: spec.shuffle,
        interval: spec.interval,
    };
    stage(training, own, pipeline, place.ranks)
}

//! Pipelines (GNNPipe, section 3): consecutive layers over stages, chunks of vertices through them; and
//! hybrids, whose stages are groups of ranks that split the graph. One stage of all ranks is graph parallelism
//! on chunks, groups of one rank are the pure pipeline.

use super::Place;
use crate::lower::stage::stage;
use crate::lower::{LowerError, Training};
use crate::stale::{cuts, form, stages};
use gnnc_ir::plan::Placement;
use gnnc_ir::program::{Pipeline, Program};
use gnnc_ir::traffic::share;

/// How layers and vertices are divided.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stages {
    /// Number of stages; 0 where it is still to be chosen.
    pub count: u32,
    /// Layers of each stage: runs of consecutive ones, at least one each. None where they are still to be
    /// divided.
    pub layers: Vec<u32>,
    /// Chunks that every part is cut into, at least 1; 0 where there are to be four a stage.
    pub chunks: u32,
    /// Whether chunks come in another order in every epoch.
    pub shuffle: bool,
    /// Epochs for which a history stays as it is, at least 1.
    pub interval: u32,
}

impl Stages {
    /// Histories that stay for ten epochs, and four chunks a stage in an order that changes; layers are
    /// still to be divided.
    pub fn new(count: u32) -> Self {
        Self {
            count,
            layers: Vec::new(),
            chunks: 4 * count.max(1),
            shuffle: true,
            interval: 10,
        }
    }

    /// Those of a placement on so many ranks where nothing else is said: a stage a rank, or of a hybrid as
    /// many as are best.
    pub fn of(placement: Placement, ranks: u32) -> Self {
        match placement {
            Placement::Hybrid => Self {
                count: 0,
                chunks: 0,
                ..Self::new(1)
            },
            _ => Self::new(ranks),
        }
    }

    /// With so many layers in each stage.
    pub fn with_layers(self, layers: Vec<u32>) -> Self {
        Self { layers, ..self }
    }

    /// What speaks against numbers that are none the less possible, in so many epochs.
    pub fn warnings(&self, epochs: u32) -> Vec<String> {
        let (count, chunks, interval) = (self.count, self.chunks, self.interval);
        let mut found = Vec::new();
        if (1..count).contains(&chunks) {
            found.push(format!(
                "with {chunks} chunks for {count} stages, stages wait for each other more than half of the \
                 time; four chunks a stage are usual"
            ));
        }
        if interval > epochs {
            found.push(format!(
                "histories stay for {interval} epochs, but there are only {epochs}: all of them read what \
                 the first weights gave"
            ));
        }
        found
    }

    /// Ranks of a stage, of so many in all.
    pub fn width(&self, ranks: u32) -> u32 {
        (ranks / self.count.max(1)).max(1)
    }
}

/// Lowers a model for its stages.
pub fn lower(training: &Training, place: &Place) -> Result<Vec<Program>, LowerError> {
    let Some(spec) = &place.stages else {
        return Err(LowerError::Illegal(format!(
            "placement `{}` needs the number of layers of each stage",
            place.placement
        )));
    };
    let count = spec.count;
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
    let form = form(&training.source)?;
    let layers = match spec.layers.len() {
        0 => even(cuts(&form).len() as u32 + 1, count),
        _ => spec.layers.clone(),
    };
    if layers.len() as u32 != count {
        return Err(LowerError::Illegal(format!(
            "layers of {} stages were given for {count} stages",
            layers.len()
        )));
    }
    let stages = stages(&form, &layers)?;
    let program = |(number, own)| {
        let pipeline = Pipeline {
            stages: count,
            stage: number,
            chunks: spec.chunks,
            shuffle: spec.shuffle,
            interval: spec.interval,
        };
        stage(training, own, pipeline, place.ranks)
    };
    (0..).zip(&stages).map(program).collect()
}

/// So many layers for each stage, as equally as they can be divided.
fn even(layers: u32, stages: u32) -> Vec<u32> {
    (0..stages)
        .map(|stage| share(layers, stages, stage).len() as u32)
        .collect()
}

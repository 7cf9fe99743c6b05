//! Pipelines (GNNPipe, section 3): consecutive layers on stages, through which chunks of vertices
//! pass; and hybrids, whose stages are groups of ranks that divide the graph. A single stage of all
//! ranks is graph parallelism on chunks; groups of one rank are the pure pipeline.

use super::PlacementSpec;
use crate::error::LowerError;
use crate::lower::Training;
use crate::lower::stage::stage;
use crate::stale::{StaleError, cuts, form, stages, sums_features};
use gnnc_ir::Graph;
use gnnc_ir::plan::{Knobs, Placement};
use gnnc_ir::program::{Pipeline, Program};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::words::types::share;

/// How layers and vertices are divided.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stages {
    /// Number of stages; 0 if it is yet to be chosen.
    pub count: u32,
    /// Runs of consecutive layers per stage, at least 1 (virtual stages). Run `b` of stage `s` is
    /// number `b * count + s` overall. Chunks go through the stages once per run.
    pub virtual_stages: u32,
    /// Layers of each run in order, at least one each. Empty if they are yet to be divided.
    pub layers: Vec<u32>,
    /// Chunks per part, at least 1; 0 means four per stage.
    pub chunks: u32,
    /// Whether the order of chunks changes every epoch.
    pub shuffle: bool,
    /// Epochs between updates of a history, at least 1.
    pub interval: u32,
}

impl Stages {
    /// Histories that last ten epochs, four chunks per stage in a changing order; layers are yet to
    /// be divided.
    pub fn new(count: u32) -> Self {
        Self {
            count,
            virtual_stages: 1,
            layers: Vec::new(),
            chunks: 4 * count.max(1),
            shuffle: true,
            interval: 10,
        }
    }

    /// The stages of a placement: one per rank unless there is a number of them; for a hybrid, as
    /// many as are best.
    pub(super) fn of(spec: &PlacementSpec) -> Self {
        let knobs = &spec.knobs;
        let all = match (knobs.stages, spec.placement) {
            (Some(count), _) => Self::new(count),
            (None, Placement::Hybrid) => Self {
                count: 0,
                chunks: 0,
                ..Self::new(1)
            },
            (None, _) => Self::new(spec.ranks),
        };
        Self {
            virtual_stages: knobs.virtual_stages.unwrap_or(all.virtual_stages),
            layers: knobs.layers.clone(),
            chunks: knobs.chunks.unwrap_or(all.chunks),
            shuffle: knobs.shuffle.unwrap_or(all.shuffle),
            interval: knobs.interval.unwrap_or(all.interval),
            ..all
        }
    }

    /// Warnings about numbers that are possible but unwise, for a run of `epochs` epochs.
    pub fn warnings(&self, epochs: u32) -> Vec<String> {
        let (count, chunks, interval) = (self.count, self.chunks, self.interval);
        let mut found = Vec::new();
        if (1..count).contains(&chunks) {
            found.push(format!(
                "with {} for {count} stages, stages wait for each other more than half of the \
                 time; four chunks per stage are usual",
                counted(chunks, "chunk")
            ));
        }
        if interval > epochs {
            found.push(format!(
                "histories are updated every {interval} epochs, but there are only {epochs}: all epochs read rows \
                 computed with the initial weights"
            ));
        }
        found
    }

    /// Ranks per stage, out of `ranks`.
    pub fn width(&self, ranks: u32) -> u32 {
        (ranks / self.count.max(1)).max(1)
    }
}

/// The knobs that give these stages.
impl From<Stages> for Knobs {
    fn from(stages: Stages) -> Self {
        Self {
            stages: Some(stages.count),
            virtual_stages: Some(stages.virtual_stages),
            layers: stages.layers,
            interval: Some(stages.interval),
            shuffle: Some(stages.shuffle),
            chunks: Some(stages.chunks),
            ..Self::default()
        }
    }
}

/// The form that is divided into stages. It aggregates features before it multiplies them if
/// rewriting found that to be cheaper.
///
/// # Errors
/// Why the model has no such form.
pub fn pipeline_form(training: &Training) -> Result<Graph, StaleError> {
    form(&training.source, sums_features(&training.form))
}

/// Lowers a model for its stages.
pub fn lower(training: &Training, spec: &PlacementSpec) -> Result<Vec<Program>, LowerError> {
    let given = Stages::of(spec);
    let Stages {
        count,
        virtual_stages,
        ..
    } = given;
    if count == 0 || !spec.ranks.is_multiple_of(count) {
        return Err(LowerError::Illegal(format!(
            "{} cannot be divided into {count} equal stages; give a number of stages that divides {}",
            counted(spec.ranks, "rank"),
            spec.ranks
        )));
    }
    for (what, number) in [
        ("virtual stages per stage", virtual_stages),
        ("chunks", given.chunks),
        ("epochs between updates of histories", given.interval),
    ] {
        if number == 0 {
            return Err(LowerError::Illegal(format!(
                "a pipeline has at least 1 for {what}, found 0"
            )));
        }
    }
    if virtual_stages > 1 && count == 1 {
        return Err(LowerError::Illegal(format!(
            "found {virtual_stages} virtual stages for a single stage; use at least 2 stages, or 1 virtual stage"
        )));
    }
    let form = pipeline_form(training)?;
    let (runs, listed) = (
        count.saturating_mul(virtual_stages),
        given.layers.len() as u64,
    );
    if listed > 0 && listed != u64::from(runs) {
        let each = match virtual_stages {
            1 => String::new(),
            _ => format!(" with {} each", counted(virtual_stages, "virtual stage")),
        };
        return Err(LowerError::Illegal(format!(
            "found {listed} numbers of layers for {}{each}, expected {runs}",
            counted(count, "stage")
        )));
    }
    let found = cuts(&form).len() as u32 + 1;
    if runs > found {
        return Err(LowerError::Stale(StaleError::Stages {
            stages: count,
            virtual_stages,
            layers: found,
        }));
    }
    let layers = match listed {
        0 => even(found, runs),
        _ => given.layers.clone(),
    };
    let stages = stages(&form, count, &layers)?;
    let program = |(number, own): (u32, &Vec<_>)| {
        let pipeline = Pipeline {
            stages: count,
            stage: number,
            chunks: given.chunks,
            shuffle: given.shuffle,
            interval: given.interval,
        };
        stage(training, own, pipeline, spec.ranks)
    };
    (0..).zip(&stages).map(program).collect()
}

/// Layers per run, divided as evenly as possible.
fn even(layers: u32, runs: u32) -> Vec<u32> {
    (0..runs)
        .map(|run| share(layers, runs, run).len() as u32)
        .collect()
}

//! The form of a model for pipelines (GNNPipe, sections 3 and 5): loops are unrolled, and
//! aggregations read vertices of later chunks as they were in an earlier epoch.
//!
//! It computes a different function than the model, so it is used only where permitted (relaxation
//! *stale embeddings*). [`gnnc_ir::Op::Blend`] defines what it computes, for any number of stages
//! or ranks. A stage is a part of this form, and its gradient is the gradient of this form with
//! histories held constant.

mod blend;
mod reorder;
mod stages;
mod unroll;

pub use reorder::sums_features;
pub use stages::{Cut, Run, cuts, stages};
pub use unroll::unrolled;

use gnnc_ir::Graph;
use gnnc_ir::graph::infer::TypeError;
use gnnc_ir::words::spelling::counted;

/// Why a model cannot run in a pipeline.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StaleError {
    /// A stack that is not read element by element.
    #[error("`{0}` reads all layers of a loop at once; a pipeline needs them one by one")]
    Stack(String),
    /// An aggregation of several tensors' products with weights.
    #[error(
        "`{0}` aggregates a sum of products of several tensors with weights, so its history would depend on old weights; aggregate each product separately, or use another placement"
    )]
    OldWeight(String),
    /// A statistic over all vertices between layers.
    #[error(
        "`{0}` needs a sum over all vertices at once, but a pipeline processes chunks of vertices one by one; use layer_norm instead of a norm over the batch"
    )]
    Batch(String),
    /// Rows of other vertices are read at a time when chunks have them in another state.
    #[error(
        "`{0}` reads neighbor rows outside the chunks, where they differ from the rows that edges read; use another placement"
    )]
    Chunks(String),
    /// A parameter read by layers of several stages, or of several runs of a stage.
    #[error(
        "parameter `{0}` is shared by layers of {1} and of {2}; give each layer its own, or use fewer stages{3}"
    )]
    Shared(String, String, String, &'static str),
    /// More stages than the model has places to cut.
    #[error("{}", too_few(*.stages, *.virtual_stages, *.layers))]
    Stages {
        /// Stages requested.
        stages: u32,
        /// Runs of layers per stage.
        virtual_stages: u32,
        /// Layers of the model.
        layers: u32,
    },
    /// The stages' layers are not those of the model.
    #[error(
        "found {found:?} layers in the stages, expected at least 1 each and {layers} in total, as in the model"
    )]
    Layers {
        /// Layers of each run.
        found: Vec<u32>,
        /// Layers of the model.
        layers: u32,
    },
    /// The resulting graph is inconsistent, which is a bug.
    #[error("bug in the form of a pipeline: {0}")]
    Type(#[from] TypeError),
}

fn too_few(stages: u32, virtual_stages: u32, layers: u32) -> String {
    match virtual_stages {
        0 | 1 => format!(
            "found {}, but the model has only {} to divide; use at most {}",
            counted(stages, "stage"),
            counted(layers, "layer"),
            counted(layers, "stage")
        ),
        _ => format!(
            "found {} with {} each, but the model has only {} to divide; use at most {} in total",
            counted(stages, "stage"),
            counted(virtual_stages, "virtual stage"),
            counted(layers, "layer"),
            counted(layers, "virtual stage")
        ),
    }
}

/// The pipeline form of a forward graph, whose results are the loss and the logits. Histories are
/// numbered in layer order. With `features_first`, aggregations of features precede their products
/// with weights, so that those without dropout are made once and for all.
///
/// # Errors
/// Why there is no such form.
pub fn form(graph: &Graph, features_first: bool) -> Result<Graph, StaleError> {
    let graph = reorder::weights_last(&unrolled(graph)?, features_first)?;
    blend::blended(&graph)
}

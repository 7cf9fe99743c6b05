//! The form of a model that runs in a pipeline (GNNPipe, sections 3 and 5): loops written out, and
//! aggregations that read, of vertices whose chunk comes later, what they were in an earlier epoch.
//!
//! It is another function than the model, so it is used only where it is permitted (relaxation
//! *stale embeddings*). What it computes is said by [`gnnc_ir::Op::Blend`], whatever the number of stages or
//! ranks; a stage is a part of this form, and its gradient is the gradient of this form with histories held
//! constant.

mod blend;
mod reorder;
mod stages;
mod unroll;

pub use stages::{Cut, Run, cuts, stages};
pub use unroll::unrolled;

use gnnc_ir::Graph;
use gnnc_ir::graph::infer::TypeError;

/// Why a model cannot run in a pipeline.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StaleError {
    /// A stack that is not read element by element.
    #[error("`{0}` reads all layers of a loop at once; a pipeline needs them one by one")]
    Stack(String),
    /// An aggregation of products with weights of several tensors.
    #[error(
        "`{0}` aggregates a sum of products of several tensors with weights, so its history would depend on old weights; aggregate each product separately, or use another placement"
    )]
    OldWeight(String),
    /// A statistic over all vertices between layers.
    #[error(
        "`{0}` needs a sum over all vertices at once, but a pipeline processes chunks of vertices one by one; use layer_norm instead of a norm over the batch"
    )]
    Batch(String),
    /// Rows of other vertices that are read where chunks have them in another state.
    #[error(
        "`{0}` reads neighbor rows outside the chunks, where they differ from the rows that edges read; use another placement"
    )]
    Chunks(String),
    /// A parameter that layers of several stages, or runs of a stage, read.
    #[error(
        "parameter `{0}` is shared by layers of {1} and of {2}; give each layer its own, or use fewer stages{3}"
    )]
    Shared(String, String, String, &'static str),
    /// More stages than there are places to cut.
    #[error("{}", too_few(*.stages, *.turns, *.layers))]
    Stages {
        /// Stages asked for.
        stages: u32,
        /// Runs of layers of each.
        turns: u32,
        /// Layers that there are.
        layers: u32,
    },
    /// Layers of stages that are not those of the model.
    #[error(
        "found {found:?} layers in the stages, expected at least 1 each and {layers} in total, as in the model"
    )]
    Layers {
        /// Layers of each run.
        found: Vec<u32>,
        /// Layers that there are.
        layers: u32,
    },
    /// A graph that does not fit together: a bug.
    #[error("bug in the form of a pipeline: {0}")]
    Type(#[from] TypeError),
}

fn too_few(stages: u32, turns: u32, layers: u32) -> String {
    match turns {
        0 | 1 => format!(
            "found {stages} stages, but the model has only {layers} layers to divide; use at most \
             {layers} stages"
        ),
        _ => format!(
            "found {stages} stages with {turns} virtual stages each, but the model has only {layers} layers \
             to divide; use at most {layers} virtual stages in total"
        ),
    }
}

/// The form of a forward graph, whose results are the loss and the logits. Histories are numbered in the
/// order of the layers.
///
/// # Errors
/// Why there is none.
pub fn form(graph: &Graph) -> Result<Graph, StaleError> {
    let graph = reorder::weights_last(&unrolled(graph)?)?;
    blend::blended(&graph)
}

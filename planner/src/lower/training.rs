//! A model with all that lowering reads.

use super::canonical::canonical;
use super::sampled::OnBatches;
use crate::error::LowerError;
use crate::layout::Graphs;
use gnnc_ir::Graph;
use gnnc_ir::graph::autodiff::TrainingGraph;
use gnnc_ir::graph::model::TrainSettings;
use gnnc_ir::graph::op::Loss;
use std::sync::OnceLock;

/// The input of lowering.
#[derive(Clone, Debug)]
pub struct Training {
    /// The model as written, except that attention scores are computed on vertices if that is
    /// cheaper. Results: the loss and the logits.
    pub source: Graph,
    /// The model to be differentiated. Results: the loss and the logits.
    pub form: Graph,
    /// Forward graph without dropout. Results: the loss and the logits.
    pub forward: Graph,
    /// Forward and backward graph.
    pub backward: TrainingGraph,
    /// The loss.
    pub loss: Loss,
    /// Optimizer and weight decay.
    pub settings: TrainSettings,
    /// Whether the input features are stored as nonzeros.
    pub sparse_features: bool,
    /// Whether the features are an identity matrix.
    pub identity_features: bool,
    /// Whether edges of the graph have types.
    pub typed: bool,
    /// What else is needed to train on sampled batches, if `backward` is over such.
    pub batches: Option<OnBatches>,
    /// The graphs in the form that is lowered, once a candidate has needed them. Change the other fields only in a clone,
    /// which does not have these.
    pub canonical: Once<Result<Graphs, LowerError>>,
}

impl Training {
    /// The graphs in the form that is lowered, ready for layouts.
    pub(super) fn graphs(&self) -> Result<&Graphs, LowerError> {
        let found = self.canonical.get_or_init(|| {
            Ok(Graphs {
                step: canonical(&self.backward.graph, self.sparse_features)?,
                grads: self.backward.grads.clone(),
                eval: canonical(&self.forward, self.sparse_features)?,
            })
        });
        found.as_ref().map_err(Clone::clone)
    }
}

/// What is computed from the other fields of a struct when it is first needed. A clone computes it anew, as its fields may
/// be changed.
#[derive(Debug)]
pub struct Once<T>(OnceLock<T>);

impl<T> Once<T> {
    /// The value. Other threads that want it wait for the first, so `compute` must not leave work to rayon.
    pub fn get_or_init(&self, compute: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(compute)
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> Clone for Once<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

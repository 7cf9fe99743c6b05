//! Losses and metrics.

use crate::graph::op;
use crate::program::Ref;
use serde::{Deserialize, Serialize};

/// The rank's share of the loss, and the derivative by the logits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// Which loss.
    pub loss: op::Loss,
    /// Logits of own vertices.
    pub logits: Ref,
    /// The loss, one float.
    pub out: Option<Ref>,
    /// The derivative, same shape as the logits.
    pub grad: Option<Ref>,
    /// Classes.
    pub classes: u32,
}

/// What an evaluation finds, [`METRICS`] floats: correct and all vertices of the training,
/// validation and test set, then the sum of the validation losses and how many they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Which loss, hence which kind of labels.
    pub loss: op::Loss,
    /// Logits of own vertices.
    pub logits: Ref,
    /// The counts.
    pub out: Ref,
    /// Classes.
    pub classes: u32,
}

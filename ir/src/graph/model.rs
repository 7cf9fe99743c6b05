//! A checked model: its operator graph and its training settings.

use crate::graph::op::Loss;
use crate::graph::{Graph, NodeId};
use crate::words::metric::Metric;
use crate::words::sampling::SamplingSettings;
use crate::words::schedule::Schedule;
use crate::words::spelling::one_of;
use crate::words::types::{Rows, Type};
use crate::workload::{GraphFacts, Workload};
use serde::{Deserialize, Serialize};

/// The result of checking a `.gir` file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Model {
    /// The model's name.
    pub name: String,
    /// The name of its data graph.
    pub graph_name: String,
    /// The operators; results are loss and logits.
    pub graph: Graph,
    /// The loss function.
    pub loss: Loss,
    /// Numeric and boolean parameters with their values (booleans as 0 and 1), in source order.
    pub parameters: Vec<(String, f64)>,
    /// How to train it.
    pub train: TrainSettings,
    /// The tensors that the model computes and gives a name, in source order. Of several of a name, only the
    /// last one is here.
    #[serde(skip)]
    pub bindings: Vec<Binding>,
}

/// A name that a model gives a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The name.
    pub name: String,
    /// The tensor, a node of the model's graph.
    pub tensor: NodeId,
}

impl Model {
    /// The forward graph of a named tensor, which is its only result.
    ///
    /// # Errors
    /// A name of no tensor, or a tensor that has no row for each vertex.
    pub fn forward_to(&self, name: &str) -> Result<Graph, NoRows> {
        let names = || self.bindings.iter().map(|own| own.name.as_str());
        let found = self.bindings.iter().find(|own| own.name == name);
        let Some(found) = found else {
            return Err(NoRows::Unknown {
                name: name.to_owned(),
                known: one_of(names()),
            });
        };
        let ty = self.graph.ty(found.tensor);
        if ty.rows != Rows::Vertices || ty.stack != 0 {
            return Err(NoRows::Other {
                name: name.to_owned(),
                ty,
            });
        }
        Ok(Graph {
            results: vec![found.tensor],
            ..self.graph.clone()
        })
    }

    /// Hash of the operators, the loss and the optimizer. The number of epochs and the seed do
    /// not change it.
    pub fn fingerprint(&self) -> u64 {
        let parts = (
            &self.graph,
            &self.loss,
            &self.train.optimizer,
            self.train.weight_decay,
        );
        // Without clipping, hash what was hashed before `clip_norm` existed, so that old
        // fingerprints stay valid.
        let text = match self.train.clip_norm {
            None => serde_json::to_string(&parts),
            Some(clip) => serde_json::to_string(&(parts, clip)),
        };
        // Cannot fail: the types derive `Serialize`, and all map keys are text.
        let text = text.unwrap_or_default();
        // FNV-1a, which is the same on every machine.
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}

/// Why a name stands for no tensor with a row for each vertex.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRows {
    /// The model gives the name to no tensor.
    #[error("the model computes no tensor `{name}`, expected {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// The rows of the tensor are no vertices.
    #[error("`{name}` is a tensor {ty}, expected one with a row for each vertex")]
    Other {
        /// The name.
        name: String,
        /// The type of the tensor.
        ty: Type,
    },
}

/// The `train` block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainSettings {
    /// How parameters are updated.
    pub optimizer: Optimizer,
    /// Weight decay of the parameters that do not have their own.
    pub weight_decay: f64,
    /// Bound on the Euclidean norm of the gradient of all parameters together, before weight
    /// decay is added; longer gradients are scaled to it. `None` does not clip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f64>,
    /// How the learning rate changes over epochs.
    #[serde(default, skip_serializing_if = "Schedule::is_constant")]
    pub schedule: Schedule,
    /// Passes over the training vertices.
    pub epochs: u32,
    /// Stop after this many epochs without a better validation loss, or score of `metric`.
    pub patience: Option<u32>,
    /// The score that is reported and chooses the best epoch. By default the validation loss chooses, and the labels say
    /// what is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// Seed of every random draw.
    pub seed: u64,
    /// Relaxations that a plan may use.
    pub allow: Vec<Relaxation>,
    /// Sampled batches, for placements that train on them.
    #[serde(default, skip_serializing_if = "SamplingSettings::is_open")]
    pub sampling: SamplingSettings,
}

/// How parameters are updated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case")]
pub enum Optimizer {
    /// Stochastic gradient descent; weight decay is added to the gradient.
    Sgd {
        /// Learning rate.
        lr: f64,
        /// Fraction of the previous step that is added again.
        momentum: f64,
    },
    /// Adam (Kingma and Ba, 2015); weight decay is added to the gradient.
    Adam {
        /// Learning rate.
        lr: f64,
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added to the root of the second moment.
        eps: f64,
    },
    /// AdamW (Loshchilov and Hutter, 2019): weight decay is separate from the gradient.
    #[serde(rename = "adamw")]
    AdamW {
        /// Learning rate.
        lr: f64,
        /// Decay of the first moment.
        beta1: f64,
        /// Decay of the second moment.
        beta2: f64,
        /// Added to the root of the second moment.
        eps: f64,
    },
    /// Adagrad (Duchi, Hazan and Singer, 2011); weight decay is added to the gradient.
    Adagrad {
        /// Learning rate.
        lr: f64,
        /// Added to the root of the sum of squares.
        eps: f64,
    },
}

/// A change to the model or its gradients that a plan makes only with permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relaxation {
    /// All transforms first, then all aggregations.
    Decouple,
    /// Embeddings or weights of earlier epochs.
    Stale,
    /// Sampled neighbors.
    Sample,
    /// Rows that travel between ranks in fewer bits.
    Quantise,
}

/// Where the data graph of a model comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum GraphSource {
    /// A file, which is enough to train.
    Data {
        /// The name of the graph.
        name: String,
        /// The file as written, relative to the `.gir` file.
        path: String,
        /// How to read it.
        options: DataOptions,
    },
    /// Statistics, which are enough to plan.
    Statistics(Workload),
}

/// Options for reading a graph file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataOptions {
    /// Scale each vertex's features to sum 1.
    pub normalize_features: bool,
    /// Replace each vertex's features by its column of an identity matrix.
    pub identity_features: bool,
    /// Predict links instead, with so many pairs without one for each link to train on.
    pub links: Option<u32>,
}

impl Default for TrainSettings {
    fn default() -> Self {
        Self {
            optimizer: Optimizer::Adam {
                lr: 0.01,
                beta1: 0.9,
                beta2: 0.999,
                eps: 1e-8,
            },
            weight_decay: 0.0,
            clip_norm: None,
            schedule: Schedule::Constant,
            epochs: 200,
            patience: None,
            metric: None,
            seed: 0,
            allow: Vec::new(),
            sampling: SamplingSettings::default(),
        }
    }
}

impl Optimizer {
    /// The learning rate.
    pub fn learning_rate(&self) -> f64 {
        match *self {
            Self::Sgd { lr, .. } | Self::Adagrad { lr, .. } => lr,
            Self::Adam { lr, .. } | Self::AdamW { lr, .. } => lr,
        }
    }
}

impl Relaxation {
    /// Every relaxation.
    pub const ALL: [Self; 4] = [Self::Decouple, Self::Stale, Self::Sample, Self::Quantise];

    /// Its name in the language and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decouple => "decouple",
            Self::Stale => "stale",
            Self::Sample => "sample",
            Self::Quantise => "quantise",
        }
    }
}

impl GraphSource {
    /// The name of the graph.
    pub fn name(&self) -> &str {
        match self {
            Self::Data { name, .. } => name,
            Self::Statistics(workload) => &workload.name,
        }
    }

    /// Facts known without reading a file.
    pub fn facts(&self) -> Option<GraphFacts> {
        match self {
            Self::Data { .. } => None,
            Self::Statistics(w) => Some(w.facts()),
        }
    }
}

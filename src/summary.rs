//! What a training run ends with.

use gnnc_graph::Labels;
use gnnc_runtime::{Metrics, Staleness};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// How predictions are scored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// The share of vertices whose class is predicted: one class a vertex.
    Accuracy,
    /// The micro-averaged F1 score: several labels a vertex.
    MicroF1,
}

impl Metric {
    /// The score that fits these labels.
    pub fn of(labels: &Labels) -> Self {
        match labels {
            Labels::None | Labels::Single(_) => Self::Accuracy,
            Labels::Multi { .. } => Self::MicroF1,
        }
    }

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::MicroF1 => "micro-F1",
        }
    }

    /// Its name in keys of JSON and columns of CSV.
    pub fn key(self) -> &'static str {
        match self {
            Self::Accuracy => "accuracy",
            Self::MicroF1 => "micro_f1",
        }
    }
}

/// How well a run predicts, as shares of 1. A score is absent if there are no vertices to count.
///
/// Serialised as `metric`, `val_METRIC` and `test_METRIC`, where METRIC is [`Metric::key`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// What the numbers are.
    pub metric: Metric,
    /// Of the validation vertices.
    pub val: Option<f64>,
    /// Of the test vertices.
    pub test: Option<f64>,
}

impl Scores {
    /// The scores of an evaluation.
    pub fn new(metric: Metric, metrics: &Metrics) -> Self {
        Self {
            metric,
            val: metrics.val.share(),
            test: metrics.test.share(),
        }
    }
}

impl Serialize for Scores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let key = self.metric.key();
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("metric", key)?;
        map.serialize_entry(&format!("val_{key}"), &self.val)?;
        map.serialize_entry(&format!("test_{key}"), &self.test)?;
        map.end()
    }
}

/// What a run ends with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the model.
    pub model: String,
    /// Name of the data graph.
    pub graph: String,
    /// Ranks.
    pub workers: u32,
    /// Threads of each rank.
    pub threads: usize,
    /// Seed of every random draw; that of the checkpoint after a resume.
    pub seed: u64,
    /// Epochs done, those before a resume included.
    pub epochs: u64,
    /// Loss of the last epoch.
    pub train_loss: f64,
    /// Scores at the epoch of the lowest validation loss; without validation vertices those of the
    /// last evaluation.
    #[serde(flatten)]
    pub scores: Scores,
    /// Epoch of the lowest validation loss; none without validation vertices.
    pub best_epoch: Option<u64>,
    /// Median wall time of a training epoch in seconds.
    pub epoch_seconds: f64,
    /// Largest memory of a rank, in bytes.
    pub peak_memory_bytes: u64,
    /// Payload bytes that all ranks sent in the training epochs of this run.
    pub bytes_sent: u64,
    /// The same as the program predicts it.
    pub bytes_predicted: u64,
    /// Bytes of the worst rank's tensors that rest on the host.
    #[serde(skip_serializing_if = "is_zero")]
    pub host_memory_bytes: u64,
    /// Bytes that all ranks copy from and to their hosts in an epoch.
    #[serde(skip_serializing_if = "is_zero")]
    pub epoch_moved_bytes: u64,
    /// Bytes of the exchanges that may be left out, if none had been.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_skippable: u64,
    /// Of these, the bytes that were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_skipped: u64,
    /// How old what was read was; none where nothing of an earlier epoch may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness: Option<Staleness>,
    /// The epoch, counted from 0, in which a run that went on had to send all copies anew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies_anew_at: Option<u64>,
    /// Whether patience ended the run.
    pub stopped_early: bool,
    /// Whether the run was asked to stop before it was done.
    pub interrupted: bool,
    /// What the graph file has and no model can use, such as edge weights.
    pub not_used: Vec<String>,
    /// Losses of this run's epochs.
    #[serde(skip)]
    pub losses: Vec<f64>,
    /// Wall times of this run's epochs, in seconds.
    #[serde(skip)]
    pub seconds: Vec<f64>,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

//! The summary of a training run.

use gnnc_ir::words::metric::Metric;
use gnnc_ir::words::sampling::Fanout;
use gnnc_runtime::{Judged, Metrics, Staleness, Tensor};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// Scores of a run. A score is absent where nothing can be scored, such as in an empty split.
///
/// Serialized as `metric`, `train_METRIC`, `val_METRIC` and `test_METRIC`, where METRIC is [`Metric::key`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// The kind of score.
    pub metric: Metric,
    /// Score on the training vertices.
    pub train: Option<f64>,
    /// Score on the validation vertices.
    pub val: Option<f64>,
    /// Score on the test vertices.
    pub test: Option<f64>,
}

impl Scores {
    /// The scores of an evaluation: those that were judged by, or those of its counts, whose metric is `counted`.
    pub fn new(counted: Metric, metrics: &Metrics, judged: Option<&Judged>) -> Self {
        let (metric, [train, val, test]) = match judged {
            Some(judged) => (judged.metric, judged.scores),
            None => {
                let counts = [metrics.train, metrics.val, metrics.test];
                (counted, counts.map(|count| count.share()))
            }
        };
        Self {
            metric,
            train,
            val,
            test,
        }
    }

    /// Those of the training, validation and test vertices.
    pub fn each(&self) -> [Option<f64>; 3] {
        [self.train, self.val, self.test]
    }
}

impl Serialize for Scores {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let key = self.metric.key();
        let mut map = serializer.serialize_map(Some(4))?;
        map.serialize_entry("metric", key)?;
        for (set, score) in ["train", "val", "test"].iter().zip(self.each()) {
            map.serialize_entry(&format!("{set}_{key}"), &score)?;
        }
        map.end()
    }
}

/// How a run came to its target, or how far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TargetRun {
    /// The score of the validation vertices to reach.
    pub target: f64,
    /// Whether an evaluation reached it; that was then the last one.
    pub reached: bool,
    /// The best score of the validation vertices in this run; `None` if nothing was scored.
    pub score: Option<f64>,
    /// The epoch of that score.
    pub epoch: u64,
    /// Optimizer steps up to that score.
    pub steps: u64,
    /// Wall time of this run's epochs, in seconds.
    pub seconds: f64,
    /// Wall time of their evaluations, in seconds.
    pub evaluation_seconds: f64,
}

/// Numbers of merges that a run has timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredMerges {
    /// The number that the run trains with in the end.
    pub merges: u32,
    /// Seconds of an epoch with 0, 1, 2, ... merges.
    pub epoch_seconds: Vec<f64>,
}

/// How long a process waited for others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Waited {
    /// Name of the host that it ran on.
    pub host: String,
    /// Of the time of all epochs and evaluations, the share in which its ranks waited for messages.
    pub share: f64,
}

/// The parameters of a training run.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// Those of the last epoch.
    pub last: Vec<Tensor>,
    /// Those of the best epoch; `None` without validation vertices, and if the best epoch was before a resume.
    pub best: Option<Vec<Tensor>>,
}

/// The summary of a training run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// Name of the model.
    pub model: String,
    /// Name of the data graph.
    pub graph: String,
    /// Number of ranks.
    pub workers: u32,
    /// Threads per rank.
    pub threads: usize,
    /// Seed of all random draws; after a resume, the checkpoint's.
    pub seed: u64,
    /// Epochs done, including those before a resume.
    pub epochs: u64,
    /// Loss of the last epoch.
    pub train_loss: f64,
    /// Scores at the best epoch; without validation vertices, at the last
    /// evaluation.
    #[serde(flatten)]
    pub scores: Scores,
    /// Epoch with the lowest validation loss, or the best validation score of `chosen_by`; `None` without
    /// validation vertices.
    pub best_epoch: Option<u64>,
    /// The metric that chose the best epoch, if not the validation loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen_by: Option<Metric>,
    /// Fanouts of the batches that the scores were computed on; none if it was the whole graph.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub eval_fanouts: Vec<Fanout>,
    /// Median wall time of a training epoch, in seconds.
    pub epoch_seconds: f64,
    /// Peak memory of the worst rank, in bytes.
    pub peak_memory_bytes: u64,
    /// Payload bytes that all ranks sent in this run's training epochs.
    pub bytes_sent: u64,
    /// Those of halo rows between nodes, if rows cross to a node once.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_crossed: u64,
    /// All bytes sent, as the program predicts.
    pub bytes_predicted: u64,
    /// Bytes of tensors offloaded to the host, on the worst rank.
    #[serde(skip_serializing_if = "is_zero")]
    pub host_memory_bytes: u64,
    /// Bytes that all ranks copy to and from their hosts per epoch.
    #[serde(skip_serializing_if = "is_zero")]
    pub epoch_moved_bytes: u64,
    /// Bytes of the exchanges that may be skipped, if none were.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_skippable: u64,
    /// Of these, the bytes that were skipped.
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_skipped: u64,
    /// Batches that were larger than the memory laid out for them, which was then laid out anew.
    #[serde(skip_serializing_if = "is_zero")]
    pub grown: u64,
    /// Of the rows that batches of the last epoch read of other ranks, the share that was cached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_hits: Option<f64>,
    /// The merged visits of a model, if the run found their number by timing epochs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merges: Option<MeasuredMerges>,
    /// Each process, if there were several. The slowest one waits least.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waited: Vec<Waited>,
    /// The way to the target, if the run had one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetRun>,
    /// Ages of the rows that were read; `None` if no row may be of an earlier epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staleness: Option<Staleness>,
    /// The epoch, counted from 0, in which a resumed run had to send all copies again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies_anew_at: Option<u64>,
    /// Whether patience ended the run.
    pub stopped_early: bool,
    /// Whether the run was interrupted.
    pub interrupted: bool,
    /// Content of the graph file that no model can use, such as edge weights.
    pub not_used: Vec<String>,
    /// The parameters, if the run kept them.
    #[serde(skip)]
    pub kept: Option<Kept>,
    /// Losses of this run's epochs.
    #[serde(skip)]
    pub losses: Vec<f64>,
    /// Wall times of this run's epochs, in seconds.
    #[serde(skip)]
    pub seconds: Vec<f64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

//! What a training run ends with.

use gnnc_runtime::Staleness;
use serde::Serialize;

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
    /// Validation accuracy at the epoch of the lowest validation loss.
    pub val_accuracy: f64,
    /// Test accuracy at the same epoch.
    pub test_accuracy: f64,
    /// Epoch of the lowest validation loss.
    pub best_epoch: u64,
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

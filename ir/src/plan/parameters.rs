//! The knobs of candidates as plans hold them, and the names of candidates.

use super::{AlphaBasis, Candidate, Layout, Partitioner, Placement};
use crate::program::Skipping;
use crate::words::storage::Storage;
use serde::{Deserialize, Serialize};

/// What varies between candidates of one placement. Fields that do not apply are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Number of ranks.
    pub ranks: u32,
    /// How vertices are divided; `None` on one rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitioner: Option<Partitioner>,
    /// Replication factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// How the replication factor was obtained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha_basis: Option<AlphaBasis>,
    /// Edges of the largest part over those of the mean part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_imbalance: Option<f64>,
    /// How the edge imbalance was obtained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_imbalance_basis: Option<AlphaBasis>,
    /// Pipeline stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<u32>,
    /// Ranks per stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<u32>,
    /// Runs of layers per stage (virtual stages), if more than one.
    #[serde(default, skip_serializing_if = "Option::is_none", alias = "turns")]
    pub virtual_stages: Option<u32>,
    /// Layers per stage. With virtual stages, layers per run: the first runs of all stages,
    /// then the second runs, and so on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<u32>,
    /// Epochs between updates of histories.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<u32>,
    /// Whether the order of chunks changes every epoch; `None` means true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<bool>,
    /// Chunks per epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u32>,
    /// Whether messages may overlap computation; `None` means true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<bool>,
    /// Whether interior rows are computed while halo rows are in flight; `None` means false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interior: Option<bool>,
    /// Rule for skipping exchanges, if the placement can skip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skipping>,
    /// Storage format of tensors.
    #[serde(default, skip_serializing_if = "Storage::is_f32")]
    pub storage: Storage,
    /// Whether tensors that do not fit are offloaded to the host; `None` means false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<bool>,
    /// Layout of the input features in a mixed placement: `columns` if it starts like
    /// push-pull. `None` means rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature_layout: Option<Layout>,
    /// Layout of each set of connected edge tensors that can lie either way, in a mixed
    /// placement. Program order: forward, backward, then inside loops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<Layout>,
    /// Like `layouts`, for an evaluation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eval_layouts: Vec<Layout>,
}

impl Candidate {
    /// Placement, ranks and partitioner: `graph x 8 metis`.
    pub fn name(&self) -> String {
        candidate_name(self.placement, &self.parameters)
    }
}

/// Name of a candidate: placement, ranks (stages x ranks of each), virtual stages if there are
/// several per rank, partitioner, chunks if there are several, the rule for skipping, storage
/// unless 32-bit, and `host` if tensors are offloaded.
///
/// Examples: `graph x 8 metis`, `tensor x 8 hash / 4`, `hybrid 4x2 metis / 16`,
/// `pipeline 4x1 x 2 virtual / 4`, `skip-broadcast x 8 adaptive:1`, `graph x 8 metis bf16`,
/// `graph x 1 + host`.
pub fn candidate_name(placement: Placement, parameters: &Parameters) -> String {
    let mut name = match (parameters.stages, parameters.groups) {
        (Some(stages), Some(groups)) => format!("{placement} {stages}x{groups}"),
        _ => format!("{placement} x {}", parameters.ranks),
    };
    if let Some(virtual_stages) = parameters.virtual_stages {
        name = format!("{name} x {virtual_stages} virtual");
    }
    // Default with copies: METIS for `cut`, else consecutive rows (`range`).
    let usual = parameters.skip.map(|skipping| match skipping.cut {
        true => Partitioner::Metis,
        false => Partitioner::Range,
    });
    if let Some(partitioner) = parameters.partitioner.filter(|p| Some(*p) != usual) {
        name = format!("{name} {partitioner}");
    }
    if let Some(chunks) = parameters.chunks {
        name = format!("{name} / {chunks}");
    }
    if let Some(skipping) = parameters.skip {
        name = format!("{name} {skipping}");
    }
    if !parameters.storage.is_f32() {
        name = format!("{name} {}", parameters.storage);
    }
    if parameters.offload == Some(true) {
        name += " + host";
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_that_say_turns_are_read() {
        let text = r#"{"ranks": 4, "stages": 2, "turns": 3}"#;
        let read: Parameters = serde_json::from_str(text).unwrap();
        assert_eq!(read.virtual_stages, Some(3));
        let written = serde_json::to_string(&read).unwrap();
        assert!(written.contains("\"virtual_stages\":3"), "{written}");
    }
}

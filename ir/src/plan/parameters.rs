//! The parameters of candidates as plans hold them, and the names of candidates.

use super::{AlphaBasis, Candidate, Cover, Knobs, Partitioner, Placement};
use serde::{Deserialize, Serialize};

/// The knobs of a candidate, and what follows from them. Fields that do not apply are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Number of ranks. A file without it reads as 0, which is refused.
    #[serde(default)]
    pub ranks: u32,
    /// The knobs that are not at their defaults.
    #[serde(flatten)]
    pub knobs: Knobs,
    /// Ranks per stage of a pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<u32>,
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
}

impl Candidate {
    /// Placement, ranks and partitioner: `graph x 8 metis`.
    pub fn name(&self) -> String {
        candidate_name(self.placement, &self.parameters)
    }
}

/// Name of a candidate: placement, ranks (stages x ranks of each), virtual stages if there are
/// several per rank, partitioner, chunks if there are several, `on batches` if the whole graph is
/// what the placement usually trains on, the ranks of a node if rows cross to a node once,
/// `+ sums` if partial sums are sent too, how rows travel if not as they are, the merged visits of
/// a model, the rows of a cache and the steps that they may lack, the slices of the
/// features if there are several copies, the rule for skipping, storage unless 32-bit, and `host`
/// if tensors are offloaded.
///
/// Examples: `graph x 8 metis`, `tensor x 8 hash / 4`, `hybrid 4x2 metis / 16`,
/// `pipeline 4x1 x 2 virtual / 4`, `skip-broadcast x 8 adaptive:1`, `graph x 8 metis bf16`,
/// `push-pull x 8 metis on batches slices 4`, `graph x 1 + host`.
pub fn candidate_name(placement: Placement, parameters: &Parameters) -> String {
    let knobs = &parameters.knobs;
    let mut name = match (knobs.stages, parameters.groups) {
        (Some(stages), Some(groups)) => format!("{placement} {stages}x{groups}"),
        _ => format!("{placement} x {}", parameters.ranks),
    };
    if let Some(virtual_stages) = knobs.virtual_stages {
        name = format!("{name} x {virtual_stages} virtual");
    }
    // Default with copies: METIS for `cut`, else consecutive rows (`range`).
    let usual = knobs.skip.map(|skipping| match skipping.cut {
        true => Partitioner::Metis,
        false => Partitioner::Range,
    });
    if let Some(partitioner) = knobs.partitioner.filter(|p| Some(*p) != usual) {
        name = format!("{name} {partitioner}");
    }
    if let Some(chunks) = knobs.chunks {
        name = format!("{name} / {chunks}");
    }
    let batches = knobs.sampling.sampling().is_some();
    if batches && placement == Placement::PushPull {
        name += " on batches";
    }
    if let Some(ranks) = knobs.node_ranks {
        name = format!("{name} nodes of {ranks}");
    }
    if knobs.cover == Some(Cover::Joint) {
        name += " + sums";
    }
    if let Some(wire) = knobs.wire.filter(|wire| !wire.is_f32()) {
        name = format!("{name} wire {wire}");
    }
    if let Some(merges) = knobs.sampling.merges {
        name = format!("{name} merges {merges}");
    }
    if let Some(cache) = knobs.sampling.cached() {
        name = format!("{name} cache {}", cache.rows);
        if let Some(age) = cache.age {
            name = format!("{name} age {age}");
        }
    }
    if let Some(mesh) = knobs.slices {
        name = format!("{name} slices {mesh}");
    }
    if let Some(skipping) = knobs.skip {
        name = format!("{name} {skipping}");
    }
    if !knobs.storage.is_f32() {
        name = format!("{name} {}", knobs.storage);
    }
    if knobs.offload == Some(true) {
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
        assert_eq!(read.knobs.virtual_stages, Some(3));
        let written = serde_json::to_string(&read).unwrap();
        assert!(written.contains("\"virtual_stages\":3"), "{written}");
    }

    #[test]
    fn unknown_parameters_are_refused() {
        let read = serde_json::from_str::<Parameters>(r#"{"ranks": 4, "chunk": 2}"#);
        let error = read.unwrap_err().to_string();
        assert!(error.contains("unknown field `chunk`"), "{error}");
    }
}

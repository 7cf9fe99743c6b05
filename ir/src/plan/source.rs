//! Sources of a plan: the model's file and the graph's statistics.

use crate::workload::{Origin, Workload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Statistics of the graph that was planned for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSummary {
    /// Name of the graph.
    pub name: String,
    /// How the numbers were obtained.
    pub origin: Origin,
    /// Number of vertices.
    pub vertices: u64,
    /// Number of stored edges.
    pub edges: u64,
    /// Input features per vertex.
    pub features: u32,
    /// Classes.
    pub classes: u32,
}

/// Sources of a plan, so that it can be run. Paths are as given, relative to the folder in
/// which `gnnc plan` ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanSource {
    /// The `.gir` file.
    pub model: String,
    /// [`crate::graph::model::Model::fingerprint`] in hexadecimal.
    pub fingerprint: String,
    /// Parameters set on the command line.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, f64>,
    /// The graph file used instead of the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
}

impl From<&Workload> for WorkloadSummary {
    fn from(workload: &Workload) -> Self {
        Self {
            name: workload.name.clone(),
            origin: workload.origin,
            vertices: workload.vertices,
            edges: workload.edges,
            features: workload.features,
            classes: workload.classes,
        }
    }
}

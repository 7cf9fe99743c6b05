//! What `gnnc plan` answers: every candidate with its estimate, as a file that a person can read.
//!
//! The JSON form is an interface that others build on: fields are added, never renamed, and
//! [`PLAN_VERSION`] counts the changes that are not additions.

mod choices;
mod diff;
mod facts;
mod name;
mod source;

pub use crate::workload::Partitioner;
pub use choices::{AlphaBasis, Layout, Objective, Placement, Relaxation};
pub use diff::{Change, Pair, PlanDiff, diff};
pub use facts::{Against, Host, Main, Volume};
pub use name::candidate_name;
pub use source::{PlanSource, WorkloadSummary};

use crate::cluster::{Basis, Cluster};
use crate::program::Skipping;
use crate::words::storage::Storage;
use crate::words::units::{Bytes, Seconds};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The version of plan files that this library reads and writes.
pub const PLAN_VERSION: u64 = 1;

/// What varies between candidates of one placement; what does not apply is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Number of ranks.
    pub ranks: u32,
    /// How vertices are divided; none on one rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partitioner: Option<Partitioner>,
    /// Replication factor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// How it was obtained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alpha_basis: Option<AlphaBasis>,
    /// Edges of the largest part over those of the mean part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_imbalance: Option<f64>,
    /// How that was obtained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edge_imbalance_basis: Option<AlphaBasis>,
    /// Pipeline stages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<u32>,
    /// Ranks of a stage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<u32>,
    /// Runs of layers of each stage, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u32>,
    /// Layers of each stage; where stages have several runs, of each run: the first ones of all stages, then the second
    /// ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<u32>,
    /// Epochs for which histories stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<u32>,
    /// Whether chunks come in another order in every epoch; true if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shuffle: Option<bool>,
    /// Chunks of an epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u32>,
    /// Whether messages may be under way while something is computed; true if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<bool>,
    /// Whether rows that need nothing of other ranks are computed while halo rows are under way; false if it is
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interior: Option<bool>,
    /// When exchanges are left out, where they may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip: Option<Skipping>,
    /// How tensors lie in memory.
    #[serde(default, skip_serializing_if = "Storage::is_f32")]
    pub storage: Storage,
    /// Whether tensors that do not fit rest on the host; false if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offload: Option<bool>,
    /// Where layouts are mixed, that of the input features: `columns` if the mixture begins as push-pull
    /// does; rows if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature_layout: Option<Layout>,
    /// Where layouts are mixed, that of each set of connected edge tensors of an epoch that can lie
    /// either way, in the order of the program: forward, backward, then inside loops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layouts: Vec<Layout>,
    /// The same for an evaluation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub eval_layouts: Vec<Layout>,
}

/// Between what bounds an epoch is expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// If everything turns out well.
    pub low: Seconds,
    /// If everything turns out badly.
    pub high: Seconds,
}

/// What all instructions of one name cost in an epoch, mean over the ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindCost {
    /// Name of the instructions, as in traces.
    pub name: String,
    /// Instructions run by a rank.
    pub count: u64,
    /// Time, waiting for other ranks not counted.
    pub seconds: Seconds,
}

/// One way to run the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// The placement.
    pub placement: Placement,
    /// Its parameters.
    pub parameters: Parameters,
    /// How it changes the model or its gradients.
    pub relaxations: Vec<Relaxation>,
    /// Whether every relaxation is permitted.
    pub allowed: bool,
    /// Whether every rank's peak memory is there.
    pub fits: bool,
    /// One training epoch.
    pub epoch_seconds: Seconds,
    /// Computing, mean over the ranks.
    pub compute_seconds: Seconds,
    /// Communication that nothing hides, mean over the ranks.
    pub exposed_communication_seconds: Seconds,
    /// Waiting for other ranks, mean over the ranks.
    pub bubble_seconds: Seconds,
    /// Bytes sent by all ranks in one epoch.
    pub bytes: Bytes,
    /// What these bytes are.
    #[serde(default)]
    pub volume: Volume,
    /// Memory of the rank that needs most.
    pub peak_memory_bytes: Bytes,
    /// Bounds of `epoch_seconds`.
    pub range: Range,
    /// The loosest of the numbers that the estimate is made of.
    pub basis: Basis,
    /// Bytes sent by all ranks in one evaluation.
    pub eval_bytes: Bytes,
    /// One evaluation.
    pub eval_seconds: Seconds,
    /// The epoch by name of instruction, the longest first.
    pub breakdown: Vec<KindCost>,
    /// What rests on the host, where it would not fit otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Ranks that would make a candidate fit that does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks_to_fit: Option<u32>,
    /// Memory that the rank that needs most does not have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking_bytes: Option<Bytes>,
    /// How it compares with the first candidate; none of that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_best: Option<Against>,
    /// Why it was chosen, or why not, in numbers.
    pub reason: String,
}

/// A placement that has no program here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rejected {
    /// The placement.
    pub placement: Placement,
    /// Its parameters.
    pub parameters: Parameters,
    /// Why it cannot be.
    pub reason: String,
}

/// Every candidate, the best first, and which is chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub version: u64,
    /// Name of the model.
    pub model: String,
    /// Where it comes from, if it was read from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PlanSource>,
    /// The graph.
    pub workload: WorkloadSummary,
    /// The machines.
    pub cluster: Cluster,
    /// What was asked for.
    pub objective: Objective,
    /// Index of the chosen candidate; none if nothing that is allowed fits.
    pub chosen: Option<usize>,
    /// In order: those that are allowed and fit, those that only fit, the others.
    pub candidates: Vec<Candidate>,
    /// Placements that have no program here.
    pub rejected: Vec<Rejected>,
}

/// A plan file that cannot be used.
#[derive(Debug, Error)]
pub enum PlanError {
    /// Not JSON, or not of the shape of a plan.
    #[error(
        "the plan cannot be read: {}; make one with `gnnc plan MODEL --out FILE`, or fix what was edited",
        crate::words::json::explain(.0)
    )]
    Json(#[from] serde_json::Error),
    /// No version.
    #[error(
        "the plan has no `version`; this gnnc reads version {PLAN_VERSION}: make the plan again with `gnnc plan --format json`"
    )]
    NoVersion,
    /// Written by another version.
    #[error(
        "the plan has version {found}; this gnnc reads version {PLAN_VERSION}: make the plan again with `gnnc plan --format json`"
    )]
    UnknownVersion {
        /// The version that was found.
        found: String,
    },
    /// A chosen candidate that is not there.
    #[error(
        "the plan chooses candidate {chosen} but lists only {candidates}; set `chosen` to an index below {candidates}, or to null"
    )]
    NoSuchCandidate {
        /// The index.
        chosen: usize,
        /// How many there are.
        candidates: usize,
    },
    /// A candidate without ranks.
    #[error("candidate {candidate} of the plan has 0 ranks, expected 1 or more")]
    NoRanks {
        /// The index.
        candidate: usize,
    },
    /// A cluster with numbers out of range.
    #[error("the plan's cluster: {0}")]
    Cluster(#[from] crate::cluster::ClusterError),
}

impl Plan {
    /// The plan as JSON: equal plans give equal bytes.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn to_json(&self) -> Result<String, PlanError> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// Reads a plan that a person may have edited.
    ///
    /// # Errors
    /// Text that is no plan, another version, a chosen candidate that is not there.
    pub fn from_json(text: &str) -> Result<Self, PlanError> {
        let value: serde_json::Value = serde_json::from_str(text)?;
        match value.get("version") {
            None => return Err(PlanError::NoVersion),
            Some(version) if version.as_u64() != Some(PLAN_VERSION) => {
                return Err(PlanError::UnknownVersion {
                    found: version.to_string(),
                });
            }
            Some(_) => {}
        }
        // From the text once more: its errors name a line.
        let plan: Self = serde_json::from_str(text)?;
        let candidates = plan.candidates.len();
        if let Some(chosen) = plan.chosen.filter(|chosen| *chosen >= candidates) {
            return Err(PlanError::NoSuchCandidate { chosen, candidates });
        }
        if let Some(candidate) = plan.candidates.iter().position(|c| c.parameters.ranks == 0) {
            return Err(PlanError::NoRanks { candidate });
        }
        plan.cluster.check()?;
        Ok(plan)
    }

    /// The chosen candidate.
    pub fn choice(&self) -> Option<&Candidate> {
        self.candidates.get(self.chosen?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Origin;

    fn plan() -> Plan {
        let workload = WorkloadSummary {
            name: "g8".to_owned(),
            origin: Origin::Measured,
            vertices: 8,
            edges: 20,
            features: 4,
            classes: 2,
        };
        let candidate = Candidate {
            placement: Placement::Graph,
            parameters: Parameters {
                ranks: 2,
                partitioner: Some(Partitioner::Metis),
                ..Default::default()
            },
            relaxations: Vec::new(),
            allowed: true,
            fits: true,
            epoch_seconds: Seconds(0.125),
            compute_seconds: Seconds(0.0625),
            exposed_communication_seconds: Seconds(0.0625),
            bubble_seconds: Seconds(0.0),
            bytes: Bytes(96),
            volume: Volume::default(),
            peak_memory_bytes: Bytes(4096),
            range: Range {
                low: Seconds(0.1),
                high: Seconds(0.2),
            },
            basis: Basis::Profile,
            eval_bytes: Bytes(48),
            eval_seconds: Seconds(0.05),
            breakdown: vec![KindCost {
                name: "spmm".to_owned(),
                count: 2,
                seconds: Seconds(0.01),
            }],
            host: None,
            ranks_to_fit: None,
            lacking_bytes: None,
            against_best: None,
            reason: "shortest epoch".to_owned(),
        };
        Plan {
            version: PLAN_VERSION,
            model: "gcn".to_owned(),
            source: None,
            workload,
            cluster: Cluster::named("cpu").unwrap(),
            objective: Objective::Time,
            chosen: Some(0),
            candidates: vec![candidate],
            rejected: Vec::new(),
        }
    }

    #[test]
    fn plans_survive_their_file() {
        let json = plan().to_json().unwrap();
        let read = Plan::from_json(&json).unwrap();
        assert_eq!(read, plan());
        assert_eq!(read.to_json().unwrap(), json);
    }

    #[test]
    fn differences_are_found_and_nothing_else() {
        let a = plan();
        assert!(diff(&a, &a).equal && diff(&a, &a).changes.is_empty());
        let mut b = a.clone();
        b.workload.edges = 21;
        b.candidates[0].epoch_seconds = Seconds(0.25);
        b.candidates[0].breakdown[0].seconds = Seconds(0.04);
        let mut other = b.candidates[0].clone();
        other.parameters.ranks = 4;
        b.candidates.push(other);
        b.chosen = Some(1);
        let found = diff(&a, &b);
        assert!(!found.equal);
        let changes: Vec<&str> = found.changes.iter().map(|c| c.what.as_str()).collect();
        assert_eq!(changes, ["edges", "chosen"]);
        assert_eq!(
            found.changes[1].says,
            ["graph x 2 metis", "graph x 4 metis"]
        );
        let [two, four] = &found.candidates[..] else {
            panic!("{found:?}")
        };
        assert_eq!(two.seconds, [Some(Seconds(0.125)), Some(Seconds(0.25))]);
        assert_eq!((four.seconds[0], four.chosen), (None, [false, true]));
        assert_eq!(found.breakdown[0].name, "spmm");
    }

    #[test]
    fn names_are_those_of_the_file() {
        for placement in Placement::ALL {
            assert_eq!(
                serde_json::to_string(placement).unwrap(),
                format!("\"{placement}\"")
            );
        }
        for partitioner in Partitioner::ALL {
            assert_eq!(
                serde_json::to_string(partitioner).unwrap(),
                format!("\"{partitioner}\"")
            );
        }
        for relaxation in Relaxation::ALL {
            assert_eq!(
                serde_json::to_string(relaxation).unwrap(),
                format!("\"{relaxation}\"")
            );
        }
        for basis in AlphaBasis::ALL {
            assert_eq!(
                serde_json::to_string(basis).unwrap(),
                format!("\"{basis}\"")
            );
        }
        for layout in Layout::ALL {
            assert_eq!(
                serde_json::to_string(layout).unwrap(),
                format!("\"{layout}\"")
            );
        }
        for objective in Objective::ALL {
            assert_eq!(
                serde_json::to_string(objective).unwrap(),
                format!("\"{objective}\"")
            );
        }
    }

    #[test]
    fn bad_plans_are_refused_with_a_sentence() {
        let json = plan().to_json().unwrap();
        let refused = |from: &str, to: &str| {
            let edited = json.replacen(from, to, 1);
            assert_ne!(edited, json);
            Plan::from_json(&edited).unwrap_err().to_string()
        };
        assert!(
            refused("\"version\": 1", "\"version\": 7")
                .contains("has version 7; this gnnc reads version 1")
        );
        assert!(refused("\"version\": 1", "\"version\": \"1\"").contains("has version \"1\""));
        assert!(refused("\"version\": 1", "\"v\": 1").contains("no `version`"));
        assert!(
            refused("\"chosen\": 0", "\"chosen\": 1").contains("chooses candidate 1 but lists 1")
        );
        assert!(refused("\"graph\"", "\"grpah\"").contains("unknown variant `grpah`"));
        assert!(refused("\"ranks\": 2", "\"ranks\": 0").contains("has 0 ranks"));
        assert!(refused("\"ranks\": 2", "\"rank\": 2").contains("unknown field `rank`"));
        assert!(refused("\"nodes\": 1", "\"nodes\": 0").contains("`nodes` is 0"));
        assert!(refused("{", "").contains("cannot be read"));
    }
}

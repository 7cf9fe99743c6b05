//! The result of `gnnc plan`: every candidate with its estimate, in a readable file.
//!
//! The JSON form is a public interface. Fields are added, never renamed; [`PLAN_VERSION`]
//! counts all other changes.

mod choices;
mod class;
mod diff;
mod facts;
mod knobs;
mod parameters;
mod pilot;
mod source;
mod target;

pub use crate::workload::Partitioner;
pub use choices::{AlphaBasis, Cover, Layout, Objective, Placement, Relaxation};
pub use class::{Division, Method, SampledClass, StatisticalClass};
pub use diff::{Change, Pair, PlanDiff, diff};
pub use facts::{Against, Host, Main, Volume};
pub use knobs::{Knobs, Layouts};
pub use parameters::{Parameters, candidate_name};
pub use pilot::{
    Curve, End, EpochRange, LeftOut, MadeFor, Needed, PILOT_VERSION, Pilot, PilotError, PilotRun,
    Piloted,
};
pub use source::{PlanSource, WorkloadSummary};
pub use target::{Goal, Standing, TargetTime, ToTarget};

use crate::cluster::{Basis, Cluster};
use crate::words::units::{Bytes, Seconds};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The version of plan files that this library reads and writes.
pub const PLAN_VERSION: u64 = 1;

/// Bounds on the expected time of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The time if everything goes well.
    pub low: Seconds,
    /// The time if everything goes badly.
    pub high: Seconds,
}

/// Cost per epoch of all instructions with one name, mean over the ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindCost {
    /// Name of the instructions, as in traces.
    pub name: String,
    /// Instructions run per rank.
    pub count: u64,
    /// Time, without waiting for other ranks.
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
    /// Its changes to the model or its gradients.
    pub relaxations: Vec<Relaxation>,
    /// Whether every relaxation is allowed.
    pub allowed: bool,
    /// Whether every rank's peak memory fits.
    pub fits: bool,
    /// Time of one training epoch.
    pub epoch_seconds: Seconds,
    /// Time spent computing, mean over the ranks.
    pub compute_seconds: Seconds,
    /// What of that are kernels that take no longer than to start them. Plans of earlier versions do not say it.
    #[serde(default)]
    pub floor_seconds: Seconds,
    /// Communication that nothing overlaps, mean over the ranks.
    pub exposed_communication_seconds: Seconds,
    /// Time spent waiting for other ranks, mean over the ranks.
    pub bubble_seconds: Seconds,
    /// Bytes sent by all ranks in one epoch.
    pub bytes: Bytes,
    /// `bytes` by kind of message.
    #[serde(default)]
    pub volume: Volume,
    /// Peak memory of the rank that needs most.
    pub peak_memory_bytes: Bytes,
    /// Bounds of `epoch_seconds`.
    pub range: Range,
    /// The least certain basis of the numbers behind the estimate.
    pub basis: Basis,
    /// Bytes sent by all ranks in one evaluation.
    pub eval_bytes: Bytes,
    /// Time of one evaluation.
    pub eval_seconds: Seconds,
    /// The epoch by instruction name, longest first.
    pub breakdown: Vec<KindCost>,
    /// What is offloaded to the host, if the candidate would not fit otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Host>,
    /// Number of ranks at which the candidate would fit, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks_to_fit: Option<u32>,
    /// Fewer ranks at which it would fit if tensors rest on their hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks_to_fit_with_host: Option<u32>,
    /// Memory missing on the rank that needs most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking_bytes: Option<Bytes>,
    /// Comparison with the first candidate; `None` for that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against_best: Option<Against>,
    /// What is known of the time to the target, if that is the objective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_target: Option<ToTarget>,
    /// Why it was chosen or not, in numbers.
    pub reason: String,
}

/// A placement without a program for this model and cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rejected {
    /// The placement.
    pub placement: Placement,
    /// Its parameters.
    pub parameters: Parameters,
    /// Why there is no program.
    pub reason: String,
}

/// Every candidate, best first, and which one is chosen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub version: u64,
    /// Name of the model.
    pub model: String,
    /// Its sources, if the model was read from a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PlanSource>,
    /// The data graph.
    pub workload: WorkloadSummary,
    /// The cluster.
    pub cluster: Cluster,
    /// What the plan optimizes.
    pub objective: Objective,
    /// After how many epochs there is an evaluation, if the time of an epoch has its share of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluate_every: Option<u32>,
    /// What is to be reached, if the objective is the time to it and a pilot tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// Index of the chosen candidate; `None` if no allowed candidate fits.
    pub chosen: Option<usize>,
    /// In order: candidates that are allowed and fit, those that only fit, the others.
    pub candidates: Vec<Candidate>,
    /// Placements without a program for this model and cluster.
    pub rejected: Vec<Rejected>,
}

/// A plan file that cannot be used.
#[derive(Debug, Error)]
pub enum PlanError {
    /// Not JSON, or JSON that is not a plan.
    #[error(
        "the plan cannot be read: {}; make one with `gnnc plan MODEL --out FILE`, or fix what was edited",
        crate::words::json::explain(.0)
    )]
    Json(#[from] serde_json::Error),
    /// The version is missing.
    #[error(
        "the plan has no `version`; this gnnc reads version {PLAN_VERSION}: make the plan again with `gnnc plan --format json`"
    )]
    NoVersion,
    /// The plan was written by another version.
    #[error(
        "the plan has version {found}; this gnnc reads version {PLAN_VERSION}: make the plan again with `gnnc plan --format json`"
    )]
    UnknownVersion {
        /// The version that was found.
        found: String,
    },
    /// The chosen candidate does not exist.
    #[error(
        "the plan chooses candidate {chosen} but lists only {candidates}; set `chosen` to an index below {candidates}, or to null"
    )]
    NoSuchCandidate {
        /// The index.
        chosen: usize,
        /// Number of candidates.
        candidates: usize,
    },
    /// A candidate has 0 ranks.
    #[error("candidate {candidate} of the plan has 0 ranks, expected 1 or more")]
    NoRanks {
        /// The index.
        candidate: usize,
    },
    /// A number of the cluster is out of range.
    #[error("the plan's cluster: {0}")]
    Cluster(#[from] crate::cluster::ClusterError),
}

impl Plan {
    /// Prints the plan as JSON. Equal plans give equal bytes.
    ///
    /// # Errors
    /// If a number is not finite.
    pub fn to_json(&self) -> Result<String, PlanError> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// Reads a plan, which a person may have edited.
    ///
    /// # Errors
    /// If the text is not a plan, has another version, or chooses a candidate that does not
    /// exist.
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
        // Parse the text again, because its errors name a line.
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
                knobs: Knobs {
                    partitioner: Some(Partitioner::Metis),
                    ..Knobs::default()
                },
                ..Parameters::default()
            },
            relaxations: Vec::new(),
            allowed: true,
            fits: true,
            epoch_seconds: Seconds(0.125),
            compute_seconds: Seconds(0.0625),
            floor_seconds: Seconds(0.001),
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
            ranks_to_fit_with_host: None,
            lacking_bytes: None,
            against_best: None,
            to_target: None,
            reason: "shortest epoch".to_owned(),
        };
        Plan {
            version: PLAN_VERSION,
            model: "gcn".to_owned(),
            source: None,
            workload,
            cluster: Cluster::named("cpu").unwrap(),
            objective: Objective::Time,
            evaluate_every: None,
            goal: None,
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
            refused("\"chosen\": 0", "\"chosen\": 1")
                .contains("chooses candidate 1 but lists only 1")
        );
        assert!(refused("\"graph\"", "\"grpah\"").contains("unknown variant `grpah`"));
        assert!(refused("\"ranks\": 2", "\"ranks\": 0").contains("has 0 ranks"));
        assert!(refused("\"ranks\": 2", "\"rank\": 2").contains("unknown field `rank`"));
        assert!(refused("\"nodes\": 1", "\"nodes\": 0").contains("`nodes` is 0"));
        assert!(refused("{", "").contains("cannot be read"));
    }
}

//! The choices that a candidate is made of, and what each saves.

use super::{Origin, saved, seconds};
use crate::{PlanOptions, Planner};
use gnnc_ir::plan::{Candidate, Plan};
use gnnc_planner::search::{Pin, PlacementSpec};
use serde::Serialize;

/// A choice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Decision {
    /// What is chosen, as pins call it.
    pub name: &'static str,
    /// The choice.
    pub value: String,
    /// Why.
    pub origin: Origin,
}

/// Something that candidates differ in.
struct Choice {
    name: &'static str,
    /// The choice of a candidate.
    of: fn(&PlacementSpec) -> String,
    /// Whether a pin makes it.
    pinned: fn(&Pin) -> bool,
}

const CHOICES: &[Choice] = &[
    Choice {
        name: "placement",
        of: |spec| spec.placement.to_string(),
        pinned: |pin| pin.placement.is_some(),
    },
    Choice {
        name: "ranks",
        of: |spec| spec.ranks.to_string(),
        pinned: |pin| pin.ranks.is_some(),
    },
    Choice {
        name: "partitioner",
        of: |spec| spec.partitioner().to_string(),
        pinned: |pin| pin.knobs.partitioner.is_some(),
    },
    Choice {
        name: "stages",
        of: |spec| spec.stages().map_or(1, |stages| stages.count).to_string(),
        pinned: |pin| pin.knobs.stages.is_some(),
    },
    Choice {
        name: "chunks",
        of: |spec| spec.chunks().to_string(),
        pinned: |pin| pin.knobs.chunks.is_some(),
    },
    Choice {
        name: "node-ranks",
        of: |spec| spec.node_ranks().unwrap_or(1).to_string(),
        pinned: |pin| pin.knobs.node_ranks.is_some(),
    },
    Choice {
        name: "cover",
        of: |spec| spec.cover().to_string(),
        pinned: |pin| pin.knobs.cover.is_some(),
    },
    Choice {
        name: "equal-bits",
        of: |spec| if spec.equal_bits() { "yes" } else { "no" }.to_owned(),
        pinned: |pin| pin.knobs.equal_bits.is_some(),
    },
    Choice {
        name: "wire",
        of: |spec| spec.wire().to_string(),
        pinned: |pin| pin.knobs.wire.is_some(),
    },
];

/// The choices of a candidate that were pinned, or of which the plan has others.
pub(super) fn of(
    planner: &Planner,
    options: &PlanOptions,
    plan: &Plan,
    chosen: &Candidate,
    spec: &PlacementSpec,
) -> Vec<Decision> {
    let mut found = Vec::new();
    for Choice { name, of, pinned } in CHOICES {
        let value = of(spec);
        let differs = |other: &&Candidate| of(&PlacementSpec::of(other)) != value;
        // Knobs are compared among candidates of the placement on as many ranks.
        let akin = |other: &&Candidate| {
            let alike = other.placement == spec.placement && other.parameters.ranks == spec.ranks;
            alike || matches!(*name, "placement" | "ranks")
        };
        let others = plan.candidates.iter().filter(akin);
        let others = others
            .filter(|other| other.allowed && other.fits)
            .filter(differs);
        let best = others.min_by(|a, b| a.epoch_seconds.0.total_cmp(&b.epoch_seconds.0));
        let origin = match (pinned(&options.pin), best) {
            (true, _) => Origin::Pin {
                option: format!("--pin {name}={value}"),
            },
            (false, Some(best)) => Origin::Search {
                against: best.name(),
                saves_seconds: saved(chosen.epoch_seconds.0, best.epoch_seconds.0),
            },
            (false, None) => continue,
        };
        found.push(Decision {
            name,
            value,
            origin,
        });
    }
    found.extend(interior(planner, options, spec));
    found
}

/// Whether interior rows are computed while halo rows are in flight, which the search settles for each candidate by itself.
fn interior(planner: &Planner, options: &PlanOptions, spec: &PlacementSpec) -> Option<Decision> {
    if !spec.interior() {
        return None;
    }
    let origin = match options.pin.knobs.interior {
        Some(_) => Origin::Pin {
            option: "--pin interior=yes".to_owned(),
        },
        None => {
            let mut without = spec.clone();
            without.knobs.interior = Some(false);
            Origin::Search {
                against: "the same with interior=no".to_owned(),
                saves_seconds: saved(
                    seconds(planner, options, spec)?,
                    seconds(planner, options, &without)?,
                ),
            }
        }
    };
    Some(Decision {
        name: "interior",
        value: "yes".to_owned(),
        origin,
    })
}

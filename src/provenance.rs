//! Which decision introduced each layout and each message of a plan.
//!
//! Every layout names its origin: a pin, the search and what it saves, or the operator that leaves no choice. Every message
//! names the layouts and knobs that it comes from. (Shardy, the partitioner of XLA, keeps such origins of its shardings.)

mod decisions;
mod messages;

pub use decisions::Decision;
pub use messages::Message;
pub(crate) use messages::{each_message, times};

use crate::{Compiled, Error, PlanOptions, Planner};
use gnnc_ir::plan::{Candidate, Knobs, Layout, Layouts, Placement};
use gnnc_ir::words::units::{Seconds, significant};
use gnnc_planner::lower::{components, pure};
use gnnc_planner::search::PlacementSpec;
use gnnc_planner::simulate::simulate_all;
use serde::Serialize;

/// Why something in a plan is as it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Origin {
    /// Asked for.
    Pin {
        /// The option, such as `--pin cover=joint`.
        option: String,
    },
    /// The search chose it.
    Search {
        /// The best that differs in it: a candidate, or the other layout.
        against: String,
        /// Seconds of an epoch that it saves; negative if that would be faster, and was not allowed, not tried or does not
        /// fit.
        saves_seconds: Seconds,
    },
    /// There is no other way.
    Forced {
        /// Why.
        reason: String,
    },
    /// It goes with a decision.
    Follows {
        /// The decision.
        decision: String,
    },
}

/// The layout of a component: the tensors of a set of edges, with what is gathered from them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorLayout {
    /// The tensor after which the component is called.
    pub name: String,
    /// How many components are alike and have this layout, such as those of layers that are written out.
    pub alike: u32,
    /// By rows, or by columns.
    pub layout: Layout,
    /// Why.
    pub origin: Origin,
}

/// Where the layouts and messages of a candidate come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Provenance {
    /// The candidate.
    pub candidate: String,
    /// Its choices of which there are others, or that were pinned.
    pub decisions: Vec<Decision>,
    /// The layouts of the input features and of each component of an epoch.
    pub layouts: Vec<TensorLayout>,
    /// The messages of an epoch. Their bytes add up to those of the candidate.
    pub messages: Vec<Message>,
}

/// Where the layouts and messages of the best candidate come from. The options must ask for all candidates.
///
/// # Errors
/// As [`Planner::new`]; there is no candidate.
pub fn provenance(
    planner: &Planner,
    compiled: &Compiled,
    options: &PlanOptions,
) -> Result<Provenance, Error> {
    let plan = planner.plan();
    let Some(chosen) = plan.choice().or(plan.candidates.first()) else {
        let why = plan.rejected.first().map(|r| r.reason.clone());
        return Err(Error::Input(why.unwrap_or_else(|| planner.why_none())));
    };
    let spec = PlacementSpec::of(chosen);
    let decisions = decisions::of(planner, options, &plan, chosen, &spec);
    let layouts = layouts(planner, compiled, options, &spec)?;
    let messages = messages::of(planner, &spec, &layouts)?;
    Ok(Provenance {
        candidate: Candidate::name(chosen),
        decisions,
        layouts,
        messages,
    })
}

/// Seconds of an epoch of a candidate; `None` if it has no program.
fn seconds(planner: &Planner, options: &PlanOptions, spec: &PlacementSpec) -> Option<f64> {
    let (programs, parts) = planner.priced(spec).ok()?;
    let estimate = simulate_all(&programs, &options.cluster, &parts).ok()?;
    Some(estimate.epoch.seconds.0)
}

/// How much less time something takes than something else.
fn saved(chosen: f64, other: f64) -> Seconds {
    Seconds(significant(other - chosen))
}

fn layouts(
    planner: &Planner,
    compiled: &Compiled,
    options: &PlanOptions,
    spec: &PlacementSpec,
) -> Result<Vec<TensorLayout>, Error> {
    let training = compiled.training(spec)?;
    let slices = spec.slices();
    let (names, uncut) = components(training, slices)?;
    let pure = pure(training, slices)?;
    // Placements without a choice of layouts have all rows where they are computed.
    let (layouts, mixes) = match spec.placement {
        Placement::Tensor | Placement::TensorDecoupled => (pure.tensor.clone(), true),
        Placement::PushPull => (pure.push_pull.clone(), true),
        Placement::Mixed => (spec.knobs.layouts(), true),
        Placement::Graph => (pure.graph.clone(), true),
        Placement::Broadcast
        | Placement::SkipBroadcast
        | Placement::Pipeline
        | Placement::Hybrid
        | Placement::Minibatch
        | Placement::ModelMigration => (pure.graph.clone(), false),
    };
    let mixes = mixes && spec.ranks > 1 && !spec.samples();
    let flips = Flips {
        planner,
        options,
        spec,
        layouts: &layouts,
        now: as_mixture(spec, &layouts).and_then(|own| seconds(planner, options, &own)),
    };
    let origin = |flipped: &Layouts, to: Layout| match options.pin.placement {
        Some(placement) if placement != Placement::Mixed => Origin::Follows {
            decision: format!("placement {placement}"),
        },
        _ if !mixes => Origin::Follows {
            decision: format!("placement {}", spec.placement),
        },
        _ => flips.origin(flipped, to),
    };
    let mut found = vec![TensorLayout {
        name: "features".to_owned(),
        alike: 1,
        layout: layouts.features,
        origin: match options.pin.features {
            Some(pinned) => Origin::Pin {
                option: format!("--pin features={pinned}"),
            },
            None => origin(&flips.of_features(), other(layouts.features)),
        },
    }];
    let mut seen: Vec<(usize, Layout)> = Vec::new();
    for (n, name) in names.iter().enumerate() {
        let layout = layouts.epoch.get(n).copied().unwrap_or_default();
        let kind = pure.alike.get(n).copied().unwrap_or(n);
        if seen.contains(&(kind, layout)) {
            continue;
        }
        seen.push((kind, layout));
        let alike: Vec<usize> = (0..names.len())
            .filter(|m| {
                pure.alike.get(*m).copied().unwrap_or(*m) == kind
                    && layouts.epoch.get(*m).copied().unwrap_or_default() == layout
            })
            .collect();
        found.push(TensorLayout {
            name: name.clone(),
            alike: alike.len() as u32,
            layout,
            origin: origin(&flips.of(&alike), other(layout)),
        });
    }
    found.extend(uncut.into_iter().map(|uncut| TensorLayout {
        name: uncut.name,
        alike: 1,
        layout: Layout::Rows,
        origin: Origin::Forced { reason: uncut.why },
    }));
    Ok(found)
}

/// The layouts of a candidate, and what others would take.
struct Flips<'a> {
    planner: &'a Planner<'a>,
    options: &'a PlanOptions,
    spec: &'a PlacementSpec,
    layouts: &'a Layouts,
    /// Seconds of an epoch of the candidate as a mixture.
    now: Option<f64>,
}

impl Flips<'_> {
    /// The layouts with these ones of an epoch the other way.
    fn of(&self, components: &[usize]) -> Layouts {
        let mut flipped = self.layouts.clone();
        for n in components {
            if let Some(layout) = flipped.epoch.get_mut(*n) {
                *layout = other(*layout);
            }
        }
        flipped
    }

    /// The layouts with the features the other way.
    fn of_features(&self) -> Layouts {
        Layouts {
            features: other(self.layouts.features),
            ..self.layouts.clone()
        }
    }

    fn origin(&self, flipped: &Layouts, to: Layout) -> Origin {
        let flipped = as_mixture(self.spec, flipped);
        let flipped = flipped.and_then(|spec| seconds(self.planner, self.options, &spec));
        match (self.now, flipped) {
            (Some(now), Some(flipped)) => Origin::Search {
                against: format!("by {to}"),
                saves_seconds: saved(now, flipped),
            },
            _ => Origin::Forced {
                reason: format!("no program has it by {to}"),
            },
        }
    }
}

fn other(layout: Layout) -> Layout {
    match layout {
        Layout::Rows => Layout::Columns,
        Layout::Columns => Layout::Rows,
    }
}

/// The candidate as a mixture of these layouts, on the same parts; `None` if its model has another form.
fn as_mixture(spec: &PlacementSpec, layouts: &Layouts) -> Option<PlacementSpec> {
    (spec.placement != Placement::TensorDecoupled).then(|| PlacementSpec {
        placement: Placement::Mixed,
        ranks: spec.ranks,
        knobs: Knobs {
            chunks: None,
            // Partial sums and offloaded tensors may not fit other layouts.
            cover: None,
            offload: None,
            ..spec.knobs.clone()
        }
        .with_layouts(layouts.clone()),
    })
}

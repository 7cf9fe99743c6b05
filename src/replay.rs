//! Verifies a plan before it runs: is it still true for its model, graph and choice?

use crate::{Compiled, Error, Loaded, PlanOptions, plan};
use gnnc_files::Cache;
use gnnc_ir::plan::{Candidate, Layout, Layouts, Objective, Partitioner, Plan};
use gnnc_ir::words::units::Seconds;
use gnnc_planner::lower::pure;
use gnnc_planner::placement;
use gnnc_planner::search::{Pin, PlacementSpec};

/// Relative difference up to which two times count as equal, since CPUs round sums differently.
const ROUNDED: f64 = 1e-6;

/// The verified choice of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    /// The choice, priced again.
    pub choice: Candidate,
    /// A sentence for each time in the plan that differs from the new price.
    pub warnings: Vec<String>,
}

/// Verifies a plan, which may have been edited, and returns its choice. Checks that the plan is for
/// this model and graph, that the choice can run, and that its bytes and memory are those of the
/// program. Times are forecasts: a plan is not refused for them, but a warning reports each time
/// that differs from what its cluster implies. Partitions are taken from `cache` if it holds them.
///
/// # Errors
/// What was found and what was expected.
pub fn verify(
    plan: &Plan,
    loaded: &Loaded,
    compiled: &Compiled,
    cache: Option<&Cache>,
) -> Result<Verified, Error> {
    let Some(choice) = plan.choice() else {
        let count = plan.candidates.len();
        return Err(Error::Input(format!(
            "the plan chooses no candidate; set `chosen` to the index of one of its {count} \
             candidates"
        )));
    };
    same_source(plan, loaded)?;
    possible(plan, choice)?;
    laid_out(choice, compiled)?;
    let priced = priced(plan, choice, loaded, compiled, cache)?;
    Ok(Verified {
        warnings: other_times(choice, &priced),
        choice: priced,
    })
}

/// A warning for each time in the plan that differs from the new price.
fn other_times(states: &Candidate, priced: &Candidate) -> Vec<String> {
    let of = |c: &Candidate| {
        [
            ("epoch_seconds", c.epoch_seconds),
            ("compute_seconds", c.compute_seconds),
            (
                "exposed_communication_seconds",
                c.exposed_communication_seconds,
            ),
            ("bubble_seconds", c.bubble_seconds),
        ]
    };
    let pairs = of(states).into_iter().zip(of(priced));
    let other = |((what, found), (_, expected)): ((&str, Seconds), (&str, Seconds))| {
        let differs = (found.0 - expected.0).abs() > ROUNDED * expected.0.abs();
        differs.then(|| {
            format!(
                "`{what}` of {} is {found}, expected {expected} on the plan's cluster; if nobody edited \
                 the plan, make it again with `gnnc plan`",
                priced.name()
            )
        })
    };
    pairs.filter_map(other).collect()
}

fn wrong(what: &str, found: &str, expected: &str) -> Error {
    Error::Input(format!(
        "the plan does not verify: {what} is {found}, expected {expected}; make the plan again \
         with `gnnc plan`"
    ))
}

fn refuse(what: &str, found: &str, expected: &str) -> Result<(), Error> {
    Err(wrong(what, found, expected))
}

fn same_source(plan: &Plan, loaded: &Loaded) -> Result<(), Error> {
    let (of_plan, of_graph) = (&plan.workload, &loaded.workload);
    let counts = [
        ("vertices", of_plan.vertices, of_graph.vertices),
        ("edges", of_plan.edges, of_graph.edges),
        (
            "features",
            of_plan.features.into(),
            of_graph.features.into(),
        ),
        ("classes", of_plan.classes.into(), of_graph.classes.into()),
    ];
    for (what, found, expected) in counts {
        if found != expected {
            let expected = format!("{expected}, as in the graph {}", of_graph.name);
            return refuse(&format!("`workload.{what}`"), &found.to_string(), &expected);
        }
    }
    let fingerprint = format!("{:016x}", loaded.model.fingerprint());
    match &plan.source {
        Some(source) if source.fingerprint != fingerprint => {
            let expected = format!("\"{fingerprint}\", the model {}", loaded.model.name);
            let found = format!("\"{}\"", source.fingerprint);
            refuse("`source.fingerprint`", &found, &expected)
        }
        _ => Ok(()),
    }
}

fn possible(plan: &Plan, choice: &Candidate) -> Result<(), Error> {
    let ranks = choice.parameters.ranks;
    let place = |what: &str| match plan.chosen {
        Some(index) => format!("`{what}` of candidate {index}"),
        None => format!("`{what}`"),
    };
    let devices = plan.cluster.devices();
    if ranks > devices {
        let expected = format!("at most {devices}, the devices of the plan's cluster");
        return refuse(&place("ranks"), &ranks.to_string(), &expected);
    }
    if u64::from(ranks) > plan.workload.vertices {
        let expected = format!("at most {}, one per vertex", plan.workload.vertices);
        return refuse(&place("ranks"), &ranks.to_string(), &expected);
    }
    let divided = PlacementSpec::of(choice).has_partitioner();
    match choice.parameters.knobs.partitioner {
        None if divided => {
            let names: Vec<_> = Partitioner::ALL.iter().map(|p| p.name()).collect();
            return refuse(&place("partitioner"), "missing", &names.join(", "));
        }
        Some(found) if !divided => {
            return refuse(
                &place("partitioner"),
                found.name(),
                match ranks {
                    1 => "none on one rank",
                    _ => "none with one rank per stage",
                },
            );
        }
        _ => {}
    }
    let names = |list: &[gnnc_ir::plan::Relaxation]| {
        let names: Vec<_> = list.iter().map(|r| r.name()).collect();
        format!("[{}]", names.join(", "))
    };
    let needed = PlacementSpec::of(choice).relaxations();
    if choice.relaxations != needed {
        let found = names(&choice.relaxations);
        let expected = format!("{}, which {} needs", names(&needed), choice.placement);
        return refuse(&place("relaxations"), &found, &expected);
    }
    let class = PlacementSpec::of(choice).class();
    let stated = choice.to_target.as_ref().map(|known| &known.class);
    if let Some(stated) = stated.filter(|stated| **stated != class) {
        let expected = format!("`{class}`, that of {}", choice.placement);
        return refuse(&place("to_target.class"), &format!("`{stated}`"), &expected);
    }
    if !choice.allowed {
        return refuse(&place("allowed"), "false", "true, to run the plan");
    }
    Ok(())
}

/// Checks that a mixture lists all its layouts, since they are not chosen again.
fn laid_out(choice: &Candidate, compiled: &Compiled) -> Result<(), Error> {
    let parameters = &choice.parameters;
    let mixes = placement::row(choice.placement).is_some_and(|row| row.mixes);
    let expected = match mixes && parameters.ranks > 1 {
        true => pure(&compiled.training, PlacementSpec::of(choice).slices())?.graph,
        false => Layouts::default(),
    };
    let of = |what: &str| format!("`{what}` of {}", choice.name());
    let found = parameters.knobs.layouts();
    if found.features == Layout::Columns && !mixes {
        refuse(
            &of("feature_layout"),
            found.features.name(),
            "none, except in a mixture",
        )?;
    }
    for (what, list, expected) in [
        ("layouts", &found.epoch, expected.epoch.len()),
        ("eval_layouts", &found.eval, expected.eval.len()),
    ] {
        if list.len() != expected {
            let found = format!("a list of {}", list.len());
            let expected = format!("{expected}, each `rows` or `columns`");
            return refuse(&of(what), &found, &expected);
        }
    }
    Ok(())
}

/// Prices the choice again, and nothing else.
fn priced(
    plan: &Plan,
    choice: &Candidate,
    loaded: &Loaded,
    compiled: &Compiled,
    cache: Option<&Cache>,
) -> Result<Candidate, Error> {
    let options = PlanOptions {
        cluster: plan.cluster.clone(),
        // The pilot is not here; what it told of the choice stays.
        objective: match plan.objective {
            Objective::TimeToAccuracy => Objective::Time,
            other => other,
        },
        pilot: None,
        partitioners: choice.parameters.knobs.partitioner.into_iter().collect(),
        pin: Pin::only(&PlacementSpec::of(choice)),
        top: None,
        // The plan allows them.
        allow: choice.relaxations.iter().map(|r| r.permission()).collect(),
        evaluate_every: plan.evaluate_every,
        cache: cache.cloned(),
    };
    let again = plan::plan(loaded, compiled, &options)?;
    let name = choice.name();
    let Some(found) = again.candidates.iter().find(|c| c.name() == name) else {
        let reason = again.rejected.first().map(|r| r.reason.as_str());
        return Err(wrong(
            "the choice",
            &name,
            &format!(
                "a placement that can run ({})",
                reason.unwrap_or("this one has no program")
            ),
        ));
    };
    let of = |c: &Candidate| {
        [
            ("bytes", c.bytes.0),
            ("eval_bytes", c.eval_bytes.0),
            ("peak_memory_bytes", c.peak_memory_bytes.0),
        ]
    };
    for ((what, states), (_, expected)) in of(choice).into_iter().zip(of(found)) {
        if states != expected {
            let expected = format!("{expected} for {name}");
            return Err(wrong(
                &format!("`{what}` of {name}"),
                &states.to_string(),
                &expected,
            ));
        }
    }
    match found.fits {
        true => Ok(Candidate {
            to_target: choice.to_target.clone(),
            ..found.clone()
        }),
        false => Err(wrong(
            "the choice",
            &name,
            &format!("one that fits: it {}", found.reason),
        )),
    }
}

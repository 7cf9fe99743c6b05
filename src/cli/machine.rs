//! The machines to plan for, and the constraints on plans.

use super::files::{MAX_PLAN, read_text};
use super::numbers::{CHUNKS, DEVICES, EPOCHS, within};
use super::output::{Failure, Output, input};
use clap::{Args, ValueEnum};
use gnnc::ir::cluster::{CLUSTERS, Cluster};
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{Layout, Objective, Partitioner};
use gnnc::ir::program::{RULES, Skipping};
use gnnc::ir::words::storage::Storage;
use gnnc::planner::placement;
use gnnc::planner::search::Pin;
use gnnc::{PlanOptions, Planner};
use std::ops::RangeInclusive;
use std::path::Path;

/// Arguments of all commands that plan.
#[derive(Args)]
pub struct SearchArgs {
    /// The cluster: a file, or a built-in name such as cpu, a5000x4, h100x8.
    #[arg(long, value_name = "NAME|FILE")]
    pub cluster: Option<String>,
    /// What to minimize: time, memory or bytes.
    #[arg(
        long,
        value_name = "GOAL",
        value_enum,
        default_value_t,
        hide_possible_values = true
    )]
    objective: Goal,
    /// Partitioners to try.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "metis,metis-edges"
    )]
    partitioner: Vec<PartitionerName>,
    /// Relaxations to permit besides those of the model: decouple, stale, sample (no placement needs sample yet).
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = super::inputs::relaxation)]
    allow: Vec<Relaxation>,
    /// Consider only candidates with these values. Keys: placement, ranks, partitioner, chunks, skip (a rule for skipping
    /// exchanges); for pipelines also stages, virtual-stages and interval; features (columns: only mixtures that begin with
    /// push-pull); offload (yes: only candidates that must offload tensors to the host; no: only those that need not);
    /// interior (yes: only candidates that compute interior rows while halo rows are in flight; no: only others).
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',')]
    pin: Vec<String>,
    /// Do not overlap communication with computation.
    #[arg(long)]
    no_overlap: bool,
    /// How tensors are stored: f32, bf16 or f16. Sums always use 32 bits.
    #[arg(long, value_name = "NAME", default_value = "f32", value_parser = super::inputs::storage)]
    storage: Storage,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Goal {
    /// The shortest epoch.
    #[default]
    Time,
    /// The smallest peak memory.
    Memory,
    /// The fewest bytes sent.
    Bytes,
}

#[derive(Clone, Copy, ValueEnum)]
enum PartitionerName {
    Metis,
    MetisEdges,
    Hash,
    Range,
}

impl SearchArgs {
    /// The options for the named cluster, or for `default`.
    ///
    /// # Errors
    /// An unknown or invalid cluster, or an invalid pin.
    pub fn options(&self, default: &str) -> Result<PlanOptions, Failure> {
        let partitioner = |name: &PartitionerName| match name {
            PartitionerName::Metis => Partitioner::Metis,
            PartitionerName::MetisEdges => Partitioner::MetisEdges,
            PartitionerName::Hash => Partitioner::Hash,
            PartitionerName::Range => Partitioner::Range,
        };
        Ok(PlanOptions {
            cluster: cluster(self.cluster.as_deref().unwrap_or(default))?,
            objective: match self.objective {
                Goal::Time => Objective::Time,
                Goal::Memory => Objective::Memory,
                Goal::Bytes => Objective::Bytes,
            },
            partitioners: self.partitioner.iter().map(partitioner).collect(),
            pin: self.pin()?,
            top: None,
            overlap: !self.no_overlap,
            allow: self.allow.clone(),
        })
    }

    fn pin(&self) -> Result<Pin, Failure> {
        let mut pin = Pin {
            storage: self.storage,
            ..Pin::default()
        };
        for text in &self.pin {
            let (key, value) = text.split_once('=').unwrap_or((text, ""));
            let (key, value) = (key.trim(), value.trim());
            let wrong =
                |expected: String| Err(input(format!("found --pin {text}, expected {expected}")));
            match key {
                "placement" => match super::inputs::placement(value) {
                    Ok(placement) => pin.placement = Some(placement),
                    Err(_) => {
                        let known = placement::names().join(", ");
                        return wrong(format!("placement= one of {known}"));
                    }
                },
                "partitioner" => match Partitioner::ALL.iter().find(|p| p.name() == value) {
                    Some(partitioner) => pin.partitioner = Some(*partitioner),
                    None => {
                        return wrong(format!("partitioner= one of {}", names(Partitioner::ALL)));
                    }
                },
                "ranks" => match number(value, DEVICES) {
                    Ok(ranks) => pin.ranks = Some(ranks),
                    Err(expected) => return wrong(format!("ranks= {expected}")),
                },
                "chunks" => match number(value, CHUNKS) {
                    Ok(chunks) => pin.chunks = Some(chunks),
                    Err(expected) => return wrong(format!("chunks= {expected}")),
                },
                "skip" => match value.parse() {
                    Ok(rule) => pin.skip = Some(rule),
                    Err(_) => return wrong(format!("skip= one of {RULES}")),
                },
                // The skipping system's own name for it.
                "stale_grad" if value == "through" => {}
                "stale_grad" => {
                    let why = "stale_grad=through, which passes gradients on as if all rows were current; \
                               to drop the gradients of copies, append /stop to the rule, as in skip=RULE/stop";
                    return wrong(why.to_owned());
                }
                "stages" => match number(value, CHUNKS) {
                    Ok(stages) => pin.stages = Some(stages),
                    Err(expected) => return wrong(format!("stages= {expected}")),
                },
                "virtual-stages" | "turns" => match number(value, CHUNKS) {
                    Ok(turns) => pin.turns = Some(turns),
                    Err(expected) => return wrong(format!("virtual-stages= {expected}")),
                },
                "interval" => match number(value, EPOCHS) {
                    Ok(interval) => pin.interval = Some(interval),
                    Err(expected) => return wrong(format!("interval= {expected}")),
                },
                "offload" => match value {
                    "yes" => pin.offload = Some(true),
                    "no" => pin.offload = Some(false),
                    _ => return wrong("offload=yes or offload=no".to_owned()),
                },
                "interior" => match value {
                    "yes" => pin.interior = Some(true),
                    "no" => pin.interior = Some(false),
                    _ => return wrong("interior=yes or interior=no".to_owned()),
                },
                "features" => match Layout::ALL.iter().find(|l| l.name() == value) {
                    Some(layout) => pin.features = Some(*layout),
                    None => return wrong(format!("features= one of {}", names(Layout::ALL))),
                },
                _ => {
                    let known = "placement=NAME, ranks=N, partitioner=NAME, chunks=N, skip=RULE, stages=N, \
                                 virtual-stages=N, interval=N, offload=yes|no (whether tensors are offloaded to the \
                                 host; by default only where they must be), interior=yes|no (whether interior rows \
                                 are computed while halo rows are in flight; by default where it pays) or \
                                 features=columns (mixtures that begin with push-pull)";
                    return wrong(known.to_owned());
                }
            }
        }
        Ok(pin)
    }
}

/// Parses a number in `range`; the error says what was expected.
fn number(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    within(range)(text).map_err(|said| said.trim_start_matches("expected ").to_owned())
}

/// The names, separated by commas.
fn names<T: ToString>(all: &[T]) -> String {
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// Fails if the pins leave no candidate.
///
/// # Errors
/// Which pin to change, and how.
pub fn some_candidate(options: &PlanOptions, planner: &Planner) -> Result<(), Failure> {
    if !planner.candidates().is_empty() {
        return Ok(());
    }
    let devices = options.cluster.devices();
    Err(input(match options.pin.ranks {
        Some(ranks) if ranks > devices => format!(
            "found --pin ranks={ranks}, expected at most {devices}, the devices of the cluster; \
             raise --gpus"
        ),
        Some(_) | None => format!("--pin leaves no candidate: {}", planner.why_none()),
    }))
}

/// Prints the rule's warning, if it has one.
pub fn warn(skipping: Option<Skipping>, out: &Output) {
    if let Some(warning) = skipping.and_then(|skipping| skipping.rule.warning()) {
        out.note(&format!("warning: {warning}\n"));
    }
}

/// Reads a cluster from a file, or finds it by name.
///
/// # Errors
/// An unknown name, a missing file or an invalid one.
pub fn cluster(name: &str) -> Result<Cluster, Failure> {
    let path = Path::new(name);
    if name.contains(['/', '\\']) || path.extension().is_some() || path.exists() {
        return Cluster::parse(&read_text(path, MAX_PLAN)?)
            .map_err(|e| input(format!("{name}: {e}")));
    }
    Cluster::named(name).map_err(|e| {
        let known = CLUSTERS.join(", ");
        input(format!(
            "{e} (a file, or {known}, with any number of devices)"
        ))
    })
}

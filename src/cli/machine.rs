//! The machines that plans are for, and what the plans may be.

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

/// What all commands that plan take.
#[derive(Args)]
pub struct SearchArgs {
    /// The machines: a file, or a built-in name such as cpu, a5000x4, h100x8.
    #[arg(long, value_name = "NAME|FILE")]
    pub cluster: Option<String>,
    /// What the plan shall be best at: time, memory or bytes.
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
    /// Relaxations that are permitted, beside those that the model permits: decouple, stale, sample (which nothing needs yet).
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = super::inputs::relaxation)]
    allow: Vec<Relaxation>,
    /// Price nothing but candidates with this placement, number of ranks, partitioner, chunks, or stages, turns or interval of
    /// pipelines, or mixtures of which the features lie so: features=columns are those that begin with push-pull.
    /// skip=RULE says when exchanges are left out. offload=yes lists those of which tensors have to rest on
    /// the host, offload=no lets none do so. interior=yes lists those that compute rows which need nothing of other
    /// ranks while halo rows are under way, interior=no lets none do so.
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',')]
    pin: Vec<String>,
    /// Let nothing be computed while messages are under way.
    #[arg(long)]
    no_overlap: bool,
    /// How tensors lie in memory: f32, or in 16 bits as bf16 or f16; sums are always of 32 bits.
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
    /// The options for machines of the named kind, or of `default`.
    ///
    /// # Errors
    /// A cluster that is not there or broken, a pin that means nothing.
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
                // By name, since the system that skips has it.
                "stale_grad" if value == "through" => {}
                "stale_grad" => {
                    let why = "stale_grad=through, where gradients are passed on as if all rows were current; \
                               those that stop at copies are part of a rule, skip=RULE/stop";
                    return wrong(why.to_owned());
                }
                "stages" => match number(value, CHUNKS) {
                    Ok(stages) => pin.stages = Some(stages),
                    Err(expected) => return wrong(format!("stages= {expected}")),
                },
                "turns" => match number(value, CHUNKS) {
                    Ok(turns) => pin.turns = Some(turns),
                    Err(expected) => return wrong(format!("turns= {expected}")),
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
                                 turns=N, interval=N, offload=yes|no (whether tensors may rest on the host; where they \
                                 must if it is left out), interior=yes|no (whether rows that need nothing of \
                                 other ranks are computed while halo rows are under way; where it pays if it is \
                                 left out) or features=columns (mixtures that begin with push-pull)";
                    return wrong(known.to_owned());
                }
            }
        }
        Ok(pin)
    }
}

/// A number of a range, or what was expected.
fn number(text: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    within(range)(text).map_err(|said| said.trim_start_matches("expected ").to_owned())
}

/// Names as a list.
fn names<T: ToString>(all: &[T]) -> String {
    let names: Vec<String> = all.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// Says so if a pin leaves nothing to price.
///
/// # Errors
/// What was pinned, and what there is without it.
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

/// Says what speaks against a rule.
pub fn warn(skipping: Option<Skipping>, out: &Output) {
    if let Some(warning) = skipping.and_then(|skipping| skipping.rule.warning()) {
        out.note(&format!("warning: {warning}\n"));
    }
}

/// A cluster by its name or from its file.
///
/// # Errors
/// A name or file that is not there, a file that is broken.
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

//! The machines to plan for, and the constraints on plans.

use super::cache::CacheArgs;
use super::knobs::{PlannedArgs, pins};
use super::output::{Failure, Output};
use clap::{Args, ValueEnum};
use gnnc::ir::graph::model::Relaxation;
use gnnc::ir::plan::{Knobs, Objective, Partitioner};
use gnnc::ir::program::Skipping;
use gnnc::ir::words::storage::Storage;
use gnnc::numbers::{DEVICES, EPOCHS, within};
use gnnc::{PlanOptions, cluster, usual_cluster};

/// Arguments of all commands that plan.
#[derive(Args)]
pub struct SearchArgs {
    /// The cluster: a file, a built-in name such as cpu, a5000x4, h100x8, or keys such as 'nodes=2 gpus=4 gpu=a100-40
    /// link=25gb', where gpus are those of a node; docs/clusters.md lists the keys.
    #[arg(long, value_name = "NAME|FILE|KEYS")]
    pub cluster: Option<String>,
    /// What to minimize: time, memory, bytes, or (only `gnnc plan`) time-to-accuracy, by a pilot.
    #[arg(
        long,
        value_name = "GOAL",
        value_enum,
        default_value_t,
        hide_possible_values = true
    )]
    objective: Goal,
    /// Partitioners to try: metis, metis-edges, metis-splits, blocks, blocks-train, stream, hash, range, morton (by
    /// coordinates).
    #[arg(
        long,
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "metis,metis-edges"
    )]
    partitioner: Vec<Partitioner>,
    /// Relaxations to permit besides those of the model: decouple, stale, sample, quantise.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = super::inputs::relaxation)]
    allow: Vec<Relaxation>,
    /// Consider only candidates with these values. Keys: placement, ranks, partitioner, chunks, skip (a rule for skipping
    /// exchanges); for pipelines also stages, virtual-stages and interval; features (columns: only mixtures that begin with
    /// push-pull); offload (yes: only candidates that must offload tensors to the host; no: only those that need not);
    /// interior (yes: only candidates that compute interior rows while halo rows are in flight; no: only others).
    #[arg(long, value_name = "KEY=VALUE,...", value_delimiter = ',')]
    pin: Vec<String>,
    /// Count an evaluation after every N epochs as a part of them. By default, plans are for epochs alone.
    #[arg(long, value_name = "N", value_parser = within(EPOCHS))]
    evaluate_every: Option<u32>,
    /// Do not overlap communication with computation.
    #[arg(long)]
    no_overlap: bool,
    #[arg(long, help = super::inputs::storage_help(), value_name = "NAME", default_value = "f32", value_parser = gnnc::knobs::storage)]
    storage: Storage,
    #[command(flatten)]
    knobs: PlannedArgs,
    #[command(flatten)]
    cache: CacheArgs,
}

/// Arguments of commands that plan for a number of devices.
#[derive(Args)]
pub struct MachineArgs {
    #[command(flatten)]
    search: SearchArgs,
    /// Total number of devices over all nodes; without --cluster, of h100x8 nodes.
    #[arg(long, value_name = "N", value_parser = within(DEVICES))]
    gpus: Option<u32>,
    /// Number of nodes.
    #[arg(long, value_name = "N", value_parser = within(DEVICES))]
    nodes: Option<u32>,
}

impl MachineArgs {
    /// The options for these devices, with all candidates.
    ///
    /// # Errors
    /// A number of devices that the cluster cannot have; as [`SearchArgs::options`].
    pub fn options(&self, out: &Output) -> Result<PlanOptions, Failure> {
        let default = usual_cluster(self.gpus, self.nodes);
        let options = self.search.options(default, out)?;
        let cluster = options.cluster.resized(self.gpus, self.nodes);
        Ok(PlanOptions {
            cluster: cluster.map_err(gnnc::Error::from)?,
            ..options
        })
    }
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
    /// The shortest time until the validation vertices reach a score.
    TimeToAccuracy,
}

impl SearchArgs {
    /// The options for the named cluster, or for `default`.
    ///
    /// # Errors
    /// An unknown or invalid cluster, an invalid pin, or as [`CacheArgs::open`].
    pub fn options(&self, default: &str, out: &Output) -> Result<PlanOptions, Failure> {
        let knobs = Knobs {
            overlap: self.no_overlap.then_some(false),
            storage: self.storage,
            ..self.knobs.knobs.clone()
        };
        Ok(PlanOptions {
            cluster: cluster(self.cluster.as_deref().unwrap_or(default))?,
            objective: match self.objective {
                Goal::Time => Objective::Time,
                Goal::Memory => Objective::Memory,
                Goal::Bytes => Objective::Bytes,
                Goal::TimeToAccuracy => Objective::TimeToAccuracy,
            },
            partitioners: self.partitioner.clone(),
            pin: pins(&self.pin, knobs)?,
            top: None,
            allow: self.allow.clone(),
            pilot: None,
            evaluate_every: self.evaluate_every,
            cache: self.cache.open(out)?,
        })
    }
}

/// Prints the rule's warning, if it has one.
pub fn warn(skipping: Option<Skipping>, out: &Output) {
    if let Some(warning) = skipping.and_then(|skipping| skipping.rule.warning()) {
        out.note(&format!("warning: {warning}\n"));
    }
}

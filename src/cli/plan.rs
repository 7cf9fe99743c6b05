//! `gnnc plan`: where a model runs best.

use super::files::{read_text, replace, writable};
use super::inputs::ModelArgs;
use super::output::{Answer, Failure, Output, input};
use clap::{Args, ValueEnum};
use gnnc::ir::cluster::{CLUSTERS, Cluster};
use gnnc::ir::plan::{Objective, Partitioner};
use gnnc::planner::report;
use gnnc::{PlanOptions, Planner};
use std::path::{Path, PathBuf};

/// Ranks whose events a trace holds at most: a page of more cannot be read.
const TRACED: u32 = 16;

/// Arguments of `plan`.
#[derive(Args)]
pub struct PlanCommand {
    #[command(flatten)]
    model: ModelArgs,
    /// The machines: a file, or a built-in name such as cpu, a5000x4, h100x8.
    #[arg(long, value_name = "NAME|FILE")]
    cluster: Option<String>,
    /// Devices of all nodes together; of h100x8 nodes if no cluster is named.
    #[arg(long, value_name = "N")]
    gpus: Option<u32>,
    /// Number of nodes.
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
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
    #[arg(long, value_enum, value_delimiter = ',', default_value = "metis")]
    partitioner: Vec<PartitionerName>,
    /// Write the plan to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write what the ranks are expected to do when to this file, for Chrome's tracing page or
    /// Perfetto.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
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

impl PlanCommand {
    /// Plans, prints the table, writes the file.
    pub fn run(&self, out: &Output) -> Answer {
        for (path, what) in [(&self.out, "plan"), (&self.trace, "trace")] {
            if let Some(path) = path {
                writable(path, what)?;
            }
        }
        let options = PlanOptions {
            cluster: self.cluster()?,
            objective: match self.objective {
                Goal::Time => Objective::Time,
                Goal::Memory => Objective::Memory,
                Goal::Bytes => Objective::Bytes,
            },
            partitioners: self.partitioners(),
        };
        let loaded = self.model.load(out)?;
        let compiled = gnnc::compile(&loaded.model, &loaded.workload)?;
        let planner = Planner::new(&loaded, &compiled, &options)?;
        let plan = planner.plan();
        let json = report::json(&plan).map_err(gnnc::Error::from)?;
        if let Some(path) = &self.out {
            replace(path, json.as_bytes())?;
        }
        if let (Some(path), Some(candidate)) = (&self.trace, plan.candidates.first()) {
            let trace = planner.timeline(plan.choice().unwrap_or(candidate), TRACED)?;
            replace(path, trace.chrome_json().as_bytes())?;
        }
        if out.is_json() {
            out.text(&json)
        } else {
            out.text(&report::text(&plan))
        }
    }

    fn cluster(&self) -> Result<Cluster, Failure> {
        let default = match (self.gpus, self.nodes) {
            (None, None) => "cpu",
            _ => "h100x8",
        };
        let name = self.cluster.as_deref().unwrap_or(default);
        let path = Path::new(name);
        let is_path = name.contains(['/', '\\']) || path.extension().is_some() || path.exists();
        let cluster = if is_path {
            let text = read_text(path)?;
            Cluster::parse(&text).map_err(|e| input(format!("{name}: {e}")))?
        } else {
            Cluster::named(name).map_err(|e| {
                let known = CLUSTERS.join(", ");
                input(format!(
                    "{e} (a file, or {known}, with any number of devices)"
                ))
            })?
        };
        Ok(cluster
            .resized(self.gpus, self.nodes)
            .map_err(gnnc::Error::from)?)
    }

    fn partitioners(&self) -> Vec<Partitioner> {
        let one = |name: &PartitionerName| match name {
            PartitionerName::Metis => Partitioner::Metis,
            PartitionerName::MetisEdges => Partitioner::MetisEdges,
            PartitionerName::Hash => Partitioner::Hash,
            PartitionerName::Range => Partitioner::Range,
        };
        self.partitioner.iter().map(one).collect()
    }
}

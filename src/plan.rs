//! Planning: which placement, how long, does it fit.

use crate::{Compiled, Error, Loaded};
use gnnc_graph::summary;
use gnnc_ir::Workload;
use gnnc_ir::cluster::Cluster;
use gnnc_ir::plan::{Objective, Partitioner, Plan};
use gnnc_planner::lower::LowerError;
use gnnc_planner::parts::parts;
use gnnc_planner::placement::{self, Place};
use gnnc_planner::search::{self, PlacementSpec, PlanRequest};

/// What to plan for.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// The machines.
    pub cluster: Cluster,
    /// What the plan shall be best at.
    pub objective: Objective,
    /// Partitioners to try.
    pub partitioners: Vec<Partitioner>,
}

/// Prices the placements that there are and ranks them. Where the graph is at hand it is
/// partitioned; otherwise replication is declared or estimated.
///
/// # Errors
/// A graph that cannot be partitioned. A placement that cannot run is no error but a
/// rejected candidate.
pub fn plan(loaded: &Loaded, compiled: &Compiled, options: &PlanOptions) -> Result<Plan, Error> {
    let workload = measured(loaded, options)?;
    let request = PlanRequest {
        model: &loaded.model.name,
        workload: &workload,
        cluster: &options.cluster,
        objective: options.objective,
        partitioners: &options.partitioners,
        allow: &[],
    };
    let lower = |spec: &PlacementSpec| -> Result<_, LowerError> {
        let parts = parts(&workload, spec.ranks, spec.partitioner);
        let place = Place {
            placement: spec.placement,
            ranks: spec.ranks,
            alpha: parts.map_or(0.0, |parts| parts.alpha),
        };
        placement::lower(&compiled.training, &place)
    };
    Ok(search::plan(&request, &lower))
}

/// The workload with the partitions that candidates need, if the graph is at hand.
fn measured(loaded: &Loaded, options: &PlanOptions) -> Result<Workload, Error> {
    let mut workload = loaded.workload.clone();
    let Some(data) = &loaded.data else {
        return Ok(workload);
    };
    let all = options.cluster.devices();
    let counts = [options.cluster.devices_per_node.min(all), all];
    for count in counts {
        if count > 1 && u64::from(count) <= workload.vertices {
            let parts = gnnc_graph::partition::by_name("metis", 0)
                .ok_or_else(|| Error::Input("no partitioner is called metis".to_owned()))?;
            let partition = parts.partition(&data.topology, count)?;
            let found = summary::summarise_partition(data, &partition, "metis")?;
            workload.replication.insert(count, found.alpha);
            workload.partitions.insert(count, found);
        }
    }
    Ok(workload)
}

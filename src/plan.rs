//! Planning: which placement, how long, does it fit.

use crate::{Compiled, Error, Loaded};
use gnnc_graph::summary;
use gnnc_ir::Workload;
use gnnc_ir::cluster::Cluster;
use gnnc_ir::plan::{Candidate, Objective, Partitioner, Plan};
use gnnc_ir::program::Program;
use gnnc_ir::trace::{Event, Kind, Phase, Trace};
use gnnc_planner::lower::LowerError;
use gnnc_planner::parts::{Parts, parts};
use gnnc_planner::placement::{self, Placement};
use gnnc_planner::search::{self, PlacementSpec, PlanRequest};
use gnnc_planner::simulate::timeline;

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
    Ok(Planner::new(loaded, compiled, options)?.plan())
}

/// A model with everything that its plans need.
pub struct Planner<'a> {
    loaded: &'a Loaded,
    compiled: &'a Compiled,
    options: &'a PlanOptions,
    workload: Workload,
}

impl<'a> Planner<'a> {
    /// Partitions the graph, if it is at hand, as the candidates need it.
    ///
    /// # Errors
    /// A graph that cannot be partitioned.
    pub fn new(
        loaded: &'a Loaded,
        compiled: &'a Compiled,
        options: &'a PlanOptions,
    ) -> Result<Self, Error> {
        let workload = measured(loaded, options)?;
        Ok(Self {
            loaded,
            compiled,
            options,
            workload,
        })
    }

    /// Prices the placements and ranks them.
    pub fn plan(&self) -> Plan {
        search::plan(&self.request(), &|spec| self.lower(spec))
    }

    /// What the first `ranks` ranks of a candidate are expected to do: setup, one epoch, one
    /// evaluation.
    ///
    /// # Errors
    /// A candidate that has no program.
    pub fn timeline(&self, candidate: &Candidate, ranks: u32) -> Result<Trace, Error> {
        let spec = PlacementSpec::of(candidate);
        let (program, parts) = self.priced(&spec)?;
        let (mut events, mut begin) = (Vec::new(), 0.0);
        for phase in Phase::ALL {
            let found = timeline(&program, &self.options.cluster, &parts, phase, ranks);
            let found = found.map_err(|e| Error::Input(e.to_string()))?;
            let end = found.iter().map(|e| e.end_us).fold(0.0, f64::max);
            events.extend(found.into_iter().map(|e| Event {
                begin_us: begin + e.begin_us,
                end_us: begin + e.end_us,
                ..e
            }));
            begin += end;
        }
        events.sort_by_key(|e| e.rank);
        Ok(Trace {
            kind: Kind::Predicted,
            model: self.loaded.model.name.clone(),
            graph: self.workload.name.clone(),
            ranks: program.ranks,
            events,
        })
    }

    fn priced(&self, spec: &PlacementSpec) -> Result<(Program, Parts), Error> {
        let parts = parts(&self.workload, spec.ranks, spec.partitioner);
        let parts = parts.map_err(|e| Error::Input(e.to_string()))?;
        Ok((self.lower(spec)?, parts))
    }

    fn lower(&self, spec: &PlacementSpec) -> Result<Program, LowerError> {
        let place = Placement::Graph { ranks: spec.ranks };
        placement::lower(&self.compiled.training, place)
    }

    fn request(&self) -> PlanRequest<'_> {
        PlanRequest {
            model: &self.loaded.model.name,
            workload: &self.workload,
            cluster: &self.options.cluster,
            objective: self.options.objective,
            partitioners: &self.options.partitioners,
            allow: &[],
        }
    }
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

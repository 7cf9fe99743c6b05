//! Planning: finds the best placement of a model on a cluster.

mod counted;
mod kept;
mod short;
mod sweep;

pub(crate) use counted::{Drawn, batch_plan, replay};
pub use sweep::{SweepPoint, sweep};

use crate::{Compiled, Error, Loaded};
use counted::{Counted, Division, Draws, no_batches};
use gnnc_files::Cache;
use gnnc_graph::GraphData;
use gnnc_ir::Workload;
use gnnc_ir::cluster::Cluster;
use gnnc_ir::graph::model::Relaxation;
use gnnc_ir::plan::{Candidate, Objective, Partitioner, Pilot, Placement, Plan, SampledClass};
use gnnc_ir::program::Program;
use gnnc_ir::program::trace::{Event, Kind, Phase, Trace};

use gnnc_ir::words::sampling::SamplingSettings;
use gnnc_ir::words::spelling::counted;
use gnnc_ir::words::units::Bytes;
use gnnc_planner::LowerError;
use gnnc_planner::layout::Pure;
use gnnc_planner::lower::{Batches, pure};
use gnnc_planner::parts::{BatchPlans, Parts, parts};
use gnnc_planner::placement;
use gnnc_planner::search::{self, Lower, Pin, PlacementSpec, PlanRequest, Programs, Shorter};
use gnnc_planner::simulate::{Room, timeline_all};
use kept::KeptPrograms;
use short::ShortModels;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// What to plan for, and the constraints on the search.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// The machines.
    pub cluster: Cluster,
    /// What to minimize.
    pub objective: Objective,
    /// Partitioners to try.
    pub partitioners: Vec<Partitioner>,
    /// Constraints on candidates.
    pub pin: Pin,
    /// How many of the best candidates to list; `None` lists all.
    pub top: Option<usize>,
    /// Relaxations permitted in addition to the model's own.
    pub allow: Vec<Relaxation>,
    /// What runs tell about the classes of the model, for [`Objective::TimeToAccuracy`].
    pub pilot: Option<Pilot>,
    /// After how many epochs there is an evaluation, if the time of an epoch is to have its share of it.
    pub evaluate_every: Option<u32>,
    /// Cache of partitions.
    pub cache: Option<Cache>,
}

impl PlanOptions {
    /// Options for the shortest epoch on `cluster`, with both METIS partitioners and nothing pinned.
    pub fn new(cluster: Cluster) -> Self {
        Self {
            cluster,
            objective: Objective::Time,
            partitioners: vec![Partitioner::Metis, Partitioner::MetisEdges],
            pin: Pin::default(),
            top: None,
            allow: Vec::new(),
            pilot: None,
            evaluate_every: None,
            cache: None,
        }
    }
}

/// Prices all placements and ranks them. If the graph is available, it is partitioned; otherwise
/// replication factors are declared or estimated.
///
/// # Errors
/// A graph that cannot be partitioned. A placement that cannot run is not an error but a
/// rejected candidate.
pub fn plan(loaded: &Loaded, compiled: &Compiled, options: &PlanOptions) -> Result<Plan, Error> {
    Ok(Planner::new(loaded, compiled, options)?.plan())
}

/// The best candidate of a placement on `ranks` ranks, with its layouts and layers chosen.
///
/// # Errors
/// As [`plan`]; a model that cannot be lowered.
pub fn best(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &PlanOptions,
    (placement, ranks): (Placement, u32),
) -> Result<PlacementSpec, Error> {
    let cluster = options.cluster.clone().resized(Some(ranks), None)?;
    let options = PlanOptions {
        cluster,
        pin: Pin {
            placement: Some(placement),
            ranks: Some(ranks),
            ..options.pin.clone()
        },
        ..options.clone()
    };
    let planner = Planner::new(loaded, compiled, &options)?;
    let plan = planner.plan();
    match (plan.candidates.first(), plan.rejected.first()) {
        (Some(best), _) => Ok(PlacementSpec::of(best)),
        (None, Some(rejected)) => Err(Error::Input(rejected.reason.clone())),
        (None, None) => Err(Error::Input(format!(
            "placement `{placement}` cannot run on {}: {}",
            counted(ranks, "rank"),
            planner.why_none()
        ))),
    }
}

/// Most edges of a graph that planning cuts into a pipeline's chunks. Cutting a larger one takes seconds, so its
/// chunks are assumed to be equal.
const CHUNKED_EDGES: u64 = 4_000_000;

impl Lower for Planner<'_> {
    fn programs(&self, spec: &PlacementSpec) -> Result<Programs, LowerError> {
        self.made.lowered(spec, || self.compiled.training(spec))
    }

    fn pure(&self, ranks: u32) -> Result<Pure, LowerError> {
        pure(&self.compiled.training, ranks)
    }

    fn shorter(&self, spec: &PlacementSpec) -> Option<Shorter<'_>> {
        // Batches have a form of their own.
        if spec.samples() {
            return None;
        }
        self.shorter
            .get_or_init(|| ShortModels::of(self.compiled))
            .as_ref()
            .map(ShortModels::shorter)
    }
}

/// A model with everything needed to plan it.
pub struct Planner<'a> {
    loaded: &'a Loaded,
    compiled: &'a Compiled,
    options: &'a PlanOptions,
    /// Relaxations that the options or the model permit.
    allow: Vec<Relaxation>,
    workload: Workload,
    /// Layers that a pipeline can divide.
    layers: u32,
    /// Columns of the narrowest aggregation that can be cut.
    columns: u32,
    /// Constraints on the search, with the model's batches.
    pin: Pin,
    /// The batches that may be trained on.
    batches: Vec<BatchPlans>,
    /// Cache of lowered programs.
    made: KeptPrograms,
    /// Shorter models, if there are any, once a candidate needs them.
    shorter: OnceLock<Option<ShortModels>>,
}

impl<'a> Planner<'a> {
    /// Prepares to plan. If the graph is available, partitions it as the candidates need.
    ///
    /// # Errors
    /// A graph that cannot be partitioned.
    pub fn new(
        loaded: &'a Loaded,
        compiled: &'a Compiled,
        options: &'a PlanOptions,
    ) -> Result<Self, Error> {
        let mut planner = Self::unmeasured(loaded, compiled, options);
        planner.measure(&mut Counted::on(&options.cluster, &options.pin.knobs))?;
        Ok(planner)
    }

    fn unmeasured(loaded: &'a Loaded, compiled: &'a Compiled, options: &'a PlanOptions) -> Self {
        let knobs = (options.pin.knobs.clone()).with_batches(&loaded.model.train.sampling);
        let mut planner = Self {
            loaded,
            compiled,
            options,
            allow: [&options.allow[..], &loaded.model.train.allow].concat(),
            workload: loaded.workload.clone(),
            layers: compiled.layers(),
            columns: compiled.columns(),
            pin: Pin {
                knobs,
                ..options.pin.clone()
            },
            batches: Vec::new(),
            made: KeptPrograms::default(),
            shorter: OnceLock::new(),
        };
        planner.batches = planner.sampled();
        planner
    }

    /// The machines.
    pub fn cluster(&self) -> &Cluster {
        &self.options.cluster
    }

    /// Why there are no candidates, and what to do about it.
    pub fn why_none(&self) -> String {
        self.request().why_none()
    }

    /// Refuses pins that ask a placement for what it does not have.
    ///
    /// # Errors
    /// Which pin to leave out, and what else to do.
    fn follow_pins(&self) -> Result<(), Error> {
        match self.request().useless() {
            Some(useless) => Err(Error::Input(format!("--pin cannot be followed: {useless}"))),
            None => Ok(()),
        }
    }

    /// Refuses pins that leave no candidate, or ask a placement for what it does not have.
    ///
    /// # Errors
    /// Which pin to change, and how.
    pub fn check_pins(&self) -> Result<(), Error> {
        self.follow_pins()?;
        let request = self.request();
        let refuse = |why: String| Err(Error::Input(why));
        if !request.candidates().is_empty() {
            return Ok(());
        }
        let devices = self.options.cluster.devices();
        match self.options.pin.ranks {
            Some(ranks) if ranks > devices => refuse(format!(
                "found --pin ranks={ranks}, expected at most {devices}, the devices of the cluster; raise --gpus"
            )),
            Some(_) | None => refuse(format!("--pin leaves no candidate: {}", request.why_none())),
        }
    }

    /// Prices the placements and ranks them.
    pub fn plan(&self) -> Plan {
        let mut plan = search::plan(&self.request(), self);
        if let (Some(goal), Some(pilot)) = (&mut plan.goal, &self.options.pilot) {
            let own = &self.loaded.model.train;
            goal.name_metric = pilot
                .made_for
                .judged_by
                .filter(|metric| own.metric != Some(*metric));
            goal.name_epochs = Some(pilot.epochs).filter(|epochs| *epochs > own.epochs);
        }
        plan
    }

    /// The predicted timeline of the first `ranks` ranks of a candidate: setup, one epoch, one
    /// evaluation.
    ///
    /// # Errors
    /// A candidate without a program.
    pub fn timeline(&self, candidate: &Candidate, ranks: u32) -> Result<Trace, Error> {
        let spec = PlacementSpec::of(candidate);
        let (programs, parts) = self.priced(&spec)?;
        let (mut events, mut begin) = (Vec::new(), 0.0);
        for phase in Phase::ALL {
            let found = timeline_all(&programs, &self.options.cluster, &parts, phase, ranks);
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
            ranks: spec.ranks,
            events,
        })
    }

    /// The programs of a candidate, and how the graph is divided for it.
    ///
    /// # Errors
    /// A candidate without a program, or one that does not fit with all offloaded.
    pub(crate) fn priced(&self, spec: &PlacementSpec) -> Result<(Vec<Program>, Parts), Error> {
        let parts = parts(&self.workload, spec.parts(), spec.partitioner());
        let mut parts = parts.map_err(|e| Error::Input(e.to_string()))?;
        if let Some(node_ranks) = spec.node_ranks() {
            parts = parts.on_nodes(&self.workload, node_ranks);
        }
        if let Some(ranks) = spec.group_ranks() {
            let groups = parts.in_groups(&self.workload, ranks);
            parts = groups.map_err(|e| Error::Input(e.to_string()))?;
        }
        let asked = &spec.knobs.sampling;
        let mut batches = self.batches.iter().filter(|_| spec.samples());
        if let Some(batches) = batches.find(|batches| batches.settings.same_batches(asked)) {
            let mut found = batches.on(&parts, &self.workload).map_err(no_batches)?;
            found.samplers = spec.samplers(&self.options.cluster);
            parts.batch = Some(found);
        }
        let training = self.compiled.training(spec)?;
        let mut programs = placement::lower(training, spec)?;
        let parts = match programs.first() {
            Some(program) => parts.of(program),
            None => parts,
        };
        if spec.offload() {
            let device = Room::from(&self.options.cluster.device);
            programs = search::offload_to_fit(&programs, &parts, device).map_err(|short| {
                Error::Input(format!(
                    "with everything possible offloaded to the host, {} are still missing",
                    Bytes(short.bytes)
                ))
            })?;
        }
        Ok((programs, parts))
    }

    fn request(&self) -> PlanRequest<'_> {
        PlanRequest {
            model: &self.loaded.model.name,
            workload: &self.workload,
            cluster: &self.options.cluster,
            objective: self.options.objective,
            partitioners: &self.options.partitioners,
            allow: &self.allow,
            pin: self.pin.clone(),
            top: self.options.top,
            layers: self.layers,
            columns: self.columns,
            batches: &self.batches,
            pilot: self.options.pilot.as_ref(),
            evaluate_every: self.options.evaluate_every,
        }
    }

    /// The batches that the model may be trained on: those of the options, or else those that a pilot has tried, or
    /// else the model's.
    fn sampled(&self) -> Vec<BatchPlans> {
        if !self.allow.contains(&Relaxation::Sample) {
            return Vec::new();
        }
        let asked = &self.options.pin.knobs.sampling;
        let free = asked.batch.is_none() && asked.fanouts.is_empty();
        let pilot = self.options.pilot.iter().filter(|_| free);
        let tried = pilot.flat_map(|pilot| &pilot.classes);
        let tried = tried.filter_map(|piloted| piloted.class.sampled());
        let given = &self.pin.knobs.sampling;
        let with = |class: &SampledClass| SamplingSettings {
            prefetch: given.prefetch,
            roots: given.roots,
            ..asked.clone().or(&class.settings())
        };
        let mut all: Vec<SamplingSettings> = tried.map(with).collect();
        if all.is_empty() {
            all.push(given.clone());
        }
        let of = |settings: SamplingSettings| {
            let Batches {
                training,
                evaluation,
                lazy: _,
            } = self.compiled.batches(&settings)?;
            Some(BatchPlans {
                settings,
                sampling: training,
                evaluation,
                drawn: BTreeMap::new(),
            })
        };
        all.into_iter().filter_map(of).collect()
    }

    /// If the graph is available, adds the statistics of the partitions that candidates need. `counted` holds those
    /// already known.
    fn measure(&mut self, counted: &mut Counted) -> Result<(), Error> {
        let Some(data) = &self.loaded.data else {
            let mut all = self.batches.iter();
            return all
                .try_for_each(|batches| batches.check(&self.workload))
                .map_err(no_batches);
        };
        let mut divisions = self.divisions(data);
        let draws = self.draws();
        let known = |(parts, partitioner): &Division| {
            let found = self.workload.partition(*parts, partitioner.name());
            found.is_some() && !draws.on.contains(&(*parts, *partitioner))
        };
        divisions.retain(|division| !known(division));
        counted.count(
            data,
            self.compiled,
            &divisions,
            &draws,
            self.options.cache.as_ref(),
        )?;
        for (parts, partitioner) in divisions {
            let known = self.workload.partition(parts, partitioner.name()).is_some();
            let found = counted.partitions.get(&(parts, partitioner));
            if let Some(found) = found.filter(|_| !known) {
                self.workload.add_partition(parts, found.clone());
            }
        }
        for (n, batches) in self.batches.iter_mut().enumerate() {
            let drawn = counted.batches.iter();
            let own = drawn.filter_map(|(division, all)| Some((*division, all.get(n)?.clone())));
            batches.drawn = own.collect();
        }
        Ok(())
    }

    /// The batches to draw, and the divisions on which candidates train on them.
    fn draws(&self) -> Draws {
        let candidates = self.request().candidates().into_iter();
        let sampled = candidates.filter(PlacementSpec::samples);
        let batches = self.batches.iter().map(|batches| Batches {
            training: batches.sampling.clone(),
            evaluation: batches.evaluation.clone(),
            lazy: batches.settings.lazy == Some(true),
        });
        Draws {
            batches: batches.collect(),
            seed: self.loaded.model.train.seed,
            on: sampled.map(|s| (s.parts(), s.partitioner())).collect(),
        }
    }

    /// The numbers of parts and the partitioners that the candidates need.
    fn divisions(&self, data: &GraphData) -> BTreeSet<Division> {
        let all = self.options.cluster.devices();
        let candidates = self.request().candidates();
        let mut wanted: BTreeSet<Division> = candidates
            .iter()
            .map(|s| (s.parts(), s.partitioner()))
            .collect();
        // The partitions for one node and for all devices show how the replication factor grows, whatever is pinned.
        let node = self.options.cluster.devices_per_node.min(all);
        let partitioners = candidates.iter().map(PlacementSpec::partitioner);
        let grows = partitioners.filter(|p| *p != Partitioner::Range);
        wanted.extend(grows.flat_map(|p| [(node, p), (all, p)]));
        // The share of the edges in each chunk of a pipeline.
        if data.topology.edges() <= CHUNKED_EDGES {
            let chunks = candidates.iter().filter_map(PlacementSpec::stages);
            wanted.extend(chunks.map(|stages| (stages.chunks, Partitioner::Metis)));
        }
        wanted.retain(|(count, _)| (2..=data.vertices()).contains(count));
        wanted
    }
}

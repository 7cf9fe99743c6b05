//! Which placement is best: lowers and prices every candidate, and says why each lost.

use crate::parts::{Parts, parts};
use crate::placement::Flow;
use crate::simulate::{Estimate, peak_memory, simulate};
use gnnc_ir::cluster::Cluster;
use gnnc_ir::model::Relaxation as Permission;
use gnnc_ir::plan::{
    Candidate, KindCost, Objective, PLAN_VERSION, Parameters, Partitioner, Placement, Plan, Range,
    Rejected, Relaxation,
};
use gnnc_ir::program::Program;
use gnnc_ir::units::{Bytes, Seconds};
use gnnc_ir::workload::Workload;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt::Display;

/// Ranks beyond which no remedy for a lack of memory is sought.
const MOST_RANKS: u32 = 4096;

/// Chunks that are tried where columns are sliced.
const CHUNKS: [u32; 3] = [1, 4, 16];

/// One candidate: everything that a lowering has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PlacementSpec {
    /// The placement.
    pub placement: Placement,
    /// Number of ranks.
    pub ranks: u32,
    /// How vertices are divided.
    pub partitioner: Partitioner,
    /// How communication and computing share the time.
    pub flow: Flow,
}

impl PlacementSpec {
    /// The candidate of a plan as a lowering has to know it.
    pub fn of(candidate: &Candidate) -> Self {
        let parameters = &candidate.parameters;
        Self {
            placement: candidate.placement,
            ranks: parameters.ranks,
            partitioner: parameters.partitioner.unwrap_or(Partitioner::Range),
            flow: Flow {
                overlap: parameters.overlap.unwrap_or(true),
                chunks: parameters.chunks.unwrap_or(1),
            },
        }
    }
}

/// What is to be planned.
#[derive(Clone, Debug)]
pub struct PlanRequest<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// The graph.
    pub workload: &'a Workload,
    /// The machines.
    pub cluster: &'a Cluster,
    /// What the plan shall be best at.
    pub objective: Objective,
    /// Partitioners to try.
    pub partitioners: &'a [Partitioner],
    /// Relaxations that are permitted.
    pub allow: &'a [Permission],
    /// What candidates must be.
    pub pin: Pin,
    /// Whether messages may be under way while something is computed.
    pub overlap: bool,
}

/// What candidates must be; what is none is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pin {
    /// The placement.
    pub placement: Option<Placement>,
    /// Number of ranks, which then need not be those of a node or of all devices.
    pub ranks: Option<u32>,
    /// How vertices are divided, which then need not be among the partitioners to try.
    pub partitioner: Option<Partitioner>,
    /// Chunks, which then need not be as many as are tried; other placements have one.
    pub chunks: Option<u32>,
}

impl Pin {
    /// Nothing but one candidate.
    pub fn only(spec: &PlacementSpec) -> Self {
        Self {
            placement: Some(spec.placement),
            ranks: Some(spec.ranks),
            partitioner: (spec.ranks > 1).then_some(spec.partitioner),
            chunks: Some(spec.flow.chunks),
        }
    }

    fn admits(&self, spec: &PlacementSpec) -> bool {
        let Self {
            placement,
            ranks,
            chunks,
            ..
        } = *self;
        placement.is_none_or(|p| p == spec.placement)
            && ranks.is_none_or(|r| r == spec.ranks)
            && chunks.is_none_or(|c| c == spec.flow.chunks)
    }
}

impl PlanRequest<'_> {
    /// The candidates: one rank, one node, all devices; each partitioner; what is pinned.
    pub fn candidates(&self) -> Vec<PlacementSpec> {
        let all = self.cluster.devices();
        let mut ranks = vec![1, self.cluster.devices_per_node.min(all), all];
        ranks.extend(self.pin.ranks.filter(|&pinned| (1..=all).contains(&pinned)));
        ranks.sort_unstable();
        ranks.dedup();
        let pinned = self.pin.partitioner.map(|p| [p]);
        let partitioners = pinned.as_ref().map_or(self.partitioners, |p| &p[..]);
        let mut specs = Vec::new();
        let flow = Flow {
            overlap: self.overlap,
            chunks: 1,
        };
        let chunks: BTreeSet<u32> = CHUNKS.into_iter().chain(self.pin.chunks).collect();
        for ranks in ranks {
            let different = if ranks == 1 {
                &[Partitioner::Range][..]
            } else {
                partitioners
            };
            let mut by_parts = vec![Placement::Graph];
            by_parts.extend((ranks > 1).then_some(Placement::Mixed));
            for placement in by_parts {
                specs.extend(different.iter().map(|&partitioner| PlacementSpec {
                    placement,
                    ranks,
                    partitioner,
                    flow,
                }));
            }
            if ranks > 1 {
                // Rows are only dealt out: any even division does.
                let partitioner = self.pin.partitioner.unwrap_or(Partitioner::Range);
                let broadcast = PlacementSpec {
                    placement: Placement::Broadcast,
                    ranks,
                    partitioner,
                    flow,
                };
                specs.push(broadcast);
                for placement in [Placement::Tensor, Placement::TensorDecoupled] {
                    specs.extend(chunks.iter().map(|&chunks| PlacementSpec {
                        placement,
                        // The rows of a chunk, which lie together, are to belong to all ranks.
                        partitioner: match self.pin.partitioner {
                            None if chunks > 1 => Partitioner::Hash,
                            _ => partitioner,
                        },
                        flow: Flow { chunks, ..flow },
                        ..broadcast
                    }));
                }
            }
        }
        specs.retain(|spec| self.pin.admits(spec));
        specs.sort_unstable();
        specs.dedup();
        specs
    }
}

/// The relaxations that a placement needs.
pub fn relaxations(placement: Placement) -> &'static [Relaxation] {
    match placement {
        Placement::Graph
        | Placement::Tensor
        | Placement::Broadcast
        | Placement::PushPull
        | Placement::Mixed => &[],
        Placement::TensorDecoupled => &[Relaxation::Decouple],
        Placement::Pipeline | Placement::Hybrid | Placement::SkipBroadcast => {
            &[Relaxation::StaleEmbeddings]
        }
        Placement::Minibatch | Placement::ModelMigration => &[Relaxation::Sample],
    }
}

/// Prices every candidate of a request and ranks them. `lower` makes a candidate's program; a
/// candidate for which it fails is listed as rejected, with the error as the reason.
///
/// The same request gives the same plan, byte for byte.
pub fn plan<E: Display>(
    request: &PlanRequest,
    lower: &dyn Fn(&PlacementSpec) -> Result<Program, E>,
) -> Plan {
    let mut priced = Vec::new();
    let mut rejected = Vec::new();
    for spec in request.candidates() {
        match price(request, &spec, lower) {
            Ok(found) => priced.push(found),
            Err(reason) => {
                let parameters = parameters(&spec, None);
                rejected.push(Rejected {
                    placement: spec.placement,
                    parameters,
                    reason,
                });
            }
        }
    }
    priced.sort_by(|a, b| order(request.objective, a, b));
    let chosen = priced
        .first()
        .filter(|best| best.allowed() && best.estimate.fits)
        .map(|_| 0);
    let candidates = priced
        .iter()
        .enumerate()
        .map(|(i, p)| p.candidate(request, chosen, i, &priced[0]));
    Plan {
        version: PLAN_VERSION,
        model: request.model.to_owned(),
        source: None,
        workload: request.workload.into(),
        cluster: request.cluster.clone(),
        objective: request.objective,
        chosen,
        candidates: candidates.collect(),
        rejected,
    }
}

/// A candidate with its estimate.
struct Priced<'a> {
    spec: PlacementSpec,
    allow: &'a [Permission],
    parts: Parts,
    estimate: Estimate,
    ranks_to_fit: Option<u32>,
}

fn price<'a, E: Display>(
    request: &PlanRequest<'a>,
    spec: &PlacementSpec,
    lower: &dyn Fn(&PlacementSpec) -> Result<Program, E>,
) -> Result<Priced<'a>, String> {
    let parts = held(request.workload, spec, spec.ranks, spec.partitioner)?;
    let program = lower(spec).map_err(|e| e.to_string())?;
    let estimate = simulate(&program, request.cluster, &parts).map_err(|e| e.to_string())?;
    let ranks_to_fit = if estimate.fits {
        None
    } else {
        ranks_to_fit(request, spec, lower)
    };
    Ok(Priced {
        spec: *spec,
        allow: request.allow,
        parts,
        estimate,
        ranks_to_fit,
    })
}

/// What every rank of a candidate holds.
fn held(
    workload: &Workload,
    spec: &PlacementSpec,
    ranks: u32,
    partitioner: Partitioner,
) -> Result<Parts, String> {
    let parts = parts(workload, ranks, partitioner).map_err(|e| e.to_string())?;
    Ok(match spec.placement {
        Placement::Broadcast => parts.with_everything(),
        _ => parts,
    })
}

/// The smallest power of two times the ranks of a candidate at which every rank has enough memory.
fn ranks_to_fit<E>(
    request: &PlanRequest,
    spec: &PlacementSpec,
    lower: &dyn Fn(&PlacementSpec) -> Result<Program, E>,
) -> Option<u32> {
    let partitioner = if spec.ranks == 1 {
        request.partitioners.first().copied()?
    } else {
        spec.partitioner
    };
    let doubled = std::iter::successors(spec.ranks.checked_mul(2), |ranks| ranks.checked_mul(2));
    for ranks in doubled.take_while(|ranks| *ranks <= MOST_RANKS) {
        let parts = held(request.workload, spec, ranks, partitioner).ok()?;
        let program = lower(&PlacementSpec { ranks, ..*spec }).ok()?;
        if peak_memory(&program, &parts) <= request.cluster.device.memory {
            return Some(ranks);
        }
    }
    None
}

/// Better candidates first: allowed and fitting, only fitting, the others; then by the
/// objective, the other two measures, and the candidate itself, so that there are no ties.
fn order(objective: Objective, a: &Priced, b: &Priced) -> Ordering {
    let class = |p: &Priced| match (p.estimate.fits, p.allowed()) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => 2,
    };
    let time = |p: &Priced| significant(p.estimate.epoch.seconds.0);
    let by_time = time(a).total_cmp(&time(b));
    let by_memory = a
        .estimate
        .peak_memory_bytes
        .cmp(&b.estimate.peak_memory_bytes);
    let by_bytes = a.estimate.epoch.bytes.cmp(&b.estimate.epoch.bytes);
    let measures = match objective {
        Objective::Time => by_time.then(by_memory).then(by_bytes),
        Objective::Memory => by_memory.then(by_time).then(by_bytes),
        Objective::Bytes => by_bytes.then(by_time).then(by_memory),
    };
    class(a)
        .cmp(&class(b))
        .then(measures)
        .then(a.spec.cmp(&b.spec))
}

impl Priced<'_> {
    fn allowed(&self) -> bool {
        relaxations(self.spec.placement)
            .iter()
            .all(|r| self.allow.contains(&r.permission()))
    }

    fn candidate(
        &self,
        request: &PlanRequest,
        chosen: Option<usize>,
        index: usize,
        best: &Priced,
    ) -> Candidate {
        let estimate = &self.estimate;
        let epoch = &estimate.epoch;
        let breakdown = epoch.breakdown.iter().map(|kind| KindCost {
            seconds: rounded(kind.seconds),
            ..kind.clone()
        });
        Candidate {
            placement: self.spec.placement,
            parameters: parameters(&self.spec, Some(&self.parts)),
            relaxations: relaxations(self.spec.placement).to_vec(),
            allowed: self.allowed(),
            fits: estimate.fits,
            epoch_seconds: rounded(epoch.seconds),
            compute_seconds: rounded(epoch.compute_seconds),
            exposed_communication_seconds: rounded(epoch.exposed_communication_seconds),
            bubble_seconds: rounded(epoch.bubble_seconds),
            bytes: epoch.bytes,
            peak_memory_bytes: estimate.peak_memory_bytes,
            range: Range {
                low: rounded(estimate.range.low),
                high: rounded(estimate.range.high),
            },
            basis: estimate.basis,
            eval_bytes: estimate.eval.bytes,
            eval_seconds: rounded(estimate.eval.seconds),
            breakdown: breakdown.collect(),
            ranks_to_fit: self.ranks_to_fit,
            reason: self.reason(request, chosen == Some(index), best),
        }
    }

    fn reason(&self, request: &PlanRequest, chosen: bool, best: &Priced) -> String {
        let estimate = &self.estimate;
        let epoch = &estimate.epoch;
        if !estimate.fits {
            let has = request.cluster.device.memory;
            let lacks = Bytes(estimate.peak_memory_bytes.0.saturating_sub(has.0));
            let remedy = match self.ranks_to_fit {
                Some(ranks) => format!("{ranks} ranks would fit, or {lacks} more for each"),
                None => format!("{lacks} more for each rank would do"),
            };
            return format!(
                "does not fit: {} needed, {} has {has}; {remedy}",
                estimate.peak_memory_bytes, request.cluster.device.name
            );
        }
        if !self.allowed() {
            let needed: Vec<_> = relaxations(self.spec.placement)
                .iter()
                .map(|r| r.permission().name())
                .collect();
            let gain = best.estimate.epoch.seconds.0 / epoch.seconds.0.max(f64::MIN_POSITIVE);
            return format!(
                "needs --allow {}; {gain:.2} times the speed of the best that is allowed",
                needed.join(",")
            );
        }
        if chosen {
            let main = self.cost_beyond(None);
            let what = match request.objective {
                Objective::Time => "the shortest epoch",
                Objective::Memory => "the smallest peak memory",
                Objective::Bytes => "the fewest bytes sent",
            };
            return format!("{what}: {main}");
        }
        let behind = match request.objective {
            Objective::Time => {
                let factor = epoch.seconds.0 / best.estimate.epoch.seconds.0.max(f64::MIN_POSITIVE);
                if significant(epoch.seconds.0) == significant(best.estimate.epoch.seconds.0) {
                    "as fast as the best".to_owned()
                } else {
                    format!("{factor:.2} times the epoch of the best")
                }
            }
            Objective::Memory => format!(
                "{} more memory than the best",
                Bytes(
                    estimate
                        .peak_memory_bytes
                        .0
                        .saturating_sub(best.estimate.peak_memory_bytes.0)
                )
            ),
            Objective::Bytes => format!(
                "{} more sent than by the best",
                Bytes(epoch.bytes.0.saturating_sub(best.estimate.epoch.bytes.0))
            ),
        };
        format!("{behind}: {}", self.cost_beyond(Some(best)))
    }

    /// What most of the epoch goes to, or most of what it takes longer than another's.
    fn cost_beyond(&self, other: Option<&Priced>) -> String {
        let shares = |p: &Priced| {
            let epoch = &p.estimate.epoch;
            [
                epoch.exposed_communication_seconds,
                epoch.bubble_seconds,
                epoch.compute_seconds,
            ]
        };
        let (own, other) = (shares(self), other.map_or([Seconds(0.0); 3], shares));
        let mut largest = 0;
        for i in 1..own.len() {
            if (own[i] - other[i]).0 > (own[largest] - other[largest]).0 {
                largest = i;
            }
        }
        let name = [
            "exposed communication",
            "waiting for other ranks",
            "computing",
        ][largest];
        format!("{name} {} of {}", own[largest], self.estimate.epoch.seconds)
    }
}

fn parameters(spec: &PlacementSpec, parts: Option<&Parts>) -> Parameters {
    let divided = spec.ranks > 1;
    // Where rows are only dealt out, no boundary matters.
    let bounded = matches!(spec.placement, Placement::Graph | Placement::Mixed);
    let parts = parts.filter(|_| divided && bounded);
    Parameters {
        ranks: spec.ranks,
        partitioner: divided.then_some(spec.partitioner),
        alpha: parts.map(|p| significant(p.alpha)),
        alpha_basis: parts.map(|p| p.alpha_basis),
        edge_imbalance: parts.map(|p| significant(p.edge_imbalance)),
        chunks: (spec.flow.chunks > 1).then_some(spec.flow.chunks),
        overlap: (divided && !spec.flow.overlap).then_some(false),
        ..Parameters::default()
    }
}

fn rounded(seconds: Seconds) -> Seconds {
    Seconds(significant(seconds.0))
}

/// Six significant digits: the last bits of logarithms differ between machines, plans must not.
fn significant(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

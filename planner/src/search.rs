//! Which placement is best: lowers and prices every candidate, and says why each lost.

mod candidates;
mod mixture;
mod reason;

pub use candidates::{Pin, PlacementSpec};

use crate::parts::{Parts, parts};
use crate::placement::row;
use crate::simulate::{Estimate, peak_memory, simulate};
use gnnc_ir::cluster::Cluster;
use gnnc_ir::model::Relaxation as Permission;
use gnnc_ir::plan::{
    Objective, PLAN_VERSION, Parameters, Partitioner, Placement, Plan, Rejected, Relaxation,
};
use gnnc_ir::program::Program;
use gnnc_ir::workload::Workload;
use std::cmp::Ordering;

/// Ranks beyond which no remedy for a lack of memory is sought.
const MOST_RANKS: u32 = 4096;

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
}

/// Makes the programs of candidates. Errors are sentences: a candidate without a program is listed
/// with its error.
pub trait Lower {
    /// The program of a candidate.
    ///
    /// # Errors
    /// Why there is none.
    fn program(&self, spec: &PlacementSpec) -> Result<Program, String>;

    /// How many layouts a mixture of so many ranks has, of an epoch and of an evaluation.
    ///
    /// # Errors
    /// Why that cannot be said.
    fn movable(&self, _ranks: u32) -> Result<[usize; 2], String> {
        Ok([0, 0])
    }
}

/// The relaxations that a placement needs.
pub fn relaxations(placement: Placement) -> &'static [Relaxation] {
    row(placement).map_or(&[], |row| row.relaxations)
}

/// Prices every candidate of a request and ranks them. A mixture that turns out to be a placement that is
/// also listed is not listed twice.
///
/// The same request gives the same plan, byte for byte.
pub fn plan(request: &PlanRequest, lower: &dyn Lower) -> Plan {
    let mut priced = Vec::new();
    let mut rejected = Vec::new();
    let specs = request.candidates();
    for spec in &specs {
        match price(request, spec, lower) {
            Ok(found) if found.is_another(&specs) => {}
            Ok(found) => priced.push(found),
            Err(reason) => {
                let parameters = parameters(spec, None);
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
        .map(|(i, p)| p.candidate(request, chosen == Some(i), &priced[0]));
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

fn price<'a>(
    request: &PlanRequest<'a>,
    spec: &PlacementSpec,
    lower: &dyn Lower,
) -> Result<Priced<'a>, String> {
    let parts = divided(request, spec)?;
    let estimated = |spec: &PlacementSpec| -> Result<(Estimate, Parts), String> {
        let program = lower.program(spec)?;
        let parts = parts.clone().of(&program);
        let estimate = simulate(&program, request.cluster, &parts).map_err(|e| e.to_string())?;
        Ok((estimate, parts))
    };
    let spec = settled(spec, lower, &|spec| {
        let (estimate, _) = estimated(spec)?;
        Ok(cost(request.objective, &estimate))
    })?;
    let (estimate, parts) = estimated(&spec)?;
    let ranks_to_fit = if estimate.fits {
        None
    } else {
        ranks_to_fit(request, &spec, lower)
    };
    Ok(Priced {
        spec,
        allow: request.allow,
        parts,
        estimate,
        ranks_to_fit,
    })
}

fn divided(request: &PlanRequest, spec: &PlacementSpec) -> Result<Parts, String> {
    parts(request.workload, spec.ranks, spec.partitioner).map_err(|e| e.to_string())
}

/// A candidate with the best layouts, if it mixes them and none are given.
fn settled(
    spec: &PlacementSpec,
    lower: &dyn Lower,
    cost: &dyn Fn(&PlacementSpec) -> Result<mixture::Cost, String>,
) -> Result<PlacementSpec, String> {
    let mut spec = spec.clone();
    let mixes = spec.ranks > 1 && row(spec.placement).is_some_and(|row| row.mixes);
    if mixes && spec.layouts == Default::default() {
        spec.layouts = mixture::best(lower.movable(spec.ranks)?, &|layouts| {
            cost(&PlacementSpec {
                layouts: layouts.clone(),
                ..spec.clone()
            })
        })?;
    }
    Ok(spec)
}

/// The smallest power of two times the ranks of a candidate at which every rank has enough memory.
fn ranks_to_fit(request: &PlanRequest, spec: &PlacementSpec, lower: &dyn Lower) -> Option<u32> {
    let partitioner = if spec.ranks == 1 {
        request.partitioners.first().copied()?
    } else {
        spec.partitioner
    };
    let doubled = std::iter::successors(spec.ranks.checked_mul(2), |ranks| ranks.checked_mul(2));
    for ranks in doubled.take_while(|ranks| *ranks <= MOST_RANKS) {
        let spec = PlacementSpec {
            placement: spec.placement,
            ranks,
            partitioner,
            layouts: Default::default(),
        };
        let parts = divided(request, &spec).ok()?;
        let peak = |spec: &PlacementSpec| -> Result<u64, String> {
            let program = lower.program(spec)?;
            Ok(peak_memory(&program, request.cluster, &parts.clone().of(&program)).0)
        };
        let spec = settled(&spec, lower, &|spec| Ok(vec![peak(spec)? as f64])).ok()?;
        if peak(&spec).ok()? <= request.cluster.device.memory.0 {
            return Some(ranks);
        }
    }
    None
}

/// What is better is smaller: the objective, then the other two measures.
fn measures(objective: Objective, estimate: &Estimate) -> [f64; 3] {
    let time = significant(estimate.epoch.seconds.0);
    let memory = estimate.peak_memory_bytes.0 as f64;
    let bytes = estimate.epoch.bytes.0 as f64;
    match objective {
        Objective::Time => [time, memory, bytes],
        Objective::Memory => [memory, time, bytes],
        Objective::Bytes => [bytes, time, memory],
    }
}

/// What layouts are chosen by. Of those that are the same for an epoch, the better ones for an
/// evaluation.
fn cost(objective: Objective, estimate: &Estimate) -> mixture::Cost {
    let [first, second, third] = measures(objective, estimate);
    let eval = match objective {
        Objective::Bytes => estimate.eval.bytes.0 as f64,
        Objective::Time | Objective::Memory => significant(estimate.eval.seconds.0),
    };
    vec![f64::from(!estimate.fits), first, eval, second, third]
}

/// Better candidates first: allowed and fitting, only fitting, the others; then by the
/// objective, the other two measures, and the candidate itself, so that there are no ties.
fn order(objective: Objective, a: &Priced, b: &Priced) -> Ordering {
    let class = |p: &Priced| match (p.estimate.fits, p.allowed()) {
        (true, true) => 0,
        (true, false) => 1,
        (false, _) => 2,
    };
    let [a_measures, b_measures] = [a, b].map(|p| measures(objective, &p.estimate));
    let by_measure = (a_measures.iter().zip(&b_measures)).map(|(a, b)| a.total_cmp(b));
    class(a)
        .cmp(&class(b))
        .then(by_measure.fold(Ordering::Equal, Ordering::then))
        .then(a.spec.cmp(&b.spec))
}

impl Priced<'_> {
    fn allowed(&self) -> bool {
        relaxations(self.spec.placement)
            .iter()
            .all(|r| self.allow.contains(&r.permission()))
    }

    /// Whether it is a mixture of one layout only, which is another candidate.
    fn is_another(&self, specs: &[PlacementSpec]) -> bool {
        let spec = &self.spec;
        let mixes = row(spec.placement).is_some_and(|row| row.mixes);
        mixture::pure(&spec.layouts)
            .filter(|_| mixes)
            .is_some_and(|pure| {
                let same = |s: &PlacementSpec| s.placement == pure && s.ranks == spec.ranks;
                specs.iter().any(same)
            })
    }
}

fn parameters(spec: &PlacementSpec, parts: Option<&Parts>) -> Parameters {
    let divided = spec.ranks > 1;
    // Where rows are only dealt out, no boundary matters.
    let bounded = row(spec.placement).is_some_and(|row| row.by_parts);
    let parts = parts.filter(|_| divided && bounded);
    Parameters {
        ranks: spec.ranks,
        partitioner: divided.then_some(spec.partitioner),
        alpha: parts.map(|p| significant(p.alpha)),
        alpha_basis: parts.map(|p| p.alpha_basis),
        edge_imbalance: parts.map(|p| significant(p.edge_imbalance)),
        edge_imbalance_basis: parts.map(|p| p.edge_imbalance_basis),
        layouts: spec.layouts.epoch.clone(),
        eval_layouts: spec.layouts.eval.clone(),
        ..Parameters::default()
    }
}

/// Six significant digits: the last bits of logarithms differ between machines, plans must not.
fn significant(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

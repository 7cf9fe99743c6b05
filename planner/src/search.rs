//! The search for the best placement: lowers and prices every candidate, and says why each one
//! lost.

mod again;
mod between;
mod bits;
mod caches;
mod candidates;
mod deep;
mod interior;
mod layers;
mod leaner;
mod mixture;
mod more_ranks;
mod nodes;
mod none;
mod offload;
mod order;
mod ready;
mod reason;
mod sums;
mod target;
mod threads;
mod training;

pub use crate::placement::{Pin, PlacementSpec};
pub use deep::{Fewer, Shorter};
pub use offload::offload_to_fit;

use crate::error::LowerError;
use crate::layout::Pure;
use crate::parts::{BatchPlans, Parts};
use crate::simulate::{
    Doubts, Draws, Estimate, bound_all, busy_seconds, least_memory, peak_memory, simulate_all,
};
use gnnc_ir::cluster::Cluster;
use gnnc_ir::graph::model::Relaxation as Permission;
use gnnc_ir::plan::{
    Host, Knobs, Objective, PLAN_VERSION, Partitioner, Pilot, Placement, Plan, Rejected, ToTarget,
};
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Buffer, Capacity, Program, Role};
use gnnc_ir::words::units::Bytes;
use gnnc_ir::workload::Workload;
use more_ranks::{MoreRanks, more_ranks};
use order::{measures, order};
use ready::{Made, Ready, divided, ready};
use std::sync::Arc;

/// Why a candidate is not listed though it could run.
const NOT_CUT: &str = "interior=yes asks for interior rows computed while halo rows are in flight, but nothing here \
                       waits for halo rows; leave it out";
const NOT_OFFLOADED: &str = "offload=yes asks for candidates that need host memory, but this one fits without; leave it out";

/// A planning request.
#[derive(Clone, Debug)]
pub struct PlanRequest<'a> {
    /// Name of the model.
    pub model: &'a str,
    /// The graph.
    pub workload: &'a Workload,
    /// The machines.
    pub cluster: &'a Cluster,
    /// The objective of the plan.
    pub objective: Objective,
    /// Partitioners to try.
    pub partitioners: &'a [Partitioner],
    /// Permitted relaxations.
    pub allow: &'a [Permission],
    /// Constraints on candidates.
    pub pin: Pin,
    /// How many of the best candidates to list; `None` lists all.
    pub top: Option<usize>,
    /// Number of layers a pipeline can divide; 0 if none.
    pub layers: u32,
    /// Columns of the narrowest aggregation that can be cut into slices; 0 if none can.
    pub columns: u32,
    /// The sampled batches to try; none if no settings describe them, or they may not be trained on.
    pub batches: &'a [BatchPlans],
    /// What runs tell about the classes of the model, if the time to an accuracy is the objective.
    pub pilot: Option<&'a Pilot>,
    /// After how many epochs there is an evaluation, if the time of an epoch is to have its share of it.
    pub evaluate_every: Option<u32>,
}

/// The programs of a candidate: one that represents all ranks, or one per stage. Candidates that
/// differ only in their partition share them.
pub type Programs = Arc<Vec<Program>>;

/// Makes the programs of candidates, on several threads. A candidate without a program is listed
/// with its error.
pub trait Lower: Sync {
    /// The programs of a candidate.
    ///
    /// # Errors
    /// Why there are none.
    fn programs(&self, spec: &PlacementSpec) -> Result<Programs, LowerError>;

    /// The layouts of the pure placements on `ranks` ranks.
    ///
    /// # Errors
    /// Why there are none.
    fn pure(&self, _ranks: u32) -> Result<Pure, LowerError> {
        Ok(Pure::default())
    }

    /// Two shorter models, if the one that a candidate runs has many layers that are alike.
    fn shorter(&self, _spec: &PlacementSpec) -> Option<Shorter<'_>> {
        None
    }
}

/// Prices the candidates of a request and ranks them. If only the best few are requested,
/// candidates whose lower bound rules them out are not simulated. Drops duplicate candidates.
/// Works on several candidates at a time, on a thread for each core.
///
/// The same request gives the same plan, byte for byte.
pub fn plan(request: &PlanRequest, lower: &dyn Lower) -> Plan {
    let specs = request.candidates();
    let (mut waiting, mut rejected): (Vec<Ready>, _) = (Vec::new(), Vec::new());
    // Candidates without what a pin asks for; listed if nothing else is.
    let mut without: Vec<Rejected> = Vec::new();
    let staged = specs.iter().any(|spec| spec.stages().is_some());
    let seconds_of_layers = match staged {
        true => seconds_of_layers(request, lower).unwrap_or_default(),
        false => Vec::new(),
    };
    let made = threads::each(specs.iter().collect(), |spec| {
        Made::of(request, spec, lower, &seconds_of_layers)
    });
    for made in made {
        waiting.extend(made.waiting);
        without.extend(made.without);
        rejected.extend(made.rejected);
    }
    let again: Vec<bool> = waiting.iter().map(|r| r.is_another(&waiting)).collect();
    let mut again = again.into_iter();
    waiting.retain(|_| again.next() != Some(true));
    waiting.sort_by(|a, b| a.least.total_cmp(&b.least).then(a.spec.cmp(&b.spec)));
    // Caches that do not fit are all cut to the same size.
    waiting.dedup_by(|a, b| a.spec == b.spec);
    let mut priced: Vec<Priced> = Vec::new();
    let is_beaten = |least: f64, priced: &[Priced]| {
        let better = priced.iter().filter(|p| {
            p.allowed() && p.estimate.fits && measures(request, &p.estimate)[0] < least
        });
        request.top.is_some_and(|top| better.count() >= top)
    };
    // If candidates can be beaten unseen, as many are priced at a time as there are threads. What
    // others of the same round beat is dropped, so the number of threads changes nothing.
    let at_a_time = match request.top {
        Some(_) => threads::count(),
        None => usize::MAX,
    };
    let mut waiting = waiting.into_iter().peekable();
    while waiting.peek().is_some() {
        let round = waiting.by_ref().take(at_a_time);
        let round = round.filter(|candidate| !is_beaten(candidate.least, &priced));
        let round: Vec<Ready> = round.collect();
        let found = threads::each(round, |candidate: Ready| {
            let (spec, least) = (candidate.spec.clone(), candidate.least);
            (spec, least, candidate.priced(request, lower))
        });
        for (spec, least, found) in found {
            match found {
                _ if is_beaten(least, &priced) => {}
                // Only candidates that need the host were requested.
                Ok(found) if request.pin.knobs.offload == Some(true) && found.host.is_none() => {
                    let why = found.helpless.clone();
                    without.push(refused(
                        &spec,
                        why.unwrap_or_else(|| NOT_OFFLOADED.to_owned()),
                    ));
                }
                Ok(found) => priced.push(found),
                Err(reason) => rejected.push(refused(&spec, reason)),
            }
        }
    }
    let doubts = Doubts::of(request.cluster);
    if priced.is_empty() {
        rejected.append(&mut without);
    }
    match request.objective {
        Objective::TimeToAccuracy => target::arrange(request, &mut priced, &doubts),
        Objective::Time | Objective::Memory | Objective::Bytes => {
            priced.sort_by(|a, b| order(request, a, b));
        }
    }
    if let Some(better) = between::between(request, lower, &priced) {
        priced.insert(0, better);
    }
    priced.truncate(request.top.unwrap_or(usize::MAX));
    threads::each(priced.iter_mut().collect(), |listed| {
        if !listed.estimate.fits {
            listed.more_ranks = more_ranks(request, &listed.spec, lower);
        }
        listed.draws = listed.drawn(&doubts, Phase::Step);
    });
    let chosen = priced
        .first()
        .filter(|best| best.allowed() && best.estimate.fits && best.may_win(request))
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
        evaluate_every: request.evaluate_every,
        goal: request.goal(),
        chosen,
        candidates: candidates.collect(),
        rejected,
    }
}

/// Seconds of each pipeline layer by itself, on a device that has the whole graph.
fn seconds_of_layers(request: &PlanRequest, lower: &dyn Lower) -> Result<Vec<f64>, String> {
    let spec = PlacementSpec {
        placement: Placement::Pipeline,
        ranks: request.layers,
        knobs: Knobs {
            stages: Some(request.layers),
            layers: vec![1; request.layers as usize],
            chunks: Some(1),
            storage: request.pin.knobs.storage,
            ..Knobs::default()
        },
    };
    let parts = divided(request, &spec)?;
    let programs = lower.programs(&spec).map_err(|e| e.to_string())?;
    Ok(busy_seconds(&programs, request.cluster, &parts))
}

fn refused(spec: &PlacementSpec, reason: String) -> Rejected {
    Rejected {
        placement: spec.placement,
        parameters: spec.parameters(None),
        reason,
    }
}

/// A candidate with its estimate.
struct Priced<'a> {
    spec: PlacementSpec,
    programs: Programs,
    /// Whether other layouts were left that might be better.
    ended: bool,
    allow: &'a [Permission],
    parts: Parts,
    estimate: Estimate,
    /// Seconds of an epoch in each draw of what is uncertain, once it is known that the candidate is listed.
    draws: Vec<f64>,
    more_ranks: MoreRanks,
    /// Data offloaded to the host; `None` if there is none.
    host: Option<Host>,
    /// Why offloading does not help a candidate that does not fit, if it was tried.
    helpless: Option<String>,
    /// What a candidate on batches that does not fit needs without its evaluations.
    training: Option<Bytes>,
    /// Bytes of rows of earlier epochs, by tensor, on the rank that keeps the most.
    copies: Vec<(String, Bytes)>,
    /// What is known of its time to the target, if that is the objective.
    to_target: Option<ToTarget>,
    /// That in words.
    told: Option<String>,
}

impl Ready {
    fn estimate(&self, request: &PlanRequest) -> Result<Estimate, String> {
        simulate_all(&self.programs, request.cluster, &self.parts).map_err(|e| e.to_string())
    }

    fn priced<'a>(
        mut self,
        request: &PlanRequest<'a>,
        lower: &dyn Lower,
    ) -> Result<Priced<'a>, String> {
        let mut estimate = self.estimate(request)?;
        if let Some((cut, better)) = self.cut(request, lower, &estimate) {
            (self, estimate) = (cut, better);
        }
        let mut helpless = None;
        if !estimate.fits {
            let fitted = self.fitted(estimate, request, lower)?;
            (self, estimate, helpless) = (fitted.ready, fitted.estimate, fitted.helpless);
        }
        Ok(Priced {
            host: offload::use_of_host(&self.programs, request, &self.parts),
            helpless,
            training: self.training_alone(request).filter(|_| !estimate.fits),
            estimate,
            copies: self
                .programs
                .first()
                .map_or_else(Vec::new, |p| copies(p, &self.parts)),
            spec: self.spec,
            programs: self.programs,
            draws: Vec::new(),
            ended: self.ended,
            allow: request.allow,
            parts: self.parts,
            more_ranks: MoreRanks::default(),
            to_target: None,
            told: None,
        })
    }

    /// Memory for training on batches, without evaluations on the whole graph.
    fn training_alone(&self, request: &PlanRequest) -> Option<Bytes> {
        let program = self.programs.first().filter(|_| self.spec.samples())?;
        if program.evaluation.is_some() {
            return None;
        }
        let without = training::alone(program);
        Some(peak_memory(&without, request.cluster, &self.parts))
    }
}

/// Lower bound of the objective's measure.
fn least(request: &PlanRequest, programs: &[Program], parts: &Parts) -> Result<f64, String> {
    let bound = || bound_all(programs, request.cluster, parts).map_err(|e| e.to_string());
    Ok(match request.objective {
        // Measures are rounded.
        Objective::Time => bound()?.seconds.0 * (1.0 - 1e-5),
        // Classes need different numbers of epochs, so no bound of one rules out another candidate.
        Objective::TimeToAccuracy => 0.0,
        Objective::Bytes => bound()?.bytes.0 as f64,
        Objective::Memory => {
            let bytes = programs
                .iter()
                .map(|p| least_memory(p, request.cluster, parts).0);
            let bytes = bytes.max().unwrap_or(0);
            let may_rest =
                request.cluster.host.is_some() && request.pin.knobs.offload != Some(false);
            match may_rest && bytes > request.cluster.device.memory.0 {
                // How much will be offloaded is not known yet.
                true => 0.0,
                false => bytes as f64,
            }
        }
    })
}

impl Priced<'_> {
    /// Seconds of a run of a list in each draw of what is uncertain.
    fn drawn(&self, doubts: &Doubts, phase: Phase) -> Vec<f64> {
        let predicted = match phase {
            Phase::Setup => self.estimate.setup.seconds,
            Phase::Step => self.estimate.epoch.seconds,
            Phase::Eval => self.estimate.eval.seconds,
        };
        // Nobody compares a candidate that is not allowed with others.
        let draws = if self.allowed() {
            Draws::All
        } else {
            Draws::Half
        };
        let found = doubts.seconds(&self.programs, &self.parts, phase, predicted, draws);
        // What was simulated once can be simulated again.
        found.unwrap_or_default()
    }

    /// Whether it trains on sampled batches.
    fn samples(&self) -> bool {
        self.spec.samples()
    }

    fn allowed(&self) -> bool {
        (self.spec.relaxations().iter()).all(|r| self.allow.contains(&r.permission()))
    }
}

fn copies(program: &Program, parts: &Parts) -> Vec<(String, Bytes)> {
    let kept = program.buffers.iter();
    let kept = kept.filter(|b| matches!(b.role, Role::History(_)));
    let most = |buffer: &Buffer| {
        let words = parts
            .sizes
            .iter()
            .map(|sizes| buffer.words(&Capacity::of(*sizes)));
        Bytes(words.max().unwrap_or(0).saturating_mul(4))
    };
    kept.map(|buffer| (buffer.name.clone(), most(buffer)))
        .collect()
}

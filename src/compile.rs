//! From a checked model to programs.

use crate::Error;
use gnnc_graph::GraphData;
use gnnc_graph::partition::PartitionInput;
use gnnc_ir::graph::autodiff::differentiate;
use gnnc_ir::graph::model::Model;
use gnnc_ir::graph::op::{Input, Op};
use gnnc_ir::plan::{Partitioner, Placement, Relaxation};
use gnnc_ir::program::Program;
use gnnc_ir::words::sampling::SamplingSettings;
use gnnc_ir::{Graph, Workload};
use gnnc_planner::LowerError;
use gnnc_planner::decouple::{DecoupleError, decouple};
use gnnc_planner::facts::Facts;
use gnnc_planner::forms::{Form, RewriteOptions, rewrite};
use gnnc_planner::lower::{
    Batches, OnBatches, Once, Training, cover, evaluation, narrowest, only_multiplies_features,
};
use gnnc_planner::placement::{PlacementSpec, lower, lower_all, pipeline_form, row};
use gnnc_planner::sampled::sampled;
use gnnc_planner::stale::{cuts, unrolled};
use std::sync::OnceLock;

/// Rules that compute attention scores per vertex and keep the order of products and aggregations.
/// All are linear in the rows that edges take, so a pipeline's histories are the same before and after them.
const SCORES: [&str; 4] = ["attention-split", "scale-take", "sum-take", "slice-slice"];

/// A model, rewritten for a workload, with its gradient.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The rewritten form and how it was found.
    pub form: Form,
    /// Forward and backward graphs.
    pub training: Training,
    /// The decoupled form, which is a different function, or why there is none.
    pub decoupled: Result<Box<Relaxed>, DecoupleError>,
    /// The forms on sampled batches, made on demand: without aggregations that are made beforehand, and with them.
    sampled: [OnceLock<Result<Box<Training>, LowerError>>; 2],
}

/// A relaxed form of a model, with its gradient.
#[derive(Clone, Debug)]
pub struct Relaxed {
    /// The relaxed form before rewriting.
    pub graph: Graph,
    /// The equal, cheaper form after rewriting.
    pub form: Form,
    /// Forward and backward graphs.
    pub training: Training,
}

/// Rewrites and differentiates a model for a workload.
///
/// # Errors
/// A bug in a pass, or a model without a gradient.
pub fn compile(model: &Model, workload: &Workload) -> Result<Compiled, Error> {
    with_options(model, workload, &RewriteOptions::default())
}

/// As [`compile`]; the report also explains each rewrite and what it saved.
///
/// # Errors
/// As [`compile`].
pub fn compile_explained(model: &Model, workload: &Workload) -> Result<Compiled, Error> {
    let options = RewriteOptions {
        explain: true,
        ..RewriteOptions::default()
    };
    with_options(model, workload, &options)
}

fn with_options(
    model: &Model,
    workload: &Workload,
    options: &RewriteOptions,
) -> Result<Compiled, Error> {
    let (form, training) = trained(&model.graph, model, workload, options)?;
    let relaxed = |graph: Graph| -> Result<_, Error> {
        let (form, training) = trained(&graph, model, workload, &RewriteOptions::default())?;
        Ok(Box::new(Relaxed {
            graph,
            form,
            training,
        }))
    };
    let decoupled = match decouple(&model.graph) {
        Ok(graph) => Ok(relaxed(graph)?),
        Err(why) => Err(why),
    };
    Ok(Compiled {
        form,
        training,
        decoupled,
        sampled: Default::default(),
    })
}

/// A model that trains on batches. Evaluations run over the whole graph, or over batches too.
fn on_batches(training: &Training, beforehand: bool) -> Result<Training, LowerError> {
    let looks_up = training.identity_features;
    let form = |graph: &Graph| {
        // Whatever rewriting chose for the whole graph need not be best in a batch.
        let form = sampled(graph, training.typed, beforehand, looks_up);
        form.map_err(|why| LowerError::NotSampled(Placement::Minibatch, why))
    };
    let found = form(&training.source)?;
    let unrolled = |graph: &Graph| unrolled(graph).map_err(LowerError::from);
    let evaluation_form = form(&evaluation(&training.source))?;
    let all = [&found.batch, &evaluation_form.batch];
    let looks_up = looks_up && all.into_iter().all(only_multiplies_features);
    let whole = unrolled(&training.form)?;
    // Rewriting may multiply an embedding by the next weight first, which takes all of its rows.
    let forward = match looks_up {
        true => evaluation(&unrolled(&training.source)?),
        false => evaluation(&whole),
    };
    Ok(Training {
        backward: differentiate(&found.batch).map_err(LowerError::from)?,
        forward,
        form: whole,
        // Fetched rows are dense, and only rows that are looked up are not fetched.
        sparse_features: looks_up,
        identity_features: looks_up,
        batches: Some(OnBatches {
            hops: found.hops,
            evaluation: evaluation_form,
        }),
        ..training.clone()
    })
}

fn trained(
    graph: &Graph,
    model: &Model,
    workload: &Workload,
    options: &RewriteOptions,
) -> Result<(Form, Training), Error> {
    let facts = Facts::new(workload, true);
    let form = rewrite(graph, &facts, options)?;
    let scores = rewrite(graph, &facts, &RewriteOptions::only(&SCORES))?;
    let backward = differentiate(&form.graph).map_err(LowerError::from)?;
    let training = Training {
        source: scores.graph,
        forward: evaluation(&form.graph),
        form: form.graph.clone(),
        backward,
        loss: model.loss.clone(),
        settings: model.train.clone(),
        sparse_features: workload.sparse_features(),
        identity_features: workload.identity_features,
        typed: workload.relations > 0,
        batches: None,
        canonical: Once::default(),
    };
    Ok((form, training))
}

/// The forward graph of a named tensor of a model, without dropout, rewritten for a workload.
///
/// # Errors
/// A name that stands for no tensor with a row for each vertex, or for the features; a bug in a pass.
pub(crate) fn forward_to(model: &Model, workload: &Workload, name: &str) -> Result<Graph, Error> {
    let graph = model.forward_to(name);
    let graph = graph.map_err(|error| Error::Input(error.to_string()))?;
    let facts = Facts::new(workload, true);
    let form = rewrite(&evaluation(&graph), &facts, &RewriteOptions::default())?;
    let result = form
        .graph
        .results
        .first()
        .map(|id| &form.graph.node(*id).op);
    match result == Some(&Op::Input(Input::Features)) {
        false => Ok(form.graph),
        true => Err(Error::Input(format!(
            "`{name}` are the features of the graph, expected a tensor that the model computes"
        ))),
    }
}

impl Compiled {
    /// Number of layers that a pipeline can divide; 0 if the model has no pipeline form.
    pub fn layers(&self) -> u32 {
        pipeline_form(&self.training).map_or(0, |form| cuts(&form).len() as u32 + 1)
    }

    /// Columns of the narrowest aggregation that can be cut into slices; 0 if none can.
    pub fn columns(&self) -> u32 {
        narrowest(&self.training).unwrap_or(0)
    }

    /// The program of rank 0 under a placement.
    ///
    /// # Errors
    /// The model uses something that no program can express yet.
    pub fn program(&self, place: &PlacementSpec) -> Result<Program, Error> {
        let programs = lower(self.training(place)?, place)?;
        let none = || LowerError::Internal("a placement without a program".to_owned());
        Ok(programs.into_iter().next().ok_or_else(none)?)
    }

    /// The programs of a placement's ranks: one for all, or one per rank or stage.
    ///
    /// # Errors
    /// As [`Compiled::program`].
    pub fn programs(&self, place: &PlacementSpec) -> Result<Vec<Program>, Error> {
        Ok(lower_all(self.training(place)?, place)?)
    }

    /// Whether parts can send partial sums in place of rows: if all sums over edges can be cut into such.
    pub(crate) fn sends_sums(&self) -> bool {
        let programs = self.programs(&PlacementSpec::new(Placement::Graph, 2));
        programs.is_ok_and(|programs| programs.iter().all(cover::fits))
    }

    /// The batches that settings ask for, if they say enough; of plain edges if the model cannot be trained
    /// on batches.
    pub(crate) fn batches(&self, settings: &SamplingSettings) -> Option<Batches> {
        let beforehand = settings.beforehand == Some(true);
        let of_model = self.sampled(beforehand).as_ref().ok();
        match of_model.and_then(|training| training.batches.as_ref()) {
            Some(hops) => hops.batches(settings),
            None => Batches::of(settings),
        }
    }

    /// Hops of the batches that the model is trained on, with aggregations that are made `beforehand` or without.
    ///
    /// # Errors
    /// Why it cannot be trained on batches.
    pub(crate) fn hops(&self, beforehand: bool) -> Result<usize, LowerError> {
        let training = self.sampled(beforehand).as_ref().map_err(Clone::clone)?;
        Ok(training
            .batches
            .as_ref()
            .map_or(0, |batches| batches.hops.len()))
    }

    /// A graph as a partitioner sees it: batches of the model have as many hops as it aggregates one after another.
    pub(crate) fn input<'a>(
        &self,
        data: &'a GraphData,
        partitioner: Partitioner,
    ) -> PartitionInput<'a> {
        // The form on batches takes time to make.
        let sampled = partitioner.reads_hops().then(|| self.sampled(false));
        let of_model = sampled.and_then(|sampled| sampled.as_ref().ok());
        let batches = of_model.and_then(|training| training.batches.as_ref());
        let hops = batches.map(|batches| batches.hops.len() as u32);
        PartitionInput::from(data).over_hops(hops)
    }

    /// The forward and backward graphs that a placement runs.
    ///
    /// # Errors
    /// The placement needs a form that the model does not have.
    pub fn training(&self, spec: &PlacementSpec) -> Result<&Training, LowerError> {
        if spec.samples() {
            let sampled = self.sampled(spec.beforehand());
            return sampled.as_deref().map_err(Clone::clone);
        }
        let relaxed = self.relaxed(spec.placement)?;
        Ok(relaxed.map_or(&self.training, |relaxed| &relaxed.training))
    }

    /// The form that a placement runs.
    ///
    /// # Errors
    /// As [`Compiled::training`].
    pub fn form(&self, placement: Placement) -> Result<&Form, LowerError> {
        let relaxed = self.relaxed(placement)?;
        Ok(relaxed.map_or(&self.form, |relaxed| &relaxed.form))
    }

    /// The model on sampled batches, with aggregations that are made `beforehand` or without.
    fn sampled(&self, beforehand: bool) -> &Result<Box<Training>, LowerError> {
        self.sampled[usize::from(beforehand)]
            .get_or_init(|| on_batches(&self.training, beforehand).map(Box::new))
    }

    fn relaxed(&self, placement: Placement) -> Result<Option<&Relaxed>, LowerError> {
        match &self.decoupled {
            _ if !decouples(placement) => Ok(None),
            Ok(relaxed) => Ok(Some(relaxed)),
            Err(why) => Err(LowerError::NoForm(placement, why.clone())),
        }
    }
}

fn decouples(placement: Placement) -> bool {
    row(placement).is_some_and(|row| row.relaxations.contains(&Relaxation::Decouple))
}

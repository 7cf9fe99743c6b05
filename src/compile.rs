//! From a checked model to programs.

use crate::Error;
use gnnc_ir::Workload;
use gnnc_ir::autodiff::differentiate;
use gnnc_ir::model::Model;
use gnnc_ir::program::Program;
use gnnc_planner::facts::Facts;
use gnnc_planner::forms::{Form, RewriteOptions, rewrite};
use gnnc_planner::lower::{LowerError, Training, evaluation};
use gnnc_planner::placement::{Place, lower, lower_all};

/// A model in the form that was chosen for a workload, with its derivative.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The form and how it was found.
    pub form: Form,
    /// Forward and backward graphs.
    pub training: Training,
}

/// Rewrites and differentiates a model for a workload.
///
/// # Errors
/// A bug in a pass, or a model that has no gradient.
pub fn compile(model: &Model, workload: &Workload) -> Result<Compiled, Error> {
    with_options(model, workload, &RewriteOptions::default())
}

/// As [`compile`]; the report also says why each rewrite was made and what it saved.
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
    let form = rewrite(&model.graph, &Facts::new(workload, true), options)?;
    let backward = differentiate(&form.graph).map_err(LowerError::from)?;
    let training = Training {
        forward: evaluation(&form.graph),
        backward,
        loss: model.loss,
        settings: model.train.clone(),
        sparse_features: workload.sparse_features(),
    };
    Ok(Compiled { form, training })
}

impl Compiled {
    /// The program of a placement, as rank 0 runs it.
    ///
    /// # Errors
    /// If the model uses something that no program can express yet.
    pub fn program(&self, place: &Place) -> Result<Program, Error> {
        Ok(lower(&self.training, place)?)
    }

    /// The programs of a placement's ranks: one for all of them, or one each.
    ///
    /// # Errors
    /// As [`Compiled::program`].
    pub fn programs(&self, place: &Place) -> Result<Vec<Program>, Error> {
        Ok(lower_all(&self.training, place)?)
    }
}

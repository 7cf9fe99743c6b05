//! Evaluations of a trained model, without what training needs.

use crate::training::{Judge, parted};
use crate::{Error, Loaded, Scores, TrainOptions, best_of};
use gnnc_graph::{GraphData, Labels};
use gnnc_ir::Graph;
use gnnc_ir::program::Program;
use gnnc_planner::lower::inference;
use gnnc_runtime::{RunOptions, Session, Tensor as Parameter};
use std::path::{Path, PathBuf};

/// Where the parameters of a trained model are.
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// In the checkpoint of a run. Its best parameters are taken if it kept some, unless the `last` ones are asked for.
    Run {
        /// The checkpoint.
        checkpoint: &'a Path,
        /// Whether to take those of the last epoch.
        last: bool,
    },
    /// In memory.
    Given(&'a [Parameter]),
}

/// A tensor of a trained model, which has a row for each vertex of a graph.
pub(crate) struct Inference {
    session: Session,
    judge: Option<Judge>,
    /// Whether the tensor can be scored.
    scored: bool,
}

/// What a tensor is scored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tensor {
    /// The logits, if the graph has labels.
    Logits,
    /// Nothing.
    Hidden,
}

/// The rows of a tensor.
pub(crate) struct Rows {
    /// Numbers per vertex, at least 1.
    pub(crate) width: usize,
    /// `[vertices x width]`, row by row.
    pub(crate) values: Vec<f32>,
    /// Scores on the vertices with labels, if the tensor can be scored.
    pub(crate) scores: Option<Scores>,
}

impl Inference {
    /// Prepares the evaluation of a forward graph, whose result is the tensor.
    ///
    /// # Errors
    /// Missing data, invalid options, or an error of [`Session::new`].
    pub(crate) fn new(
        loaded: &Loaded,
        forward: &Graph,
        tensor: Tensor,
        options: &TrainOptions,
    ) -> Result<Self, Error> {
        let data = loaded.graph_data("predict")?;
        if options.workers == 0 || options.threads == 0 {
            return Err(Error::Input(
                "found 0 workers or threads, expected at least 1 of each".to_owned(),
            ));
        }
        let scored = tensor == Tensor::Logits && data.labels != Labels::None;
        let judge = match scored {
            true => Judge::new(loaded, data)?,
            false => None,
        };
        let loss = scored.then(|| loaded.model.loss.clone());
        let sparse = loaded.workload.sparse_features();
        let program = inference(forward, sparse, loss, options.workers)?;
        Ok(Self {
            session: start(program, data, loaded, options)?,
            judge,
            scored,
        })
    }

    /// Takes the parameters of a trained model. Returns their file; an empty path if they are in memory.
    ///
    /// # Errors
    /// A checkpoint that cannot be read or belongs to another model; best parameters of another run.
    pub(crate) fn take(&mut self, weights: Weights<'_>) -> Result<PathBuf, Error> {
        match weights {
            Weights::Run { checkpoint, last } => self.take_run(checkpoint, last),
            Weights::Given(tensors) => {
                self.session.set_parameters(tensors)?;
                Ok(PathBuf::new())
            }
        }
    }

    fn take_run(&mut self, checkpoint: &Path, last: bool) -> Result<PathBuf, Error> {
        let session = &mut self.session;
        session.take_parameters(checkpoint)?;
        let chosen = session.best().and_then(|best| best.chosen_epoch());
        let best = best_of(checkpoint);
        let Some(epoch) = chosen.filter(|_| !last && best.exists()) else {
            return Ok(checkpoint.to_owned());
        };
        let seed = session.seed();
        session.take_parameters(&best)?;
        if (session.epochs(), session.seed()) == (epoch, seed) {
            return Ok(best);
        }
        Err(Error::Input(format!(
            "{} has epoch {} of seed {}, but {} says that epoch {epoch} of seed {seed} is the best; they \
             are of two runs: train again, or take the last epoch with --last",
            best.display(),
            session.epochs(),
            session.seed(),
            checkpoint.display()
        )))
    }

    /// Epochs that the parameters were trained for.
    pub(crate) fn epochs(&self) -> u64 {
        self.session.epochs()
    }

    /// Evaluates the tensor.
    ///
    /// # Errors
    /// A rank that failed.
    pub(crate) fn rows(&mut self, loaded: &Loaded) -> Result<Rows, Error> {
        let metrics = self.session.measure()?;
        let judged = self.judge.as_ref();
        let judged = judged.map(|judge| judge.judge(&mut self.session));
        let judged = judged.transpose()?;
        let values = self.session.logits()?;
        let scores = || Scores::new(loaded.counted(), &metrics, judged.as_ref());
        Ok(Rows {
            width: (values.len() / self.session.vertices().max(1)).max(1),
            values,
            scores: self.scored.then(scores),
        })
    }
}

fn start(
    program: Program,
    data: &GraphData,
    loaded: &Loaded,
    options: &TrainOptions,
) -> Result<Session, Error> {
    let partition = parted(data.into(), options, options.workers)?;
    let run = RunOptions {
        threads_per_rank: options.threads,
        cache: options.cache.clone(),
        checked: options.checked,
        model: loaded.model.name.clone(),
        ..RunOptions::default()
    };
    Ok(Session::new(program, data, &partition, run)?)
}

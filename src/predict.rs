//! Predictions of a trained model.

use crate::{Compiled, Error, Loaded, Scores, TrainOptions, Trainer, best_of};
use gnnc_ir::graph::op::LabelKind;
use std::path::{Path, PathBuf};

/// What a model says about every vertex of a graph.
#[derive(Clone, Debug)]
pub struct Predictions {
    /// What the model says about a vertex.
    pub labels: LabelKind,
    /// Numbers per vertex.
    pub width: usize,
    /// `[vertices x width]`, row by row: the probabilities that softmax gives classes; the probability of
    /// each of several labels; or the numbers themselves.
    pub values: Vec<f32>,
    /// Scores on the vertices with labels, as in a report of training.
    pub scores: Scores,
    /// Epochs that the model was trained for.
    pub epochs: u64,
    /// The file of the parameters.
    pub from: PathBuf,
}

impl Predictions {
    /// The most probable class of a vertex, the first of equal ones; all classes above one half if it
    /// may have several.
    pub fn of(&self, vertex: usize) -> Vec<usize> {
        let row = self.row(vertex);
        if self.labels == LabelKind::Several {
            return (0..self.width).filter(|class| row[*class] > 0.5).collect();
        }
        let best = (1..self.width).fold(0, |best, class| match row[class] > row[best] {
            true => class,
            false => best,
        });
        vec![best]
    }

    /// The probabilities or numbers of a vertex.
    pub fn row(&self, vertex: usize) -> &[f32] {
        &self.values[vertex * self.width..][..self.width]
    }
}

/// The logits of a trained model on a graph.
#[derive(Clone, Debug)]
pub struct Outputs {
    /// Number of classes, at least 1.
    pub classes: usize,
    /// `[vertices x classes]`, row by row.
    pub logits: Vec<f32>,
    /// Scores on the vertices with labels, as in a report of training.
    pub scores: Scores,
    /// Epochs that the model was trained for.
    pub epochs: u64,
    /// The file of the parameters.
    pub from: PathBuf,
}

/// Evaluates a model with the parameters of a run on its graph, which may be another one than it was
/// trained on if features and classes are as many. The run's best parameters are taken if it kept some,
/// unless the `last` ones are asked for. `options` says on how many workers and threads.
///
/// # Errors
/// As [`Trainer::new`]; a checkpoint that cannot be read or belongs to another model; best parameters of
/// another run; a placement that keeps no logits.
pub fn outputs(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &TrainOptions,
    checkpoint: &Path,
    last: bool,
) -> Result<Outputs, Error> {
    let mut trainer = Trainer::new(loaded, compiled, options)?;
    let session = &mut trainer.session;
    session.resume(checkpoint)?;
    let mut from = checkpoint.to_owned();
    let chosen = session.best().and_then(|best| best.chosen_epoch());
    let best = best_of(checkpoint);
    if let Some(epoch) = chosen.filter(|_| !last && best.exists()) {
        let seed = session.seed();
        session.resume(&best)?;
        if (session.epochs(), session.seed()) != (epoch, seed) {
            return Err(Error::Input(format!(
                "{} has epoch {} of seed {}, but {} says that epoch {epoch} of seed {seed} is the best; they \
                 are of two runs: train again, or take the last epoch with --last",
                best.display(),
                session.epochs(),
                session.seed(),
                checkpoint.display()
            )));
        }
        from = best;
    }
    let metrics = trainer.evaluate()?;
    let logits = trainer.session.logits()?;
    let classes = logits.len() / trainer.session.vertices().max(1);
    if classes == 0 {
        return Err(Error::Input(
            "this placement keeps no logits of all vertices; predict with placement graph"
                .to_owned(),
        ));
    }
    Ok(Outputs {
        classes,
        logits,
        scores: Scores::new(loaded.counted(), &metrics, trainer.judged()),
        epochs: trainer.session.epochs(),
        from,
    })
}

/// What a trained model says about every vertex, as [`outputs`].
///
/// # Errors
/// As [`outputs`].
pub fn predict(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &TrainOptions,
    checkpoint: &Path,
    last: bool,
) -> Result<Predictions, Error> {
    let found = outputs(loaded, compiled, options, checkpoint, last)?;
    let mut values = found.logits;
    let labels = compiled.training.loss.labels();
    for row in values.chunks_mut(found.classes) {
        match labels {
            LabelKind::Several => row.iter_mut().for_each(|z| *z = 1.0 / (1.0 + (-*z).exp())),
            LabelKind::Class => softmax(row),
            LabelKind::Numbers => {}
        }
    }
    Ok(Predictions {
        labels,
        width: found.classes,
        values,
        scores: found.scores,
        epochs: found.epochs,
        from: found.from,
    })
}

fn softmax(row: &mut [f32]) {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|z| *z = (*z - most).exp());
    let sum: f32 = row.iter().sum();
    row.iter_mut().for_each(|z| *z /= sum);
}

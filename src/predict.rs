//! Predictions of a trained model.

use crate::compile::forward_to;
use crate::inference::{Inference, Tensor, Weights};
use crate::{Compiled, Error, Loaded, Scores, TrainOptions};
use gnnc_ir::graph::op::LabelKind;
use std::path::PathBuf;

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
    /// Scores on the vertices with labels, as in a report of training; `None` if the graph has none.
    pub scores: Option<Scores>,
    /// Epochs that the model was trained for.
    pub epochs: u64,
    /// The file of the parameters; empty if they were in memory.
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

/// The rows that a trained model computes for a named tensor.
#[derive(Clone, Debug)]
pub struct Embeddings {
    /// Numbers per vertex.
    pub width: usize,
    /// `[vertices x width]`, row by row.
    pub values: Vec<f32>,
    /// Epochs that the model was trained for.
    pub epochs: u64,
    /// The file of the parameters; empty if they were in memory.
    pub from: PathBuf,
}

impl Embeddings {
    /// The numbers of a vertex.
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
    /// Scores on the vertices with labels, as in a report of training; `None` if the graph has none.
    pub scores: Option<Scores>,
    /// Epochs that the model was trained for.
    pub epochs: u64,
    /// The file of the parameters; empty if they were in memory.
    pub from: PathBuf,
}

/// Evaluates a model with the parameters of a run on its graph, which may be another one than it was
/// trained on if features and classes are as many. `options` says on how many workers and threads.
///
/// # Errors
/// A graph that is only statistics, or whose labels do not fit the loss; a checkpoint that cannot be read or
/// belongs to another model; best parameters of another run; a rank that failed.
pub fn outputs(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &TrainOptions,
    weights: Weights<'_>,
) -> Result<Outputs, Error> {
    let forward = &compiled.training.forward;
    let mut model = Inference::new(loaded, forward, Tensor::Logits, options)?;
    let from = model.take(weights)?;
    let found = model.rows(loaded)?;
    Ok(Outputs {
        classes: found.width,
        logits: found.values,
        scores: found.scores,
        epochs: model.epochs(),
        from,
    })
}

/// What a trained model computes for every vertex as the tensor that it calls `name`, with the parameters and
/// options of [`outputs`]. The graph needs no labels.
///
/// # Errors
/// As [`outputs`], and a name that stands for no tensor with a row for each vertex.
pub fn embeddings(
    loaded: &Loaded,
    name: &str,
    options: &TrainOptions,
    weights: Weights<'_>,
) -> Result<Embeddings, Error> {
    let forward = forward_to(&loaded.model, &loaded.workload, name)?;
    let mut model = Inference::new(loaded, &forward, Tensor::Hidden, options)?;
    let from = model.take(weights)?;
    let found = model.rows(loaded)?;
    Ok(Embeddings {
        width: found.width,
        values: found.values,
        epochs: model.epochs(),
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
    weights: Weights<'_>,
) -> Result<Predictions, Error> {
    let found = outputs(loaded, compiled, options, weights)?;
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

//! Weights of classes in a loss, the same on all ranks.

use gnnc_graph::{GraphData, Labels};
use gnnc_ir::graph::op::Loss;
use gnnc_ir::program::trace::Phase;
use gnnc_ir::program::{Instr, Program, instr};

/// The weights of the loss of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Weights {
    /// Of each class, in a cross-entropy; of a label that is there, in each column of a binary one. Empty if all are 1.
    pub(crate) each: Vec<f32>,
    /// Of all classes together.
    pub(crate) of_classes: f64,
    /// Of the training vertices of all ranks together.
    pub(crate) trained: f64,
    /// Whether some vertices with a label lack some of its numbers.
    pub(crate) has_gaps: bool,
}

impl Weights {
    /// The weights of a program's loss, from the labels of all training vertices.
    pub(crate) fn new(program: &Program, data: &GraphData) -> Self {
        let labels = Phase::ALL
            .iter()
            .find_map(|phase| labels(program.list(*phase)));
        let each = labels.map_or(Vec::new(), |labels| of_each(&labels, data));
        let mut weights = Self {
            of_classes: each.iter().copied().map(f64::from).sum(),
            each,
            trained: 0.0,
            has_gaps: has_gaps(&data.labels),
        };
        let trained = (0..data.train.len()).filter(|v| data.train[*v]);
        weights.trained = trained.map(|v| weights.of_vertex(&data.labels, v)).sum();
        weights
    }

    /// Whether classes have weights.
    pub(crate) fn weigh(&self) -> bool {
        !self.each.is_empty()
    }

    /// Whether vertices differ in their weight in the mean.
    pub(crate) fn differ(&self) -> bool {
        self.weigh() || self.has_gaps
    }

    /// The weight of a vertex in the mean: that of its class, or the share of its numbers that are known.
    pub(crate) fn of_vertex(&self, labels: &Labels, v: usize) -> f64 {
        match labels {
            Labels::Single(labels) if self.weigh() => {
                let class = labels.get(v).and_then(|label| usize::try_from(*label).ok());
                let weight = class.and_then(|class| self.each.get(class));
                weight.copied().map_or(0.0, f64::from)
            }
            Labels::Values { .. } if self.has_gaps => labels.known_share(v),
            Labels::Single(_) | Labels::Values { .. } | Labels::None => 1.0,
        }
    }

    /// The weight of a column.
    pub(crate) fn of_column(&self, column: usize) -> f32 {
        self.each.get(column).copied().unwrap_or(1.0)
    }
}

/// Whether some vertices lack some of the numbers of their label.
fn has_gaps(labels: &Labels) -> bool {
    let Labels::Values { width, values } = labels else {
        return false;
    };
    let lacks = |row: &[f32]| row.iter().any(|x| x.is_nan()) && !row.iter().all(|x| x.is_nan());
    values.chunks((*width).max(1) as usize).any(lacks)
}

/// The labels that instructions compare logits with, if some do.
fn labels(list: &[Instr]) -> Option<instr::Labels> {
    list.iter().find_map(|instr| {
        let body = || labels(instr.body().unwrap_or_default());
        instr.labels().or_else(body)
    })
}

fn of_each(labels: &instr::Labels, data: &GraphData) -> Vec<f32> {
    let found = match &labels.loss {
        Loss::CrossEntropy { weights, .. } => {
            weights.of_classes(&trained_by_class(data, labels.classes))
        }
        Loss::BinaryCrossEntropy { positive } => {
            Some(positive.iter().map(|weight| weight.0).collect())
        }
        Loss::SquaredError | Loss::AbsoluteError | Loss::Huber { .. } => None,
    };
    let found = found.unwrap_or_default();
    found.into_iter().map(|weight| weight as f32).collect()
}

/// How many training vertices each class has.
fn trained_by_class(data: &GraphData, classes: u32) -> Vec<u64> {
    let mut counts = vec![0; classes as usize];
    if let Labels::Single(labels) = &data.labels {
        for (label, _) in labels
            .iter()
            .zip(&data.train)
            .filter(|(_, trains)| **trains)
        {
            let class = usize::try_from(*label).ok();
            if let Some(count) = class.and_then(|class| counts.get_mut(class)) {
                *count += 1;
            }
        }
    }
    counts
}

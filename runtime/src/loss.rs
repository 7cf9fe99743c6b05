//! Losses, their gradients, and counts of correct vertices.

use crate::arena::Span;
use crate::leaves::{Blocks, Leaves};
use crate::part::Part;
use crate::part::batch::Batch;
use crate::team::Team;
use crate::weights::Weights;
use gnnc_graph::Labels;
use gnnc_ir::graph::op::{LabelKind, Loss};
use gnnc_ir::program::METRICS;
use gnnc_ir::words::types::Of;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Vertices whose losses are summed into one partial sum; partial sums are added in order.
const BLOCK: usize = 1024;

/// Rows of logits or of their gradient: `classes` floats each, with a stride, and a range of own
/// rows.
#[derive(Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) at: Span,
    pub(crate) stride: usize,
    pub(crate) begin: usize,
    pub(crate) end: usize,
}

/// What the rows of logits are compared with.
#[derive(Clone, Copy)]
pub(crate) struct Targets<'a> {
    labels: &'a Labels,
    /// Which vertices are trained; `None` if all rows are.
    trains: Option<&'a [bool]>,
    /// The vertices of the rows, as the labels number them; `None` if rows are numbered likewise.
    ids: Option<&'a [u32]>,
    weights: &'a Weights,
    /// Weight of the vertices that are trained, on all ranks.
    weight: f64,
}

impl<'a> Targets<'a> {
    /// Those of a rank's training vertices, or of its seeds of a batch.
    pub(crate) fn of(part: &'a Part, batch: Option<&'a Batch>) -> Self {
        match batch {
            None => Self {
                labels: &part.labels,
                trains: Some(&part.splits[0]),
                ids: None,
                weights: &part.weights,
                weight: part.weights.trained,
            },
            Some(batch) => Self {
                labels: batch.labels().unwrap_or(&part.labels),
                trains: None,
                ids: Some(batch.ids(Of::One)),
                weights: &part.weights,
                weight: batch.weight(),
            },
        }
    }
}

/// What the rows of logits are scored by.
#[derive(Clone, Copy)]
pub(crate) struct Scored<'a> {
    labels: &'a Labels,
    weights: &'a Weights,
    /// Which vertices are trained, validated and tested.
    splits: &'a [Vec<bool>; 3],
    /// The vertices of the rows, as labels and splits number them; `None` if rows are numbered
    /// likewise.
    ids: Option<&'a [u32]>,
}

impl<'a> Scored<'a> {
    /// Those of a rank's own vertices, or of its seeds of a batch.
    pub(crate) fn of(part: &'a Part, batch: Option<&'a Batch>) -> Self {
        Self {
            labels: batch.and_then(Batch::labels).unwrap_or(&part.labels),
            weights: &part.weights,
            splits: batch.and_then(Batch::splits).unwrap_or(&part.splits),
            ids: batch.map(|batch| batch.ids(Of::One)),
        }
    }
}

/// The rank's share of the mean loss over all training vertices, or over those of a batch, for each leaf of the blocks. Writes
/// the gradient of the logits to `grad`. `sums` is kept between calls to reuse its memory.
///
/// # Safety
/// Nothing else uses `grad` meanwhile, or writes the logits.
pub(crate) unsafe fn loss(
    team: &Team,
    targets: Targets,
    kind: &Loss,
    logits: Rows,
    grad: Option<Rows>,
    classes: usize,
    of: &Blocks,
    sums: &mut Vec<AtomicU64>,
) -> Vec<f64> {
    let terms = targets.weight * f64::from(kind.per_vertex(classes as u32));
    // Without training vertices, or if all have the weight 0, the mean is 0.
    let scale = if terms == 0.0 { 0.0 } else { 1.0 / terms };
    let blocks = of.rows.len();
    sums.resize_with(blocks.max(sums.len()), AtomicU64::default);
    team.each(blocks, (blocks * BLOCK * classes * 4) as u64, |block| {
        let mut sum = 0.0;
        for row in of.block(block) {
            // SAFETY: blocks are disjoint rows; `part` checks the span.
            let (z, g) = unsafe {
                (
                    logits.row(row, classes).read(),
                    grad.map(|g| g.row(row, classes).write()),
                )
            };
            let v = targets.ids.map_or(row, |ids| ids[row] as usize);
            if targets.trains.is_some_and(|trains| !trains[v]) {
                if let Some(g) = g {
                    g.fill(0.0);
                }
                continue;
            }
            let Targets {
                labels, weights, ..
            } = targets;
            sum += of_vertex(kind, labels, weights, v, z, scale as f32, g);
        }
        sums[block].store(sum.to_bits(), Ordering::Relaxed);
    });
    let leaves = of.of_leaf.iter();
    leaves
        .map(|leaf| in_order(&sums[leaf.clone()]) * scale)
        .collect()
}

/// The sum of the blocks' sums.
fn in_order(sums: &[AtomicU64]) -> f64 {
    let value = |sum: &AtomicU64| f64::from_bits(sum.load(Ordering::Relaxed));
    sums.iter().fold(0.0, |total, sum| total + value(sum))
}

/// Sums for the training, validation and test set: correct vertices and all; of several labels twice the
/// true positives at threshold 0.5, and that plus false positives and false negatives; of numbers their
/// absolute errors and how many they are. Then the sum of the validation vertices' losses and the weight
/// of its terms. Ties go to the lower class. All that for each leaf of the blocks. `sums` is kept between calls to reuse its
/// memory.
///
/// # Safety
/// Nothing writes the logits meanwhile.
pub(crate) unsafe fn metrics(
    team: &Team,
    scored: Scored,
    kind: &Loss,
    logits: Rows,
    classes: usize,
    of: &Blocks,
    sums: &mut Vec<AtomicU64>,
) -> Vec<[f64; METRICS as usize]> {
    const OF_BLOCK: usize = METRICS as usize;
    let blocks = of.rows.len();
    sums.resize_with((blocks * OF_BLOCK).max(sums.len()), AtomicU64::default);
    team.each(blocks, (blocks * BLOCK * classes) as u64, |block| {
        let mut own = [0.0; OF_BLOCK];
        for row in of.block(block) {
            let v = scored.ids.map_or(row, |ids| ids[row] as usize);
            let Some(split) = (0..3).find(|&s| scored.splits[s][v]) else {
                continue;
            };
            // SAFETY: nothing writes the logits; `part` checks the span.
            let z = unsafe { logits.row(row, classes).read() };
            let hits = match (kind.labels(), scored.labels) {
                (LabelKind::Several, Labels::Values { values, .. }) => {
                    micro_f1(z, &values[v * classes..][..classes])
                }
                (LabelKind::Numbers, Labels::Values { values, .. }) => {
                    absolute_error(z, &values[v * classes..][..classes])
                }
                (LabelKind::Class, Labels::Single(labels)) => Hits {
                    correct: f64::from(u8::from(argmax(z) as i64 == i64::from(labels[v]))),
                    of: 1.0,
                },
                _ => Hits::default(),
            };
            own[2 * split] += hits.correct;
            own[2 * split + 1] += hits.of;
            if split == 1 && !matches!(scored.labels, Labels::None) {
                own[6] += of_vertex(kind, scored.labels, scored.weights, v, z, 1.0, None);
                let weight = scored.weights.of_vertex(scored.labels, v);
                own[7] += weight * f64::from(kind.per_vertex(classes as u32));
            }
        }
        for (sum, own) in sums[block * OF_BLOCK..].iter().zip(own) {
            sum.store(own.to_bits(), Ordering::Relaxed);
        }
    });
    let of_leaf = |leaf: &Range<usize>| {
        let mut totals = [0.0; OF_BLOCK];
        for own in sums[leaf.start * OF_BLOCK..leaf.end * OF_BLOCK].chunks(OF_BLOCK) {
            for (total, own) in totals.iter_mut().zip(own) {
                *total += f64::from_bits(own.load(Ordering::Relaxed));
            }
        }
        totals
    };
    of.of_leaf.iter().map(of_leaf).collect()
}

/// The loss of a vertex, a sum over its terms. Its gradient times `scale` goes to `grad`.
fn of_vertex(
    kind: &Loss,
    labels: &Labels,
    weights: &Weights,
    v: usize,
    z: &[f32],
    scale: f32,
    grad: Option<&mut [f32]>,
) -> f64 {
    match (kind, labels) {
        (Loss::CrossEntropy { smoothing, .. }, Labels::Single(labels)) => {
            let target = Target::new(labels[v], smoothing.0, z.len(), weights);
            cross_entropy(z, target, scale, grad)
        }
        (Loss::BinaryCrossEntropy { .. }, Labels::Values { values, .. }) if weights.weigh() => {
            weighed_binary(z, &values[v * z.len()..][..z.len()], weights, scale, grad)
        }
        (Loss::BinaryCrossEntropy { .. }, Labels::Values { values, .. }) => {
            binary_cross_entropy(z, &values[v * z.len()..][..z.len()], scale, grad)
        }
        (_, Labels::Values { values, .. }) => {
            of_numbers(kind, z, &values[v * z.len()..][..z.len()], scale, grad)
        }
        // `check_labels` refuses such runs.
        (_, Labels::None | Labels::Single(_)) => 0.0,
    }
}

impl Rows {
    /// The blocks of a sum over the rows: those of one leaf, or of each leaf if there are some.
    pub(crate) fn blocks(&self, leaves: Option<&Leaves>) -> Blocks {
        let rows = self.begin as u64..self.end as u64;
        match leaves {
            None => Leaves::one(rows).blocks(BLOCK as u64),
            Some(leaves) => leaves.blocks(BLOCK as u64),
        }
    }

    fn row(&self, v: usize, classes: usize) -> Span {
        self.at.part(v * self.stride, classes)
    }
}

/// What the classes of a vertex are compared with.
#[derive(Clone, Copy)]
struct Target<'a> {
    label: usize,
    /// What the label has for itself.
    own: f64,
    /// What each class has, the label too, times its weight.
    shared: f64,
    /// What all have together.
    all: f64,
    weights: &'a Weights,
}

impl<'a> Target<'a> {
    fn new(label: i32, smoothing: f64, classes: usize, weights: &'a Weights) -> Self {
        let label = label as usize;
        let own = (1.0 - smoothing) * f64::from(weights.of_column(label));
        let shared = smoothing / classes as f64;
        Self {
            label,
            own,
            shared,
            all: if weights.weigh() {
                own + shared * weights.of_classes
            } else {
                1.0
            },
            weights,
        }
    }
}

/// The cross-entropy of `softmax(z)` with the target; its gradient times `scale` goes to `grad`.
fn cross_entropy(z: &[f32], target: Target<'_>, scale: f32, grad: Option<&mut [f32]>) -> f64 {
    let top = z.iter().copied().fold(
        f32::NEG_INFINITY,
        |a, b| if b > a || b.is_nan() { b } else { a },
    );
    let sum: f32 = match grad {
        None => z.iter().map(|&z| exp(z - top)).sum(),
        Some(grad) => {
            grad.iter_mut().zip(z).for_each(|(g, &z)| *g = exp(z - top));
            let sum: f32 = grad.iter().sum();
            let factor = scale * target.all as f32 / sum;
            grad.iter_mut().for_each(|g| *g *= factor);
            grad[target.label] -= scale * target.own as f32;
            if target.shared > 0.0 {
                let shared = scale * target.shared as f32;
                let grad = grad.iter_mut().enumerate();
                grad.for_each(|(c, g)| *g -= shared * target.weights.of_column(c));
            }
            sum
        }
    };
    let all = f64::from(sum).ln() + f64::from(top);
    let of_label = target.own * (all - f64::from(z[target.label]));
    if target.shared == 0.0 {
        return of_label;
    }
    let weight = |c| f64::from(target.weights.of_column(c));
    let mut of_classes = 0.0;
    for (c, z) in z.iter().enumerate() {
        of_classes += weight(c) * (all - f64::from(*z));
    }
    of_label + target.shared * of_classes
}

/// The gradient of a logit whose label is unknown.
fn leave_out(grad: &mut Option<&mut [f32]>, column: usize) {
    if let Some(grad) = grad {
        grad[column] = 0.0;
    }
}

/// The sum over classes of `max(z, 0) - z y + log(1 + exp(-|z|))`; its gradient times `scale` goes
/// to `grad`.
fn binary_cross_entropy(z: &[f32], y: &[f32], scale: f32, mut grad: Option<&mut [f32]>) -> f64 {
    let mut sum = 0.0;
    // Sum the logarithms as the logarithm of a product, whose factors are 1 to 2.
    for (chunk, (z, y)) in z.chunks(512).zip(y.chunks(512)).enumerate() {
        let mut product = 1.0f64;
        for (c, (&z, &y)) in z.iter().zip(y).enumerate() {
            if y.is_nan() {
                leave_out(&mut grad, chunk * 512 + c);
                continue;
            }
            let small = exp(-z.abs());
            product *= 1.0 + f64::from(small);
            sum += f64::from(z.max(0.0)) - f64::from(z) * f64::from(y);
            if let Some(grad) = &mut grad {
                let sigmoid = if z >= 0.0 { 1.0 } else { small } / (1.0 + small);
                grad[chunk * 512 + c] = (sigmoid - y) * scale;
            }
        }
        sum += product.ln();
    }
    sum
}

/// The sum over classes of `max(z, 0) - z y + log(1 + exp(-|z|))`, and of `-log(sigmoid(z)) y` times the weight
/// less 1; its gradient times `scale` goes to `grad`.
fn weighed_binary(
    z: &[f32],
    y: &[f32],
    weights: &Weights,
    scale: f32,
    mut grad: Option<&mut [f32]>,
) -> f64 {
    let mut sum = 0.0;
    for (c, (&z, &y)) in z.iter().zip(y).enumerate() {
        if y.is_nan() {
            leave_out(&mut grad, c);
            continue;
        }
        let small = exp(-z.abs());
        let more = (weights.of_column(c) - 1.0) * y;
        let rest = f64::from(small).ln_1p();
        sum += f64::from(z.max(0.0)) - f64::from(z) * f64::from(y) + rest;
        sum += f64::from(more) * (rest + f64::from((-z).max(0.0)));
        if let Some(grad) = &mut grad {
            let (own, other) = if z >= 0.0 { (1.0, small) } else { (small, 1.0) };
            grad[c] = (own / (1.0 + small) - y - more * other / (1.0 + small)) * scale;
        }
    }
    sum
}

/// The sum over columns of a loss of numbers; its gradient times `scale` goes to `grad`.
fn of_numbers(kind: &Loss, z: &[f32], y: &[f32], scale: f32, mut grad: Option<&mut [f32]>) -> f64 {
    let mut sum = 0.0;
    for (c, (&z, &y)) in z.iter().zip(y).enumerate() {
        if y.is_nan() {
            leave_out(&mut grad, c);
            continue;
        }
        if let Some((loss, slope)) = kind.of_number(c, z.into(), y.into()) {
            sum += loss;
            if let Some(grad) = &mut grad {
                grad[c] = slope as f32 * scale;
            }
        }
    }
    sum
}

/// What a score counts: how many are right, or the sum of errors; and of how many.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Hits {
    correct: f64,
    of: f64,
}

/// Index of the largest value, the first of equal ones.
fn argmax(z: &[f32]) -> usize {
    let mut best = 0;
    for (c, value) in z.iter().enumerate() {
        if *value > z[best] {
            best = c;
        }
    }
    best
}

/// `2 TP` of `2 TP + FP + FN` of one vertex; predicts the classes with a probability above 0.5.
fn micro_f1(z: &[f32], y: &[f32]) -> Hits {
    let mut hits = Hits::default();
    for (&z, &y) in z.iter().zip(y).filter(|(_, y)| !y.is_nan()) {
        let (predicted, labelled) = (u8::from(z > 0.0), u8::from(y >= 0.5));
        hits.correct += f64::from(2 * (predicted & labelled));
        hits.of += f64::from(predicted + labelled);
    }
    hits
}

/// The sum of the absolute errors of one vertex.
fn absolute_error(z: &[f32], y: &[f32]) -> Hits {
    let mut hits = Hits::default();
    for (&z, &y) in z.iter().zip(y).filter(|(_, y)| !y.is_nan()) {
        hits.correct += (f64::from(z) - f64::from(y)).abs();
        hits.of += 1.0;
    }
    hits
}

/// `exp(x)` for `x <= 0` with relative error 1e-7, in a form that vectorizes (Cephes `expf`).
fn exp(x: f32) -> f32 {
    let x = if x < -87.0 { -87.0 } else { x };
    // Adding 1.5 * 2^23 rounds to an integer, which ends up in the low bits.
    let shifted = x * std::f32::consts::LOG2_E + 12_582_912.0;
    let n = shifted - 12_582_912.0;
    let r = x - n * 0.693_359_4 - n * -2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    for c in [
        1.398_2e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        0.5,
    ] {
        p = p * r + c;
    }
    let p = p * (r * r) + r + 1.0;
    p * f32::from_bits((shifted.to_bits() << 23).wrapping_add(0x3f80_0000))
}

#[cfg(test)]
mod tests;

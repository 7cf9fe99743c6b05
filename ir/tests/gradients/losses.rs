//! The losses whose gradients are compared with differences.

use gnnc_ir::graph::op::{ClassWeights, Loss};
use gnnc_ir::words::number::Number;

const CLASSES: &[&str] = &["cross entropy"];
const NUMBERS: &[&str] = &["losses of numbers"];

/// Losses of two columns, each with the name of the operator under test.
pub fn all() -> Vec<(&'static [&'static str], Loss)> {
    let cross_entropy = |smoothing, weights| Loss::CrossEntropy {
        smoothing: Number(smoothing),
        weights,
    };
    let weights = || vec![Number(0.3), Number(2.5)];
    let positive = Loss::BinaryCrossEntropy {
        positive: weights(),
    };
    let narrow = Loss::Huber {
        delta: Number(0.25),
    };
    vec![
        (CLASSES, Loss::CROSS_ENTROPY),
        (CLASSES, cross_entropy(0.1, ClassWeights::Equal)),
        (CLASSES, cross_entropy(0.0, ClassWeights::Balanced)),
        (CLASSES, cross_entropy(0.1, ClassWeights::Given(weights()))),
        (NUMBERS, Loss::BINARY_CROSS_ENTROPY),
        (NUMBERS, positive),
        (NUMBERS, Loss::SquaredError),
        (NUMBERS, Loss::AbsoluteError),
        (NUMBERS, Loss::HUBER),
        (NUMBERS, narrow),
    ]
}

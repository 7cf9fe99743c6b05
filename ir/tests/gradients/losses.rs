//! The losses whose gradients are compared with differences.

use gnnc_ir::graph::op::Loss;
use gnnc_ir::words::number::Number;

const CLASSES: &[&str] = &["cross entropy"];
const NUMBERS: &[&str] = &["losses of numbers"];

/// Losses of two columns, each with the name of the operator under test.
pub fn all() -> Vec<(&'static [&'static str], Loss)> {
    let smoothed = Loss::CrossEntropy {
        smoothing: Number(0.1),
    };
    let narrow = Loss::Huber {
        delta: Number(0.25),
    };
    vec![
        (CLASSES, Loss::CROSS_ENTROPY),
        (CLASSES, smoothed),
        (NUMBERS, Loss::BinaryCrossEntropy),
        (NUMBERS, Loss::SquaredError),
        (NUMBERS, Loss::AbsoluteError),
        (NUMBERS, Loss::HUBER),
        (NUMBERS, narrow),
    ]
}

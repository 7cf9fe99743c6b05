//! The state of training that instructions depend on.

use gnnc_ir::program::ScalarRef;

/// Everything a run's numbers depend on besides the program and the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepContext {
    pub(crate) seed: u64,
    /// Epochs run before this one.
    pub(crate) epoch: u64,
    /// Optimizer steps, including this one.
    pub(crate) step: u64,
    pub(crate) learning_rate: f64,
}

impl StepContext {
    /// A run-time scalar of a kernel.
    pub(crate) fn scalar(&self, scalar: ScalarRef) -> f32 {
        match scalar {
            ScalarRef::LearningRate => self.learning_rate as f32,
            ScalarRef::BiasCorrection(beta) => (1.0 / (1.0 - beta.powf(self.step as f64))) as f32,
        }
    }
}

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
    /// The key of random draws: epochs run before this one, or optimizer steps if an epoch has
    /// several.
    pub(crate) draw: u32,
    pub(crate) learning_rate: f64,
}

impl StepContext {
    /// The state in a batch, counted from 0, of an epoch whose first optimizer step is this one.
    pub(crate) fn in_batch(&self, batch: Option<u32>) -> Self {
        match batch {
            None => *self,
            Some(batch) => Self {
                step: self.step + u64::from(batch),
                draw: (self.step + u64::from(batch)).wrapping_sub(1) as u32,
                ..*self
            },
        }
    }

    /// A run-time scalar of a kernel.
    pub(crate) fn scalar(&self, scalar: ScalarRef) -> f32 {
        match scalar {
            ScalarRef::LearningRate => self.learning_rate as f32,
            ScalarRef::BiasCorrection(beta) => (1.0 / (1.0 - beta.powf(self.step as f64))) as f32,
        }
    }
}

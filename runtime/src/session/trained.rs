//! Sessions that only evaluate.

use super::Session;
use crate::RuntimeError;
use crate::checkpoint::{self, Checkpoint};
use std::path::Path;

impl Session {
    /// Takes the parameters of a checkpoint to evaluate them, and how far its run had come. Unlike after
    /// [`Session::resume`], states of the optimizer and histories stay in the file, so that a program without
    /// training epochs can evaluate what another one trained.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or belongs to another model, naming the first difference. The
    /// session is then unchanged.
    pub fn take_parameters(&mut self, path: impl AsRef<Path>) -> Result<(), RuntimeError> {
        let own = self.parameters()?;
        let expected = checkpoint::Expected {
            all: &own,
            histories: &[],
            states: true,
        };
        let Checkpoint { progress, tensors } =
            checkpoint::read(path.as_ref(), &self.options.model, expected)?;
        self.store(&tensors)?;
        (self.epoch, self.step) = (progress.epoch, progress.step);
        self.reseed(progress.seed);
        self.best = progress.best;
        Ok(())
    }
}

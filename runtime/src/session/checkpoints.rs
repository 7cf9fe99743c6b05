//! What a session writes to checkpoints, and takes from them.

use super::Session;
use crate::checkpoint::{self, Checkpoint, Progress, Snapshot, Tensor};
use crate::report::Resumed;
use crate::{RuntimeError, shards};
use gnnc_ir::program::Role;
use std::path::Path;

impl Session {
    /// Writes a checkpoint beside the target and renames it, so that the file is complete at every
    /// moment. Of several processes, that of rank 0 writes it.
    ///
    /// # Errors
    /// If the file cannot be written; an older one of that name is untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), RuntimeError> {
        let copies = self.copies()?;
        let Snapshot(mut checkpoint) = self.state(&copies)?;
        let histories = shards::histories(&self.programs, &*self.rank_set, self.vertices)?;
        checkpoint.tensors.extend(histories);
        checkpoint.tensors.extend(copies);
        match self.rank_set.leads() {
            true => checkpoint::write(path.as_ref(), &checkpoint),
            false => Ok(()),
        }
    }

    /// The parameters and optimizer states as they are now, to be written later. A run that resumes from
    /// them sends rows of earlier epochs again.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn snapshot(&self) -> Result<Snapshot, RuntimeError> {
        self.state(&[])
    }

    fn state(&self, copies: &[Tensor]) -> Result<Snapshot, RuntimeError> {
        let progress = Progress {
            version: Progress::version(),
            epoch: self.epoch,
            step: self.step,
            seed: self.options.seed,
            learning_rate: self.options.learning_rate,
            model: self.options.model.clone(),
            program: self.program_hash()?,
            division: (!copies.is_empty()).then_some(self.division),
            began: (!copies.is_empty()).then(|| self.copies_since()),
            best: self.best,
            plateau: self.plateau,
            kept: shards::kept(&*self.rank_set)?,
        };
        let tensors = shards::tensors(&self.programs, &*self.rank_set, trained)?;
        Ok(Snapshot(Checkpoint { progress, tensors }))
    }

    /// Resumes from a checkpoint: restores parameters, optimizer states, epoch, seed and learning
    /// rate. Also restores the histories it holds; missing ones come from an exact pass with its
    /// parameters. Copies of other ranks' rows are restored if the same program wrote them on the
    /// same partition of the vertices; otherwise all of them are sent again.
    ///
    /// # Errors
    /// If the file cannot be read, is damaged, or belongs to another model, naming the first
    /// difference. The session is then unchanged.
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<Resumed, RuntimeError> {
        let expected = shards::tensors(&self.programs, &*self.rank_set, trained)?;
        let histories = shards::shapes(&self.programs, self.vertices);
        let own = self.copies()?;
        let expected = checkpoint::Expected {
            all: &expected,
            histories: &[&histories[..], &own].concat(),
            states: false,
        };
        let checkpoint = checkpoint::read(path.as_ref(), &self.options.model, expected)?;
        self.go_on(&checkpoint, &histories, &own)
    }

    /// Goes on where another session of the same model was, in this process.
    ///
    /// # Errors
    /// As [`Session::parameters`].
    pub fn take_over(&mut self, Snapshot(checkpoint): Snapshot) -> Result<(), RuntimeError> {
        let histories = shards::shapes(&self.programs, self.vertices);
        let own = self.copies()?;
        self.go_on(&checkpoint, &histories, &own).map(|_| ())
    }

    /// Takes the state of a run, whose tensors are those of the model; given the histories and the copies that this
    /// session keeps.
    fn go_on(
        &mut self,
        Checkpoint { progress, tensors }: &Checkpoint,
        histories: &[Tensor],
        own: &[Tensor],
    ) -> Result<Resumed, RuntimeError> {
        let same_program = progress.program == self.program_hash()?;
        let there = |copy: &Tensor| tensors.iter().any(|t| t.name == copy.name);
        let copies = own.is_empty()
            || same_program && own.iter().all(there) && progress.division == Some(self.division);
        self.store(tensors)?;
        self.restore(progress, copies.then_some(tensors))?;
        self.epoch = progress.epoch;
        self.step = progress.step;
        self.reseed(progress.seed);
        self.options.learning_rate = progress.learning_rate;
        self.best = progress.best;
        self.plateau = progress.plateau;
        if !histories.is_empty() {
            self.setup_bytes = None;
            self.setup()?;
            shards::restore(&*self.rank_set, tensors, &progress.kept)?;
        }
        Ok(Resumed {
            epoch: self.epoch,
            same_program,
            copies,
        })
    }
}

/// Whether checkpoints hold buffers of this role.
pub(super) fn trained(role: Role) -> bool {
    matches!(role, Role::Param(_) | Role::State(..))
}
